"""Joins small neighbours of one parent into chunks that are worth finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from knowledge_pipeline.syntax.outline import CALLABLE_KINDS, STATEMENT_KINDS, TYPE_KINDS, OutlineDefinition


@dataclass(slots=True, eq=False)
class PieceGroup:
    """Neighbouring syntax pieces that become one chunk."""

    start_char: int
    end_char: int
    enclosing: OutlineDefinition | None  # the definition that contains it
    subjects: list[OutlineDefinition] = field(default_factory=list[OutlineDefinition])  # definitions in it
    only_imports: bool = False
    after_gap: bool = False  # something before it was left out

    @property
    def has_head(self) -> bool:
        """Whether the definition around the group starts in it."""
        return self.enclosing is not None and self.start_char <= self.enclosing.start_char < self.end_char

    @property
    def subject(self) -> OutlineDefinition | None:
        """The definition that the chunk is, or is a part of: of several, the largest type or function."""
        if self.has_head or not self.subjects:
            return self.enclosing
        kinds = TYPE_KINDS | CALLABLE_KINDS | STATEMENT_KINDS
        return max(self.subjects, key=lambda each: (each.kind in kinds, each.end_char - each.start_char))


def join_groups(first: PieceGroup, second: PieceGroup) -> PieceGroup:
    """Two neighbours as one group."""
    return PieceGroup(
        first.start_char,
        second.end_char,
        first.enclosing,
        [*first.subjects, *second.subjects],
        first.only_imports and second.only_imports,
        first.after_gap,
    )


def merge_small_groups(
    groups: Iterable[PieceGroup], *, min_tokens: int, max_tokens: int, count_tokens: Callable[[int, int], int]
) -> list[PieceGroup]:
    """Join groups below `min_tokens`: with each other first, then with the smaller neighbour.

    Only neighbours within the same definition, with nothing left out between them, and
    only up to `max_tokens`. Groups large enough never join each other, so an edit in one
    moves no boundary of another.
    """

    def size(group: PieceGroup) -> int:
        return count_tokens(group.start_char, group.end_char)

    def can_join(first: PieceGroup, second: PieceGroup) -> bool:
        same = first.enclosing is second.enclosing and not second.after_gap
        return same and count_tokens(first.start_char, second.end_char) <= max_tokens

    found: list[PieceGroup] = []
    for group in groups:
        if found and size(group) < min_tokens and size(found[-1]) < min_tokens and can_join(found[-1], group):
            found[-1] = join_groups(found[-1], group)
        else:
            found.append(group)
    index = 0
    while index < len(found):
        small = size(found[index]) < min_tokens
        pairs = [at for at in (index - 1, index) if small and 0 <= at < len(found) - 1]
        pairs = [at for at in pairs if can_join(*found[at : at + 2])]
        if pairs:
            index = min(pairs, key=lambda at: size(join_groups(*found[at : at + 2])))
            found[index : index + 2] = [join_groups(*found[index : index + 2])]
        else:
            index += 1
    return found
