"""Word documents as Markdown: headings, lists, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from zipfile import BadZipFile, LargeZipFile, ZipFile

from docx import Document as open_docx
from docx.document import Document as WordDocument
from docx.opc.exceptions import OpcError
from docx.table import Table
from docx.text.paragraph import Paragraph
from lxml.etree import LxmlError

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.extraction import Extracted

MOST_UNPACKED_BYTES = 200_000_000
MOST_PARTS = 20_000
_HEADING = re.compile(r"^heading (?P<level>[1-9])$", re.IGNORECASE)
_LIST = re.compile(r"^list (?P<kind>bullet|number)(?: (?P<level>\d))?$", re.IGNORECASE)


def read_docx(payload: bytes) -> Extracted:
    """Paragraphs and tables in order, as Markdown; text boxes, notes and comments are left out.

    Raises:
        DocumentSkipped: no Word document, broken, encrypted, or it unpacks to too much.
    """
    try:
        _check_size(payload)
        document = open_docx(BytesIO(payload))
        text = _markdown(document)
        written = document.core_properties.title
    except (BadZipFile, LargeZipFile, OpcError, KeyError, ValueError, NotImplementedError) as error:
        raise DocumentSkipped(_why(payload, error)) from error
    except (LxmlError, AttributeError, IndexError, TypeError, EOFError, OSError, RuntimeError) as error:
        # zipfile and python-docx let the errors of their own parsing through when a file is broken
        raise DocumentSkipped(f"broken DOCX ({type(error).__name__}: {str(error)[:200]})") from error
    first = re.search(r"^#+ (.+)$", text, re.MULTILINE)
    title = " ".join((written or "").split()) or (first[1] if first else "")
    return Extracted(text, title, {"format": "docx"}, language="markdown")


def _check_size(payload: bytes) -> None:
    """Refuse what unpacks to far more than a document does, before anything is unpacked."""
    with ZipFile(BytesIO(payload)) as archive:
        parts = archive.infolist()
    unpacked = sum(part.file_size for part in parts)
    if unpacked > MOST_UNPACKED_BYTES or len(parts) > MOST_PARTS:
        raise DocumentSkipped(f"DOCX that unpacks to {unpacked} bytes in {len(parts)} parts")


def _why(payload: bytes, error: Exception) -> str:
    if payload.startswith(b"\xd0\xcf\x11\xe0"):
        return "encrypted DOCX, or an old DOC file under its name"
    if not payload.startswith(b"PK"):
        return "not a DOCX file, though its name says so"
    return f"broken DOCX ({type(error).__name__}: {str(error)[:200]})"


def _markdown(document: WordDocument) -> str:
    blocks = (
        _table(block) if isinstance(block, Table) else _paragraph(block)
        for block in document.iter_inner_content()
    )
    joined = "\n\n".join(block for block in blocks if block)
    return re.sub(r"(?m)^( *(?:-|1\.) .*)\n\n(?= *(?:-|1\.) )", r"\1\n", joined)


def _paragraph(paragraph: Paragraph) -> str:
    text = paragraph.text.replace("\t", " ").strip()
    style = (paragraph.style.name if paragraph.style is not None else None) or ""
    heading, listed = _HEADING.match(style), _LIST.match(style)
    if not text:
        return ""
    if heading or style == "Title":
        level = min(int(heading["level"]), 6) if heading else 1
        return f"{'#' * level} {' '.join(text.split())}"
    if listed:
        indent = "  " * (int(listed["level"] or 1) - 1)
        return f"{indent}{'-' if listed['kind'].lower() == 'bullet' else '1.'} {text}"
    return text


def _table(table: Table) -> str:
    rows = [f"| {' | '.join(_cells(row.cells))} |" for row in table.rows]
    if not rows:
        return ""
    rule = f"|{' --- |' * max(1, len(table.columns))}"
    return "\n".join([rows[0], rule, *rows[1:]])


def _cells(cells) -> Iterator[str]:
    """Text of each cell; a merged one gives its text once."""
    last = None
    for cell in cells:
        merged, last = cell._tc is last, cell._tc
        yield "" if merged else " ".join(cell.text.split()).replace("|", "\\|")
