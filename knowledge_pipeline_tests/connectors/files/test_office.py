"""Presentations, spreadsheets, CSV, e-mail, and the lists of Word documents."""

from __future__ import annotations

import io
import re
import struct
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from email.message import EmailMessage
from pathlib import Path

import pytest
import xlsxwriter
from hypothesis import given
from hypothesis import strategies as st
from pptx import Presentation
from pptx.util import Inches

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extract, extraction_version
from knowledge_pipeline.extraction.number_formats import format_number
from knowledge_pipeline.extraction.worker import ExtractionWorker
from knowledge_pipeline_tests.connectors.files.test_extraction import pdf, word

_MANIFEST = """<?xml version="1.0" encoding="UTF-8"?><manifest:manifest
 xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0" manifest:version="1.3">
 <manifest:file-entry manifest:full-path="/"
  manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/>
 <manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/></manifest:manifest>"""
_ODS = """<?xml version="1.0" encoding="UTF-8"?><office:document-content
 xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" office:version="1.3"><office:body>
 <office:spreadsheet><table:table table:name="Rates"><table:table-row>
 <table:table-cell office:value-type="string"><text:p>City</text:p></table:table-cell>
 <table:table-cell office:value-type="string"><text:p>Rate</text:p></table:table-cell></table:table-row>
 <table:table-row><table:table-cell office:value-type="string"><text:p>Bern</text:p></table:table-cell>
 <table:table-cell office:value-type="float" office:value="7.5"><text:p>7.5</text:p></table:table-cell>
 </table:table-row></table:table></office:spreadsheet></office:body></office:document-content>"""


def presentation(**slides: str) -> bytes:
    deck = Presentation()
    for title, text in slides.items():
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def workbook(build) -> bytes:
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True}) as book:
        build(book)
    return out.getvalue()


def sparse_workbook(row: int, column: int) -> bytes:
    """Two cells, far from each other."""

    def build(book):
        sheet = book.add_worksheet("Corners")
        sheet.write(0, 0, "first")
        sheet.write(row, column, "last")

    return workbook(build)


def ods() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", _MANIFEST)
        archive.writestr("content.xml", re.sub(r">\s+<", "><", _ODS))
    return out.getvalue()


