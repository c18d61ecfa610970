"""Presentations, spreadsheets, CSV, e-mail, and the lists of Word documents."""

from __future__ import annotations

import io
import re
import zipfile
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest
import xlsxwriter
from pptx import Presentation
from pptx.util import Inches

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extract, extraction_version
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
    assert found.metadata == {"format": "spreadsheet", "sheets": 2}


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
        ("a.pptx", b"\xd0\xcf\x11\xe0" + bytes(600), "^encrypted PPTX, or an old PPT file under its name$"),
        ("a.pptx", presentation(a="b")[:-300], "^broken PPTX"),
        ("a.pptx", word(lambda document: document.add_paragraph("text")), "^broken PPTX"),
        ("a.pptx", presentation(), "^PPTX without text$"),
        ("a.xlsx", b"no zip", "^not a spreadsheet|^broken spreadsheet"),
        ("a.xlsx", ods()[:-40], "^broken spreadsheet"),
        ("a.xlsx", presentation(a="b"), "^broken spreadsheet"),
        ("a.xlsx", workbook(lambda book: book.add_worksheet("x")), "^empty$"),
        ("a.csv", b'a,b\n"' + b"x" * 200_000, "^broken CSV"),
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

    assert extract("a.docx", word(build)).text == "- one\n- two\n\nBetween\n\n1. first\n1. second\n\nBetween"


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
    assert extraction_version("a.xlsx").startswith(extraction_version("a.pdf") + "+")
    assert extraction_version("a.pptx") != extraction_version("a.xlsx")


def test_without_the_extra_the_reason_names_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    monkeypatch.delitem(__import__("sys").modules, "knowledge_pipeline.extraction.office", raising=False)
    with pytest.raises(DocumentSkipped, match=r"reading ODS files needs .*knowledge-pipeline\[office\]"):
        extract("a.ods", ods())


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
