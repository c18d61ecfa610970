"""Markdown (CommonMark with tables, parsed by markdown-it-py) and reStructuredText as blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise, takewhile
from operator import attrgetter

from markdown_it import MarkdownIt
from markdown_it.token import Token

from knowledge_pipeline.chunking.blocks import (
    Block,
    TableSpan,
    attach_tables,
    close_gaps,
    find_front_matter_end,
    find_line_starts,
    normalize_title,
)
from knowledge_pipeline.chunking.sentences import Range
from knowledge_pipeline.chunking.table_headers import find_html_tables, find_rst_tables
from knowledge_pipeline.extraction.markdown import HTML_TAG, html_to_line

_INLINE_CHARS = 500  # of a heading's source: nested brackets cost more than their length
_HTML_HEADING = re.compile(r"<h([1-6])\b[^>]*>(.{0,2000}?)</h\1\s*>", re.IGNORECASE | re.DOTALL)
# of links: it belongs to the heading above
_TARGET = re.compile(r"\s*<a\s[^<>]*>\s*</a>\s*\Z", re.IGNORECASE)
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
    tables: list[TableSpan] = []
    html: list[Range] = []
    source = text[body:].replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text[body:]
    for index, token in enumerate(tokens := _BLOCK_PARSER.parse(source)):
        if token.type == "table_open":
            tables += _build_table(tokens, index, starts, text)
        elif token.type == "html_block":
            html.append(_find_span(token, starts))
        if token.level == 0 and token.map is not None:
            block = _build_block(tokens, index, starts, text)
            is_target = _TARGET.match(text, block.start_char, block.end_char) is not None
            if not (is_target and blocks and blocks[-1].kind == "heading"):
                blocks.append(block)
    if html:
        tables = sorted([*tables, *find_html_tables(text, html)], key=attrgetter("start_char"))
    yield from attach_tables(close_gaps(blocks, body, len(text)), tables)


def _find_span(token: Token, starts: list[int]) -> Range:
    first_line, end_line = token.map or [0, 0]
    return starts[first_line], starts[min(end_line, len(starts) - 1)]


def _build_table(tokens: list[Token], index: int, starts: list[int], text: str) -> Iterator[TableSpan]:
    """The table that a token opens, also one in a list or a quotation; none where no column has a name."""
    start, end = _find_span(tokens[index], starts)
    header_end = starts[(tokens[index].map or [0])[0] + 1]
    header = " ".join(text[start:header_end].strip(" \t\r\n|").split())
    if tokens[index].level:  # the row stands behind the marks of what it is in
        cells = takewhile(lambda token: token.type != "tr_close", tokens[index + 1 :])
        header = " | ".join(" ".join(cell.content.split()) for cell in cells if cell.type == "inline")
    if any(map(str.isalnum, header)):
        yield TableSpan(start, end, header, ((start, header_end),))


def _build_block(tokens: list[Token], index: int, starts: list[int], text: str) -> Block:
    token = tokens[index]
    start, end = _find_span(token, starts)
    if token.type == "heading_open":
        return Block(start, end, "heading", int(token.tag[1]), _render_heading(tokens[index + 1].content))
    match = _HTML_HEADING.search(text, start, end) if token.type == "html_block" else None
    if match and (title := normalize_title(html_to_line(match[2]))):
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
            is_name = child.type == "html_inline" and not HTML_TAG.fullmatch(child.content)  # List<T>
            if child.type in _TEXT_TOKENS or is_name:
                parts.append(child.content)
            elif child.type in {"softbreak", "hardbreak"}:
                parts.append(" ")
    return normalize_title("".join(parts))


_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*\Z")
_VERBATIM_DIRECTIVES = (
    *(".. code", ".. sourcecode", ".. parsed-literal", ".. list-table", ".. csv-table", "+--", "==="),
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
    yield from attach_tables(close_gaps(blocks, 0, len(text)), find_rst_tables(text, starts))


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