def ods_of(rows: str, styles: str = "") -> bytes:
    """A spreadsheet of OpenDocument with these rows in one sheet, and these styles before."""
    names = ("office", "table", "text", "style", "draw", "svg-compatible", "xlink", "dc")
    spaces = " ".join(
        f'xmlns:{name.partition("-")[0]}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names
    )
    content = (
        f"<office:document-content {spaces}><office:automatic-styles>{styles}</office:automatic-styles>"
        "<office:body>"
        f'<office:spreadsheet><table:table table:name="S">{rows}</table:table>'
        '<table:table table:name="T" table:style-name="gone"><table:table-row/></table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    return replaced(ods(), "content.xml", content.encode())


def ods_row(*texts: str, more: str = "") -> str:
    cells = (f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in texts)
    return f"<table:table-row {more}>{''.join(cells)}</table:table-row>"


def biff(*records: tuple[int, bytes]) -> bytes:
    return b"".join(struct.pack("<HH", kind, len(body)) + body for kind, body in records)


def xls() -> bytes:
    """A workbook of Excel 97, without the container that it usually comes in.

    Source: [MS-XLS], https://learn.microsoft.com/en-us/openspecs/office_file_formats/ms-xls/
    """

    def text(row: int, column: int, words: str) -> tuple[int, bytes]:
        return 0x204, struct.pack("<HHHHB", row, column, 0, len(words), 0) + words.encode("latin-1")

    def number(row: int, column: int, style: int, value: float) -> tuple[int, bytes]:
        return 0x203, struct.pack("<HHHd", row, column, style, value)

    formats = (0, 10, 164, 46)  # General, 0.00%, our own, [h]:mm:ss
    own = "[$CHF] #,##0.00"
    style = [(0xE0, struct.pack("<HHH14x", 0, format, 0)) for format in formats]
    start = struct.pack("<HHHHII", 0x600, 5, 0x0DBB, 0x07CC, 0, 0)
    bound = struct.pack("<BBBB", 0, 0, 1, 0) + b"S"
    before = biff((0x809, start), (0x41E, struct.pack("<HHB", 164, len(own), 0) + own.encode()), *style)
    at = len(before) + 4 + 4 + len(bound) + 4
    return (
        before
        + biff((0x85, struct.pack("<I", at) + bound), (0x0A, b""))
        + biff(
            (0x809, struct.pack("<HHHHII", 0x600, 0x10, 0x0DBB, 0x07CC, 0, 0)),
            (0x7D, struct.pack("<HHHHHH", 1, 1, 2000, 0, 1, 0)),  # a hidden column
            (0x208, struct.pack("<HHHHHHI", 3, 0, 5, 255, 0, 0, 0x20)),  # a hidden row
            *(
                text(0, column, words)
                for column, words in enumerate(("Region", "zzz", "Share", "Fee", "Time"))
            ),
            *(text(1, 0, "North"), text(3, 0, "zzz")),
            *(number(1, 2, 1, 0.125), number(1, 3, 2, 1234.5), number(1, 4, 3, 1.5)),
            *(number(2, 2, 1, 0.5), (0x205, struct.pack("<HHHBB", 2, 3, 0, 7, 1))),
            (0xE5, struct.pack("<HHHHH", 1, 1, 2, 0, 0)),
            (0x0A, b""),
        )
    )


def xlsb() -> bytes:
    """As much of a binary workbook as says that it is one."""
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    links = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship'
        f' Id="r" Type="{relation}" Target="xl/workbook.bin"/></Relationships>'
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("_rels/.rels", links)
        archive.writestr("xl/workbook.bin", b"\x83\x01\x00")
    return out.getvalue()


def mail(subject: str = "Moving the store", text: str = "We move it on Monday.\n") -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"] = "Jane Doe <jane@example.org>", "ops@example.org"
    made["Subject"], made["Date"] = subject, "Tue, 03 Nov 2026 10:00:00 +0100"
    made.set_content(text)
    return made


def test_a_presentation_is_read_slide_by_slide():
    deck = Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Rolling back"
    frame = first.placeholders[1].text_frame
    frame.text = "Stop the writers"
    deeper = frame.add_paragraph()
    deeper.text, deeper.level = "and the daemon", 1
    first.notes_slide.notes_text_frame.text = "Takes a minute."
    second = deck.slides.add_slide(deck.slide_layouts[6])
    table = second.shapes.add_table(2, 2, 0, 0, Inches(4), Inches(1)).table
    for at, text in enumerate(("Step", "Owner", "Tag", "Ops")):
        table.cell(at // 2, at % 2).text = text
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "Inside a group"
    deck.slides.add_slide(deck.slide_layouts[6])
    out = io.BytesIO()
    deck.save(out)
    found = extract("a.pptx", out.getvalue())
    assert found.text == (
        "## Slide 1: Rolling back\n\n- Stop the writers\n  - and the daemon\n\nNotes: Takes a minute.\n\n"
        "## Slide 2\n\n| Step | Owner |\n| --- | --- |\n| Tag | Ops |\n\nInside a group"
    )
    assert (found.title, found.language) == ("Rolling back", "markdown")
    assert found.metadata == {"format": "pptx", "slides": 3}


def test_a_spreadsheet_is_read_sheet_by_sheet_with_its_header_above_every_few_rows():
    def build(book):
        sheet = book.add_worksheet("Servers")
        sheet.write_row(0, 0, ["Name", "Since", "Cores", "On"])
        for row in range(1, 101):
            sheet.write_row(row, 0, [f"server-{row:03}" + "x" * 30, None, row, row % 2 == 0])
            sheet.write_datetime(row, 1, datetime(2026, 1, 2), book.add_format({"num_format": "yyyy-mm-dd"}))
        book.add_worksheet("Empty")
        hidden = book.add_worksheet("Secret")
        hidden.write(0, 0, "hidden")
        hidden.hide()

    found = extract("a.xlsx", workbook(build))
    sections = found.text.split("\n\n## ")
    assert sections[0] == "# Servers" and len(sections) == 7
    assert all("| Name | Since | Cores | On |\n" in each for each in sections[1:])
    assert "## Servers, rows 2 to 18" in found.text and "| 2026-01-02 | 100 | True |" in sections[-1]
    assert [line for line in found.text.split("\n") if "server-" in line] == sorted(
        line for line in found.text.split("\n") if "server-" in line
    )
    assert "hidden" not in found.text
    assert found.metadata == {
        "format": "spreadsheet", "sheets": 2, "note": "left out because hidden: 1 sheet"
    }  # fmt: skip


def rows_of(payload: bytes, name: str = "a.xlsx") -> list[list[str]]:
    """The cells of each line of the tables that a file becomes, without the lines below headers."""
    lines = [line for line in extract(name, payload).text.split("\n") if line.startswith("|")]
    rows = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]
    return [row for row in rows if not all(cell == "---" for cell in row)]


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (0.125, "0.0%", "12.5%"),
        (0.5, "0%", "50%"),
        (0.5, '#"%"', "1%"),
        (1234.5, "$#,##0.00", "$1,234.50"),
        (-1234.5, "$#,##0.00_);[Red]($#,##0.00)", "($1,234.50)"),
        (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
        (1234.5, "#,##0.00\\ [$CHF]", "1,234.50 CHF"),
        (0, '_(* #,##0.00_);_(* \\(#,##0.00\\);_(* "-"??_);_(@_)', "-"),
        (2_500_000, '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', "2.5M"),
        (1.5208333333, "[h]:mm", "36:30"),
        (1.5, "[hh]:mm:ss", "36:00:00"),
        (0.0007, "mm:ss.0", "01:00.5"),
        (0.6041666667, "h:mm", "14:30"),
        (0.6041666667, "h:mm AM/PM", "2:30 PM"),
        (46024, "dd/mm/yyyy", "2026-01-02"),
        (46024.4375, "m/d/yy h:mm", "2026-01-02 10:30"),
        (46024, "[$-F800]dddd\\,\\ mmmm\\ dd\\,\\ yyyy", "2026-01-02"),
        (46024, "mmm-yy", "Jan-26"),
        (46024, "mmmm yyyy", "January 2026"),
        (1, "yyyy-mm-dd", "1900-01-01"),
        (61, "yyyy-mm-dd", "1900-03-01"),
        (46024.9999999, "yyyy-mm-dd", "2026-01-03"),
        (1234, "00000", "01234"),
        (5551234567, "(###) ###-####", "(555) 123-4567"),
        (12345.678, "0.00E+00", "1.23E+04"),
        (1.5, "# ?/?", "1 1/2"),
        (0.3, "# ?/8", "2/8"),
        (12.5, '0.0" kg"', "12.5 kg"),
        (1.005, "0.00", "1.01"),
        (-0.01, "0.0", "0.0"),
        (0.1 + 0.2, "General", "0.3"),
        (1234567, "General", "1234567"),
        (7, "@", "7"),
        # what cannot be shown in its format stays what it is
        (-1, "yyyy-mm-dd", "-1"),
        (1e300, "yyyy-mm-dd", "1e+300"),
        (3, "0" * 400, "3"),
    ],
)
def test_a_number_of_a_spreadsheet_is_read_as_its_cell_shows_it(value, code, text):
    def build(book):
        sheet = book.add_worksheet("S")
        sheet.write_row(0, 0, ["What", "Value"])
        sheet.write(1, 0, "it")
        sheet.write_number(1, 1, value, book.add_format({"num_format": code}))

    assert rows_of(workbook(build)) == [["What", "Value"], ["it", text]]


