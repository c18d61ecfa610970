"""Where sentences and paragraphs begin, as ranges of characters.

sentencex finds the boundaries (docs/decisions/chunking-and-words.md). Its cost grows with the square of the
text's length, so it reads one paragraph at a time, and long ones through a window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any

from knowledge_pipeline.text import replace_surrogates

Range = tuple[int, int]
"""A half-open range of characters."""

_SENTENCEX: Any = import_module("sentencex")  # has no types
_BLANK_LINES = re.compile(r"(?>\r\n|\n|\r)[^\S\r\n]*(?:(?>\r\n|\n|\r)[^\S\r\n]*)+")
_WINDOW_CHARS = 4_000
_LONGEST_CHARS = 32_000  # a longer sentence is longer than any limit and may be cut anywhere


def split_paragraphs(text: str, start_char: int, end_char: int) -> Iterator[Range]:
    """Ranges between blank lines, in order; white space alone gives none."""
    at = start_char
    for match in _BLANK_LINES.finditer(text, start_char, end_char):
        yield from _skip_blank(text, at, match.start())
        at = match.end()
    yield from _skip_blank(text, at, end_char)


def split_lines(text: str, start_char: int, end_char: int) -> Iterator[Range]:
    """Lines with their line feeds, in order; blank ones give none."""
    at = start_char
    while at < end_char:
        feed = text.find("\n", at, end_char)
        stop = end_char if feed < 0 else feed + 1
        yield from _skip_blank(text, at, stop)
        at = stop


def split_sentences(text: str, start_char: int, end_char: int) -> Iterator[Range]:
    """Sentences in order, the white space after each included; none reaches over a blank line."""
    for at, end in split_paragraphs(text, start_char, end_char):
        window = _WINDOW_CHARS
        while at < end:
            stop = min(at + window, end)
            starts = [at, *(at + start for start in _find_sentence_starts(text[at:stop])), stop]
            complete = starts if stop == end else starts[:-1]  # the last one may continue after the window
            if len(complete) == 1 and window < _LONGEST_CHARS:  # one sentence longer than the window
                window *= 2
                continue
            complete = starts if len(complete) == 1 else complete
            for span in pairwise(complete):
                yield from _skip_blank(text, *span)
            at, window = complete[-1], _WINDOW_CHARS


def _find_sentence_starts(text: str) -> list[int]:
    """Starts of all sentences but the first; lone surrogates, which Rust refuses, read as "?"."""
    sentences = _SENTENCEX.get_sentence_boundaries("en", replace_surrogates(text))
    return sorted({int(sentence["start_index"]) for sentence in sentences} - {0})


def _skip_blank(text: str, start_char: int, end_char: int) -> Iterator[Range]:
    if start_char < end_char and not text[start_char:end_char].isspace():
        yield start_char, end_char
