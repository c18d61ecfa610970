"""Joins small neighbours into chunks that are worth finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from knowledge_pipeline.syntax.outline import CALLABLE_KINDS, STATEMENT_KINDS, TYPE_KINDS, OutlineDefinition

SCRAP_TOKENS = 32
"""Code with fewer tokens that defines nothing joins a neighbour, of another definition too."""


@dataclass(slots=True, eq=False)
class PieceGroup:
    """Neighbouring syntax pieces that become one chunk."""

    start_char: int
    end_char: int
    enclosing: OutlineDefinition | None  # the definition that contains it
    subjects: list[OutlineDefinition] = field(default_factory=list[OutlineDefinition])  # definitions in it
    only_imports: bool = False
    after_gap: bool = False  # something before it was left out
    only_comments: bool = False
    has_licence: bool = False  # begins with the licence of the file
    cuts: list[int] = field(default_factory=list[int])  # where its pieces begin, but for the first

    @property
    def has_head(self) -> bool:
        """Whether the definition around the group starts in it."""
        return self.enclosing is not None and self.start_char <= self.enclosing.start_char < self.end_char

    @property
    def is_about_enclosing(self) -> bool:
        """Whether it begins the definition around it; a namespace's beginning is about its members."""
        return self.has_head and not (self.subjects and self.enclosing and self.enclosing.kind == "module")

    @property
    def subject(self) -> OutlineDefinition | None:
        """The definition that the chunk is, or is a part of: of several, the largest type or function."""
        if self.is_about_enclosing or not self.subjects:
            return self.enclosing
        kinds = TYPE_KINDS | CALLABLE_KINDS | STATEMENT_KINDS
        return max(self.subjects, key=lambda each: (each.kind in kinds, each.end_char - each.start_char))

    @property
    def introduces(self) -> bool:
        """Whether it is about what follows: the head of a definition, what stands before it, a comment."""
        is_before = self.enclosing is not None and self.end_char <= self.enclosing.start_char
        return self.has_head or is_before or self.only_comments


def join_groups(first: PieceGroup, second: PieceGroup) -> PieceGroup:
    """Two neighbours as one group; of two definitions, in the one that more of it is about."""
    enclosing, subjects = first.enclosing, [*first.subjects, *second.subjects]
    if first.enclosing is not second.enclosing:
        larger = max(first, second, key=lambda each: each.end_char - each.start_char)
        if first.has_head and first.enclosing is not None and first.enclosing.kind in TYPE_KINDS:
            started = [second.enclosing] if second.has_head and second.enclosing else []
            subjects = [*first.subjects, *started, *second.subjects]
        else:
            enclosing, subjects = larger.enclosing, larger.subjects
    return PieceGroup(
        first.start_char,
        second.end_char,
        enclosing,
        subjects,
        first.only_imports and second.only_imports,
        first.after_gap,
        first.only_comments and second.only_comments,
        first.has_licence,
        [*first.cuts, second.start_char, *second.cuts],
    )


def can_follow(first: PieceGroup, second: PieceGroup) -> bool:
    """Whether two neighbours may become one group: a licence would hide the definition after it."""
    return not second.after_gap and not (first.has_licence and (second.subjects or second.has_head))


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
        same = first.enclosing is second.enclosing and can_follow(first, second)
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