@given(
    st.one_of(
        st.floats(0, 1e14), st.integers(0, 10**9).map(lambda number: number / 1000), st.integers(0, 10**6)
    ),
    st.sampled_from([("0", 0, 0), ("0.00", 2, 0), ("0.0%", 1, 2), ("0.000,", 3, -3)]),
)
def test_a_number_is_rounded_half_up_by_its_15_digits(value, code):
    text, decimals, shift = code
    exact = Decimal(f"{value:.15g}").scaleb(shift).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    assert format_number(value, text) == f"{exact:.{decimals}f}" + "%" * text.count("%")


@given(st.integers(61, 2_000_000), st.integers(0, 86_399), st.sampled_from([0, 0.25, 0.5, 0.75]))
def test_a_time_is_rounded_to_its_second(day, second, part):
    value = day + (second + part) / 86_400
    seconds = (Decimal(repr(value)) * 86_400).quantize(Decimal(1), ROUND_HALF_UP)
    moment = datetime(1899, 12, 30) + timedelta(seconds=int(seconds))
    shown = f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")
    assert format_number(value, "yyyy-mm-dd hh:mm:ss") == shown


def test_the_same_number_in_two_formats_is_shown_in_each():
    def build(book):
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["A", "B", "C"])
        for row in (1, 2):
            sheet.write(row, 0, 0.5)
            for column, code in ((1, "0%"), (2, "0.00")):
                sheet.write(row, column, 0.5, book.add_format({"num_format": code}))

    assert rows_of(workbook(build))[1:] == [["0.5", "50%", "0.50"]] * 2


