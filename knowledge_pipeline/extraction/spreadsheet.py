"""Spreadsheets as Markdown: XLSX, XLSM, XLSB, XLS and ODS."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.ods import read_ods
from knowledge_pipeline.extraction.office_package import OfficePackage
from knowledge_pipeline.extraction.row_tables import TABLE_CUT_NOTE, render_rows
from knowledge_pipeline.extraction.sheets import BROKEN, Sheet, Workbook
from knowledge_pipeline.extraction.text_decoding import ExtractedText, add_note, add_unread, count_parts
from knowledge_pipeline.extraction.xlsx import read_xlsx
from knowledge_pipeline.records import Metadata

_OLD_STARTS = (b"\xd0\xcf\x11\xe0", b"\x09\x08", b"\x09\x04", b"\x09\x02", b"\x09\x00")
"""Of files of Excel before 2007, in their container or without."""


def read_spreadsheet(payload: bytes) -> ExtractedText:
    """All visible sheets in order, XLSX, XLSB, XLS and ODS, as a reader sees them; full dates as in ISO 8601.

    The values of formulas are those that they had when the file was saved.
    """
    try:
        workbook = _read_workbook(payload)
    except BROKEN as error:
        raise DocumentSkipped("broken spreadsheet (its parts cannot be read)") from error
    if not workbook.sheets and workbook.not_read:
        raise DocumentSkipped("broken spreadsheet (none of its sheets can be read)")
    rendered = [_render_sheet(sheet) for sheet in workbook.sheets]
    notes = [TABLE_CUT_NOTE] if any(is_cut for _, is_cut in rendered) else []
    notes += _describe_rest(workbook)
    metadata: Metadata = {"format": "spreadsheet", "sheets": len(rendered)}
    metadata = add_unread(add_note(metadata, "; ".join(notes)), workbook.not_read)
    if "note" in metadata and not any(text for text, _ in rendered):
        raise DocumentSkipped(f"spreadsheet without visible text; {metadata['note']}")
    return ExtractedText("\n\n".join(filter(None, (text for text, _ in rendered))), "", metadata, "markdown")


def _read_workbook(payload: bytes) -> Workbook:
    """Read what the content is, whatever the name; what an extra reads is imported where it is met."""
    if payload.startswith(_OLD_STARTS):
        from knowledge_pipeline.extraction.xls import read_xls

        return read_xls(payload)
    package = OfficePackage(payload, "spreadsheet", "xl/workbook.xml")
    if package.main.endswith(".bin"):
        from knowledge_pipeline.extraction.calamine import read_by_calamine

        return read_by_calamine(payload)
    return read_xlsx(package) if package.has(package.main) else read_ods(payload)


def _render_sheet(sheet: Sheet) -> tuple[str, bool]:
    """The text of a sheet, and whether its table was cut."""
    table, is_cut = render_rows(sheet.rows, sheet.name)
    parts = [table, *sheet.texts]
    if sheet.comments:
        comments = "\n".join(f"- {comment}" for comment in sheet.comments)
        parts.append(f"## {sheet.name}, comments\n\n{comments}")
    text = "\n\n".join(filter(None, parts))
    return (f"# {sheet.name}\n\n{text}" if text else ""), is_cut or sheet.is_cut


def _describe_rest(workbook: Workbook) -> Iterator[str]:
    if hidden := count_parts(workbook.hidden):
        yield f"left out because hidden: {hidden}"
    if workbook.formulas:
        yield f"{count_parts({'formula': workbook.formulas})} without a stored value"
