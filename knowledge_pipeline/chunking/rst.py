"""reStructuredText as blocks: titles by their underlines, paragraphs with the text indented below them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from knowledge_pipeline.chunking.blocks import Block, close_gaps, find_line_starts, normalize_title

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*\Z")
_VERBATIM = (".. code", ".. sourcecode", ".. parsed-literal", ".. list-table", ".. csv-table", "+--", "===")
_TARGET = re.compile(r"\.\. _[^\n]{1,200}:\s*\Z")  # a label: it belongs to the title after it
_SHORTEST_UNDERLINE = 3
_ROLE = re.compile(r"(?<![\w:+.-]):[\w:+.-]+:`([^`<]*?)\s*(?:<[^`>]*>)?`")
_MARKS = re.compile(r"``|`__?|`|\*\*|\|")


def parse_rst(text: str) -> Iterator[Block]:
    """The blocks of a reStructuredText; they hold all of it.

    A title's level is the order in which its style (mark, overlined or not) first
    appears, as docutils defines it. Levels below the sixth count as the sixth.
    """
    starts = find_line_starts(text)
    rows = [text[start:end] for start, end in pairwise(starts)]
    styles: list[tuple[str, bool]] = []
    found: list[Block] = []
    number = 0
    while number < len(rows):
        if parsed := _parse_title(rows, number):
            title, style, height = parsed
            if style not in styles:
                styles.append(style)
            level = min(styles.index(style) + 1, 6)
            start = starts[number]
            while found and _TARGET.match(text, found[-1].start_char, found[-1].end_char):
                start = found.pop().start_char
            found.append(Block(start, starts[number + height], "heading", level, title))
            number += height
        else:
            end = _find_block_end(rows, number)
            kind = "verbatim" if rows[number].startswith(_VERBATIM) else "prose"
            if rows[number].strip():  # empty lines belong to the block before them
                found.append(Block(starts[number], starts[end], kind))
            number = end
    yield from close_gaps(found, 0, len(text))


def _parse_title(rows: list[str], number: int) -> tuple[str, tuple[str, bool], int] | None:
    """Text, style and height in lines of the title that begins at a line; None if none does."""
    over = _match_adornment(rows, number)
    if over and number + 2 < len(rows) and _match_adornment(rows, number + 2) == over:
        text = rows[number + 1].strip()
        if text and not _match_adornment(rows, number + 1):
            return _strip_markup(text), (over, True), 3
    text = rows[number].rstrip()
    under = _match_adornment(rows, number + 1)
    if not under or over or not text or text[0].isspace():
        return None
    if len(rows[number + 1].rstrip()) < min(len(text), _SHORTEST_UNDERLINE):
        return None
    return _strip_markup(text), (under, False), 2


def _match_adornment(rows: list[str], number: int) -> str:
    """The mark that a line consists of; "" for any other line."""
    if number >= len(rows):
        return ""
    match = _ADORNMENT.match(rows[number])
    return match[1] if match and len(rows[number].rstrip()) > 1 else ""


def _find_block_end(rows: list[str], number: int) -> int:
    """The line after a block: the first after a blank one that is not indented."""
    blank = not rows[number].strip()
    for at in range(number + 1, len(rows)):
        if not rows[at].strip():
            blank = True
        elif blank and not rows[at][0].isspace():
            return at
    return len(rows)


def _strip_markup(text: str) -> str:
    return normalize_title(_MARKS.sub("", _ROLE.sub(r"\1", text)))