def test_days_of_an_old_macintosh_are_counted_from_1904():
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"date_1904": True}) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["What", "Day"])
        sheet.write(1, 0, "it")
        sheet.write_datetime(1, 1, datetime(2026, 1, 2), book.add_format({"num_format": 14}))
    assert rows_of(out.getvalue())[1] == ["it", "2026-01-02"]


def test_a_title_above_a_table_is_no_header_and_merged_cells_are_in_all_their_rows():
    def build(book):
        sheet = book.add_worksheet("Rates")
        sheet.merge_range("A1:C1", "Rates of 2026")
        sheet.write(1, 0, "Without VAT")
        sheet.write_row(3, 0, ["Region", "City", "Rate"])
        sheet.merge_range("A5:A6", "North")
        sheet.write_row(4, 1, ["Bern", 7])
        sheet.write_row(5, 1, ["Basel", 8])

    assert extract("a.xlsx", workbook(build)).text == (
        "# Rates\n\nRates of 2026\nWithout VAT\n\n## Rates, rows 5 to 6\n\n| Region | City | Rate |\n"
        "| --- | --- | --- |\n| North | Bern | 7 |\n| North | Basel | 8 |"
    )


@pytest.mark.parametrize(
    ("csv", "header"),
    [
        ("Fees of 2026\n\nCity;Fee\nBern;7\n", "| City | Fee |"),
        ("Made for:,Ann\nMade on:,Monday\n\nCity,Fee,Note\nBern,7,x\n", "| City | Fee | Note |"),
        ("City\nBern,7\nBasel,8\n", "| City |  |"),  # a header that is short
        ("Name\nAnn\nBob,ill\nCy\nDee\n", "| Name |  |"),
        ("City,Fee\n\nBern,7\n", "| City | Fee |"),
    ],
)
def test_the_header_is_the_first_row_of_the_table_and_not_a_line_above_it(csv, header):
    text = extract("a.csv", csv.encode()).text
    assert text.partition("\n| ---")[0].rpartition("\n")[2] == header
    assert all(word in text for word in re.findall(r"\w+", csv))


def test_what_is_hidden_in_a_workbook_is_left_out_and_counted():
    def build(book):
        sheet = book.add_worksheet("Staff")
        sheet.write_row(0, 0, ["Name", "Salary", "Team", "Room"])
        for row in range(1, 5):
            sheet.write_row(row, 0, [f"name{row}", 900 + row, "ops", "B2"])
        sheet.set_column(1, 1, None, None, {"hidden": True})
        sheet.set_column(9, 99, None, None, {"hidden": True})  # where nothing is
        sheet.set_row(2, None, None, {"hidden": True})
        sheet.set_row(3, None, None, {"hidden": True})
        sheet.write_comment("B2", "a raise")
        book.add_worksheet("Old").hide()

    found = extract("a.xlsx", workbook(build))
    assert rows_of(workbook(build)) == [
        ["Name", "Team", "Room"], ["name1", "ops", "B2"], ["name4", "ops", "B2"]
    ]  # fmt: skip
    assert found.metadata["note"] == "left out because hidden: 1 column, 2 rows, 1 sheet"
    assert "raise" not in found.text


def test_comments_text_boxes_links_errors_and_formulas_without_a_value_are_read():
    def build(book):
        sheet = book.add_worksheet("Plan")
        sheet.write_row(0, 0, ["Step", "Doc", "Cost", "Check"])
        sheet.write(1, 0, "Move")
        sheet.write_url(1, 1, "https://example.org/plan", string="Plan")
        sheet.write_formula(1, 2, "=SUM(A1:A9)", None, "")
        sheet.write_formula(1, 3, "=1/0", None, "#DIV/0!")
        sheet.write_row(2, 0, ["Stay", "", 7])
        sheet.write_formula(2, 1, '=HYPERLINK("https://example.org/stay","Stay")', None, "Stay")
        sheet.write_comment("A2", "Ask first", {"author": "Jane"})
        sheet.insert_textbox("F2", "Prices without VAT")

    found = extract("a.xlsx", workbook(build))
    assert found.text == (
        "# Plan\n\n## Plan, rows 2 to 3\n\n| Step | Doc | Cost | Check |\n| --- | --- | --- | --- |\n"
        "| Move | [Plan](https://example.org/plan) | =SUM(A1:A9) | #DIV/0! |\n"
        "| Stay | [Stay](https://example.org/stay) | 7 |  |\n\nPrices without VAT\n\n"
        "## Plan, comments\n\n- A2: Jane: Ask first"
    )
    assert found.metadata["note"] == "1 formula without a stored value"


