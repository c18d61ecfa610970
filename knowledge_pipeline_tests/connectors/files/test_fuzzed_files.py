"""Broken and hostile files: text, or one sentence why not; never another error, and never for long."""

from __future__ import annotations

import io
import zlib
from contextlib import closing
from functools import cache
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from knowledge_pipeline.errors import DocumentSkipped, ParserEnded
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline.extraction.worker import ExtractionWorker
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.connectors.files import test_docx_properties as words
from knowledge_pipeline_tests.connectors.files import test_office as office
from knowledge_pipeline_tests.connectors.files import test_office_parts as parts
from knowledge_pipeline_tests.connectors.files import test_pdf_properties as pages
from knowledge_pipeline_tests.connectors.files.test_extraction import PAGE
from knowledge_pipeline_tests.thoroughness import examples

_PARAGRAPH = words.written("A paragraph of words").xml


@cache
def good(kind: str) -> bytes:
    """A file that is as it should be."""
    if kind == "html":
        return PAGE.encode()
    if kind == "docx":
        table = f"<w:tbl><w:tr>{f'<w:tc><w:p>{_PARAGRAPH}</w:p></w:tc>' * 2}</w:tr></w:tbl>"
        return words.word(
            f"<w:p>{_PARAGRAPH}<w:hyperlink r:id='rLink1'>{_PARAGRAPH}</w:hyperlink></w:p>{table}"
        )
    shown = ("(First line) Tj", "[(Sec) -20 (ond)] TJ")
    return pages.pdf(pages.Page(shown, "", ("http://b.example/",)), pages.Page(shown, ""), compressed=True)


@cache
def part_of_word() -> bytes:
    with ZipFile(io.BytesIO(good("docx"))) as archive:
        return archive.read("word/document.xml")


def with_part(payload: bytes, name: str = "word/document.xml") -> bytes:
    """The good Word file with another part in it."""
    out = io.BytesIO()
    with ZipFile(io.BytesIO(good("docx"))) as archive, ZipFile(out, "w", ZIP_DEFLATED) as written:
        for each in archive.namelist():
            written.writestr(each, payload if each == name else archive.read(each))
    return out.getvalue()


def body(xml: str) -> bytes:
    return words.word(xml)


