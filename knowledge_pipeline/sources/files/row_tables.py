"""Long tables as Markdown: sections of some rows, the header above each, so that each says what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from knowledge_pipeline.sources.markdown_writing import MAX_COLUMNS, format_table

_SECTION_CHARS = 1_200  # of the rows of a section: less than one chunk
_MAX_CHARS = 1_000_000  # of the cells of a table: more is a dump of data, which no question is about

TABLE_CUT_NOTE = "its tables are too long: each is cut after a million characters, or five million cells"


def render_rows(rows: Iterable[Sequence[str]], heading: str) -> tuple[str, bool]:
    """Sections of a table, its first row that is not empty the header, and whether it was cut.

    Args:
        rows: texts of the cells; empty rows are left out, and cells beyond 200 are added to the last.
        heading: what stands before "rows 2 to 40" in the heading of each section.
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
    cells = [each.strip() for each in row]
    while cells and not cells[-1]:
        cells.pop()
    if len(cells) > MAX_COLUMNS:
        cells[MAX_COLUMNS - 1 :] = [" ".join(filter(None, cells[MAX_COLUMNS - 1 :]))]
    return cells
