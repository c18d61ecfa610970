"""PDF, DOCX, HTML and TXT files."""

import base64
import io
import os
import zipfile
from contextlib import closing

import docx
import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.errors import DocumentSkipped, ParserEnded
from knowledge_pipeline.extraction.extraction import extract, extraction_version
from knowledge_pipeline.extraction.text_decoding import limit_chars
from knowledge_pipeline.extraction.worker import ExtractionWorker
from knowledge_pipeline_tests.connectors.repositories import listed, over_folder, read
from knowledge_pipeline_tests.counted import calls


def pdf(*pages: str, title: str | None = None, password: str | None = None) -> bytes:
    """A PDF with one line of text on each page; an empty one for an empty text."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(300, 300)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F"): font})}
        )
        content = DecodedStreamObject()
        content.set_data(f"BT /F 12 Tf 20 200 Td ({text}) Tj ET".encode("latin-1"))
        page[NameObject("/Contents")] = writer._add_object(content)
    if title is not None:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


def word(build) -> bytes:
    document = docx.Document()
    build(document)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def test_pages_of_a_pdf_are_joined_and_found_again():
    found = extract("a.pdf", pdf("First page", "", "Third page", title="Report  one"))
    assert found.text == "First page\n\n\n\nThird page"
    assert found.metadata == {"format": "pdf", "pages": 3, "page_starts": [0, 12, 14]}
    assert found.text[14:] == "Third page"
    assert found.title == "Report one"


@pytest.mark.parametrize(
    ("name", "payload", "reason"),
    [
        ("a.pdf", b"<html>Not found</html>", "^not a PDF file, though its name says so$"),
        ("a.pdf", b"", "^not a PDF file"),
        ("a.pdf", b"%PDF-1.7\n garbage", "^broken PDF$"),
        ("a.pdf", pdf("text")[:-200], None),
        ("a.pdf", pdf("text", password="secret"), "^encrypted with a password$"),
        ("a.pdf", pdf("", ""), r"^PDF without a text layer \(scanned\?\)$"),
        ("a.docx", b"no zip", "^not a DOCX file, though its name says so$"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "^an old DOC file under the name of a"),
        ("a.docx", b"PK\x03\x04 broken", "^broken DOCX"),
        ("a.docx", word(lambda document: None), "^empty$"),
        ("a.html", b"<script>alert(1)</script><nav>Menu</nav>", "^empty$"),
        ("a.html", b"\0\1\2", "^binary file$"),
        ("a.html", b"<p>\xff\xfe\xfa</p>", "^not valid UTF-8 at byte 3$"),
        ("a.txt", b" \n", "^empty$"),
        ("a.txt", b"\x89PNG\0", "^binary file$"),
    ],
)
def test_what_cannot_be_read_is_skipped_with_the_reason(name, payload, reason):
    with pytest.raises(DocumentSkipped, match=reason):
        extract(name, payload)


def test_every_way_to_cut_a_pdf_gives_text_or_a_reason():
    whole = pdf("one", "two", title="x")
    for end in range(0, len(whole), 37):
        try:
            assert extract("a.pdf", whole[:end]).text
        except DocumentSkipped as reason:
            assert str(reason)


def test_word_becomes_markdown():
    def build(document):
        document.core_properties.title = "Set title"
        document.add_heading("Manual", 0)
        document.add_heading("Install", 1)
        document.add_paragraph("Run it.")
        document.add_paragraph("one", style="List Bullet")
        document.add_paragraph("two", style="List Bullet")
        table = document.add_table(2, 2)
        for cell, text in zip(
            (c for row in table.rows for c in row.cells), ["key", "value", "a|b", "1"], strict=True
        ):
            cell.text = text
        document.add_heading("Deeper", 2)

    found = extract("a.docx", word(build))
    assert found.text == (
        "# Manual\n\n# Install\n\nRun it.\n\n- one\n- two\n\n"
        "| key | value |\n| --- | --- |\n| a\\|b | 1 |\n\n## Deeper"
    )
    assert (found.title, found.language) == ("Set title", "markdown")


def test_pictures_are_told_by_what_is_written_of_them():
    def build(document) -> None:
        for described in ("The fee rises\nin May", ""):
            document.add_paragraph("See ").add_run().add_picture(io.BytesIO(PIXEL))
            document.inline_shapes[-1]._inline.docPr.set("descr", described)

    assert extract("a.docx", word(build)).text == "See [image: The fee rises in May]\n\nSee"
    page = b"<figure><img src=a.png alt='Fees by month'><figcaption>Figure 1: fees</figcaption></figure>"
    assert extract("a.html", page).text.split() == ["Fees", "by", "month", "Figure", "1:", "fees"]


def test_a_merged_cell_is_told_once():
    def build(document):
        table = document.add_table(1, 3)
        table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
        table.cell(0, 2).text = "last"

    assert extract("a.docx", word(build)).text.splitlines()[0] == "| wide |  | last |"


def test_a_zip_bomb_is_refused_before_it_is_unpacked():
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("word/document.xml", "w") as part,
    ):
        for _ in range(201):
            part.write(bytes(1_000_000))

    def refused():
        with pytest.raises(DocumentSkipped, match="unpacks to 201000000 bytes"):
            extract("a.docx", out.getvalue())

    called = calls(refused)
    assert called["Decompress.decompress"] == 0
    good = calls(lambda: extract("b.docx", word(lambda document: document.add_paragraph("text"))))
    assert good["Decompress.decompress"]  # as it is called when something is unpacked


PAGE = """<!DOCTYPE html><html><head><title>The  guide</title><style>p {}</style></head><body>
<header>Site</header><nav><a href="/">Home</a></nav>
<main><h1>Guide</h1><p>Some <b>bold</b> snake_case &amp; 2 * 3.</p><!-- hidden -->
<ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul>
<pre><code class="language-python">def f():
    return 1
