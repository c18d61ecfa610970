"""Long tables, and CSV files, as Markdown: sections of some rows, the header above each."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import StringIO
from itertools import chain, islice
from threading import Lock

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.markdown import MAX_COLUMNS, format_table
from knowledge_pipeline.extraction.text_decoding import MAX_CHARS, ExtractedText, add_note, decode_text

_SECTION_CHARS = 1_200  # of the rows of a section: less than one chunk
_MAX_CHARS = 1_000_000  # of the cells of a table: more is a dump of data, which no question is about

MAX_CELLS = 5_000_000
"""Of a table, empty ones between others included."""

_MAX_TITLE_ROWS = 20

TABLE_CUT_NOTE = "its tables are too long: each is cut after a million characters, or five million cells"

NumberedRow = tuple[int, list[str]]


def render_rows(rows: Iterable[tuple[int, Sequence[str]]], heading: str) -> tuple[str, bool]:
    """Sections of a table, its header above each, and whether it was cut. Titles above the table come first.

    Rows come with their numbers. Empty ones are left out, cells beyond 200 added to the last. `heading`
    stands before "rows 2 to 40".
    """
    numbered = ((at, cells) for at, row in rows if (cells := _narrow_row(row)))
    first_rows = list(islice(numbered, _MAX_TITLE_ROWS))
    if not first_rows:
        return "", False
    titles = _count_title_rows(first_rows)
    title = "\n".join(dict.fromkeys(" ".join(filter(None, row)) for _, row in first_rows[:titles]))
    (header_at, header), *first_rows = first_rows[titles:]
    sections = [title] if title else []
    chars = area = 0
    groups = _group_rows(chain(first_rows, numbered))
    for section in groups:
        sections.append(_render_section(heading, header, section))
        chars += sum(sum(map(len, row)) for _, row in section)
        area += len(section) * max(len(header), *(len(row) for _, row in section))
        if chars > _MAX_CHARS or area > MAX_CELLS:
            return "\n\n".join(sections), next(groups, None) is not None
    if not area:
        sections.append(_render_section(heading, header, [(header_at, [])]))
    return "\n\n".join(sections), False


def _count_title_rows(rows: Sequence[NumberedRow]) -> int:
    """How many of the first rows are above the table: lines of one cell, or pairs apart from it."""
    counts = [sum(map(bool, row)) for _, row in rows]
    start = 0
    gap = next((at for at in range(1, len(rows)) if rows[at][0] > rows[at - 1][0] + 1), None)
    if gap is not None and max(counts[:gap]) <= 2 < counts[gap]:
        start = gap
    header = next((at for at in range(start, len(rows)) if counts[at] > 1), None)
    if header is None or header == start:
        return start
    below = counts[header + 1 :]
    is_table = 2 * sum(count > 1 for count in below) >= len(below)
    is_header = counts[header] > 2 or not any(map(_is_number, rows[header][1]))
    return header if is_table and is_header else start


def _is_number(cell: str) -> bool:
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))


def _group_rows(numbered: Iterable[NumberedRow]) -> Iterator[list[NumberedRow]]:
    section: list[NumberedRow] = []
    chars = 0
    for at, row in numbered:
        width = sum(map(len, row)) + 3 * len(row)
        if section and chars + width > _SECTION_CHARS:
            yield section
            section, chars = [], 0
        section.append((at, row))
        chars += width
    if section:
        yield section


def _render_section(heading: str, header: list[str], section: list[NumberedRow]) -> str:
    first, last = section[0][0], section[-1][0]
    rows = f"row {first}" if first == last else f"rows {first} to {last}"
    return f"## {heading}, {rows}\n\n{format_table([header, *(row for _, row in section)])}"


def _narrow_row(row: Sequence[str]) -> list[str]:
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    if len(cells) > MAX_COLUMNS:
        cells[MAX_COLUMNS - 1 :] = [" ".join(filter(None, cells[MAX_COLUMNS - 1 :]))]
    return cells


_SNIFFED_CHARS = 16_384
_DELIMITERS = ",;\t|"


def read_csv(payload: bytes, encoding: str | None = None) -> ExtractedText:
    """The rows of a file, whichever of `,`, `;`, `|` and tab separates its fields; the first is the header.

    Source: RFC 4180, https://www.rfc-editor.org/rfc/rfc4180
    """
    text, note = decode_text(payload, encoding)
    reader = csv.reader(StringIO(text, newline=""), delimiter=_find_delimiter(text[:_SNIFFED_CHARS]))
    try:
        rows = iter(partial(read_row, reader), None)
        rendered, is_cut = render_rows(enumerate(rows, 1), "Table")
    except csv.Error as error:
        raise DocumentSkipped(f"broken CSV ({error})") from error
    metadata = add_note(add_note({"format": "csv"}, note), TABLE_CUT_NOTE if is_cut else "")
    return ExtractedText(rendered, metadata=metadata, language="markdown")


_field_limit = Lock()  # of csv, which has one limit for the whole process


def read_row(reader: Iterator[list[str]]) -> list[str] | None:
    """The next row of a `csv.reader`, or None; a field may be as long as a document. Raises csv.Error."""
    with _field_limit:
        usual = csv.field_size_limit(MAX_CHARS)
        try:
            return next(reader, None)
        finally:
            csv.field_size_limit(usual)


def _find_delimiter(beginning: str) -> str:
    """What separates the fields of the first line that has any, outside of quotes."""
    for line in beginning.splitlines():
        header = "".join(next(csv.reader([line], delimiter="\0"), [""]))
        if any(map(header.count, _DELIMITERS)):
            return max(_DELIMITERS, key=header.count)
    return _DELIMITERS[0]
