"""Workbooks of Excel before 2007 (XLS), read by xlrd, which knows formats of numbers and what is hidden.

Source: https://xlrd.readthedocs.io/en/latest/
"""

from __future__ import annotations

from io import StringIO
from typing import Any

import xlrd

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.calamine import read_by_calamine
from knowledge_pipeline.extraction.number_formats import format_number
from knowledge_pipeline.extraction.sheets import Sheet, SheetCells, Workbook, format_position


def read_xls(payload: bytes) -> Workbook:
    """Everything that the visible sheets show; what xlrd cannot read is read by calamine.

    Raises `DocumentSkipped`: it is encrypted, or neither of them can read it.
    """
    try:
        book: Any = xlrd.open_workbook(
            file_contents=payload, formatting_info=True, ragged_rows=True, logfile=StringIO()
        )
        workbook = Workbook()
        for sheet in book.sheets():
            if sheet.visibility:
                workbook.hidden["sheet"] += 1
            else:
                workbook.sheets.append(_read_sheet(book, sheet, workbook))
        return workbook
    except Exception as error:  # xlrd raises whatever damage leads to
        if str(error) == "Workbook is encrypted":
            raise DocumentSkipped("encrypted with a password") from error
        return read_by_calamine(payload)


def _read_sheet(book: Any, sheet: Any, workbook: Workbook) -> Sheet:
    cells, read = SheetCells(), Sheet(sheet.name)
    formats: list[str] = [book.format_map[style.format_key].format_str for style in book.xf_list]
    cells.hidden_rows = {row + 1 for row, about in sheet.rowinfo_map.items() if about.hidden}
    for column, about in sheet.colinfo_map.items():
        if about.hidden:
            cells.hide_columns(column, 1)
    for first, after, left, right in sheet.merged_cells:
        cells.merges.append(((first + 1, left), (after, right - 1)))
    for (row, column), link in sheet.hyperlink_map.items():
        if link.type == "url" and link.url_or_path:
            cells.links[row + 1, column] = str(link.url_or_path)
    for row in range(sheet.nrows):
        for column in range(sheet.row_len(row)):
            if text := _format_cell(sheet.cell(row, column), formats, is_1904=bool(book.datemode)):
                cells.write_cell(row + 1, column, text)
    cells.finish(read, workbook)
    for (row, column), note in sorted(sheet.cell_note_map.items()):
        text, position = " ".join(note.text.split()), (row + 1, column)
        if text and not cells.is_hidden(position):
            author = "" if not note.author or text.startswith(f"{note.author}:") else f"{note.author}: "
            read.comments.append(f"{format_position(position)}: {author}{text}")
    return read


def _format_cell(cell: Any, formats: list[str], *, is_1904: bool) -> str:
    kind = int(cell.ctype)
    if kind in (xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE):
        style = int(cell.xf_index)
        return format_number(float(cell.value), formats[style], is_1904=is_1904)
    if kind == xlrd.XL_CELL_BOOLEAN:
        return str(bool(cell.value))
    if kind == xlrd.XL_CELL_ERROR:
        return str(xlrd.error_text_from_code.get(cell.value, "#ERROR"))
    return str(cell.value)
