"""Cutting by lines: for text that no grammar reads, and the last resort of the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.config.settings import ChunkingSettings

VERSION = 1
"""Raised whenever the same text would be cut otherwise."""

_WORD_BREAK = re.compile(r"[\s;,})\]](?=[^\s;,})\]])")


def chunk_lines(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Pack whole lines into spans of at most `max_tokens`, overlapping by at most `overlap_tokens`.

    A line longer than that is cut between words, or anywhere if it must be. The header
    is the document's path.
    """
    text, path = measured.document.text, measured.document.path[-160:]
    return number_duplicate_anchors(
        text, (ChunkSpan(*span, anchor="lines", header=path) for span in _split_windows(measured, limits))
    )


def _split_windows(measured: MeasuredDocument, limits: TokenLimits) -> Iterator[tuple[int, int]]:
    text, end_char = measured.document.text, 0
    floor = start_char = 0
    while end_char < len(text):
        start_char = _move_back_by_lines(measured, floor, end_char, limits.overlap_tokens)
        stop = _find_window_end(measured, start_char, limits.max_tokens)
        if stop <= end_char:  # what follows does not fit beside the overlap
            start_char, stop = end_char, _find_window_end(measured, end_char, limits.max_tokens)
        if not text[end_char:stop].isspace():
            yield start_char, stop
        floor, end_char = start_char + 1, stop


def split_to_limit(
    measured: MeasuredDocument, start_char: int, end_char: int, max_tokens: int
) -> Iterator[tuple[int, int]]:
    """Cut a stretch of text into stretches of at most `max_tokens`, at line ends where it can.

    They follow each other without a gap, except that those of white space alone are left out.
    """
    text = measured.document.text
    while start_char < end_char:
        stop = min(_find_window_end(measured, start_char, max_tokens), end_char)
        if not text[start_char:stop].isspace():
            yield start_char, stop
        start_char = stop


def _find_window_end(measured: MeasuredDocument, start_char: int, max_tokens: int) -> int:
    """Where the span from `start_char` is best ended: within the limit, at least a character on."""
    text = measured.document.text
    stop = max(measured.find_token_limit(start_char, max(1, max_tokens)), start_char + 1)
    return stop if stop >= len(text) else _find_break_before(text, start_char, stop)


def number_duplicate_anchors(text: str, spans: Iterable[ChunkSpan]) -> Iterator[ChunkSpan]:
    """Number the anchors of spans that would have the same anchor and the same text."""
    seen: dict[tuple[str, str], int] = {}
    for span in spans:
        key = (span.anchor, text[span.start_char : span.end_char].strip())
        seen[key] = times = seen.get(key, 0) + 1
        yield span if times == 1 else replace(span, anchor=f"{span.anchor} ({times})")


def _find_break_before(text: str, start_char: int, stop: int) -> int:
    """The last place at or before `stop` where a reader would cut: after a line, else after a word."""
    newline = text.rfind("\n", start_char, stop)
    if newline != -1 and text[start_char:newline].strip():
        return newline + 1
    tail = max(start_char, stop - 200)
    breaks = (match.end() for match in _WORD_BREAK.finditer(text, tail, stop + 1))
    return max(breaks, default=stop)


def _move_back_by_lines(measured: MeasuredDocument, floor: int, start_char: int, overlap_tokens: int) -> int:
    """Move a start back by whole lines, while they hold at most `overlap_tokens`, and not before `floor`."""
    text, best = measured.document.text, start_char
    while overlap_tokens:
        line = text.rfind("\n", 0, max(0, best - 1)) + 1
        if line < floor or line >= best or measured.count_tokens(line, start_char) > overlap_tokens:
            break
        best = line
    return best
