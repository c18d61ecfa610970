"""Spreadsheets of OpenDocument (ODS), whose cells hold the text that they show beside their values.

Source: OpenDocument 1.3, part 3, section 9, https://docs.oasis-open.org/office/OpenDocument/v1.3/
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from lxml import etree

from knowledge_pipeline.extraction.markdown import format_link
from knowledge_pipeline.extraction.open_document import render_object
from knowledge_pipeline.extraction.sheets import (
    MAX_COLUMN,
    SAFELY,
    Position,
    Sheet,
    SheetCells,
    Workbook,
    forget,
    format_position,
)

_LAST_ROW = 1_048_576
_MIDNIGHT = re.compile(r"T00:00:00(?:\.0+)?$")
_FORMULA_NAMESPACE = re.compile(r"^[a-z]+:(?==)")
_TAGS = ("style", "table", "table-column", "table-row", "shapes")


def read_ods(payload: bytes) -> Workbook:
    """Everything that the visible sheets show. Raises `BROKEN`: the file is broken."""
    with ZipFile(BytesIO(payload)) as archive, archive.open("content.xml") as part:
        tags = [f"{{*}}{tag}" for tag in _TAGS]
        return _OdsReader(archive).read(etree.iterparse(part, ("start", "end"), tag=tags, **SAFELY))


class _OdsReader:
    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._objects = set[str]()  # that were read already
        self._workbook = Workbook()
        self._hidden_styles: set[str] = set()
        self._sheet: Sheet | None = None
        self._cells = SheetCells()
        self._comments: list[tuple[Position, str]] = []
        self._column = 0  # that the next definition of columns is about

    def read(self, events: Any) -> Workbook:
        depth = 0
        for event, element in events:
            name = _local(element)
            if event == "start":
                depth += name == "table"
                if name == "table" and depth == 1:
                    self._begin_sheet(element)
            elif name == "style":
                if any(_get(it, "display") == "false" for it in element.iter("{*}table-properties")):
                    self._hidden_styles.add(_get(element, "name"))
            elif name == "table":
                depth -= 1
                if depth == 0:
                    self._end_sheet()
                    forget(element)
            elif self._sheet is not None and depth == 1:
                self._read_part(name, element, self._sheet)
        return self._workbook

    def _begin_sheet(self, table: Any) -> None:
        self._sheet = None
        if _get(table, "style-name") in self._hidden_styles:
            self._workbook.hidden["sheet"] += 1
            return
        self._sheet, self._cells = Sheet(_get(table, "name")), SheetCells()
        self._comments, self._column = [], 0

    def _end_sheet(self) -> None:
        if self._sheet is not None:
            self._cells.finish(self._sheet, self._workbook)
            shown = (comment for comment in self._comments if not self._cells.is_hidden(comment[0]))
            self._sheet.comments = [f"{format_position(position)}: {text}" for position, text in shown]
            self._workbook.sheets.append(self._sheet)
            self._sheet = None

    def _read_part(self, name: str, element: Any, sheet: Sheet) -> None:
        if name == "table-column":
            count = _count(element, "number-columns-repeated")
            if _get(element, "visibility") in ("collapse", "filter"):
                self._cells.hide_columns(self._column, count)
            self._column += count
            return
        self._read_shapes(element, sheet)
        if name == "table-row":
            self._read_row(element)
            forget(element)

    def _read_row(self, row: Any) -> None:
        first, count = self._cells.last_row + 1, _count(row, "number-rows-repeated")
        self._cells.last_row += count
        texts, column = list[tuple[int, str]](), 0
        for cell in row.iterchildren("{*}table-cell", "{*}covered-table-cell"):
            repeated = _count(cell, "number-columns-repeated")
            if (
                column < MAX_COLUMN
                and not self._cells.is_full
                and (text := self._read_cell(cell, (first, column)))
            ):
                texts.extend((at, text) for at in range(column, min(column + repeated, MAX_COLUMN)))
            column += repeated
        for number in range(first, min(first + count, _LAST_ROW + 1)) if texts else ():
            if self._cells.is_full:
                break
            if _get(row, "visibility") in ("collapse", "filter"):
                self._cells.hidden_rows.add(number)
            for column, text in texts:
                self._cells.write_cell(number, column, text)

    def _read_cell(self, cell: Any, position: Position) -> str:
        rows, columns = (_count(cell, f"number-{name}-spanned") for name in ("rows", "columns"))
        if rows > 1:
            self._cells.merges.append(
                (position, (position[0] + rows - 1, min(position[1] + columns, MAX_COLUMN) - 1))
            )
        for note in cell.iterchildren("{*}annotation"):
            author = next((creator.text or "" for creator in note.iterchildren("{*}creator")), "")
            text = " ".join(" ".join(map(_read_paragraph, note.iterchildren("{*}p"))).split())
            self._comments.extend([(position, f"{author}: {text}" if author else text)] if text else [])
        if _get(cell, "value-type") == "date" and (date := _get(cell, "date-value")):
            return _MIDNIGHT.sub("", date).replace("T", " ")
        text = "\n".join(map(_read_paragraph, cell.iterchildren("{*}p"))).strip() or _get(cell, "value")
        formula = _FORMULA_NAMESPACE.sub("", _get(cell, "formula"))
        if formula and not text and _get(cell, "value-type") != "string":
            self._cells.formulas += 1
            return formula
        return text

    def _read_shapes(self, element: Any, sheet: Sheet) -> None:
        for shape in element.iter("{*}frame", "{*}custom-shape"):
            described = " ".join(
                about.text or "" for about in shape.iterchildren("{*}title", "{*}desc")
            ).strip()
            text = "\n".join(filter(None, map(_read_paragraph, shape.iter("{*}p"))))
            kinds = {_local(child) for child in shape}
            if text or described:
                sheet.texts.append(text or f"Picture: {described}")
            elif "object" in kinds:
                self._read_object(shape, sheet)
            elif "image" in kinds:
                self._workbook.not_read["picture"] += 1

    def _read_object(self, shape: Any, sheet: Sheet) -> None:
        """A chart, told once however often it is shown; anything else is counted."""
        href = next((_get(child, "href") for child in shape.iterchildren("{*}object")), "")
        if href in self._objects:
            return
        self._objects.add(href)
        if chart := render_object(self._archive, href):
            sheet.texts.append(chart)
        else:
            self._workbook.not_read["embedded object"] += 1


def _read_paragraph(paragraph: Any) -> str:
    for blank in paragraph.iter("{*}s", "{*}tab", "{*}line-break"):
        blank.text = " "
    text = "".join(paragraph.itertext())
    links = [link for link in paragraph.iterchildren("{*}a") if "".join(link.itertext()) == text]
    return format_link(text, _get(links[0], "href")) if links else text


def _get(element: Any, name: str) -> str:
    """An attribute by its name, in whichever namespace."""
    return next((value for key, value in element.attrib.items() if key.endswith(f"}}{name}")), "")


def _count(element: Any, name: str) -> int:
    value = _get(element, name)
    return max(1, min(int(value), _LAST_ROW)) if value.isascii() and value.isdigit() and len(value) < 9 else 1


def _local(element: Any) -> str:
    return etree.QName(element).localname
