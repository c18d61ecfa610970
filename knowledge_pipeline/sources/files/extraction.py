"""From the bytes of one file to text: PDF, DOCX, HTML, notebooks, and plain text.

`extract` is a pure function; `extraction_worker` runs it where a broken or hostile file
can do no harm. DOCX, HTML and notebooks become Markdown, so that headings, tables and code survive.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import version as installed_version

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.text_decoding import (
    DECODING_VERSION,
    ExtractedText,
    decode_text,
    limit_chars,
)

_FORMAT_VERSION = "2"


@cache
def extraction_version() -> str:
    """Changes whenever the same bytes may give another text: a parser's version is part of it."""
    parsers = ("pypdf", "python-docx", "beautifulsoup4", "lxml", "markdownify")
    return "+".join([_FORMAT_VERSION, DECODING_VERSION, *(installed_version(parser) for parser in parsers)])


def extract(name: str, payload: bytes) -> ExtractedText:
    """The text of one file; the extension of its name says which format it has.

    Metadata of a PDF has `page_starts`: for each page, the offset in characters at which
    its text begins. The text never holds NUL or a lone surrogate.

    Raises:
        DocumentSkipped: the file is not what its name says, is encrypted, or has no text.
    """
    match _format_of(name):
        case "pdf":
            from knowledge_pipeline.sources.files.pdf import read_pdf as read
        case "docx":
            from knowledge_pipeline.sources.files.docx import read_docx as read
        case "html" | "htm" | "xhtml":
            from knowledge_pipeline.sources.files.html import read_html as read
        case "ipynb":
            from knowledge_pipeline.sources.files.notebook import read_notebook as read
        case _:
            return ExtractedText(decode_text(payload), language="text")
    extracted = _limit_text(read(payload), limit_chars(len(payload)))
    if not extracted.text or extracted.text.isspace():
        raise DocumentSkipped("empty")
    return extracted


def _limit_text(extracted: ExtractedText, max_chars: int) -> ExtractedText:
    if len(extracted.text) <= max_chars:
        return extracted
    note = f"cut after {max_chars:,} characters: its text is out of proportion to its size"
    return replace(extracted, text=extracted.text[:max_chars], metadata={**extracted.metadata, "note": note})


def is_plain_text(name: str) -> bool:
    """Whether reading the file takes no parser."""
    return _format_of(name) not in {"pdf", "docx", "html", "htm", "xhtml", "ipynb"}


def _format_of(name: str) -> str:
    return name.rpartition(".")[2].lower()
