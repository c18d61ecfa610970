"""Texts and slides of OpenDocument, books, rich text, and kinds of office files that differ in name alone."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import docx
import pptx
import pytest

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline_tests.connectors.repositories import over_folder, read

_SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{of}:1.0"'
    for name, of in [
        *((name, name) for name in ("office", "text", "table", "style", "manifest", "chart", "presentation")),
        *(("draw", "drawing"), ("svg", "svg-compatible")),
    ]
)
_SPACES += ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'


def pack(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def odt(body: str, styles: str = "", **more: str) -> bytes:
    content = f"<office:automatic-styles>{styles}</office:automatic-styles>"
    content += f"<office:body><office:text>{body}</office:text></office:body>"
    files = {"content.xml": f"<office:document-content {_SPACES}>{content}</office:document-content>", **more}
    return pack({"mimetype": "application/vnd.oasis.opendocument.text", **files})


def odp(pages: str, **more: str) -> bytes:
    content = f"<office:body><office:presentation>{pages}</office:presentation></office:body>"
    files = {"content.xml": f"<office:document-content {_SPACES}>{content}</office:document-content>", **more}
    return pack({"mimetype": "application/vnd.oasis.opendocument.presentation", **files})


def box(text: str, kind: str = "") -> str:
    """A box of text on a slide, filling a place of its layout."""
    place = f' presentation:class="{kind}"' if kind else ""
    return f"<draw:frame{place}><draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame>"


CHART = (
    f"<office:document-content {_SPACES}><office:body><office:chart><chart:chart>"
    "<chart:title><text:p>Sales by region</text:p></chart:title><table:table><table:table-header-rows>"
    "<table:table-row><table:table-cell><text:p/></table:table-cell><table:table-cell><text:p>2026</text:p>"
    "</table:table-cell></table:table-row></table:table-header-rows><table:table-rows><table:table-row>"
    "<table:table-cell><text:p>North</text:p></table:table-cell><table:table-cell><text:p>7</text:p>"
    "</table:table-cell></table:table-row></table:table-rows></table:table></chart:chart></office:chart>"
    "</office:body></office:document-content>"
)


def test_a_presentation_of_opendocument_is_read_slide_by_slide():
    pages = (
        "<draw:page>"
        + box("The plan", "title")
        + box("page 1", "page-number")
        + "<draw:frame presentation:class='outline'><draw:text-box><text:list><text:list-item>"
        "<text:p>Stop</text:p><text:list><text:list-item><text:p>the writers</text:p></text:list-item>"
        "</text:list></text:list-item></text:list></draw:text-box></draw:frame>"
        "<draw:g><draw:custom-shape><text:p>In a shape</text:p></draw:custom-shape></draw:g>"
        "<draw:frame><draw:image/><svg:desc>A drawing</svg:desc></draw:frame>"
        "<office:annotation><text:p>no</text:p></office:annotation>"
        "<presentation:notes><draw:page-thumbnail/>"
        + box("Takes a minute.", "notes")
        + "</presentation:notes>"
        "</draw:page><draw:page><draw:frame><draw:image/></draw:frame></draw:page><draw:page>"
        "<draw:frame><table:table><table:table-row><table:table-cell><text:p>Step</text:p></table:table-cell>"
        "<table:table-cell><text:p>Owner</text:p></table:table-cell></table:table-row><table:table-row>"
        "<table:table-cell><text:list><text:list-item><text:p>Tag</text:p></text:list-item></text:list>"
        "</table:table-cell><table:table-cell><text:p>Ops</text:p></table:table-cell></table:table-row></table:table><draw:image/></draw:frame>"
        "<draw:frame><draw:object xlink:href='./Object 1'/><draw:image/></draw:frame>"
        "<draw:frame><draw:object-ole xlink:href='./Object 2'/></draw:frame></draw:page><draw:page/>"
    )
    found = extract("a.odp", odp(pages, **{"Object 1/content.xml": CHART}))
    assert found.text == (
        "## Slide 1: The plan\n\n- Stop\n  - the writers\n\nIn a shape\n\n[image: A drawing]\n\n"
        "Notes: Takes a minute.\n\n## Slide 3\n\n| Step | Owner |\n| --- | --- |\n| Tag | Ops |\n\n"
        "Chart: Sales by region\n\n|  | 2026 |\n| --- | --- |\n| North | 7 |"
    )
    assert (found.title, found.language) == ("The plan", "markdown")
    note = "parts not read: 1 comment, 1 embedded object, 1 slide with pictures only"
    assert found.metadata == {"format": "odp", "slides": 4, "note": note}
    template = odp(f"<draw:page>{box('x')}</draw:page>")
    assert extract("a.otp", template) == extract("a.odp", template)


def test_a_text_of_opendocument_has_its_charts_and_counts_what_is_not_read():
    frames = (f"<draw:frame><draw:object xlink:href='./Object {at}'/></draw:frame>" for at in (1, 1, 2))
    body = f"<text:p>See below.{''.join(frames)}<office:annotation/></text:p>"
    itself = CHART.replace("North", "<draw:frame><draw:object xlink:href='./Object 1'/></draw:frame>North")
    found = extract("a.odt", odt(body, **{"Object 1/content.xml": itself}))
    chart = "Chart: Sales by region\n\n|  | 2026 |\n| --- | --- |\n| North | 7 |"
    assert found.text == f"See below.\n\n{chart}"
    assert found.metadata["note"] == "parts not read: 1 comment, 1 embedded object"


def test_a_spreadsheet_of_opendocument_has_its_charts_each_once():
    shapes = "".join(
        f"<draw:frame><draw:object xlink:href='./Object {at}'/></draw:frame>" for at in (1, 1, 2)
    )
    rows = "<table:table-row><table:table-cell><text:p>Region</text:p></table:table-cell></table:table-row>"
    sheet = f'<table:table table:name="S"><table:shapes>{shapes}</table:shapes>{rows}</table:table>'
    body = f"<office:body><office:spreadsheet>{sheet}</office:spreadsheet></office:body>"
    content = f"<office:document-content {_SPACES}>{body}</office:document-content>"
    found = extract("a.ots", pack({"content.xml": content, "Object 1/content.xml": CHART}))
    assert found.text.partition("| Region |\n| --- |\n\n")[2] == (
        "Chart: Sales by region\n\n|  | 2026 |\n| --- | --- |\n| North | 7 |"
    )
    assert found.metadata["note"] == "parts not read: 1 embedded object"


def test_a_text_of_opendocument_becomes_markdown():
    body = """
