"""Every word that a PDF shows comes out, in order, page by page, and where its links lead."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfWriter
from pypdf.annotations import FreeText, Link, Popup, Text
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    PdfObject,
    TextStringObject,
)

from knowledge_pipeline.chunking.registry import extract_links
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline_tests.thoroughness import examples

_ADDRESSES = ("https://a.example/x?q=1&r=2#z", "http://b.example/", "https://c.example/d_e")


@dataclass(frozen=True)
class Page:
    """Operators that show lines of text, the lines, the addresses of the page's links, and a note on it."""

    operators: tuple[str, ...]
    seen: str
    links: tuple[str, ...] = ()
    note: str = ""


def pdf(*pages: Page, compressed: bool = False) -> bytes:
    writer = PdfWriter()
    named = {
        "/Type": "/Font",
        "/Subtype": "/Type1",
        "/BaseFont": "/Helvetica",
        "/Encoding": "/WinAnsiEncoding",
    }
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in named.items()})
    fonts = DictionaryObject({NameObject("/F"): font})
    for page in pages:
        blank = writer.add_blank_page(600, 800)
        blank[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        content = DecodedStreamObject()
        shown = " T*\n".join(page.operators)
        content.set_data(f"% zzz\nBT /F 12 Tf 14 TL 20 700 Td\n{shown}\nET".encode("latin-1"))
        blank[NameObject("/Contents")] = writer._add_object(content.flate_encode() if compressed else content)
        for url in page.links:
            writer.add_annotation(blank, Link(rect=(0, 0, 9, 9), url=url))
        if page.note:
            writer.add_annotation(blank, FreeText(text=page.note, rect=(0, 0, 9, 9)))
    return _written(writer)


def _written(writer: PdfWriter) -> bytes:
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _literal(text: str) -> str:
    escaped = re.sub(r"([\\()])", r"\\\1", text)
    return "(" + "".join(letter if letter.isascii() else f"\\{ord(letter):03o}" for letter in escaped) + ")"


def _shown(text: str, way: str, cut: int) -> str:
    """One line of text, in one of the ways to show it."""
    if way == "hexadecimal":
        return f"<{text.encode('cp1252').hex()}> Tj"
    if way == "kerned":
        at = cut % (len(text) + 1)
        return f"[{_literal(text[:at])} -20 {_literal(text[at:])}] TJ"
    if way == "in two":
        at = cut % (len(text) + 1)
        return f"{_literal(text[:at])} Tj {_literal(text[at:])} Tj"
    return f"{_literal(text)} Tj"


_WORD = st.text("abcdefghijé", min_size=1, max_size=8) | st.sampled_from(["(", ")", "\\", "&", "<b>", "a(b)"])
# PDFium reads letters below each other as a word that is written downwards, where a page is narrow and high.
_LINE = st.lists(_WORD, min_size=1, max_size=5).map(" ".join).filter(lambda line: len(line) > 1)
_WAY = st.sampled_from(["literal", "hexadecimal", "kerned", "in two"])
_LINES = st.lists(st.tuples(_LINE, _WAY, st.integers(0, 30)), min_size=1, max_size=4).filter(
    lambda lines: max(len(text) for text, _, _ in lines) > 2 * len(lines)
)
_PAGE = st.builds(
    lambda lines, addresses, note: Page(
        tuple(_shown(*line) for line in lines),
        "\n".join(text for text, _, _ in lines),
        tuple(addresses),
        note,
    ),
    _LINES,
    st.lists(st.sampled_from(_ADDRESSES), max_size=2),
    st.sampled_from(["", "Is that <so>?", "開発"]),
)


def check(pages: list[Page], *, compressed: bool) -> None:
    found = extract("a.pdf", pdf(*pages, compressed=compressed))
    starts = found.metadata["page_starts"]
    ends = [*starts[1:], len(found.text)]
    for page, start, end in zip(pages, starts, ends, strict=True):
        text, _, told = found.text[start:end].partition("Links: ")
        text, _, note = text.partition("Notes:\n")
        assert text.split() == page.seen.split()
        assert note.strip() == page.note
        assert set(told.split()) == set(page.links) == set(extract_links(told))


@settings(max_examples=examples(300, few=8), deadline=None)
@given(st.lists(_PAGE, min_size=1, max_size=5), st.booleans())
def test_a_pdf_says_all_its_words_in_order_and_nothing_else(pages, compressed):
    check(pages, compressed=compressed)


def test_an_address_that_a_page_shows_is_not_told_again():
    page = Page(("(See http://b.example/) Tj",), "", ("http://b.example/", "mailto:ann@example.org"))
    assert extract("a.pdf", pdf(page)).text == "See http://b.example/"


def test_a_scan_with_links_alone_has_no_text():
    with pytest.raises(DocumentSkipped, match="without a text layer"):
        extract("a.pdf", pdf(Page(("() Tj",), "", ("http://b.example/",))))


@pytest.mark.parametrize("broken", [b"/Annots 7", b"/Annots [7(x)]", b"/Annots 99 0 R", b"/Annots [99 0 R]"])
def test_broken_links_cost_no_text(broken):
    whole = pdf(Page(("(kept) Tj",), "kept", note="a note"))
    assert whole.count(b"/Annots") == 1
    start = whole.index(b"/Annots")
    end = whole.index(b"]", start) + 1
    assert len(broken) <= end - start
    assert extract("a.pdf", whole[:start] + broken.ljust(end - start) + whole[end:]).text == "kept"


def _filled_in(**values: str) -> bytes:
    """A form with a text field each, filled in; a ticked box, one that is not, a password, a choice."""
    writer = PdfWriter(clone_from=io.BytesIO(pdf(Page(("(Application) Tj",), "Application"))))
    fields = ArrayObject()

    def add(name: str, kind: str, **entries: PdfObject) -> None:
        field = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Annot"),
                NameObject("/Subtype"): NameObject("/Widget"),
                NameObject("/FT"): NameObject(kind),
                NameObject("/T"): TextStringObject(name),
                NameObject("/Rect"): ArrayObject(map(NumberObject, (0, 0, 9, 9))),
                **{NameObject(f"/{key}"): value for key, value in entries.items()},
            }
        )
        fields.append(writer._add_object(field))

    for name, value in values.items():
        add(name, "/Tx", V=TextStringObject(value))
    add("f1_02[0]", "/Tx", TU=TextStringObject("Place of birth"), V=TextStringObject("Köln"))
    add("empty", "/Tx")
    add("secret", "/Tx", V=TextStringObject("hunter2"), Ff=NumberObject(1 << 13))
    stream = writer._add_object(DecodedStreamObject())
    states = DictionaryObject({NameObject("/Yes"): stream, NameObject("/Off"): stream})
    for name, state in (("agreed", "/Yes"), ("newsletter", "/Off")):
        shown = DictionaryObject({NameObject("/N"): states})
        add(name, "/Btn", V=NameObject(state), AS=NameObject(state), AP=shown)
    countries = ArrayObject(
        [ArrayObject(map(TextStringObject, pair)) for pair in (("1", "France"), ("2", "Peru"))]
    )
    add("country", "/Ch", V=TextStringObject("2"), Opt=countries, Ff=NumberObject(1 << 17))
    writer.pages[0][NameObject("/Annots")] = fields
    form = DictionaryObject({NameObject("/Fields"): fields})
    writer.root_object[NameObject("/AcroForm")] = writer._add_object(form)
    return _written(writer)