@dataclass(frozen=True)
class ScrapJoiner:
    """Joins what is too small to be found by itself across the borders of definitions."""

    text: str
    min_tokens: int
    max_tokens: int
    count_tokens: Callable[[int, int], int]

    def join(self, groups: list[PieceGroup]) -> list[PieceGroup]:
        """The groups of a whole file, in order, without scraps where a neighbour has room.

        The head of a definition joins what it opens, a comment what follows it, anything else below
        `SCRAP_TOKENS` that defines nothing the smaller neighbour. Where two are too long together,
        they are divided anew, in about equal parts. A small definition of its own stays.
        """
        found, index = list(groups), 0
        while index < len(found):
            if self._is_scrap(found[index]) and (pair := self._choose_pair(found, index)) is not None:
                found[pair : pair + 2] = [join_groups(*found[pair : pair + 2])]
                index = pair
            elif self._is_scrap(found[index]):
                self._divide_anew(found, index)
                index += 1
            else:
                index += 1
        return found

    def _is_scrap(self, group: PieceGroup) -> bool:
        size = self.count_tokens(group.start_char, group.end_char)
        if group.has_head:
            return size < self.min_tokens
        return size < min(SCRAP_TOKENS, self.min_tokens) and not group.subjects

    def _choose_pair(self, groups: list[PieceGroup], index: int) -> int | None:
        """The index of the first of the two that are joined; None where none may be."""
        pairs = [at for at in (index - 1, index) if 0 <= at < len(groups) - 1]
        pairs = [at for at in pairs if self._fits(groups[at], groups[at + 1])]
        if groups[index].introduces and index in pairs:
            return index
        if groups[index].introduces and self._find_cut(groups, index, index) is not None:
            return None

        def rank(at: int) -> tuple[bool, int]:
            first, second = groups[at], groups[at + 1]
            is_apart = first.enclosing is not second.enclosing
            return is_apart, self.count_tokens(first.start_char, second.end_char)

        return min(pairs, key=rank, default=None)

    def _fits(self, first: PieceGroup, second: PieceGroup) -> bool:
        return (
            can_follow(first, second)
            and self.count_tokens(first.start_char, second.end_char) <= self.max_tokens
        )

    def _divide_anew(self, groups: list[PieceGroup], index: int) -> None:
        """Move pieces of a neighbour to a scrap that has no room for all of it."""
        for pair in (index, index - 1) if groups[index].introduces else (index - 1, index):
            if (cut := self._find_cut(groups, pair, index)) is None:
                continue
            first, second = groups[pair : pair + 2]
            if pair == index:
                moved, second = _divide_group(second, cut)
                groups[pair : pair + 2] = [join_groups(first, moved), second]
            else:
                first, moved = _divide_group(first, cut)
                groups[pair : pair + 2] = [first, join_groups(moved, second)]
            return

    def _find_cut(self, groups: list[PieceGroup], pair: int, scrap: int) -> int | None:
        """Where to cut the larger of two neighbours, so that both have about the same size."""
        if not 0 <= pair < len(groups) - 1 or not can_follow(*groups[pair : pair + 2]):
            return None
        first, second = groups[pair : pair + 2]
        donor = second if pair == scrap else first
        around = second.enclosing.scope if pair == scrap and second.enclosing else []
        if first.enclosing is not second.enclosing and first.enclosing not in around:
            return None

        def imbalance(cut: int) -> int:
            sizes = self.count_tokens(first.start_char, cut), self.count_tokens(cut, second.end_char)
            return abs(sizes[0] - sizes[1])

        def is_allowed(cut: int) -> bool:
            sizes = self.count_tokens(first.start_char, cut), self.count_tokens(cut, second.end_char)
            is_between = not any(each.start_char < cut < each.end_char for each in donor.subjects)
            return is_between and min(sizes) >= SCRAP_TOKENS and max(sizes) <= self.max_tokens

        if cuts := [cut for cut in donor.cuts if is_allowed(cut)]:
            return min(cuts, key=imbalance)
        lines = [line for line in self._list_lines(donor) if is_allowed(line[-1])]
        return min(lines, key=lambda line: (*line[:-1], imbalance(line[-1])), default=(0, False, None))[-1]

    def _list_lines(self, group: PieceGroup) -> Iterator[tuple[int, bool, int]]:
        """Of each line that is not empty, but for the first: indentation, whether it goes on, start."""
        at = self.text.find("\n", group.start_char, group.end_char)
        while at != -1:
            end = self.text.find("\n", at + 1, group.end_char)
            line = self.text[at + 1 : group.end_char if end == -1 else end]
            if code := line.lstrip():
                before = self.text[at - 1]
                yield len(line) - len(code), before.isalnum() or before == ",", at + 1
            at = end


def _divide_group(group: PieceGroup, cut: int) -> tuple[PieceGroup, PieceGroup]:
    first = replace(
        group,
        end_char=cut,
        subjects=[each for each in group.subjects if each.start_char < cut],
        cuts=[each for each in group.cuts if each < cut],
    )
    second = replace(
        group,
        start_char=cut,
        subjects=[each for each in group.subjects if each.start_char >= cut],
        cuts=[each for each in group.cuts if each > cut],
        after_gap=False,
        has_licence=False,
    )
    return first, second