_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8ffff3f0005fe02fe"
    "0def46b80000000049454e44ae426082"
)


def sales(book) -> None:
    """A sheet with a chart, and with two pictures of which one is described."""
    sheet = book.add_worksheet("Sales")
    sheet.write_row(0, 0, ["Region", "Net", "Share"])
    for row, cells in enumerate((("North", 70, 0.7), ("South", 30, 0.3)), 1):
        sheet.write_row(row, 0, cells)
    chart = book.add_chart({"type": "column"})
    for at, name in enumerate(("Net", "Share"), 1):
        chart.add_series(
            {"name": name, "categories": ["Sales", 1, 0, 2, 0], "values": ["Sales", 1, at, 2, at]}
        )
    chart.set_title({"name": "Sales by region"})
    chart.set_x_axis({"name": "Where"})
    chart.set_y_axis({"name": "CHF"})
    sheet.insert_chart("F2", chart, {"description": "The north leads"})
    for place, about in (("F30", {"description": "A map"}), ("F40", {"decorative": True})):
        sheet.insert_image(place, "map.png", {"image_data": io.BytesIO(_PIXEL), **about})


def test_charts_and_described_pictures_of_a_sheet_are_text_of_it():
    found = extract("a.xlsx", workbook(sales))
    assert found.text.partition("| South | 30 | 0.3 |\n\n")[2] == (
        "Picture: A map\n\nChart: The north leads\n\nChart: Sales by region\nValues: CHF\n\n"
        "| Where | Net | Share |\n| --- | --- | --- |\n| North | 70 | 0.7 |\n| South | 30 | 0.3 |"
    )
    assert found.metadata["note"] == "parts not read: 1 picture"


def test_a_broken_chart_of_a_sheet_costs_itself_and_is_counted():
    found = extract("a.xlsx", replaced(workbook(sales), "xl/charts/chart1.xml", b"<x"))
    assert found.text.endswith("| South | 30 | 0.3 |\n\nPicture: A map\n\nChart: The north leads")
    assert found.metadata["note"] == "parts not read: 1 chart, 1 picture"


def test_a_diagram_of_a_sheet_is_read_and_a_drawing_of_another_kind_counted():
    names = {"dgm": "diagram", "a": "main"}
    spaces = " ".join(
        f'xmlns:{name}="http://schemas.openxmlformats.org/drawingml/2006/{of}"' for name, of in names.items()
    )
    point = '<dgm:pt modelId="{0}"><dgm:t><a:p><a:r><a:t>{1}</a:t></a:r></a:p></dgm:t></dgm:pt>'
    points = point.format(1, "Plan") + point.format(2, "Build")
    diagram = f'<dgm:dataModel {spaces}>{points}<dgm:cxn srcId="1" destId="2"/></dgm:dataModel>'
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    frame = "<xdr:graphicFrame><a:graphic><a:graphicData>{0}</a:graphicData></a:graphic></xdr:graphicFrame>"
    shown = frame.format('<dgm:relIds r:dm="rId1"/>') + frame.format('<x:slicer xmlns:x="urn:x"/>')
    drawing = (
        f'<xdr:wsDr xmlns:xdr="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing" {spaces}'
        f' xmlns:r="{relation}">{shown}</xdr:wsDr>'
    )
    links = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship'
        f' Id="rId1" Type="{relation}/diagramData" Target="..\\charts\\chart1.xml"/></Relationships>'
    )
    payload = workbook(sales)
    parts = {
        "drawings/drawing1.xml": drawing,
        "drawings/_rels/drawing1.xml.rels": links,
        "charts/chart1.xml": diagram,
    }
    for name, content in parts.items():
        payload = replaced(payload, f"xl/{name}", content.encode())
    found = extract("a.xlsx", payload)
    assert found.text.endswith("\n\n- Plan\n  - Build")
    assert found.metadata["note"] == "parts not read: 1 drawing"


def test_damaged_relations_of_a_sheet_are_counted():
    found = extract("a.xlsx", replaced(workbook(sales), "xl/worksheets/_rels/sheet1.xml.rels", b"<x"))
    assert "| North | 70 | 0.7 |" in found.text
    assert found.metadata["note"] == "parts not read: 1 list of relations"


