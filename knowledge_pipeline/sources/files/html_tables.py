"""Tables of an HTML page: which are data and which only lay a page out, and their cells as a grid."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bs4 import BeautifulSoup
from bs4.element import Tag

from knowledge_pipeline.sources.markdown_writing import TableCell, expand_spans, format_table, parse_span

_CELL_TAGS = ("td", "th")
_TABLE_TAGS = ("caption", "colgroup", "tr", "thead", "tbody", "tfoot", *_CELL_TAGS)
_LAYOUT_ROLE = re.compile(r"^(?:presentation|none)$", re.IGNORECASE)


def unwrap_layout_tables(page: BeautifulSoup) -> None:
    """Make blocks of the tables that do not fit in lines: of one cell a row, with tables or code in them."""
    for element in [table for table in page.find_all("table") if _is_layout(table)]:
        for part in [element, *element.find_all(_TABLE_TAGS)]:
            if part is element or part.find_parent("table") is None:
                part.name = "div"


def render_table(element: Tag, texts: Mapping[int, str]) -> str:
    """A pipe table; a cell that spans rows is repeated in each of them.

    Args:
        element: the table.
        texts: the text of each cell, by the id of its element.
    """

    def to_cell(cell: Tag) -> TableCell:
        rows, columns = (parse_span(str(cell.get(name, ""))) for name in ("rowspan", "colspan"))
        return TableCell(texts.get(id(cell), ""), rows, columns)

    return format_table(expand_spans([to_cell(cell) for cell in row] for row in _group_cells(element)))


def _is_layout(element: Tag) -> bool:
    if _LAYOUT_ROLE.match(str(element.get("role", ""))):
        return True
    if element.find("table") or any("\n" in code.get_text().strip() for code in element.find_all("pre")):
        return True
    return all(len(row) < 2 for row in _group_cells(element))


def _group_cells(element: Tag) -> list[list[Tag]]:
    """The cells by the row that each is in, however a page wraps them: in forms, or in no row."""
    rows: dict[int, list[Tag]] = {}
    for cell in element.find_all(_CELL_TAGS):
        rows.setdefault(id(cell.find_parent(("tr", "table"))), []).append(cell)
    return list(rows.values())
