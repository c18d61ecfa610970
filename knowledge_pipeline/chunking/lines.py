"""Cuts by lines: for text that no grammar reads, and the last resort of other chunkers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.pack import slide_windows
from knowledge_pipeline.chunking.sentences import Range
from knowledge_pipeline.config.sources.chunking import ChunkingSettings

VERSION = 1
"""Raised whenever the same text would be cut differently."""

_WORD_BREAK = re.compile(r"[\s;,})\]](?=[^\s;,})\]])")


def chunk_lines(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Pack whole lines into spans of at most `max_tokens`, overlapping by at most `overlap_tokens`.

    A line longer than that is cut between words, or anywhere if it must be. The header
    is the document's path.
    """
    text, path = measured.document.text, measured.document.path[-160:]

    def find_next(start: int, stop: int) -> Range:
        return _move_back_by_lines(measured, start + 1, stop, limits.overlap_tokens), stop

    windows = slide_windows(
        text,
        (0, len(text)),
        find_end=lambda start: _find_window_end(measured, start, limits.max_tokens),
        find_next=find_next,
    )
    spans = (ChunkSpan(*window, anchor="lines", header=path) for window in windows)
    return number_duplicate_anchors(text, spans)


def split_to_limit(
    measured: MeasuredDocument, start_char: int, end_char: int, max_tokens: int
) -> Iterator[Range]:
    """Cut a range of text into ranges of at most `max_tokens`, at line ends where possible.

    They follow each other without gaps, but ranges of white space alone are left out.
    """
    text = measured.document.text
    while start_char < end_char:
        stop = min(_find_window_end(measured, start_char, max_tokens), end_char)
        if not text[start_char:stop].isspace():
            yield start_char, stop
        start_char = stop


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


def _move_back_by_lines(measured: MeasuredDocument, floor: int, start_char: int, overlap_tokens: int) -> int:
    """Move a start back by whole lines, while they hold at most `overlap_tokens`, and not before `floor`."""
    text, best = measured.document.text, start_char
    while overlap_tokens:
        line = text.rfind("\n", 0, max(0, best - 1)) + 1
        if line < floor or line >= best or measured.count_tokens(line, start_char) > overlap_tokens:
            break
        best = line
    return best
