"""Tables of a Confluence page as Markdown.

What a cell that spans rows says is said in each of them, so that a row can be read by itself.
A table with code or tables in it, or of one cell, is laid out rather than written as a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from knowledge_pipeline.sources.confluence.tree import Element, Writer, attribute, name
from knowledge_pipeline.sources.markdown_writing import table as written_table

_MOST_SPANNED = 100  # columns; more is a mistake in the page
_PARTS = frozenset({"thead", "tbody", "tfoot"})
_UNREAD = frozenset({"col", "colgroup"})


@dataclass(frozen=True, slots=True)
class _Cell:
    blocks: list[str]
    rows: int
    columns: int

    @property
    def is_laid_out(self) -> bool:
        """Whether it holds what does not fit on one line."""
        return any(block.startswith(("```", "|")) or "\n```" in block for block in self.blocks)

    @property
    def line(self) -> str:
        lines = (line.strip() for block in self.blocks for line in block.splitlines())
        return " / ".join(line for line in lines if line)


def table_blocks(writer: Writer, table: Element) -> Iterator[str]:
    """A table, and before it what it holds outside of its rows: a caption."""
    rows: list[list[_Cell]] = []
    for element in _parts(table):
        if name(element) == "tr":
            rows.append([_cell(writer, each) for each in element if name(each) in ("td", "th")])
        elif name(element) not in _UNREAD:
            yield from writer.blocks(element)
    rows = [row for row in rows if any(cell.blocks for cell in row)]
    if any(cell.is_laid_out for row in rows for cell in row) or all(len(row) == 1 for row in rows):
        for row in rows:
            for cell in row:
                yield from cell.blocks
    elif rows:
        yield written_table(_grid(rows))


def _parts(table: Element) -> Iterator[Element]:
    for element in table:
        yield from element if name(element) in _PARTS else (element,)


def _cell(writer: Writer, element: Element) -> _Cell:
    return _Cell(list(writer.blocks(element)), _span(element, "rowspan"), _span(element, "colspan"))


def _span(element: Element, which: str) -> int:
    told = attribute(element, which)
    return max(1, min(int(told), _MOST_SPANNED)) if told.isascii() and told.isdigit() else 1


def _grid(rows: list[list[_Cell]]) -> list[list[str]]:
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
            written += _spanned(cell, len(written), from_above)
        grid.append(written)
    width = max(len(row) for row in grid)
    return [row + [""] * (width - len(row)) for row in grid]


def _spanned(cell: _Cell, place: int, from_above: dict[int, tuple[str, int]]) -> list[str]:
    line = cell.line
    for column in range(cell.columns):
        if cell.rows > 1:
            from_above[place + column] = (line if column == 0 else "", cell.rows - 1)
    return [line, *[""] * (cell.columns - 1)]
