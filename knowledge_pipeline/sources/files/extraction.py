"""From the bytes of one file to text: PDF, DOCX, HTML, and plain text.

`extract` is a pure function; `extraction_worker` runs it where a broken or hostile file
can do no harm. DOCX and HTML become Markdown, so that headings, tables and code survive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version as installed_version

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Metadata
from knowledge_pipeline.sources.files.text_decoding import DECODING_VERSION, decode_text

_FORMAT_VERSION = "2"


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """Text of one file, and what the file says about itself."""

    text: str
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    language: str | None = None  # of the text: "markdown" for what was converted to it


@cache
def extraction_version() -> str:
    """Changes whenever the same bytes may give another text: a parser's version is part of it."""
    parsers = ("pypdf", "python-docx", "beautifulsoup4", "lxml", "markdownify")
    return "+".join([_FORMAT_VERSION, DECODING_VERSION, *(installed_version(parser) for parser in parsers)])


def extract(name: str, payload: bytes) -> ExtractedText:
    """The text of one file; its format is told by the extension of its name.

    Metadata of a PDF has `page_starts`: for each page, the offset in characters at which
    its text begins. The text never holds NUL or a lone surrogate.

    Raises:
        DocumentSkipped: the file is not what its name says, is encrypted, or has no text.
    """
    found = _select_parser(name)(payload)
    if not found.text or found.text.isspace():
        raise DocumentSkipped("empty")
    return found


def is_plain_text(name: str) -> bool:
    """Whether reading the file takes no parser."""
    return _select_parser(name) is _parse_plain_text


def _select_parser(name: str) -> Callable[[bytes], ExtractedText]:
    extension = name.rpartition(".")[2].lower()
    return {
        "pdf": _parse_pdf,
        "docx": _parse_docx,
        "html": _parse_html,
        "htm": _parse_html,
        "xhtml": _parse_html,
    }.get(extension, _parse_plain_text)


def _parse_plain_text(payload: bytes) -> ExtractedText:
    return ExtractedText(decode_text(payload), language="text")


def _parse_pdf(payload: bytes) -> ExtractedText:
    from knowledge_pipeline.sources.files.pdf import read_pdf

    return read_pdf(payload)


def _parse_docx(payload: bytes) -> ExtractedText:
    from knowledge_pipeline.sources.files.docx import read_docx

    return read_docx(payload)


def _parse_html(payload: bytes) -> ExtractedText:
    from knowledge_pipeline.sources.files.html import read_html

    return read_html(payload)