</code></pre>
<table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>1</td></tr></table>
<p>See <a href="https://example.org/x">there</a> <img src="data:x" alt="a plot"></p></main>
<footer>Imprint</footer><script>track()</script></body></html>"""


def test_a_page_becomes_markdown_without_what_is_not_read():
    found = extract("a.html", PAGE.encode())
    assert found.title == "The guide"
    for part in (
        "# Guide\n\nSome **bold** snake_case & 2 * 3.\n",
        "- one\n  - inner\n- two\n",
        "```python\ndef f():\n    return 1\n```",
        "| k | v |\n| --- | --- |\n| a | 1 |",
        "See [there](https://example.org/x) a plot",
    ):
        assert part in found.text
    for noise in ("track", "Home", "Site", "Imprint", "hidden", "p {}", "data:x"):
        assert noise not in found.text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("un<b>believ</b>able <b>bold</b>", "unbelievable **bold**"),
        ("<b><b>deep</b></b>", "**deep**"),
        ("<details><summary>What</summary>Why</details>", "What\n\nWhy"),
        ("<table><tr><th>a|b<th>c<tr><td>1<tfoot><tr><td>2<td>3",
         "| a\\|b | c |\n| --- | --- |\n| 1 |  |\n| 2 | 3 |"),
        ("<table><tr><td rowspan=2>t<td>1<tr><td>2", "| t | 1 |\n| --- | --- |\n| t | 2 |"),
        ("<table><tr><td><pre>1\n2</pre><td><pre>a\nb</pre>", "```\n1\n2\n```\n\n```\na\nb\n```"),
        ("<table><tr><form><td>1<td>2</form></table>", "| 1 | 2 |\n| --- | --- |"),
        ("<pre>a\n```\nb</pre>", "````\na\n```\nb\n````"),
        ("<a href='x y(1).html'>it</a>", "[it](<x%20y(1).html>)"),
        ("<a href='u'><h2>Title</h2><p>more</p></a>", "## [Title](u)\n\nmore"),
        ("<code><a href='u'>List</a>&lt;T></code>", "[List](u)<T>"),
        ("<a href='javascript:go()'>Go</a>", "Go"),
        ("<h2>Title<a href='#title'>¶</a></h2>", "## Title"),
        ("<main></main><p>Outside", "Outside"),
        ("<?xml version='1.0'?><note>Feed</note>", "Feed"),
        ("in&shy;visible some<wbr>Name", "invisible someName"),
        ("<ol start=9><li>nine<li><p>ten</p><p>more</p></ol>", "9. nine\n10. ten\n\n    more"),
    ],
)  # fmt: skip
def test_what_a_reader_of_a_page_reads_is_written(page, text):
    assert extract("a.html", page.encode()).text == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<h3><button aria-expanded=false aria-controls=a1>How do I pay?</button></h3>"
         "<div id=a1 role=region hidden><p>By card.</div>", "### How do I pay?\n\nBy card."),
        ("<h2 class=accordion-header><button class='accordion-button collapsed' data-bs-toggle=collapse>"
         "Who may?</button></h2><div class='collapse'>Anyone.</div>", "## Who may?\n\nAnyone."),
        ("<button class=accordion>Where?</button><div class=panel style='display: none'>Here.</div>",
         "Where?\n\nHere."),
        ("<dl><dt><button>When?</button></dt><dd>Now.</dd></dl>", "When?\n:   Now."),
        ("<button aria-expanded=false>Why?</button><div hidden>So.</div><p>z", "Why?\n\nSo.\n\nz"),
        ("<div id=d hidden='until-found'>Later.</div><button aria-controls='d'>Show</button>",
         "Later.\n\nShow"),
        ("<div role=tablist><button role=tab aria-controls=p1>pip</button>"
         "<button role=tab aria-controls=p2>uv</button></div><div role=tabpanel id=p1><p>pip install</div>"
         "<div role=tabpanel id=p2 hidden><p>uv add</div>", "pip\n\npip install\n\nuv\n\nuv add"),
        ("<ul><li role=tab>npm</ul><div role=tabpanel hidden>npm i</div>", "- npm\n\nnpm i"),
        # what stays away: menus, windows, buttons beside a title
        ("<p>Text<button aria-expanded=false aria-controls=m>Menu</button><ul id=m hidden><li>"
         "<a href=/>Home</a></ul>", "Text"),
        ("<p>Text<button aria-controls=w>Sign in</button><div id=w role=dialog hidden>Name</div>", "Text"),
        ("<p>Text<button aria-haspopup=true aria-expanded=false>More</button>", "Text"),
        ("<h2>Title <button>Copy link</button></h2><p>Text<button>Copy</button>", "## Title\n\nText"),
    ],
)  # fmt: skip
def test_what_a_click_shows_is_read_with_the_words_of_its_button(page, text):
    assert extract("a.html", page.encode()).text == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<header><nav>Menu</nav><h1>Guide</h1><p>For all.</header><main><h2>First</h2><p>a</main>",
         "# Guide\n\nFor all.\n\n## First\n\na"),
        ("<div class=hero><h1>Guide</h1>Lead</div><div><div>Links</div><p>It <a href=u>ends</a>.</p>"
         "<main><p>a</main></div>", "# Guide\n\nLead\n\nIt [ends](u).\n\na"),
        ("<p>An intro.</p><main><h1>Guide</h1></main>", "An intro.\n\n# Guide"),
        ("<header><h1>Site</h1><p>A line.</header><div><ul><li><a href=u>Home</a></ul><p>Contents</div>"
         "<aside><p>Read this.</aside><main><h1>Guide</h1><p>a</main><p>Subscribe.", "# Guide\n\na"),
    ],
)  # fmt: skip
def test_the_introduction_before_the_main_part_is_read_and_what_is_the_site_s_is_not(page, text):
    assert extract("a.html", page.encode()).text == text


def test_many_buttons_of_one_panel_take_no_longer_than_as_many_words():
    buttons = "<button aria-controls=p role=tab>b</button>" * 3_000
    assert (
        extract("a.html", f"<h2>{buttons}</h2><div id=p hidden>{'<p>text' * 3_000}".encode()).text.count(
            "text"
        )
        == 3_000
    )


@pytest.mark.parametrize("payload", [
    '<meta charset="windows-1252"><p>élève'.encode("cp1252"),
    "<p>élève".encode(),
    "\ufeff<p>élève".encode(),
    "<p>élève".encode("utf-16"),
])  # fmt: skip
def test_a_page_is_read_in_the_encoding_it_declares(payload):
    assert extract("a.htm", payload).text == "élève"


@pytest.fixture
def extractor():
    extractor = ExtractionWorker()
    yield extractor
    extractor.close()


def test_the_worker_gives_what_the_function_gives(extractor):
    files = {"a.pdf": pdf("One", "Two", title="T"), "b.html": PAGE.encode(), "c.txt": "naïve".encode()}
    for name, payload in files.items():
        assert extractor(name, payload) == extract(name, payload)
    with pytest.raises(DocumentSkipped, match=r"^not a PDF file, though its name says so$"):
        extractor("x.pdf", b"x")


@pytest.mark.slow
def test_a_page_that_breaks_the_parser_is_skipped_and_the_next_is_read(extractor):
    deep = b"<div>" * 30_000 + b"text"
    with pytest.raises(DocumentSkipped):
        extractor("deep.html", deep)
    assert extractor("a.pdf", pdf("Still here")).text == "Still here"


SLOW = """
import time

