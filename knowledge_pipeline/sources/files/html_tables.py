"""Tables of an HTML page: which are data and which only lay a page out, and their cells as a grid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bs4 import BeautifulSoup
from bs4.element import Tag

from knowledge_pipeline.sources.markdown_writing import format_table

_MAX_SPAN = 100  # rows or columns; more is a mistake in the page
_CELL_TAGS = ("td", "th")
_TABLE_TAGS = ("caption", "colgroup", "tr", "thead", "tbody", "tfoot", *_CELL_TAGS)
_LAYOUT_ROLE = re.compile(r"^(?:presentation|none)$", re.IGNORECASE)


def unwrap_layout_tables(page: BeautifulSoup) -> None:
    """Make blocks of the tables that do not fit in lines: of one cell a row, with tables or code in them."""
    laid_out = [element for element in page.find_all("table") if _is_layout(element)]
    for element in laid_out:
        for part in [element, *element.find_all(_TABLE_TAGS)]:
            if part is element or part.find_parent("table") is None:
                part.name = "div"


def render_table(element: Tag, texts: Mapping[int, str]) -> str:
    """A pipe table; what a cell that spans rows says is said in each of them.

    Args:
        element: the table.
        texts: what each cell says, by the id of its element.
    """
    return format_table(list(_iter_rows(_group_cells(element), texts)))


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


def _iter_rows(rows: list[list[Tag]], texts: Mapping[int, str]) -> Iterator[list[str]]:
    from_above: dict[int, tuple[str, int]] = {}  # column -> what it says, and for how many rows more
    for row in rows:
        written: list[str] = []
        cells = iter(row)
        while True:
            if (column := len(written)) in from_above:
                said, more = from_above.pop(column)
                written.append(said)
                if more > 1:
                    from_above[column] = (said, more - 1)
            elif (cell := next(cells, None)) is not None:
                said, below = texts.get(id(cell), ""), _parse_span(cell, "rowspan") - 1
                for at in range(_parse_span(cell, "colspan")):
                    if below:
                        from_above[column + at] = (said if at == 0 else "", below)
                    written.append(said if at == 0 else "")
            else:
                break
        yield written


def _parse_span(cell: Tag, name: str) -> int:
    told = str(cell.get(name, ""))
    return max(1, min(int(told[:9]), _MAX_SPAN)) if told.isascii() and told.isdigit() else 1
