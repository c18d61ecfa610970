"""Spreadsheets as Markdown: a heading for each sheet, then its rows as tables. XLSX, XLSB, XLS and ODS.

Read by calamine, https://docs.rs/calamine: the values that formulas had when the file was saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from io import BytesIO
from itertools import islice
from typing import Any

from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetVisibleEnum, ZipError

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Metadata
from knowledge_pipeline.sources.files.office_archive import require_bounded_archive
from knowledge_pipeline.sources.files.row_tables import TABLE_CUT_NOTE, render_rows
from knowledge_pipeline.sources.files.text_decoding import ExtractedText

_MAX_CELLS = 5_000_000  # of a sheet that are looked at: those between its corners are there, though empty


def read_spreadsheet(payload: bytes) -> ExtractedText:
    """All visible sheets in order, without formulas; dates as in ISO 8601.

    Raises:
        DocumentSkipped: no spreadsheet, broken, encrypted, or it unpacks to too much.
    """
    if payload.startswith(b"PK"):
        require_bounded_archive(payload, "spreadsheet")
    try:
        with CalamineWorkbook.from_filelike(BytesIO(payload)) as workbook:
            sheets = list(_iter_sheets(workbook))
    except PasswordError as error:
        raise DocumentSkipped("encrypted spreadsheet") from error
    except ZipError as error:
        raise DocumentSkipped("not a spreadsheet, though its name says so") from error
    except (CalamineError, ValueError, OSError) as error:
        raise DocumentSkipped(f"broken spreadsheet ({str(error)[:200]})") from error
    metadata: Metadata = {"format": "spreadsheet", "sheets": len(sheets)}
    if any(is_cut for _, is_cut in sheets):
        metadata["note"] = TABLE_CUT_NOTE
    return ExtractedText("\n\n".join(filter(None, (text for text, _ in sheets))), "", metadata, "markdown")


def _iter_sheets(workbook: CalamineWorkbook) -> Iterator[tuple[str, bool]]:
    """The text of each visible sheet, and whether it was cut."""
    for about in workbook.sheets_metadata:
        if about.visible != SheetVisibleEnum.Visible:
            continue
        sheet = workbook.get_sheet_by_name(about.name)
        max_rows = _MAX_CELLS // max(1, sheet.total_width)
        rows = ([_format_cell(value) for value in row] for row in islice(sheet.iter_rows(), max_rows))
        text, is_cut = render_rows(rows, about.name)
        yield (f"# {about.name}\n\n{text}" if text else ""), is_cut or sheet.total_height > max_rows


def _format_cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return value.isoformat() if isinstance(value, date | time) else str(value)