<text:tracked-changes><text:p>what was deleted</text:p></text:tracked-changes>
<text:table-of-content><text:p>Install 1</text:p></text:table-of-content>
<text:h text:outline-level="2">Install  the <text:span>engine</text:span></text:h>
<text:p>One<text:s text:c="2"/>two<text:tab/>three<office:annotation><text:p>no</text:p></office:annotation>
 <text:a xlink:href="https://example.org/a">the page</text:a><text:note>
<text:note-citation>1</text:note-citation><text:note-body><text:p>A footnote.</text:p>
</text:note-body></text:note></text:p>
<text:list text:style-name="L1"><text:list-item><text:p>first</text:p><text:list><text:list-item>
<text:p>below</text:p></text:list-item></text:list></text:list-item>
<text:list-item><text:p>second</text:p></text:list-item></text:list>
<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>Part</text:p></table:table-cell>
<table:table-cell><text:p>Price</text:p></table:table-cell></table:table-row></table:table-header-rows>
<table:table-row><table:table-cell table:number-columns-spanned="2"><text:p>Bolt</text:p></table:table-cell>
<table:covered-table-cell/></table:table-row></table:table>
<text:p><draw:frame><draw:text-box><text:p>In a box</text:p></draw:text-box></draw:frame>
<draw:frame><draw:image/><svg:desc>A drawing</svg:desc></draw:frame></text:p>"""
    styles = '<text:list-style style:name="L1"><text:list-level-style-number/></text:list-style>'
    meta = f"<office:document-meta {_SPACES}><dc:title>The manual</dc:title></office:document-meta>"
    found = extract("a.odt", odt(body, styles, **{"meta.xml": meta}))
    assert (found.title, found.language) == ("The manual", "markdown")
    assert found.metadata == {"format": "odt", "note": "parts not read: 1 comment"}
    assert found.text.replace("\n\n", "\n").split("\n") == [
        "## Install the engine",
        "One  two three",
        " [the page](https://example.org/a)[^1]",
        "1. first",
        "   1. below",
        "1. second",
        "| Part | Price |",
        "| --- | --- |",
        "| Bolt |  |",
        "[image: A drawing]",
        "In a box",
        "[^1]: A footnote.",
    ]


def epub(chapters: dict[str, str], *, more: dict[str, str] | None = None) -> bytes:
    items = "".join(f'<item id="{at}" href="{name}"/>' for at, name in enumerate(chapters))
    order = "".join(f'<itemref idref="{at}"/>' for at in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        "<dc:title>A book</dc:title><dc:creator>Ada Byron</dc:creator></metadata>"
        f"<manifest>{items}</manifest><spine>{order}</spine></package>"
    )
    rootfile = '<rootfile full-path="OEBPS/book.opf"/>'
    container = f'<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">{rootfile}</container>'
    pages = {f"OEBPS/{name.replace('%20', ' ')}": text for name, text in chapters.items() if text}
    return pack({"META-INF/container.xml": container, "OEBPS/book.opf": package, **pages, **(more or {})})


def test_a_book_is_its_chapters_in_the_order_of_reading():
    page = (
        '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml">'
        "<body><h1>{0}</h1><p>It was {0}.</p></body></html>"
    )
    book = epub({"text/two%20b.xhtml": page.format("two"), "one.xhtml": page.format("one"), "gone.xhtml": ""})
    found = extract("a.epub", book)
    assert found.text == "# two\n\nIt was two.\n\n# one\n\nIt was one."
    assert (found.title, found.author) == ("A book", "Ada Byron")
    note = "parts not read: 1 of 3 chapters"
    assert found.metadata == {"format": "epub", "chapters": 2, "note": note}


RTF = r"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Times;}}
{\stylesheet{\s1 heading 1;}}{\info{\title The {\i letter}}{\author Ada}}
{\header a header\par}\pard\outlinelevel0 A heading\par
\pard caf\'e9 \u8364?20 \uc2\u-10179??\u-8704?? {\b bold} and\~more {\v hidden}{\*\unknown {\b other}}end\line
next{\f1 \'cf\'f0\'e8\par}
{\field{\*\fldinst HYPERLINK "https://example.org/a"}{\fldrslt {\ul the page}}}, {\footnote A note.}\par
{\pict\bin4 {{}{}{\*\shpinst{\shptxt boxed\par}}
\trowd\pard\intbl Part\cell Price\cell\row\trowd\intbl Bolt\cell 5\\6 \{a\}\cell\row\pard After.\par}"""


