"""Joins small ranges and cuts large ones, so that a token limit always holds.

Ranges ascend and do not overlap; only white space lies between two neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from knowledge_pipeline.chunking.base import MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.sentences import Range, split_paragraphs, split_sentences

CountTokens = Callable[[int, int], int]
"""Tokens between two characters."""

Splitter = Callable[[str, int, int], Iterable[Range]]
"""Divides a range of a text into smaller ones that hold all but its white space."""


def pack(
    spans: Iterable[Range],
    *,
    limit: int,
    count_tokens: CountTokens,
    overlap: int = 0,
    least: int = 0,
) -> Iterator[Range]:
    """Join neighbours greedily while the joined range has at most `limit` tokens.

    A range that alone exceeds the limit stays as it is. With `overlap`, a range begins with as many
    whole last ranges of the one before as have at most so many tokens. Where the last has fewer than
    `least` tokens, it and the one before are divided anew, in about equal parts.
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
    ranges: Iterable[Range], measured: MeasuredDocument, limits: TokenLimits
) -> Iterator[Range]:
    """Join neighbours within the token limits of a chunk; see `pack`."""
    return pack(
        ranges,
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