def replaced(payload: bytes, name: str, content: bytes) -> bytes:
    """A file of Office with another content of one part."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as before, zipfile.ZipFile(out, "w") as after:
        for part in before.namelist():
            after.writestr(part, content if part == name else before.read(part))
    return out.getvalue()


def test_a_spreadsheet_of_opendocument_is_read_as_it_is_seen():
    hidden = '<style:style style:name="gone"><style:table-properties table:display="false"/></style:style>'
    cell = "<table:table-cell table:number-rows-spanned='2' table:number-columns-spanned='1'>"
    rows = (
        "<table:table-column/><table:table-column table:visibility='collapse'/>"
        "<table:table-column table:number-columns-repeated='16382'/>"
        + ods_row("Rates of 2026")
        + ods_row("Region", "Secret", "Share", "Time", "Day", "Sum", "Link")
        + f"<table:table-row>{cell}<office:annotation><dc:creator>Jane</dc:creator>"
        "<text:p>Ask<text:s/>first</text:p></office:annotation><text:p>North</text:p></table:table-cell>"
        "<table:table-cell><text:p>zzz</text:p></table:table-cell>"
        "<table:table-cell office:value-type='percentage' office:value='.125'><text:p>12.5%</text:p>"
        "</table:table-cell>"
        "<table:table-cell office:value-type='time'><text:p>36:30</text:p></table:table-cell>"
        "<table:table-cell office:value-type='date' office:date-value='2026-01-02T00:00:00'>"
        "<text:p>2.1.</text:p></table:table-cell>"
        "<table:table-cell table:formula='of:=SUM([.A1:.A2])' office:value-type='float'/>"
        "<table:table-cell><text:p><text:a xlink:href='https://example.org'>Docs</text:a></text:p>"
        "</table:table-cell></table:table-row>"
        "<table:table-row><table:covered-table-cell/><table:table-cell/><table:table-cell><text:p>50%</text:p>"
        "<draw:frame><draw:text-box><text:p>Without VAT</text:p></draw:text-box></draw:frame>"
        "</table:table-cell>"
        "<table:table-cell table:number-columns-repeated='16380'/></table:table-row>"
        + ods_row("x", more="table:visibility='filter'")
        + "<table:table-row table:number-rows-repeated='1048571'><table:table-cell/></table:table-row>"
    )
    found = extract("a.ods", ods_of(rows, hidden))
    assert found.text == (
        "# S\n\nRates of 2026\n\n## S, rows 3 to 4\n\n| Region | Share | Time | Day | Sum | Link |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| North | 12.5% | 36:30 | 2026-01-02 | =SUM([.A1:.A2]) | [Docs](https://example.org) |\n"
        "| North | 50% |  |  |  |  |\n\nWithout VAT\n\n## S, comments\n\n- A3: Jane: Ask first"
    )
    assert found.metadata["note"] == (
        "left out because hidden: 1 column, 1 row, 1 sheet; 1 formula without a stored value"
    )


def test_a_workbook_of_excel_97_is_read_as_it_is_seen():
    assert rows_of(xls(), "a.xls") == [
        ["Region", "Share", "Fee", "Time"],
        ["North", "12.50%", "CHF 1,234.50", "36:00:00"],
        ["North", "50.00%", "#DIV/0!", ""],
    ]
    assert extract("a.xls", xls()).metadata["note"] == "left out because hidden: 1 column, 1 row"


def test_rows_that_a_spreadsheet_repeats_a_million_times_are_cut():
    text = ods_row("City") + ods_row("Bern" * 9, more="table:number-rows-repeated='1048575'")
    found = extract("a.ods", ods_of(text))
    assert 500_000 < len(found.text) <= 1_000_000
    assert (
        "its tables are too long" in found.metadata["note"] and "out of proportion" in found.metadata["note"]
    )


def test_a_workbook_of_which_nothing_is_visible_is_skipped_with_the_reason():
    def build(book):
        sheet = book.add_worksheet("S")
        sheet.write(0, 0, "x")
        sheet.set_row(0, None, None, {"hidden": True})

    with pytest.raises(
        DocumentSkipped, match=r"^spreadsheet without visible text; left out because hidden: 1 row$"
    ):
        extract("a.xlsx", workbook(build))


def test_one_cell_in_the_last_corner_is_read_like_its_neighbour():
    assert extract("a.xlsx", sparse_workbook(1_048_575, 16_383)).text == (
        "# Corners\n\n## Corners, row 1048576\n\n| first |  |\n| --- | --- |\n|  | last |"
    )


@pytest.mark.parametrize("part", ["xl/styles.xml", "xl/worksheets/sheet2.xml", "xl/comments1.xml"])
def test_a_broken_part_of_a_workbook_costs_itself(part):
    def build(book):
        sheet = book.add_worksheet("Good")
        sheet.write_row(0, 0, ["City", "Rate"])
        sheet.write_row(1, 0, ["Bern", 7.5])
        sheet.write_comment("A2", "Ask")
        book.add_worksheet("Other").write(0, 0, "more")

    found = extract("a.xlsx", replaced(workbook(build), part, b"<x"))
    assert "| Bern | 7.5 |" in found.text
    reasons = {
        "xl/worksheets/sheet2.xml": "parts not read: 1 sheet",
        "xl/comments1.xml": "parts not read: 1 list of comments",
    }
    assert found.metadata.get("note") == reasons.get(part)


def test_merged_cells_that_overlap_take_no_longer_than_others():
    def build(book):
        sheet = book.add_worksheet()
        for row in range(3_000):
            sheet.write(row, 0, "x")

    plain = workbook(build)
    merges = "".join(f'<mergeCell ref="A{row}:XFD1048576"/>' for row in range(1, 3_000)).encode()
    with zipfile.ZipFile(io.BytesIO(plain)) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
    sheet = sheet.replace(b"</sheetData>", b"</sheetData><mergeCells>" + merges + b"</mergeCells>")
    text = extract("a.xlsx", replaced(plain, "xl/worksheets/sheet1.xml", sheet)).text
    assert text.count("| x |") >= 3_000


@pytest.mark.parametrize(
    ("name", "payload", "text"),
    [
        ("a.ods", ods(), "# Rates\n\n## Rates, row 2\n\n| City | Rate |\n| --- | --- |\n| Bern | 7.5 |"),
        (
            "a.csv",
            b"City;Note\nBern;a, b\n",
            "## Table, row 2\n\n| City | Note |\n| --- | --- |\n| Bern | a, b |",
        ),
        (
            "a.tsv",
            b"City\tRate\n\nBern\t7\n",
            "## Table, row 3\n\n| City | Rate |\n| --- | --- |\n| Bern | 7 |",
        ),
        (
            "a.csv",
            b'a,b\n"one\ntwo",x|y\n',
            "## Table, row 2\n\n| a | b |\n| --- | --- |\n| one two | x\\|y |",
        ),
        ("a.csv", b"only\n", "## Table, row 1\n\n| only |\n| --- |"),
        ("a.csv", b"\ra;b\r1;2", "## Table, row 3\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"),
    ],
)
def test_tables_are_read_whatever_they_are_stored_in(name, payload, text):
    assert extract(name, payload).text == text


def test_a_table_that_is_a_dump_of_data_is_cut_and_says_so():
    found = extract("a.csv", b"number,text\n" + b"".join(b"%d,%s\n" % (n, b"x" * 99) for n in range(20_000)))
    assert 1_000_000 < len(found.text) < 1_300_000 and "cut" in found.metadata["note"]


def test_a_mail_is_read_with_its_headers_and_what_it_attaches():
    message = mail()
    message.add_alternative("<p>We <b>move</b> it</p>", subtype="html")
    message.add_attachment(pdf("The plan"), maintype="application", subtype="pdf", filename="plan.pdf")
    message.add_attachment(b"\0\1", maintype="application", subtype="x", filename="core.bin")
    found = extract("a.eml", message.as_bytes())
    assert found.text == (
        "# Moving the store\n\nFrom: Jane Doe <jane@example.org>  \nTo: ops@example.org  \n"
        "Date: Tue, 03 Nov 2026 10:00:00 +0100\n\nWe move it on Monday.\n\n"
        "### Attachment: plan.pdf\n\nThe plan\n\nAttachment: core.bin (not read: binary file)"
    )
    assert (found.title, found.author) == ("Moving the store", "Jane Doe")
    assert found.last_modified == datetime(2026, 11, 3, 9, tzinfo=UTC)


def test_a_mailbox_has_a_section_for_each_message():
    page = mail("A page", "")
    page.clear_content()
    page.set_content("<h1>Hello</h1><script>no()</script>", subtype="html")
    payload = b"".join(
        b"From jane Tue Nov  3 10:00:00 2026\n" + each.as_bytes() + b"\n" for each in (mail(), page)
    )
    found = extract("a.mbox", payload)
    assert [line for line in found.text.split("\n") if line.startswith("#")] == [
        *("## Moving the store", "## A page", "# Hello"),
    ]
    assert found.metadata == {"format": "mbox", "messages": 2} and "no()" not in found.text


@pytest.mark.parametrize(
    ("name", "payload", "reason"),
    [
        ("a.pptx", b"no zip", "^not a PPTX file, though its name says so$"),
        ("a.pptx", b"\xd0\xcf\x11\xe0" + bytes(600), "^an old PPT file under the name of a PPTX"),
        ("a.pptx", presentation(a="b")[:-300], "^broken PPTX"),
        ("a.pptx", word(lambda document: document.add_paragraph("text")), "^broken PPTX"),
        ("a.pptx", presentation(), "^PPTX without text$"),
        ("a.xlsx", b"no zip", "^not a spreadsheet|^broken spreadsheet"),
        ("a.xlsx", ods()[:-40], "^broken spreadsheet"),
        ("a.xlsx", presentation(a="b"), r"^broken spreadsheet \(it holds something else\)$"),
        ("a.xlsb", xlsb(), "^broken spreadsheet"),
        ("a.xls", xls()[:20] + biff((0x2F, bytes(6))) + xls()[20:], "^encrypted with a password$"),
        ("a.xls", b"\xd0\xcf\x11\xe0" + bytes(600), r"^broken spreadsheet \(its parts cannot be read\)$"),
        ("a.xlsx", workbook(lambda book: book.add_worksheet("x")), "^empty$"),
        ("a.csv", b'a,b\n"' + b"x" * 21_000_000, "^broken CSV"),
        ("a.csv", b"\0\1", "^binary file$"),
        ("a.eml", b"no header at all", "^not an e-mail, though its name says so$"),
        ("a.mbox", b"Subject: x\n\ntext", "^not an MBOX file, though its name says so$"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_skipped_with_the_reason(name, payload, reason):
    with pytest.raises(DocumentSkipped, match=reason):
        extract(name, payload)


def test_lists_made_with_the_buttons_of_word_are_lists():
    def build(document):
        for style, texts in (("List Bullet", ("one", "two")), ("List Number", ("first", "second"))):
            number = document.styles[style].element.pPr.numPr.numId.val
            for text in texts:
                paragraph = document.add_paragraph(text, style="Normal")
                properties = paragraph._p.get_or_add_pPr().get_or_add_numPr()
                properties.get_or_add_numId().val = number
                properties.get_or_add_ilvl().val = 0
            document.add_paragraph("Between")

    assert extract("a.docx", word(build)).text == "- one\n- two\n\nBetween\n\n1. first\n2. second\n\nBetween"


def test_the_worker_reads_them_as_the_function_does():
    worker = ExtractionWorker()
    try:
        for name, payload in (
            ("a.eml", mail().as_bytes()),
            ("a.ods", ods()),
            ("a.pptx", presentation(a="b")),
        ):
            assert worker(name, payload) == extract(name, payload)
    finally:
        worker.close()


def test_what_an_extra_reads_is_read_again_when_it_is_installed():
    parsers = extraction_version("a.docx").partition("+")[2]
    assert re.fullmatch(rf"\d+\+{re.escape(parsers)}\+[\d.]+", extraction_version("a.xlsb"))
    assert extraction_version("a.pptx") != extraction_version("a.xlsx")


def test_without_the_extra_the_reason_names_it_and_newer_workbooks_are_read(monkeypatch):
    for module in ("python_calamine", "xlrd"):
        monkeypatch.setitem(sys.modules, module, None)
    for module in ("spreadsheet", "calamine", "xls"):
        monkeypatch.delitem(sys.modules, f"knowledge_pipeline.extraction.{module}", raising=False)
    with pytest.raises(DocumentSkipped, match=r"reading XLS files needs .*knowledge-pipeline\[office\]"):
        extract("a.xls", xls())
    with pytest.raises(DocumentSkipped, match=r"reading XLSB files needs .*knowledge-pipeline\[office\]"):
        extract("a.xlsb", xlsb())
    assert extract("a.ods", ods()).text and extract("a.xlsx", workbook(sales)).text


def test_a_folder_of_them_is_indexed_and_found(project, tmp_path: Path):
    folder = tmp_path / "office"
    folder.mkdir()
    (folder / "plan.pptx").write_bytes(presentation(Migration="Move the ledger to Basel"))
    (folder / "rates.csv").write_text("city,rate\nBasel,7\n")
    (folder / "note.eml").write_bytes(mail().as_bytes())
    project.declare("office", "files", folder)
    project.refresh()
    with KnowledgeBase(project.settings) as base:
        assert {each.citation.path for each in base.search("Basel").results} >= {"plan.pptx", "rates.csv"}
