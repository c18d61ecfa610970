"""Tables of a Confluence page as Markdown.

What a cell that spans rows says is said in each of them, so that a row can be read by itself.
A table with code or tables in it, or of one cell, is laid out rather than written as a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from knowledge_pipeline.sources.confluence.tree import Element, PageWriter, get_attribute, name_of
from knowledge_pipeline.sources.markdown_writing import format_table as written_table

_MAX_SPAN = 100  # columns; more is a mistake in the page
_SECTION_ELEMENTS = frozenset({"thead", "tbody", "tfoot"})
_SKIPPED_ELEMENTS = frozenset({"col", "colgroup"})


@dataclass(frozen=True, slots=True)
class _Cell:
    blocks: list[str]
    rows: int
    columns: int

    @property
    def needs_layout(self) -> bool:
        """Whether it holds what does not fit on one line."""
        return any(block.startswith(("```", "|")) or "\n```" in block for block in self.blocks)

    @property
    def inline_text(self) -> str:
        lines = (line.strip() for block in self.blocks for line in block.splitlines())
        return " / ".join(line for line in lines if line)


def render_table_blocks(writer: PageWriter, table: Element) -> Iterator[str]:
    """A table, and before it what it holds outside of its rows: a caption."""
    rows: list[list[_Cell]] = []
    for element in _iter_table_elements(table):
        if name_of(element) == "tr":
            rows.append([_build_cell(writer, each) for each in element if name_of(each) in ("td", "th")])
        elif name_of(element) not in _SKIPPED_ELEMENTS:
            yield from writer.render_blocks(element)
    rows = [row for row in rows if any(cell.blocks for cell in row)]
    if any(cell.needs_layout for row in rows for cell in row) or all(len(row) == 1 for row in rows):
        for row in rows:
            for cell in row:
                yield from cell.blocks
    elif rows:
        yield written_table(_build_grid(rows))


def _iter_table_elements(table: Element) -> Iterator[Element]:
    for element in table:
        yield from element if name_of(element) in _SECTION_ELEMENTS else (element,)


def _build_cell(writer: PageWriter, element: Element) -> _Cell:
    return _Cell(
        list(writer.render_blocks(element)), _parse_span(element, "rowspan"), _parse_span(element, "colspan")
    )


def _parse_span(element: Element, attribute_name: str) -> int:
    told = get_attribute(element, attribute_name)
    return max(1, min(int(told), _MAX_SPAN)) if told.isascii() and told.isdigit() else 1


def _build_grid(rows: list[list[_Cell]]) -> list[list[str]]:
    """Every row with all its columns: rows spanned say it again, columns spanned are empty."""
    grid: list[list[str]] = []
    from_above: dict[int, tuple[str, int]] = {}  # column -> what it says, and for how many rows more
    for row in rows:
        written: list[str] = []
        cells = iter(row)
        while True:
            if (place := len(written)) in from_above:
                said, more = from_above.pop(place)
                written.append(said)
                if more > 1:
                    from_above[place] = (said, more - 1)
                continue
            if (cell := next(cells, None)) is None:
                break
            written += _expand_cell(cell, len(written), from_above)
        grid.append(written)
    width = max(len(row) for row in grid)
    return [row + [""] * (width - len(row)) for row in grid]


def _expand_cell(cell: _Cell, start_column: int, from_above: dict[int, tuple[str, int]]) -> list[str]:
    line = cell.inline_text
    for column in range(cell.columns):
        if cell.rows > 1:
            from_above[start_column + column] = (line if column == 0 else "", cell.rows - 1)
    return [line, *[""] * (cell.columns - 1)]
