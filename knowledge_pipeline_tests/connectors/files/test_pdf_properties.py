"""Every word that a PDF shows comes out, in order, page by page, and where its links lead."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfWriter
from pypdf.annotations import FreeText, Link
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from knowledge_pipeline.chunking.registry import extract_links
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline_tests.thoroughness import examples

_ADDRESSES = ("https://a.example/x?q=1&r=2#z", "http://b.example/", "https://c.example/d_e")


@dataclass(frozen=True)
class Page:
    """Operators that show lines of text, the lines, and the addresses of the page's links."""

    operators: tuple[str, ...]
    seen: str
    links: tuple[str, ...] = ()


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
        writer.add_annotation(blank, FreeText(text="zzz", rect=(0, 0, 9, 9)))
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
_LINE = st.lists(_WORD, min_size=1, max_size=5).map(" ".join)
_WAY = st.sampled_from(["literal", "hexadecimal", "kerned", "in two"])
_LINES = st.lists(st.tuples(_LINE, _WAY, st.integers(0, 30)), min_size=1, max_size=4)
_PAGE = st.builds(
    lambda lines, addresses: Page(
        tuple(_shown(*line) for line in lines), "\n".join(text for text, _, _ in lines), tuple(addresses)
    ),
    _LINES,
    st.lists(st.sampled_from(_ADDRESSES), max_size=2),
)


def check(pages: list[Page], *, compressed: bool) -> None:
    found = extract("a.pdf", pdf(*pages, compressed=compressed))
    starts = found.metadata["page_starts"]
    ends = [*starts[1:], len(found.text)]
    for page, start, end in zip(pages, starts, ends, strict=True):
        text, _, told = found.text[start:end].partition("Links: ")
        assert text.split() == page.seen.split()
        assert set(told.split()) == set(page.links) == set(extract_links(told))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(_PAGE, min_size=1, max_size=3), st.booleans())
def test_a_pdf_says_all_its_words_in_order_and_nothing_else(pages, compressed):
    check(pages, compressed=compressed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(_PAGE, min_size=1, max_size=5), st.booleans())
def test_many_pdfs_say_all_their_words_in_order_and_nothing_else(pages, compressed):
    check(pages, compressed=compressed)


def test_an_address_that_a_page_shows_is_not_told_again():
    page = Page(("(See http://b.example/) Tj",), "", ("http://b.example/", "mailto:ann@example.org"))
    assert extract("a.pdf", pdf(page)).text == "See http://b.example/"


def test_a_scan_with_links_alone_has_no_text():
    with pytest.raises(DocumentSkipped, match="without a text layer"):
        extract("a.pdf", pdf(Page(("() Tj",), "", ("http://b.example/",))))


@pytest.mark.parametrize("broken", [b"/Annots 7", b"/Annots [7(x)]", b"/Annots 99 0 R", b"/Annots [99 0 R]"])
def test_broken_links_cost_no_text(broken):
    whole = pdf(Page(("(kept) Tj",), "kept"))
    assert whole.count(b"/Annots") == 1
    start = whole.index(b"/Annots")
    end = whole.index(b"]", start) + 1
    assert len(broken) <= end - start
    assert extract("a.pdf", whole[:start] + broken.ljust(end - start) + whole[end:]).text == "kept"
