"""Long tables, and CSV files, as Markdown: sections of some rows, the header above each."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.markdown import MAX_COLUMNS, format_table
from knowledge_pipeline.extraction.text_decoding import ExtractedText, decode_text

_SECTION_CHARS = 1_200  # of the rows of a section: less than one chunk
_MAX_CHARS = 1_000_000  # of the cells of a table: more is a dump of data, which no question is about

TABLE_CUT_NOTE = "its tables are too long: each is cut after a million characters, or five million cells"


def render_rows(rows: Iterable[Sequence[str]], heading: str) -> tuple[str, bool]:
    """Sections of a table, its first row that is not empty the header, and whether it was cut.

    Empty rows are left out, cells beyond 200 added to the last. `heading` stands before "rows 2 to 40".
    """
    numbered = ((at, cells) for at, row in enumerate(rows, 1) if (cells := _narrow_row(row)))
    if (first := next(numbered, None)) is None:
        return "", False
    header_at, header = first
    sections: list[str] = []
    chars = 0
    for section in _group_rows(numbered):
        sections.append(_render_section(heading, header, section))
        chars += sum(len(cell) for _, row in section for cell in row)
        if chars > _MAX_CHARS:
            return "\n\n".join(sections), next(numbered, None) is not None
    return "\n\n".join(sections or [_render_section(heading, header, [(header_at, [])])]), False


def _group_rows(numbered: Iterable[tuple[int, list[str]]]) -> Iterator[list[tuple[int, list[str]]]]:
    section: list[tuple[int, list[str]]] = []
    chars = 0
    for at, row in numbered:
        width = sum(len(cell) + 3 for cell in row)
        if section and chars + width > _SECTION_CHARS:
            yield section
            section, chars = [], 0
        section.append((at, row))
        chars += width
    if section:
        yield section


def _render_section(heading: str, header: list[str], section: list[tuple[int, list[str]]]) -> str:
    first, last = section[0][0], section[-1][0]
    rows = f"row {first}" if first == last else f"rows {first} to {last}"
    return f"## {heading}, {rows}\n\n{format_table([header, *(row for _, row in section)])}"


def _narrow_row(row: Sequence[str]) -> list[str]:
    """Its cells up to the last that is not empty."""
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    if len(cells) > MAX_COLUMNS:
        cells[MAX_COLUMNS - 1 :] = [" ".join(filter(None, cells[MAX_COLUMNS - 1 :]))]
    return cells


_SNIFFED_CHARS = 16_384
_DELIMITERS = ",;\t|"


def read_csv(payload: bytes) -> ExtractedText:
    """The rows of a file, whichever of `,`, `;`, `|` and tab separates its fields; the first is the header.

    Source: RFC 4180, https://www.rfc-editor.org/rfc/rfc4180
    """
    text = decode_text(payload)
    try:
        rows = csv.reader(StringIO(text, newline=""), delimiter=_find_delimiter(text))
        rendered, is_cut = render_rows(rows, "Table")
    except csv.Error as error:
        raise DocumentSkipped(f"broken CSV ({error})") from error
    metadata = {"format": "csv", **({"note": TABLE_CUT_NOTE} if is_cut else {})}
    return ExtractedText(rendered, metadata=metadata, language="markdown")


def _find_delimiter(text: str) -> str:
    """The one that makes most fields of the header."""
    header = next(csv.reader([text[:_SNIFFED_CHARS].lstrip().partition("\n")[0]], delimiter="\0"), [""])
    return max(_DELIMITERS, key="".join(header).count)
