"""Joining small ranges and cutting large ones, so that a token limit always holds.

Ranges ascend and do not overlap; between two neighbours lies white space alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from knowledge_pipeline.chunking.base import MeasuredDocument
from knowledge_pipeline.chunking.sentences import Range, split_paragraphs, split_sentences

CountTokens = Callable[[int, int], int]
"""Tokens between two characters."""

Splitter = Callable[[str, int, int], Iterable[Range]]
"""Divides a range of a text into smaller ones that hold all but its white space."""


def pack(
    spans: Iterable[Range], *, limit: int, count_tokens: CountTokens, overlap: int = 0
) -> Iterator[Range]:
    """Join neighbours greedily while the joined range has at most `limit` tokens.

    A range that alone exceeds the limit comes through as it is. With `overlap`, a range
    begins with as many whole last ranges of the one before as have at most so many tokens.
    """
    ranges = list(spans)
    first = 0
    while first < len(ranges):
        last = first
        while last + 1 < len(ranges) and count_tokens(ranges[first][0], ranges[last + 1][1]) <= limit:
            last += 1
        yield ranges[first][0], ranges[last][1]
        if last + 1 == len(ranges):
            return
        first = _find_next_start(ranges, first, last, limit, count_tokens, overlap)


def _find_next_start(
    ranges: Sequence[Range], first: int, last: int, limit: int, count_tokens: CountTokens, overlap: int
) -> int:
    """Where the next range begins: behind `last`, or earlier by at most `overlap` tokens."""
    begin = last + 1
    while (
        begin - 1 > first
        and count_tokens(ranges[begin - 1][0], ranges[last][1]) <= overlap
        and count_tokens(ranges[begin - 1][0], ranges[last + 1][1]) <= limit
    ):
        begin -= 1
    return begin


def split_span(
    measured: MeasuredDocument,
    span: Range,
    limit: int,
    splitters: Sequence[Splitter] = (split_paragraphs, split_sentences),
) -> Iterator[Range]:
    """Cut a range into pieces of at most `limit` tokens, by the first cut that serves.

    What the last cut leaves too long falls to words, and a too long word to characters.
    Pieces are not packed: `pack` joins them.
    """
    start_char, end_char = span
    if measured.count_tokens(start_char, end_char) <= limit:
        yield span
    elif splitters:
        for piece in splitters[0](measured.document.text, start_char, end_char):
            yield from split_span(measured, piece, limit, splitters[1:])
    else:
        yield from split_windows(measured, start_char, end_char, limit)


def split_windows(
    measured: MeasuredDocument, start_char: int, end_char: int, limit: int, overlap: int = 0
) -> Iterator[Range]:
    """Ranges of at most `limit` tokens that end between words where they can.

    One character that takes more tokens than the limit is a range of its own.
    """
    text = measured.document.text
    start = _skip_whitespace(text, start_char, end_char)
    covered = start
    while start < end_char:
        stop = _find_window_end(measured, start, end_char, limit)
        if stop <= covered:  # the word behind the overlap is too long to join it
            start = covered
            stop = _find_window_end(measured, start, end_char, limit)
        yield start, stop
        covered = _skip_whitespace(text, stop, end_char)
        start = (
            covered if covered == end_char else _find_overlap_start(measured, start, stop, covered, overlap)
        )


def _find_window_end(measured: MeasuredDocument, start: int, end_char: int, limit: int) -> int:
    stop = measured.find_token_limit(start, limit)
    if stop >= end_char:
        return end_char
    text = measured.document.text
    at = stop
    while at > start and not text[at].isspace():
        at -= 1
    if at > start:
        return at
    return max(stop, start + 1)


def _find_overlap_start(measured: MeasuredDocument, start: int, stop: int, covered: int, overlap: int) -> int:
    """The first word start such that at most `overlap` tokens lie before `stop`."""
    surplus = measured.count_tokens(start, stop) - overlap
    if overlap <= 0 or surplus <= 0:
        return covered
    text = measured.document.text
    at = measured.find_token_limit(start, surplus)
    while at < stop and at > start and not text[at - 1].isspace() and not text[at].isspace():
        at += 1
    return _skip_whitespace(text, max(at, start + 1), covered)


def _skip_whitespace(text: str, at: int, end_char: int) -> int:
    while at < end_char and text[at].isspace():
        at += 1
    return at
