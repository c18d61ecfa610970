"""Tables that Markdown has as HTML, and those of reStructuredText, with the names of their columns.

Only rows that are marked as a header name columns. Every line, and every tag, is looked at a few times.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from knowledge_pipeline.chunking.blocks import TableSpan
from knowledge_pipeline.chunking.sentences import Range
from knowledge_pipeline.extraction.markdown import html_to_line

_TAG = re.compile(r"<(?P<end>/?)(?P<name>table|tr|t[hd])\b[^<>]*>", re.IGNORECASE)
_MAX_HEADER_ROWS, _MAX_CELL_CHARS = 3, 500


@dataclass(slots=True)
class _HtmlTable:
    start_char: int
    header: list[Range] = field(default_factory=list[Range])  # of the text of cells
    header_rows: int = 0
    row: list[tuple[str, Range]] = field(default_factory=list[tuple[str, Range]])  # "th" or "td", its text
    is_body: bool = False  # a row that is none of the header was read
    cell: tuple[str, int] | None = None  # that is open

    def end_cell(self, at: int) -> None:
        if self.cell:
            self.row.append((self.cell[0], (self.cell[1], at)))
        self.cell = None

    def end_row(self, text: str, at: int) -> None:
        self.end_cell(at)
        cells = [(name, span) for name, span in self.row if text[slice(*span)].strip()]
        if cells and not self.is_body:
            self.is_body = self.header_rows >= _MAX_HEADER_ROWS or any(name == "td" for name, _ in cells)
            if not self.is_body:
                self.header += [span for _, span in cells]
                self.header_rows += 1
        self.row = []


def find_html_tables(text: str, blocks: Sequence[Range]) -> Iterator[TableSpan]:
    """Tables that begin in blocks of HTML; one that is not closed is none, one in a cell is part of it."""
    open_tables: list[_HtmlTable] = []
    closed: list[tuple[_HtmlTable, int]] = []
    waiting = iter(blocks)
    block = next(waiting, None)
    for tag in _TAG.finditer(text):
        name, is_end = tag["name"].lower(), bool(tag["end"])
        if name == "table" and not is_end:
            while block and block[1] <= tag.start():
                block = next(waiting, None)
            if block and block[0] <= tag.start():
                open_tables.append(_HtmlTable(tag.start()))
        elif open_tables:
            table = open_tables[-1]
            if name == "tr" or name == "table":
                table.end_row(text, tag.start())
            else:
                table.end_cell(tag.start())
                table.cell = None if is_end else (name, tag.end())
            if name == "table":
                closed.append((open_tables.pop(), tag.end()))
    end_before = 0
    for table, end in sorted(closed, key=lambda pair: pair[0].start_char):
        if table.start_char >= end_before:
            end_before = end
            cells = (text[start : min(stop, start + _MAX_CELL_CHARS)] for start, stop in table.header)
            names = map(html_to_line, cells)
            if header := " | ".join(filter(None, names)):
                yield TableSpan(table.start_char, end, header, tuple(table.header))


_GRID_BORDER = re.compile(r"\+(?:-+\+)+\s*\Z")
_GRID_HEADER_END = re.compile(r"\+(?:=+\+)+\s*\Z")
_SIMPLE_BORDER = re.compile(r"=+(?: +=+)+\s*\Z")
_COLUMN = re.compile("(?<!=)=")
_RULE = re.compile("[-=]{3,}")  # below the header of some columns
_DIRECTIVE = re.compile(r"\.\. (?P<name>list-table|csv-table)::")
_HEADER_OPTION = re.compile(r":header:\s*(?P<names>\S.*)", re.DOTALL)
_HEADER_ROWS = re.compile(r":header-rows:\s*[1-9]")
_LIST_ROW = re.compile(r"\*\s+-(?:\s|\Z)")
_LIST_CELL = re.compile(r"(?:\*\s+)?-(?:\s+|\Z)")
_MAX_HEADER_LINES = 20
_MAX_OPTIONS = 20


def find_rst_tables(text: str, starts: Sequence[int]) -> Iterator[TableSpan]:
    """Grid tables, simple tables, list-table and csv-table, wherever they are indented to.

    `starts` are those of lines, and the end of the text.
    """
    lines = [text[start:end] for start, end in pairwise(starts)]
    source, number = _RstLines(lines), 0
    while number < len(lines):
        line = lines[number].lstrip()
        find = next((find for sign, find in _FINDERS.items() if line.startswith(sign)), None)
        table = find(source, number) if find else None
        if table is None:
            number += 1
            continue
        header, header_lines, end = table
        if header:
            cells = (starts[header_lines[0]], starts[header_lines[1]])
            yield TableSpan(starts[number], starts[end], header, (cells,))
        number = max(end, number + 1)


_RstTable = tuple[str, Range, int]
"""The names of columns, the lines that have them, and the line after the table."""


class _RstLines:
    """The lines of a text, and those with a border that an empty line follows: there a simple table ends."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._ends = [
            at
            for at, line in enumerate(lines)
            if line.lstrip().startswith("=")
            and _SIMPLE_BORDER.match(line.lstrip())
            and not "".join(lines[at + 1 : at + 2]).strip()
        ]

    def find_table_end(self, number: int) -> int | None:
        at = bisect_left(self._ends, number)
        return self._ends[at] if at < len(self._ends) else None


