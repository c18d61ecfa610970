"""Word documents as Markdown: headings, lists, tables, links, notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import BadZipFile, ZipFile

from docx import Document as open_docx
from docx.document import Document as WordDocument
from docx.opc.constants import RELATIONSHIP_TYPE as RELATION
from docx.opc.exceptions import OpcError
from docx.opc.part import Part
from docx.oxml import parse_xml

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.docx_text import DocxRenderer
from knowledge_pipeline.sources.files.text_decoding import ExtractedText

MAX_UNPACKED_BYTES = 200_000_000
MAX_PARTS = 20_000


def read_docx(payload: bytes) -> ExtractedText:
    """Paragraphs and tables in order, then notes, as Markdown; headers, footers and comments are left out.

    What tracked changes inserted is there, what they deleted is not, and neither is hidden text.

    Raises:
        DocumentSkipped: no Word document, broken, encrypted, or it unpacks to too much.
    """
    try:
        _check_size(payload)
        document = open_docx(BytesIO(payload))
        text = _to_markdown(document)
        written = document.core_properties.title
    except DocumentSkipped:
        raise
    except (
        Exception
    ) as error:  # zipfile, zlib, lxml and python-docx let many kinds through: the file is broken
        raise DocumentSkipped(_describe_failure(payload, error)) from error
    first = re.search(r"^#+ (.+)$", text, re.MULTILINE)
    title = " ".join((written or "").split()) or (first[1] if first else "")
    return ExtractedText(text, title, {"format": "docx"}, language="markdown")


def _check_size(payload: bytes) -> None:
    """Refuse what unpacks to far more than a document does, before anything is unpacked."""
    with ZipFile(BytesIO(payload)) as archive:
        parts = archive.infolist()
    unpacked = sum(part.file_size for part in parts)
    if unpacked > MAX_UNPACKED_BYTES or len(parts) > MAX_PARTS:
        raise DocumentSkipped(f"DOCX that unpacks to {unpacked} bytes in {len(parts)} parts")


def _describe_failure(payload: bytes, error: Exception) -> str:
    if isinstance(error, (BadZipFile, OpcError, KeyError, ValueError)):
        if payload.startswith(b"\xd0\xcf\x11\xe0"):
            return "encrypted DOCX, or an old DOC file under its name"
        if not payload.startswith(b"PK"):
            return "not a DOCX file, though its name says so"
    return f"broken DOCX ({type(error).__name__}: {str(error)[:200]})"


def _to_markdown(document: WordDocument) -> str:
    styles = {style.style_id: style.name or "" for style in document.styles}
    writer = DocxRenderer(styles, _links_by_id(document.part))
    text = writer.render(document.element.body)
    notes: dict[str, str] = {}
    for relation in document.part.rels.values():
        if relation.reltype in (RELATION.FOOTNOTES, RELATION.ENDNOTES):
            kind = "end" if relation.reltype == RELATION.ENDNOTES else ""
            notes |= {kind + id_: note for id_, note in _iter_notes(relation.target_part, styles)}
    note_lines = (f"[^{name}]: {notes[name]}" for name in dict.fromkeys(writer.note_names) if notes.get(name))
    return "\n\n".join(filter(None, [text, *note_lines]))


def _links_by_id(part: Part) -> dict[str, str]:
    relations = part.rels.items()
    return {id_: each.target_ref for id_, each in relations if each.reltype == RELATION.HYPERLINK}


def _iter_notes(part: Part, styles: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Every note's id and text."""
    writer = DocxRenderer(styles, _links_by_id(part))
    element: Any
    for element in parse_xml(part.blob):
        names = [value for key, value in element.attrib.items() if key.endswith("}id")]
        yield "".join(names), " ".join(" ".join(writer.iter_blocks(element)).split())
