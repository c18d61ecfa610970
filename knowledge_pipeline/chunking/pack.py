"""Joins small ranges and cuts large ones, so that a token limit always holds.

Ranges ascend and do not overlap; only white space lies between two neighbours. `chunk_lines` is for text that
no grammar reads, and the last resort of other chunkers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.sentences import Range, split_paragraphs, split_sentences
from knowledge_pipeline.config.sources import ChunkingSettings
from knowledge_pipeline.syntax.outline import CALLABLE_KINDS, STATEMENT_KINDS, TYPE_KINDS, OutlineDefinition

CountTokens = Callable[[int, int], int]
"""Tokens between two characters."""

Splitter = Callable[[str, int, int], Iterable[Range]]
"""Divides a range of a text into smaller ones that hold all but its white space."""


def pack(
    spans: Iterable[Range], *, limit: int, count_tokens: CountTokens, overlap: int = 0, least: int = 0
) -> Iterator[Range]:
    """Join neighbours greedily while the joined range has at most `limit` tokens; one above it stays.

    With `overlap`, a range begins with as many whole last ranges of the one before as have at most so many
    tokens. Where the last has fewer than `least`, it and the one before are divided anew, about equally.
    """
    ranges = list(spans)
    packed = list(_pack_greedily(ranges, limit, count_tokens, overlap))
    if len(packed) > 1 and not overlap and count_tokens(*packed[-1]) < least:
        start, end = packed[-2][0], packed[-1][1]

        def sizes(at: int) -> tuple[int, int]:
            return count_tokens(start, ranges[at - 1][1]), count_tokens(ranges[at][0], end)

        cuts = [at for at in range(1, len(ranges)) if ranges[at][0] > start and max(sizes(at)) <= limit]
        if cuts:
            cut = min(cuts, key=lambda at: max(sizes(at)))
            packed[-2:] = [(start, ranges[cut - 1][1]), (ranges[cut][0], end)]
    yield from packed


def _pack_greedily(
    ranges: Sequence[Range], limit: int, count_tokens: CountTokens, overlap: int
) -> Iterator[Range]:
    first = 0
    while first < len(ranges):
        last = first
        while last + 1 < len(ranges) and count_tokens(ranges[first][0], ranges[last + 1][1]) <= limit:
            last += 1
        yield ranges[first][0], ranges[last][1]
        following = last + 1
        while (
            following < len(ranges)
            and following - 1 > first
            and count_tokens(ranges[following - 1][0], ranges[last][1]) <= overlap
            and count_tokens(ranges[following - 1][0], ranges[last + 1][1]) <= limit
        ):
            following -= 1
        first = following


def pack_to_limits(
    measured: MeasuredDocument,
    spans: Iterable[Range],
    limits: TokenLimits,
    splitters: Sequence[Splitter] = (),
) -> Iterator[Range]:
    """Cut what is too long for a chunk, see `split_span`, and join neighbours that fit, see `pack`."""
    return pack(
        (part for span in spans for part in split_span(measured, span, limits.max_tokens, splitters)),
        limit=limits.max_tokens,
        count_tokens=measured.count_tokens,
        overlap=limits.overlap_tokens,
        least=limits.min_tokens,
    )


def split_span(
    measured: MeasuredDocument,
    span: Range,
    limit: int,
    splitters: Sequence[Splitter] = (split_paragraphs, split_sentences),
) -> Iterator[Range]:
    """Cut a range into ranges of at most `limit` tokens, by the first splitter that suffices.

    What the last splitter leaves too long is cut between words, and a word that is too long between
    characters. The ranges are not packed: `pack` joins them.
    """
    start_char, end_char = span
    if measured.count_tokens(start_char, end_char) <= limit:
        yield span
    elif splitters:
        for part in splitters[0](measured.document.text, start_char, end_char):
            yield from split_span(measured, part, limit, splitters[1:])
    else:
        yield from split_windows(measured, start_char, end_char, limit)


def split_windows(
    measured: MeasuredDocument, start_char: int, end_char: int, limit: int, overlap: int = 0
) -> Iterator[Range]:
    """Ranges of at most `limit` tokens that end between words where they can.

    One character that takes more tokens than the limit is a range of its own.
    """
    text = measured.document.text

    def find_end(start: int) -> int:
        stop = measured.find_token_limit(start, limit)
        if stop >= end_char:
            return end_char
        at = stop
        while at > start and not text[at].isspace():
            at -= 1
        return at if at > start else max(stop, start + 1)

    def find_next(start: int, stop: int) -> Range:
        """The first word start such that at most `overlap` tokens lie before `stop`."""
        covered = _skip_whitespace(text, stop, end_char)
        surplus = measured.count_tokens(start, stop) - overlap
        if overlap <= 0 or surplus <= 0 or covered == end_char:
            return covered, covered
        at = measured.find_token_limit(start, surplus)
        while at < stop and at > start and not text[at - 1].isspace() and not text[at].isspace():
            at += 1
        return _skip_whitespace(text, max(at, start + 1), covered), covered

    first = _skip_whitespace(text, start_char, end_char)
    return slide_windows(text, (first, end_char), find_end=find_end, find_next=find_next)


def slide_windows(
    text: str, span: Range, *, find_end: Callable[[int], int], find_next: Callable[[int, int], Range]
) -> Iterator[Range]:
    """Windows over a span of a text, each of which adds more than white space.

    Args:
        find_end: where the window that starts at a character ends, at least a character on.
        find_next: where the window after the given one starts, and where the text that it adds starts.
    """
    (start, end_char), covered = span, span[0]
    while covered < end_char:
        stop = find_end(start)
        if stop <= covered:  # the text that follows does not fit with the overlap
            start, stop = covered, find_end(covered)
        if not text[covered:stop].isspace():
            yield start, stop
        start, covered = find_next(start, stop)


def _skip_whitespace(text: str, at: int, end_char: int) -> int:
    while at < end_char and text[at].isspace():
        at += 1
    return at


SCRAP_TOKENS = 32
"""Code with fewer tokens that defines nothing joins a neighbour, of another definition too."""

_SCRAP_WORDS = 8
"""A comment with fewer words joins what follows it, however many tokens its rulers have: `// ===== Tests`."""

_WORD = re.compile(r"[^\W_]+")


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
        return max(
            self.subjects, key=lambda subject: (subject.kind in kinds, subject.end_char - subject.start_char)
        )

    @property
    def introduces(self) -> bool:
        """Whether it is about what follows: the head of a definition, what stands before it, a comment."""
        is_before = self.enclosing is not None and self.end_char <= self.enclosing.start_char
        return self.has_head or is_before or self.only_comments


def join_groups(first: PieceGroup, second: PieceGroup) -> PieceGroup:
    """Two neighbours as one group; of two definitions, in the one that more of it is about."""
    enclosing, subjects = first.enclosing, [*first.subjects, *second.subjects]
    if first.enclosing is not second.enclosing:
        larger = max(first, second, key=lambda group: group.end_char - group.start_char)
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


@dataclass(frozen=True)
class GroupJoiner:
    """Joins what is too small to be found by itself."""

    text: str
    min_tokens: int
    max_tokens: int
    count_tokens: CountTokens

    def merge_siblings(self, groups: Iterable[PieceGroup]) -> list[PieceGroup]:
        """Join groups below `min_tokens`: with each other first, then with the smaller neighbour.

        Only neighbours within the same definition, with nothing left out between them. Groups large enough
        never join each other, so an edit in one moves no boundary of another.
        """

        def can_join(first: PieceGroup, second: PieceGroup) -> bool:
            return first.enclosing is second.enclosing and self._fits(first, second)

        joined: list[PieceGroup] = []
        for group in groups:
            are_small = bool(joined) and max(self._size(joined[-1]), self._size(group)) < self.min_tokens
            if are_small and can_join(joined[-1], group):
                joined[-1] = join_groups(joined[-1], group)
            else:
                joined.append(group)
        index = 0
        while index < len(joined):
            is_small = self._size(joined[index]) < self.min_tokens
            pairs = [at for at in (index - 1, index) if is_small and 0 <= at < len(joined) - 1]
            pairs = [at for at in pairs if can_join(*joined[at : at + 2])]
            if pairs:
                index = min(pairs, key=lambda at: self._size(*joined[at : at + 2]))
                joined[index : index + 2] = [join_groups(*joined[index : index + 2])]
            else:
                index += 1
        return joined

    def join_scraps(self, groups: list[PieceGroup]) -> list[PieceGroup]:
        """The groups of a whole file, in order, without scraps where a neighbour has room.

        The head of a definition joins what it opens, a comment what follows it, anything else below
        `SCRAP_TOKENS` that defines nothing the smaller neighbour. Where two are too long together, they are
        divided anew, in about equal parts. A small definition of its own stays.
        """
        joined, index = list(groups), 0
        while index < len(joined):
            is_scrap = self._is_scrap(joined[index])
            if is_scrap and (pair := self._choose_pair(joined, index)) is not None:
                joined[pair : pair + 2] = [join_groups(*joined[pair : pair + 2])]
                index = pair
                continue
            if is_scrap:
                self._divide_anew(joined, index)
            index += 1
        return joined

    def _size(self, first: PieceGroup, last: PieceGroup | None = None) -> int:
        return self.count_tokens(first.start_char, (last or first).end_char)

    def _is_scrap(self, group: PieceGroup) -> bool:
        if group.has_head:
            return self._size(group) < self.min_tokens
        if (
            group.only_comments
            and len(_WORD.findall(self.text, group.start_char, group.end_char)) < _SCRAP_WORDS
        ):
            return True
        return self._size(group) < min(SCRAP_TOKENS, self.min_tokens) and not group.subjects

    def _choose_pair(self, groups: list[PieceGroup], index: int) -> int | None:
        """The index of the first of the two that are joined; None where none may be."""
        pairs = [at for at in (index - 1, index) if 0 <= at < len(groups) - 1]
        pairs = [at for at in pairs if self._fits(groups[at], groups[at + 1])]
        if groups[index].introduces and index in pairs:
            return index
        if groups[index].introduces and self._find_cut(groups, index, index) is not None:
            return None

        def rank(at: int) -> tuple[bool, int]:
            first, second = groups[at : at + 2]
            return first.enclosing is not second.enclosing, self._size(first, second)

        return min(pairs, key=rank, default=None)

    def _fits(self, first: PieceGroup, second: PieceGroup) -> bool:
        return can_follow(first, second) and self._size(first, second) <= self.max_tokens

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

        def count_both(cut: int) -> tuple[int, int]:
            return self.count_tokens(first.start_char, cut), self.count_tokens(cut, second.end_char)

        def imbalance(cut: int) -> int:
            return max(count_both(cut)) - min(count_both(cut))

        def is_allowed(cut: int) -> bool:
            is_between = not any(subject.start_char < cut < subject.end_char for subject in donor.subjects)
            return (
                is_between
                and min(count_both(cut)) >= SCRAP_TOKENS
                and max(count_both(cut)) <= self.max_tokens
            )

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
        subjects=[subject for subject in group.subjects if subject.start_char < cut],
        cuts=[piece_start for piece_start in group.cuts if piece_start < cut],
    )
    second = replace(
        group,
        start_char=cut,
        subjects=[subject for subject in group.subjects if subject.start_char >= cut],
        cuts=[piece_start for piece_start in group.cuts if piece_start > cut],
        after_gap=False,
        has_licence=False,
    )
    return first, second


VERSION = 2
"""Raised whenever the same text would be cut differently."""

_WORD_BREAK = re.compile(r"[\s;,})\]](?=[^\s;,})\]])")


def chunk_lines(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Pack whole lines into spans of at most `max_tokens`, overlapping by at most `overlap_tokens`.

    A line longer than that is cut between words, or anywhere if it must be. Without overlap, what is left
    below `SCRAP_TOKENS` is divided anew with its neighbour, so that no `</style>` stands alone.
    """
    text, path = measured.document.text, measured.document.path[-160:]

    def find_end(start: int) -> int:
        return _find_window_end(measured, start, limits.max_tokens)

    def find_next(start: int, stop: int) -> Range:
        """The next start, moved back by whole lines of at most `overlap_tokens`, and after the last one."""
        best = stop
        while limits.overlap_tokens:
            line = text.rfind("\n", 0, max(0, best - 1)) + 1
            if not start < line < best or measured.count_tokens(line, stop) > limits.overlap_tokens:
                break
            best = line
        return best, stop

    windows = slide_windows(text, (0, len(text)), find_end=find_end, find_next=find_next)
    if not limits.overlap_tokens:
        joiner = GroupJoiner(text, SCRAP_TOKENS, limits.max_tokens, measured.count_tokens)
        groups = joiner.join_scraps([PieceGroup(*window, None) for window in windows])
        windows = ((group.start_char, group.end_char) for group in groups)
    spans = (ChunkSpan(*window, anchor="lines", header=path) for window in windows)
    return number_duplicate_anchors(text, spans)


