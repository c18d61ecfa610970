"""Markdown (CommonMark with tables, parsed by markdown-it-py) and reStructuredText as blocks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from knowledge_pipeline.chunking.blocks import (
    Block,
    close_gaps,
    find_front_matter_end,
    find_line_starts,
    normalize_title,
)

_INLINE_CHARS = 500  # of a heading's source: nested brackets cost more than their length
_HTML_HEADING = re.compile(r"<h([1-6])\b[^>]*>(.{0,2000}?)</h\1\s*>", re.IGNORECASE | re.DOTALL)
_TARGET = re.compile(
    r"\s*<a\s[^<>]*>\s*</a>\s*\Z", re.IGNORECASE
)  # of links: it belongs to the heading above
_TAG = re.compile(r"<[^<>]*>")
_HEADING_ID = re.compile(r"(?<!\s)\s*\{#[\w.:-]+\}\s*$")
_VERBATIM = frozenset({"fence", "code_block", "table_open", "html_block"})
_TEXT_TOKENS = frozenset({"text", "code_inline", "image", "text_special"})

_BLOCK_PARSER = MarkdownIt("commonmark").enable("table").disable("inline")
_INLINE_PARSER = MarkdownIt("commonmark")


def parse_markdown(text: str) -> Iterator[Block]:
    """The blocks of a Markdown text; they hold all of it, front matter as a block of its own."""
    body = find_front_matter_end(text)
    if body:
        yield Block(0, body, "verbatim")
    starts = [body + start for start in find_line_starts(text[body:])]
    blocks: list[Block] = []
    source = text[body:].replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text[body:]
    for index, token in enumerate(tokens := _BLOCK_PARSER.parse(source)):
        if token.level == 0 and token.map is not None:
            block = _build_block(tokens, index, starts, text)
            is_target = _TARGET.match(text, block.start_char, block.end_char) is not None
            if not (is_target and blocks and blocks[-1].kind == "heading"):
                blocks.append(block)
    yield from close_gaps(blocks, body, len(text))


def _build_block(tokens: list[Token], index: int, starts: list[int], text: str) -> Block:
    token = tokens[index]
    first_line, end_line = token.map or [0, 0]
    start, end = starts[first_line], starts[min(end_line, len(starts) - 1)]
    if token.type == "heading_open":
        return Block(start, end, "heading", int(token.tag[1]), _render_heading(tokens[index + 1].content))
    if token.type == "html_block" and (match := _HTML_HEADING.search(text, start, end)):
        title = normalize_title(html.unescape(_TAG.sub(" ", match[2])))
        if title:
            return Block(start, end, "heading", int(match[1]), title)
    if token.type in {"bullet_list_open", "ordered_list_open"}:
        return Block(start, end, "prose", split_offsets=tuple(_list_item_starts(tokens, index, starts)))
    return Block(start, end, "verbatim" if token.type in _VERBATIM else "prose")


def _list_item_starts(tokens: list[Token], index: int, starts: list[int]) -> Iterator[int]:
    for token in tokens[index + 1 :]:
        if token.level == 0:
            return
        if token.level == 1 and token.type == "list_item_open" and token.map is not None:
            yield starts[token.map[0]]


def _render_heading(source: str) -> str:
    """A heading's text as a reader sees it: links, emphasis and code without their marks."""
    parts: list[str] = []
    for token in _INLINE_PARSER.parseInline(_HEADING_ID.sub("", source)[:_INLINE_CHARS]):
        for child in token.children or ():
            if child.type in _TEXT_TOKENS:
                parts.append(child.content)
            elif child.type in {"softbreak", "hardbreak"}:
                parts.append(" ")
    return normalize_title("".join(parts))


_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*\Z")
_VERBATIM_DIRECTIVES = (
    ".. code",
    ".. sourcecode",
    ".. parsed-literal",
    ".. list-table",
    ".. csv-table",
    "+--",
    "===",
)
_RST_TARGET = re.compile(r"\.\. _[^\n]{1,200}:\s*\Z")  # a label: it belongs to the title after it
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
    blocks: list[Block] = []
    number = 0
    while number < len(rows):
        if parsed := _parse_title(rows, number):
            title, style, height = parsed
            if style not in styles:
                styles.append(style)
            level = min(styles.index(style) + 1, 6)
            start = starts[number]
            while blocks and _RST_TARGET.match(text, blocks[-1].start_char, blocks[-1].end_char):
                start = blocks.pop().start_char
            blocks.append(Block(start, starts[number + height], "heading", level, title))
            number += height
        else:
            end = _find_block_end(rows, number)
            kind = "verbatim" if rows[number].startswith(_VERBATIM_DIRECTIVES) else "prose"
            if rows[number].strip():  # empty lines belong to the block before them
                blocks.append(Block(starts[number], starts[end], kind))
            number = end
    yield from close_gaps(blocks, 0, len(text))


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
