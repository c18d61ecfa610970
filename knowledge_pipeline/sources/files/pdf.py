"""The text layer of PDF files, page by page."""

from __future__ import annotations

import logging
from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import PdfReadError, PyPdfError

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.extraction import Extracted

MOST_PAGES = 5_000
_SEPARATOR = "\n\n"
_MARK_WITHIN_BYTES = 1_024  # readers allow that much before "%PDF-"


def read_pdf(payload: bytes) -> Extracted:
    """Text of all pages, joined; `page_starts` says where each begins.

    Raises:
        DocumentSkipped: no PDF, broken, encrypted, too many pages, or without any text.
    """
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every oddity of a file
    if b"%PDF-" not in payload[:_MARK_WITHIN_BYTES]:
        raise DocumentSkipped("not a PDF file, though its name says so")
    try:
        reader = PdfReader(BytesIO(payload))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentSkipped("encrypted PDF")
        return _joined(_pages(reader), _title(reader))
    except RecursionError as error:
        raise DocumentSkipped("broken PDF (nested too deeply)") from error
    except (
        PyPdfError,
        PdfReadError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        # pypdf lets the errors of its own parsing through when a file is broken
        raise DocumentSkipped(f"broken PDF ({type(error).__name__}: {str(error)[:200]})") from error
    except (ImportError, NotImplementedError) as error:
        raise DocumentSkipped(f"PDF that needs what is not installed ({str(error)[:200]})") from error


def _pages(reader: PdfReader) -> list[str]:
    count = len(reader.pages)
    if count > MOST_PAGES:
        raise DocumentSkipped(f"more than {MOST_PAGES} pages ({count})")
    return [_clean(page.extract_text()) for page in reader.pages]


def _joined(pages: list[str], title: str) -> Extracted:
    if not any(pages):
        raise DocumentSkipped("PDF without a text layer (scanned?)")
    starts: list[int] = []
    at = 0
    for page in pages:
        starts.append(at)
        at += len(page) + len(_SEPARATOR)
    metadata = {"format": "pdf", "pages": len(pages), "page_starts": starts}
    return Extracted(_SEPARATOR.join(pages), title, metadata, language="text")


def _title(reader: PdfReader) -> str:
    written = reader.metadata.title if reader.metadata else None
    return " ".join(_clean(written).split()) if isinstance(written, str) else ""


def _clean(text: str) -> str:
    """Text without NUL and lone surrogates, which odd font tables give, and without spaces at line ends."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", "")
    return "\n".join(
        line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    ).strip()
