"""The text layer of PDF files, page by page."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from itertools import accumulate

from pypdf import PageObject, PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import ArrayObject, DictionaryObject, PdfObject

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.text_decoding import ExtractedText, limit_chars

MAX_PAGES = 5_000
MAX_LINKS_PER_PAGE = 100  # of a page
_WEB_ADDRESS = re.compile(r"^https?://[^\s<>\x00-\x1f]{1,2000}$")
_SEPARATOR = "\n\n"


def read_pdf(payload: bytes) -> ExtractedText:
    """Text of all pages, joined; `page_starts` says where each begins.

    The addresses of a page's links that its text does not contain stand at its end.
    """
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every oddity of a file
    if b"%PDF-" not in payload[:1_024]:  # readers allow that much before it
        raise DocumentSkipped("not a PDF file, though its name says so")
    try:
        reader = PdfReader(BytesIO(payload))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentSkipped("encrypted PDF")
        if len(reader.pages) > MAX_PAGES:
            raise DocumentSkipped(f"more than {MAX_PAGES} pages ({len(reader.pages)})")
        pages = list(_iter_pages(reader, limit_chars(len(payload))))
        title = reader.metadata.title if reader.metadata else None
        title = " ".join(_clean_text(title).split()) if isinstance(title, str) else ""
    except DocumentSkipped:
        raise
    except (ImportError, NotImplementedError) as error:
        raise DocumentSkipped(f"PDF that needs what is not installed ({str(error)[:200]})") from error
    except Exception as error:  # pypdf lets the errors of its own parsing through when a file is broken
        raise DocumentSkipped(f"broken PDF ({type(error).__name__}: {str(error)[:200]})") from error
    if not any(pages):
        raise DocumentSkipped("PDF without a text layer (scanned?)")
    starts = list(accumulate((len(page) + len(_SEPARATOR) for page in pages[:-1]), initial=0))
    metadata = {"format": "pdf", "pages": len(reader.pages), "page_starts": starts}
    return ExtractedText(_SEPARATOR.join(pages), title, metadata, language="text")


def _iter_pages(reader: PdfReader, max_chars: int) -> Iterator[str]:
    """The texts of the pages, to the one that exceeds a limit; `extract` cuts it, and says so."""
    for page in reader.pages:
        text = _clean_text(page.extract_text())
        links = [link for link in dict.fromkeys(_iter_links(page)) if link not in text]
        if text and links:
            text += f"\n\nLinks: {' '.join(links[:MAX_LINKS_PER_PAGE])}"
        yield text
        max_chars -= len(text)
        if max_chars < 0:
            return


def _iter_links(page: PageObject) -> Iterator[str]:
    """Addresses of the web, as far as they can be read.

    Source: ISO 32000-1, 12.5.6.5 (link annotations) and 12.6.4.7 (URI actions)
    """
    annotations = _get_object(page, "/Annots")
    for annotation in annotations if isinstance(annotations, ArrayObject) else ():
        url = _get_object(_get_object(annotation, "/A"), "/URI")
        written = url.decode("latin-1") if isinstance(url, bytes) else str(url)
        if _WEB_ADDRESS.match(written):
            yield written


def _get_object(holder: object, key: str) -> object:
    """What a dictionary of the file has under a key; None where it is none, or broken."""
    with suppress(PyPdfError, AttributeError, LookupError, TypeError, ValueError):
        content = holder.get_object() if isinstance(holder, PdfObject) else holder
        return content[key].get_object() if isinstance(content, DictionaryObject) and key in content else None
    return None


def _clean_text(text: str) -> str:
    """Text without NUL and lone surrogates, which odd font tables give, and without spaces at line ends."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", "")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()