def test_what_a_form_is_filled_in_with_stands_at_its_page():
    assert extract("a.pdf", _filled_in(name="Ann Ω", remarks="none\nat all")).text == (
        "Application\n\nFields:\nname: Ann Ω\nremarks: none\nat all\nPlace of birth: Köln\n"
        "agreed: Yes\ncountry: Peru"
    )


def test_notes_are_told_with_their_authors_and_hidden_ones_are_not():
    writer = PdfWriter(clone_from=io.BytesIO(pdf(Page(("(The fee rises) Tj",), "The fee rises"))))
    at = {"rect": (0, 0, 9, 9)}
    for text, author, flags in (("Since when?", "Ann", 4), ("Since May.", "", 4), ("ignore all", "x", 2)):
        note = Text(text=text, **at)
        note[NameObject("/F")] = NumberObject(flags)
        if author:
            note[NameObject("/T")] = TextStringObject(author)
        writer.add_annotation(0, note)
        writer.add_annotation(0, Popup(parent=note, **at))
    marked = Text(text="fee rises", **at)  # what a highlight repeats of the page
    writer.add_annotation(0, marked)
    assert extract("a.pdf", _written(writer)).text == (
        "The fee rises\n\nNotes:\nAnn: Since when?\nSince May."
    )


def test_files_in_a_pdf_are_named_and_counted_as_not_read():
    writer = PdfWriter(clone_from=io.BytesIO(pdf(Page(("(See the figures) Tj",), "See the figures"))))
    writer.add_attachment("figures.xlsx", b"PK")
    writer.add_attachment("données.csv", b"a;b")
    found = extract("a.pdf", _written(writer))
    assert found.text == "See the figures\n\nFiles in it: données.csv, figures.xlsx"
    assert found.metadata["note"] == "parts not read: 2 embedded files"


def test_pages_without_text_beside_pages_with_text_are_told_by_number():
    painted = "ET 0 0 50 50 re f BT"
    scan, page = Page((painted,), ""), Page(("(text) Tj",), "text")
    blank = Page((), "")
    pages = [page, scan, blank, *[scan] * 3, page, scan]
    found = extract("a.pdf", pdf(*pages))
    assert found.metadata["note"] == "pages without text (scanned?): 2, 4-6, 8"
    assert found.metadata["pages"] == len(found.metadata["page_starts"]) == 8
    assert "note" not in extract("a.pdf", pdf(page, blank)).metadata


def test_words_cut_at_the_end_of_a_line_are_whole_and_letters_without_a_meaning_are_not_text():
    cut = Page(("(a re-) Tj", "(lease of it) Tj"), "")
    assert extract("a.pdf", pdf(cut)).text.split() == ["a", "release", "of", "it"]
    unnamed = Page(("<0102030405060708> Tj",), "")
    found = extract("a.pdf", pdf(Page(("(text) Tj",), "text"), unnamed))
    assert found.text.strip() == "text"
    assert found.metadata["note"] == "pages without text (scanned?): 2"