def split_to_limit(
    measured: MeasuredDocument, start_char: int, end_char: int, max_tokens: int
) -> Iterator[Range]:
    """Cut a range of text into ranges of at most `max_tokens`, at line ends where possible.

    They follow each other without gaps, but ranges of white space alone are left out.
    """
    return slide_windows(
        measured.document.text,
        (start_char, end_char),
        find_end=lambda start: min(_find_window_end(measured, start, max_tokens), end_char),
        find_next=lambda _, stop: (stop, stop),
    )


def number_duplicate_anchors(text: str, spans: Iterable[ChunkSpan]) -> Iterator[ChunkSpan]:
    """Number the anchors of spans that would have the same anchor and the same text."""
    seen: dict[tuple[str, str], int] = {}
    for span in spans:
        key = (span.anchor, text[span.start_char : span.end_char].strip())
        seen[key] = times = seen.get(key, 0) + 1
        yield span if times == 1 else replace(span, anchor=f"{span.anchor} ({times})")


def _find_window_end(measured: MeasuredDocument, start_char: int, max_tokens: int) -> int:
    """The best end of a span within the limit: after a line, else after a word; at least a character on."""
    text = measured.document.text
    stop = max(measured.find_token_limit(start_char, max(1, max_tokens)), start_char + 1)
    if stop >= len(text):
        return stop
    newline = text.rfind("\n", start_char, stop)
    if newline != -1 and text[start_char:newline].strip():
        return newline + 1
    breaks = (match.end() for match in _WORD_BREAK.finditer(text, max(start_char, stop - 200), stop + 1))
    return max(breaks, default=stop)