def _find_grid_table(source: _RstLines, first: int) -> _RstTable | None:
    lines = source.lines
    if not _GRID_BORDER.match(lines[first].lstrip()):
        return None
    end = first
    while end < len(lines) and lines[end].lstrip().startswith(("+", "|")):
        end += 1
    near = range(first, min(end, first + _MAX_HEADER_LINES))
    header_end = next((at for at in near if _GRID_HEADER_END.match(lines[at].lstrip())), first)
    rows = [
        lines[at].strip().strip("|").split("|") for at in range(first + 1, header_end) if "|" in lines[at]
    ]
    return _join_columns(rows), (first, header_end), end


def _find_simple_table(source: _RstLines, first: int) -> _RstTable | None:
    lines, border = source.lines, source.lines[first]
    if not _SIMPLE_BORDER.match(border.lstrip()):
        return None
    header_end = first + 1
    while header_end < min(len(lines), first + _MAX_HEADER_LINES) and lines[header_end].strip():
        if _SIMPLE_BORDER.match(lines[header_end].lstrip()):
            break
        header_end += 1
    else:
        return None
    if header_end + 1 >= len(lines) or not lines[header_end + 1].strip():
        return "", (first, first), header_end + 1  # two borders alone: no row is a header
    if (end := source.find_table_end(header_end + 1)) is None:
        return None
    stops = [match.start() for match in _COLUMN.finditer(border)]
    rows = [
        [line[start:stop] for start, stop in pairwise([*stops, None])]
        for line in lines[first + 1 : header_end]
    ]
    return _join_columns(rows), (first, header_end), end + 1


def _find_directive_table(source: _RstLines, first: int) -> _RstTable | None:
    lines = source.lines
    directive = _DIRECTIVE.match(lines[first].lstrip())
    if directive is None:
        return None
    own = _count_indent(lines[first])
    end = first + 1
    while end < len(lines) and (not lines[end].strip() or _count_indent(lines[end]) > own):
        end += 1
    has_header, body = False, first + 1
    while body < min(end, first + _MAX_OPTIONS) and lines[body].strip().startswith(":"):
        option = lines[body].strip()
        if header := _HEADER_OPTION.match(option):
            return _join_columns(_read_csv_row(header["names"])), (body, body + 1), end
        has_header |= _HEADER_ROWS.match(option) is not None
        body += 1
    body = next((at for at in range(body, end) if lines[at].strip()), end)
    if not has_header or body == end:
        return "", (first, first), end
    if directive["name"] == "csv-table":
        return _join_columns(_read_csv_row(lines[body])), (body, body + 1), end
    rest = range(body + 1, min(end, body + 5 * _MAX_HEADER_LINES))
    row_end = next((at for at in rest if _LIST_ROW.match(lines[at].lstrip())), rest.stop)
    cells: list[str] = []
    for line in lines[body:row_end]:
        if cell := _LIST_CELL.match(line.lstrip()):
            cells.append(line.lstrip()[cell.end() :])
        elif cells:
            cells[-1] += line
    return _join_columns([cells]), (body, row_end), end


def _read_csv_row(line: str) -> list[list[str]]:
    try:
        return list(csv.reader([line.strip()], skipinitialspace=True))
    except csv.Error:
        return []


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join_columns(rows: Sequence[Sequence[str]]) -> str:
    """The cells of each column as one: a header may have several lines."""
    columns = (" ".join(" ".join(cells).split()) for cells in zip_longest(*rows, fillvalue=""))
    names = (_RULE.sub("", column).strip() for column in columns)
    return " | ".join(filter(None, names))


_FINDERS = {"+-": _find_grid_table, "=": _find_simple_table, ".. ": _find_directive_table}
