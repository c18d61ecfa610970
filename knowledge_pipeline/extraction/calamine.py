"""Workbooks that only calamine reads: binary ones (XLSB), and damaged ones of Excel before 2007.

It gives values alone, and knows no formats of numbers.

Source: https://docs.rs/calamine
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from io import BytesIO
from itertools import islice
from typing import Any

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, PasswordError, SheetVisibleEnum

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.number_formats import format_general, format_number
from knowledge_pipeline.extraction.row_tables import MAX_CELLS
from knowledge_pipeline.extraction.sheets import MAX_SHEET_CHARS, Sheet, Workbook


def read_by_calamine(payload: bytes) -> Workbook:
    """The values in the visible sheets. Raises DocumentSkipped: it cannot be read."""
    try:
        with CalamineWorkbook.from_filelike(BytesIO(payload)) as file:
            workbook = Workbook()
            for about in file.sheets_metadata:
                if about.visible == SheetVisibleEnum.Visible:
                    workbook.sheets.append(_read_calamine_sheet(file.get_sheet_by_name(about.name)))
                else:
                    workbook.hidden["sheet"] += 1
            return workbook
    except PasswordError as error:
        raise DocumentSkipped("encrypted with a password") from error
    except (CalamineError, ValueError, OSError) as error:
        raise DocumentSkipped("broken spreadsheet (its parts cannot be read)") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # which is no Exception, and tells of damage alone
            raise
        raise DocumentSkipped("broken spreadsheet (its parts cannot be read)") from error


def _read_calamine_sheet(sheet: CalamineSheet) -> Sheet:
    max_rows = MAX_CELLS // max(1, sheet.total_width)
    numbered, chars = list[tuple[int, list[str]]](), 0
    for at, row in enumerate(islice(sheet.iter_rows(), max_rows), sheet.start[0] + 1 if sheet.start else 1):
        numbered.append((at, [_format_cell(value) for value in row]))
        chars += sum(map(len, numbered[-1][1]))
        if chars > MAX_SHEET_CHARS:
            break
    return Sheet(sheet.name, numbered, is_cut=sheet.total_height > max_rows)


def _format_cell(value: Any) -> str:
    if isinstance(value, float):
        return format_general(value)
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    if isinstance(value, timedelta):
        return format_number(value / timedelta(days=1), "[h]:mm:ss")
    return value.isoformat() if isinstance(value, date | time) else str(value)
