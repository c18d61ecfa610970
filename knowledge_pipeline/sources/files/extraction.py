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
from knowledge_pipeline.sources.files.text_decoding import READING_VERSION, text_of

_FORMAT = "2"


@dataclass(frozen=True, slots=True)
class Extracted:
    """Text of one file, and what the file says about itself."""

    text: str
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    language: str | None = None  # of the text: "markdown" for what was converted to it


@cache
def extraction_version() -> str:
    """Changes whenever the same bytes may give another text: a parser's version is part of it."""
    parsers = ("pypdf", "python-docx", "beautifulsoup4", "lxml", "markdownify")
    return "+".join([_FORMAT, READING_VERSION, *(installed_version(parser) for parser in parsers)])


def extract(name: str, payload: bytes) -> Extracted:
    """The text of one file; its format is told by the extension of its name.

    Metadata of a PDF has `page_starts`: for each page, the offset in characters at which
    its text begins. The text never holds NUL or a lone surrogate.

    Raises:
        DocumentSkipped: the file is not what its name says, is encrypted, or has no text.
    """
    found = _format_of(name)(payload)
    if not found.text or found.text.isspace():
        raise DocumentSkipped("empty")
    return found


def is_plain_text(name: str) -> bool:
    """Whether reading the file takes no parser."""
    return _format_of(name) is _plain


def _format_of(name: str) -> Callable[[bytes], Extracted]:
    extension = name.rpartition(".")[2].lower()
    return {"pdf": _pdf, "docx": _docx, "html": _html, "htm": _html, "xhtml": _html}.get(extension, _plain)


def _plain(payload: bytes) -> Extracted:
    return Extracted(text_of(payload), language="text")


def _pdf(payload: bytes) -> Extracted:
    from knowledge_pipeline.sources.files.pdf import read_pdf

    return read_pdf(payload)


def _docx(payload: bytes) -> Extracted:
    from knowledge_pipeline.sources.files.docx import read_docx

    return read_docx(payload)


def _html(payload: bytes) -> Extracted:
    from knowledge_pipeline.sources.files.html import read_html

    return read_html(payload)