def test_rich_text_becomes_markdown():
    found = extract("letter.rtf", RTF.encode("ascii"))
    assert (found.title, found.metadata) == ("The letter", {"format": "rtf"})
    assert found.text.split("\n\n") == [
        "# A heading",
        "café €20 😀 bold and more end\nnextПри",
        "[the page](https://example.org/a), A note.",
        "boxed",
        "| Part | Price |\n| --- | --- |\n| Bolt | 5\\6 {a} |",
        "After.",
    ]


def word() -> bytes:
    document, packed = docx.Document(), io.BytesIO()
    document.add_paragraph("In a document.")
    document.save(packed)
    return packed.getvalue()


def slides() -> bytes:
    presentation, packed = pptx.Presentation(), io.BytesIO()
    presentation.slides.add_slide(presentation.slide_layouts[5]).shapes.title.text = "On a slide"
    presentation.save(packed)
    return packed.getvalue()


def of_type(payload: bytes, plain: str, other: str) -> bytes:
    """The same package with another content type."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    types = files["[Content_Types].xml"].replace(plain.encode(), other.encode())
    assert types != files["[Content_Types].xml"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in {**files, "[Content_Types].xml": types}.items():
            archive.writestr(name, content)
    return packed.getvalue()


_OPEN_XML = "vnd.openxmlformats-officedocument."


@pytest.mark.parametrize(
    ("name", "other", "text"),
    [
        ("a.docm", "vnd.ms-word.document.macroEnabled.main+xml", "In a document."),
        ("a.dotx", f"{_OPEN_XML}wordprocessingml.template.main+xml", "In a document."),
        ("A.DOTM", "vnd.ms-word.template.macroEnabledTemplate.main+xml", "In a document."),
        ("a.pptm", "vnd.ms-powerpoint.presentation.macroEnabled.main+xml", "## Slide 1: On a slide"),
        ("a.ppsx", f"{_OPEN_XML}presentationml.slideshow.main+xml", "## Slide 1: On a slide"),
        ("a.ppsm", "vnd.ms-powerpoint.slideshow.macroEnabled.main+xml", "## Slide 1: On a slide"),
        ("a.potx", f"{_OPEN_XML}presentationml.template.main+xml", "## Slide 1: On a slide"),
    ],
)
def test_kinds_that_differ_in_name_alone_are_read_as_their_format(name: str, other: str, text: str):
    is_word = name.lower().startswith("a.do")
    plain = "wordprocessingml.document" if is_word else "presentationml.presentation"
    payload = of_type(word() if is_word else slides(), f"{_OPEN_XML}{plain}.main+xml", other)
    assert extract(name, payload).text == text


ENCRYPTED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "EncryptedPackage".encode("utf-16-le")


@pytest.mark.parametrize("name", ["a.docx", "a.docm", "a.pptx", "a.xlsx", "a.xlsm"])
def test_an_office_file_with_a_password_is_not_called_broken(name: str):
    with pytest.raises(DocumentSkipped, match=r"^encrypted with a password$"):
        extract(name, ENCRYPTED)


def test_an_opendocument_or_book_that_is_encrypted_is_not_called_broken():
    manifest = f"<manifest:manifest {_SPACES}><manifest:encryption-data/></manifest:manifest>"
    for name in ("a.odt", "a.ods", "a.odp"):
        with pytest.raises(DocumentSkipped, match=r"^encrypted with a password$"):
            extract(name, odt("", **{"META-INF/manifest.xml": manifest}))
    listed = '<e xmlns:x="http://www.w3.org/2001/04/xmlenc#"><x:CipherReference URI="OEBPS/a.xhtml"/></e>'
    with pytest.raises(DocumentSkipped, match=r"^encrypted by its digital rights management$"):
        extract("a.epub", epub({"a.xhtml": "\1\2"}, more={"META-INF/encryption.xml": listed}))


@pytest.mark.parametrize("name", ["a.odt", "a.odp", "a.epub", "a.rtf", "a.docm", "a.ppsx"])
@pytest.mark.parametrize("payload", [b"PK\x03\x04 broken", b"no such file", pack({"a": "b"}), word()[:2000]])
def test_a_broken_file_is_skipped_with_its_reason(name: str, payload: bytes):
    with pytest.raises(DocumentSkipped, match=r"^(?:broken|not a) \w+"):
        extract(name, payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"{\\rtf1 " + b"{" * 9_000 + b"x" + b"}" * 9_000,
        b"{\\rtf1 x" + b"\\'e9\\par" * 300_000,
        b"{\\rtf\\u1 " * 5_000,
    ],
)
def test_hostile_rich_text_ends(payload: bytes):
    assert extract("a.rtf", payload).text


@pytest.mark.parametrize(
    ("name", "payload", "reason"),
    [
        ("a.odp", odp("<draw:page/>"), "ODP without text"),
        ("a.odp", odt("<text:p>x</text:p>"), "broken ODP (it holds something else)"),
        ("a.odt", odp(""), "broken ODT (it holds something else)"),
    ],
)
def test_a_file_without_text_or_of_another_format_says_so(name: str, payload: bytes, reason: str):
    with pytest.raises(DocumentSkipped, match=f"^{re.escape(reason)}$"):
        extract(name, payload)


def test_they_are_read_without_a_word_about_them(tmp_path: Path, cache: Path):
    (tmp_path / "a.odt").write_bytes(odt("<text:p>Some text</text:p>"))
    (tmp_path / "b.RTF").write_bytes(b"{\\rtf1 Some text}")
    (tmp_path / "c.docm").write_bytes(word())
    (tmp_path / "d.odp").write_bytes(odp(f"<draw:page>{box('Some text')}</draw:page>"))
    documents = read(over_folder("files", tmp_path), cache)
    assert {path: document.text for path, document in documents.items()} == {
        "a.odt": "Some text",
        "b.RTF": "Some text",
        "c.docm": "In a document.",
        "d.odp": "## Slide 1\n\nSome text",
    }