def stream_pdf(encoded: bytes, filters: str = "/FlateDecode") -> bytes:
    """A PDF whose one page shows what a stream decodes to, without a table of its objects."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << >> /MediaBox [0 0 9 9] >>",
        f"<< /Length {len(encoded)} /Filter {filters} >>\nstream\n".encode() + encoded + b"\nendstream",
    ]
    written = b"".join(b"%d 0 obj\n%s\nendobj\n" % (at, each) for at, each in enumerate(objects, 1))
    return b"%PDF-1.7\n" + written + b"trailer << /Root 1 0 R /Size 5 >>\n%%EOF"


def told(name: str, payload: bytes) -> str:
    """The text, or why there is none; both can be stored and shown."""
    try:
        found = extract(name, payload)
    except DocumentSkipped as reason:
        said = str(reason)
        assert said.strip()
        assert "Traceback" not in said
        said.encode()
        return f"skipped: {said}"
    for text in (found.text, found.title):
        assert "\0" not in text
        assert text.encode().decode() == text
    return found.text


@st.composite
def spoilt(draw, payload: bytes, shards: tuple[bytes, ...]) -> bytes:
    """A file cut, flipped, doubled and mixed with what means something in its format."""
    made = bytearray(payload)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(made) - 1)))
        match draw(st.sampled_from(["cut", "flip", "drop", "insert", "double"])):
            case "cut":
                del made[max(1, at) :]
            case "flip":
                made[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case "drop":
                del made[at : at + draw(st.integers(1, 200))]
            case "insert":
                made[at:at] = draw(st.sampled_from(shards) | st.binary(max_size=8))
            case _:
                made[at:at] = made[at : at + draw(st.integers(1, 400))]
    return bytes(made)


def _workbook() -> bytes:
    def build(book):
        sheet = book.add_worksheet("a")
        sheet.merge_range(0, 0, 1, 1, "x")
        sheet.write_row(2, 0, ["a", 1, 2.5], book.add_format({"num_format": "yyyy-mm-dd"}))
        sheet.write_url(3, 0, "https://example.org")
        sheet.write_comment(3, 0, "note")

    return office.workbook(build)


_SHEET = "xl/worksheets/sheet1.xml"


def sheet_of_workbook() -> bytes:
    with ZipFile(io.BytesIO(_workbook())) as archive:
        return archive.read(_SHEET)


def with_sheet(sheet: bytes) -> bytes:
    return office.replaced(_workbook(), _SHEET, sheet)


_OF_HTML = (b"<", b">", b"</", b"<!--", b"-->", b"<![CDATA[",
            b"<table><tr><td rowspan=99999 colspan=99999>", b"&#0;", b"&#xD800;", b"<a href=",
            b"<ol start=-9>", b"<wbr>", b"<pre>", b"<main>", b"<title>", b"\x0b", b"\xff",
            b"<?xml version='1.0' encoding='utf-16'?>", b"<meta charset=undefined>",
            b"<meta charset=raw_unicode_escape>\xff", b"<b>" * 50, b"<td>", b"<li>",
            b"<plaintext>", b"<script>", b"<body>", b"<html>")  # fmt: skip
_OF_WORD = (b"<w:p>", b"</w:p>", b"<w:tbl/>", b"<w:tbl><w:tr/></w:tbl>", b"<w:tc/>",
            b"<w:tr><w:tc/></w:tr>", b"<w:r><w:fldChar w:fldCharType='begin'/></w:r>",
            b"<w:hyperlink r:id='none'/>", b"<w:gridSpan w:val='-1'/>", b"<w:pStyle/>",
            b"<!-- -->", b"<?x y?>", b"<mc:AlternateContent/>", b"&x;",
            b"<w:footnoteReference/>", b"<w:sdt/>", b"<w:txbxContent/>", b"<w:drawing/>")  # fmt: skip
_OF_PDF = (b"<<", b">>", b"[", b"]", b"obj", b"endobj", b"stream", b"endstream", b"xref",
           b"trailer", b" 0 R", b"/Kids", b"/Count 9999999999", b"/Parent 1 0 R", b"-1", b"(",
           b")", b"%", b"/Length 99999999", b"startxref\n0", b"/Filter /LZWDecode",
           b"/Filter [/FlateDecode /FlateDecode]", b"/Encrypt 1 0 R", b"BI ID EI")  # fmt: skip
_OF_ZIP = (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"\xff\xff\xff\xff")
_OF_MAIL = (
    b"\n\n",
    b"\n ",
    b"Content-Type: multipart/mixed; boundary=x\n",
    b"--x\n",
    b"--x--\n",
    b"=?utf-8?q?=ff?=",
    b"Content-Transfer-Encoding: base64\n",
    b"charset=none\n",
    b"Date: x\n",
    b"From: <<@\n",
    b"\xff",
    b"\0",
    b"Content-Type: text/html; charset=x\n",
    b"filename*=utf-8''%ff\n",
    b"To: a:b;c\n",
)
_OF_SHEET = (
    *(b"<c/>", b"<c r='ZZZZ9' s='99'/>", b"<c t='s'><v>9</v></c>", b"<v>1e999</v>", b"<f/>", b"<v/>", b"nan"),
    *(b"<row r='99999999'><c><v>1</v></c></row>", b"<row hidden='1'/>", b"<c s='1'><v>-1</v></c>"),
    *(
        b"<cols><col min='9' max='1' hidden='1'/></cols>",
        b"<cols><col min='1' max='99999' hidden='1'/></cols>",
    ),
    *(
        b"<mergeCell ref='A1:XFD1048576'/>",
        b"<mergeCell ref=''/>",
        b"<hyperlink ref='A1:B2'/>",
        b"<drawing/>",
    ),
    *(b"<!-- -->", b"<?x y?>", b"&x;", b"<c t='inlineStr'><is><t>x</t></is></c>"),
)
_QUICK = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
_ANY = st.tuples(st.sampled_from(["a.html", "a.docx", "a.pdf"]), st.binary(max_size=200))
_STARTS = {"a.html": b"<p>", "a.docx": b"PK\x03\x04", "a.pdf": b"%PDF-1.7\n"}
_SPOILT = {
    "html": ("a.html", spoilt(good("html"), _OF_HTML)),
    "word": (
        "a.docx",
        spoilt(good("docx"), _OF_ZIP),
    ),
    "part": ("a.docx", spoilt(part_of_word(), _OF_WORD).map(with_part)),
    "pdf": ("a.pdf", spoilt(good("pdf"), _OF_PDF)),
    "mail": ("a.eml", spoilt(office.mail().as_bytes(), _OF_MAIL)),
}
_SPOILT_OFFICE = {
    "presentation": ("a.pptx", spoilt(office.presentation(a="b"), _OF_ZIP)),
    "spreadsheet": (
        "a.xlsx",
        spoilt(office.workbook(lambda book: book.add_worksheet("a").write(0, 0, 1)), _OF_ZIP),
    ),
    "sheet": ("a.xlsx", spoilt(sheet_of_workbook(), _OF_SHEET).map(with_sheet)),
    "xls": ("a.xls", spoilt(office.xls(), (b"\xff\xff", b"\0\0", b"\x09\x08", b"\xe5\0"))),
    "ods": ("a.ods", spoilt(office.ods(), _OF_ZIP)),
    "csv": ("a.csv", spoilt(b'a;b\n1;"2"\n', (b'"', b";", b",", b"\n", b"\r", b"\0"))),
}


@pytest.mark.parametrize(
    "kind", [*_SPOILT, *(pytest.param(kind, marks=pytest.mark.slow) for kind in _SPOILT_OFFICE)]
)
def test_a_spoilt_file_gives_text_or_the_reason(kind):
    name, payloads = (_SPOILT | _SPOILT_OFFICE)[kind]

    @settings(_QUICK, max_examples=examples(200, few=8))
    @given(payloads)
    def check(payload):
        told(name, payload)

    check()


@_QUICK
@given(_ANY, st.booleans())
@example(("a.html", b"<meta charset=undefined><p>\xff"), False)
@example(("a.html", b"<meta charset=raw_unicode_escape><p>\xff \\ud800"), False)
@example(("a.txt", b"# coding: raw_unicode_escape\n\xff \\ud800"), False)
@example(("a.txt", b"# coding: undefined\n\xff"), False)
@example(("a.html", "<ol start='²'><li>a</ol><table><tr><td colspan='²'>b".encode()), False)
def test_bytes_of_any_kind_give_text_or_the_reason(drawn, started):
    name, payload = drawn
    told(name, _STARTS[name] + payload if started else payload)


def claiming(size: int) -> bytes:
    """A Word file one part of which unpacks to 300 MB, and says that it unpacks to less."""
    out = io.BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open("word/document.xml", "w") as part:
            for _ in range(300):
                part.write(bytes(1_000_000))
    packed, true = out.getvalue(), (300_000_000).to_bytes(4, "little")
    assert packed.count(true) >= 1
    return packed.replace(true, size.to_bytes(4, "little"))


_TEN = {at: f"&l{at - 1};" * 10 for at in range(1, 10)}
_LAUGHS = "".join(f'<!ENTITY l{at} "{ten}">' for at, ten in _TEN.items())
_OPENED = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
_OPENED += "<w:p><w:r><w:t>It says "
_CLOSED = "</w:t></w:r></w:p></w:body></w:document>"
_BOMBS = {
    "lying.docx": lambda: claiming(1000),
    "laughs.docx": lambda: with_part(
        f'<!DOCTYPE x [<!ENTITY l0 "ha">{_LAUGHS}]>{_OPENED}&l9;{_CLOSED}'.encode()
    ),
    "reader.docx": lambda: with_part(
        f'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///proc/self/environ">]>{_OPENED}&f;{_CLOSED}'.encode()
    ),
    "deep.docx": lambda: body(
        "<w:sdt><w:sdtContent>" * 20_000 + "<w:p/>" + "</w:sdtContent></w:sdt>" * 20_000
    ),
    "nested.docx": lambda: body(
        "<w:tbl><w:tr><w:tc>" * 70 + f"<w:p>{_PARAGRAPH}</w:p>" + "</w:tc></w:tr></w:tbl>" * 70
    ),
    "wide.docx": lambda: body(
        "<w:tbl>"
        + "<w:tr><w:tc><w:tcPr><w:gridSpan w:val='99999'/></w:tcPr></w:tc></w:tr>" * 20_000
        + "</w:tbl>"
    ),
    "styles.docx": lambda: parts.packed(
        parts.word_parts(
            parts.styled("Text", "S0") * 2_000,
            styles_xml=parts.xml(
                "w:styles",
                "".join(
                    f'<w:style w:styleId="S{at}"><w:basedOn w:val="S{at + 1}"/></w:style>'
                    for at in range(20_000)
                ),
            ),
        )
    ),
    "often.docx": lambda: parts.packed(
        parts.word_parts(
            "".join(parts.drawing(f'<c:chart r:id="r{at}"/>') for at in range(5_000)),
            {f"r{at}": ("chart", "chart1.xml") for at in range(5_000)},
            chart1_xml=parts.xml(
                "c:chartSpace",
                "<c:chart><c:plotArea><c:ser><c:val>"
                + "".join(f'<c:pt idx="{at}"><c:v>1</c:v></c:pt>' for at in range(100_000))
                + '<c:pt idx="999999999"><c:v>1</c:v></c:pt></c:val></c:ser></c:plotArea></c:chart>',
            ),
        )
    ),
    "numbers.docx": lambda: parts.packed(
        parts.word_parts(
            parts.item("Text") * 20_000,
            numbering_xml=parts.numbering(("upperRoman", "%1" * 50)).replace(
                b'<w:start w:val="1"/>', b'<w:start w:val="999999999"/>'
            ),
        )
    ),
    "groups.pptx": lambda: parts.packed(
        parts.deck_parts("<p:grpSp>" * 240 + parts.box(parts.line("Text")) + "</p:grpSp>" * 240)
    ),
    "notes.pptx": lambda: parts.packed(
        parts.deck_parts(
            parts.box(parts.line("Text")),
            {f"r{at}": ("notesSlide", "notes.xml") for at in range(5_000)},
            notes_xml=parts.xml("p:notes", parts.box(parts.line("Note") * 20_000, 'type="body"')),
        )
    ),
    "deep.html": lambda: b"<div>" * 30_000 + b"text",
    "bold.html": lambda: b"<b><i>" * 10_000 + b"text",
    "tables.html": lambda: b"<table><tr><td>" * 20_000 + b"text",
    "wide.html": lambda: b"<table>" + b"<tr><td colspan=1000 rowspan=1000>x" * 1_000,
    "long list.html": lambda: b"<ol>" + b"<li>item" * 10_000,
    "entities.html": lambda: b"&amp;" * 500_000,
    "unclosed.html": lambda: b"<!--" * 200_000,
    "attributes.html": lambda: b"<p " + b" ".join(b"a%d=1" % at for at in range(50_000)) + b">text",
    "deep.pdf": lambda: b"%PDF-1.7\n1 0 obj\n" + b"[" * 200_000 + b"\nendobj\ntrailer << /Root 1 0 R >>",
    "flate.pdf": lambda: stream_pdf(zlib.compress(b"BT (x) Tj ET\n" * 20_000_000, 1)),
    "twice.pdf": lambda: stream_pdf(
        zlib.compress(zlib.compress(bytes(200_000_000), 9), 9), "[/FlateDecode /FlateDecode]"
    ),
    "operators.pdf": lambda: stream_pdf(zlib.compress(b"q " * 2_000_000)),
    "laughs.xlsx": lambda: with_sheet(
        f'<!DOCTYPE x [<!ENTITY l0 "ha">{_LAUGHS}]><worksheet xmlns="x"><sheetData><row>'
        '<c t="str"><v>&l9;</v></c></row></sheetData></worksheet>'.encode()
    ),
    "formats.xlsx": lambda: office.replaced(
        _workbook(),
        "xl/styles.xml",
        b"<s xmlns='x'><numFmt numFmtId='14' formatCode='" + b"[h]0?/0" * 40 + b"'/></s>",
    ),
    "columns.xlsx": lambda: with_sheet(
        b"<worksheet xmlns='x'><cols>"
        + b"<col min='1' max='16384' hidden='1'/>" * 500_000
        + b"</cols></worksheet>"
    ),
    "far.xlsx": lambda: office.sparse_workbook(1_048_575, 16_383),
    "tall.xlsx": lambda: office.sparse_workbook(1_048_575, 30),
    "claimed.pptx": lambda: claiming(1000),
    "nested.eml": lambda: (
        b"Subject: x\n"
        + b"".join(
            b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (at, at) for at in range(5_000)
        )
    ),
    "wide.csv": lambda: b"," * 1_000_000 + b"\n" + b"x," * 1_000_000,
    "circle.pdf": lambda: stream_pdf(b"").replace(b"/Kids [3 0 R]", b"/Kids [2 0 R]"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", _BOMBS)
def test_a_file_made_to_exhaust_its_parser_ends_soon(name):
    extractor = ExtractionWorker(max_cpu_s=30)
    try:
        found = extractor(name, _BOMBS[name]())
        assert len(found.text) < 50_000_000
        assert "PATH=" not in found.text
    except DocumentSkipped as reason:
        assert str(reason)
    finally:
        extractor.close()


@pytest.mark.slow
def test_native_code_is_ended_by_its_time_as_well():
    worker = ExtractionWorker(max_cpu_s=0.5)
    with closing(worker), pytest.raises(ParserEnded, match=r"0\.5 seconds of the processor$"):
        worker("flate.pdf", _BOMBS["flate.pdf"]())


@pytest.mark.slow
def test_a_folder_of_good_and_bad_files_is_refreshed_to_its_end(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    for kind in ("html", "docx", "pdf"):
        (folder / f"good.{kind}").write_bytes(good(kind))
        (folder / f"cut.{kind}").write_bytes(good(kind)[: len(good(kind)) // 3])
        (folder / f"noise.{kind}").write_bytes(bytes(range(256)) * 8)
        (folder / f"empty.{kind}").write_bytes(b"")
    flipped = bytearray(good("docx"))
    flipped[len(flipped) // 2] ^= 0xFF
    (folder / "flipped.docx").write_bytes(flipped)
    for name in ("laughs.docx", "deep.html", "deep.pdf", "deep.docx", "circle.pdf"):
        (folder / name).write_bytes(_BOMBS[name]())
    (folder / "plain.txt").write_text("Words at the end of the folder.")
    project.declare("mixed", "files", folder)
    outcome = project.refresh()
    assert not outcome.failures
    snapshot = project.lake.snapshot("files", "mixed").read_rows(["uri", "skipped"]).to_pylist()
    reasons = {row["uri"]: row["skipped"] for row in snapshot}
    assert set(reasons) == {path.name for path in folder.iterdir()}
    assert {uri for uri, why in reasons.items() if why is None} >= {
        "good.html",
        "good.docx",
        "good.pdf",
        "plain.txt",
    }
    bad = {uri for uri in reasons if uri.startswith(("noise", "empty", "deep.docx", "circle"))}
    assert all(reasons[uri].strip() for uri in bad | {"cut.docx", "deep.pdf"})
    with KnowledgeBase(project.settings) as knowledge:
        answer = knowledge.search("second line of a paragraph of words", limit=20)
    assert {"good.docx", "good.pdf", "plain.txt"} <= {each.citation.path for each in answer.results}
    once = tables(project)
    project.refresh()
    assert tables(project) == once