def read(name, payload):
    if name == "busy.txt":
        while True:
            pass
    time.sleep(float(payload))
    return "waited"
"""


@pytest.fixture
def slow(tmp_path, monkeypatch):
    (tmp_path / "slow_extractor.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    return "slow_extractor:read"


def test_a_parser_is_ended_by_the_time_of_the_processor_that_it_takes(slow):
    worker = ExtractionWorker(extractor=slow, max_cpu_s=0.5)
    with closing(worker):
        assert worker("waits.txt", b"1.5").text == "waited"
        with pytest.raises(ParserEnded, match=r"^its parser took more than 0\.5 seconds of the processor$"):
            worker("busy.txt", b"0")
        assert worker("next.txt", b"0").text == "waited"


def test_a_parser_that_waits_for_ever_is_ended(slow):
    worker = ExtractionWorker(extractor=slow, max_wait_s=0.2)
    with (
        closing(worker),
        pytest.raises(ParserEnded, match=r"^its parser did not end within 0\.2 seconds$"),
    ):
        worker("waits.txt", b"60")


def test_a_parser_that_is_killed_is_started_again(extractor):
    assert extractor("a.pdf", pdf("One")).text == "One"
    os.kill(extractor._child.pid, 9)
    with pytest.raises(DocumentSkipped, match="crashed"):
        extractor("a.pdf", pdf("Two"))
    assert extractor("a.pdf", pdf("Three")).text == "Three"


def test_a_folder_of_files_is_listed_and_read(tmp_path, cache):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.pdf").write_bytes(pdf("Text of a PDF"))
    (tmp_path / "b.html").write_text("<title>Page</title><p>Hello")
    (tmp_path / "c.TXT").write_text("Plain\r\ntext")
    (tmp_path / "d.png").write_bytes(b"x")
    documents = read(over_folder("files", tmp_path), cache)
    told = {uri: (document.title, document.text, document.language) for uri, document in documents.items()}
    assert told == {
        "sub/a.pdf": ("a.pdf", "Text of a PDF", "text"),
        "b.html": ("Page", "Hello", "markdown"),
        "c.TXT": ("c.TXT", "Plain\ntext", "text"),
    }


def test_a_file_over_50_megabytes_is_skipped(tmp_path, cache):
    with (tmp_path / "a.pdf").open("wb") as file:
        file.truncate(50_000_001)
    assert (
        listed(over_folder("files", tmp_path), cache)["a.pdf"].skip == "larger than 50000000 bytes (50000001)"
    )


def test_the_versions_of_the_parsers_are_part_of_a_revision(tmp_path, cache):
    (tmp_path / "a.txt").write_text("1")
    assert listed(over_folder("files", tmp_path), cache)["a.txt"].revision.endswith(
        extraction_version("a.txt")
    )


def test_closing_a_source_ends_its_worker(tmp_path, cache):
    (tmp_path / "a.pdf").write_bytes(pdf("text"))
    with open_source(over_folder("files", tmp_path), cache=cache) as source:
        [document] = [source.fetch(item) for item in source.discover()]
        worker = source.extract._child
    assert document.text == "text"
    assert worker.returncode is not None


def test_a_small_pdf_that_holds_one_page_many_times_is_cut_and_says_so():
    page = " ".join(["payments are retried"] * 500)
    reader = PdfReader(io.BytesIO(pdf(page)))
    writer = PdfWriter()
    for _ in range(1_000):
        writer.add_page(reader.pages[0])
    writer.compress_identical_objects()
    payload = io.BytesIO()
    writer.write(payload)
    extracted = extract("many.pdf", payload.getvalue())
    limit = limit_chars(len(payload.getvalue()))
    assert len(extracted.text) == limit < 1_000 * len(page)
    assert extracted.metadata["note"].startswith(f"cut after {limit:,} characters")
    assert extracted.metadata["pages"] == 1_000
    assert len(extracted.metadata["page_starts"]) < 1_000  # the rest was not read


def test_a_text_in_proportion_to_its_file_is_whole():
    page = " ".join(f"payment {number} was retried" for number in range(1_000))
    extracted = extract("report.pdf", pdf(page, page))
    assert "note" not in extracted.metadata and extracted.text.count("payment 999 was") == 2
