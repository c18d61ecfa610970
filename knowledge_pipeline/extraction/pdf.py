"""What PDF files say, page by page: their text layer, what forms are filled in with, notes, links.

PDFium reads them: native code, so this runs in the child process of `ExtractionWorker`, which a malformed
file may end. Files inside a PDF are named, not read.
"""

# pypdfium2 has no types: its raw functions are made from PDFium's headers.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate
from typing import Any

import pypdfium2.raw as pdfium
from pypdfium2 import PdfDocument, PdfiumError, PdfPage

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.text_decoding import ExtractedText, add_note, add_unread, limit_chars
from knowledge_pipeline.records import Metadata

MAX_PAGES = 5_000
MAX_LINKS_PER_PAGE = 100
_MAX_OPTIONS = 1_000  # of a list to choose from
_MAX_RANGES_TOLD = 20
_WEB_ADDRESS = re.compile(r"^https?://[^\s<>\x00-\x1f]{1,2000}$")
_SEPARATOR = "\n\n"
_HYPHENATED = "\ufffe"  # PDFium's mark for a hyphen at the end of a line, within a word
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\uffff]")
"""What PDFium gives for a glyph whose letter the file does not tell: its number in the font."""
_ENCRYPTED = {
    pdfium.FPDF_ERR_PASSWORD: "encrypted with a password",
    pdfium.FPDF_ERR_SECURITY: "encrypted in a way that is not read",
}
_UNSEEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_WITHOUT_NOTE = (pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_POPUP, pdfium.FPDF_ANNOT_WIDGET)
_WITHOUT_VALUE = (pdfium.FPDF_FORMFIELD_PUSHBUTTON, pdfium.FPDF_FORMFIELD_SIGNATURE)
_TICKED = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
_CHOSEN = (pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)


def read_pdf(payload: bytes) -> ExtractedText:
    """Text of all pages, joined; `page_starts` says where each begins.

    After a page's text stand the values of its form fields, its notes, and the addresses of its links that
    the text does not contain.

    Raises `DocumentSkipped`: it is no PDF, encrypted or broken, has too many pages, or no text.
    """
    if b"%PDF-" not in payload[:1_024]:  # readers allow that much before it
        raise DocumentSkipped("not a PDF file, though its name says so")
    try:
        with PdfDocument(payload) as document:
            document.init_forms()
            return _Reading(document, limit_chars(len(payload))).read()
    except PdfiumError as error:
        raise DocumentSkipped(_ENCRYPTED.get(error.err_code or 0, "broken PDF")) from error


class _Reading:
    def __init__(self, document: PdfDocument, max_chars: int) -> None:
        self._document, self._max_chars = document, max_chars
        self._fields = set[tuple[str, str]]()  # a field may be on many pages
        self._files = set[str]()
        self._without_text: list[int] = []
        self._unreadable: list[int] = []

    def read(self) -> ExtractedText:
        count = len(self._document)
        if count > MAX_PAGES:
            raise DocumentSkipped(f"more than {MAX_PAGES} pages ({count})")
        pages = list(self._iter_pages(count))
        if not any(pages):
            if len(self._unreadable) == count:
                raise DocumentSkipped("broken PDF (none of its pages can be read)")
            raise DocumentSkipped("PDF without a text layer (scanned?)")
        files = sorted(self._files.union(self._iter_embedded_files()))
        if files:
            pages[-1] = f"{pages[-1]}\n\nFiles in it: {', '.join(files)}".lstrip()
        starts = list(accumulate((len(page) + len(_SEPARATOR) for page in pages[:-1]), initial=0))
        metadata: Metadata = {"format": "pdf", "pages": count, "page_starts": starts}
        metadata = self._add_notes(metadata, len(files))
        title = " ".join(_clean_text(self._document.get_metadata_value("Title")).split())
        return ExtractedText(_SEPARATOR.join(pages), title, metadata, language="text")

    def _iter_pages(self, count: int) -> Iterator[str]:
        """The texts of the pages, to the one that exceeds a limit; `extract` cuts it, and says so."""
        left = self._max_chars
        for number in range(1, count + 1):
            try:
                page = self._document[number - 1]
            except PdfiumError:
                self._unreadable.append(number)
                yield ""
                continue
            with closing(page):
                text = self._read_page(page, number)
            yield text
            left -= len(text)
            if left < 0:
                return

    def _read_page(self, page: PdfPage, number: int) -> str:
        text = _read_text(page)
        # a blank page is nothing to tell of
        if not text and pdfium.FPDFPage_CountObjects(page) > 0:
            self._without_text.append(number)
        fields, notes = list[str](), list[str]()
        for index in range(pdfium.FPDFPage_GetAnnotCount(page)):
            if annotation := pdfium.FPDFPage_GetAnnot(page, index):
                try:
                    self._read_annotation(annotation, text, fields, notes)
                finally:
                    pdfium.FPDFPage_CloseAnnot(annotation)
        parts = [text, *_format_lines("Fields", fields), *_format_lines("Notes", notes)]
        if any(parts):  # a scan with links alone has no text
            links = [link for link in dict.fromkeys(_iter_links(page)) if link not in text]
            parts += [f"Links: {' '.join(links[:MAX_LINKS_PER_PAGE])}"] if links else []
        return _SEPARATOR.join(filter(None, parts))

    def _read_annotation(self, annotation: Any, text: str, fields: list[str], notes: list[str]) -> None:
        """Add what it says, if a reader of the page sees it.

        Source: ISO 32000-1, 12.5.3 (flags), 12.5.6 (types of annotations) and 12.7 (forms)
        """
        subtype = pdfium.FPDFAnnot_GetSubtype(annotation)
        if pdfium.FPDFAnnot_GetFlags(annotation) & _UNSEEN:
            return
        if subtype == pdfium.FPDF_ANNOT_WIDGET:
            if (field := self._read_field(annotation)) and field not in self._fields:
                self._fields.add(field)
                fields.append(": ".join(filter(None, field)))
            return
        if subtype == pdfium.FPDF_ANNOT_FILEATTACHMENT:
            attached = pdfium.FPDFAnnot_GetFileAttachment(annotation)
            self._files.update(filter(None, [_read_file_name(attached)] if attached else []))
        if subtype not in _WITHOUT_NOTE:
            read = pdfium.FPDFAnnot_GetStringValue
            author, note = (_read_string(read, annotation, key) for key in (b"T", b"Contents"))
            if note and note not in text:
                notes.append(f"{author}: {note}" if author else note)

    def _read_field(self, widget: Any) -> tuple[str, str] | None:
        """Label and value of a field that is filled in."""
        form = self._document.formenv
        kind = pdfium.FPDFAnnot_GetFormFieldType(form, widget) if form else pdfium.FPDF_FORMFIELD_UNKNOWN
        flags = pdfium.FPDFAnnot_GetFormFieldFlags(form, widget) if form else 0
        if kind <= 0 or kind in _WITHOUT_VALUE or flags & pdfium.FPDF_FORMFLAG_TEXT_PASSWORD:
            return None
        value = ""
        if kind not in _TICKED:
            value = _join_options(form, widget) if kind in _CHOSEN else ""
            value = value or _read_string(pdfium.FPDFAnnot_GetFormFieldValue, form, widget)
        elif pdfium.FPDFAnnot_IsChecked(form, widget):
            value = _read_string(pdfium.FPDFAnnot_GetFormFieldExportValue, form, widget)
        label = _read_string(pdfium.FPDFAnnot_GetFormFieldAlternateName, form, widget)
        label = label or _read_string(pdfium.FPDFAnnot_GetFormFieldName, form, widget)
        return (label, value) if value else None

    def _iter_embedded_files(self) -> Iterator[str]:
        for index in range(pdfium.FPDFDoc_GetAttachmentCount(self._document)):
            if name := _read_file_name(pdfium.FPDFDoc_GetAttachment(self._document, index)):
                yield name

    def _add_notes(self, metadata: Metadata, files: int) -> Metadata:
        """The metadata with what of the file is not in the text."""
        notes: list[str] = []
        if self._without_text:
            notes.append(f"pages without text (scanned?): {_format_numbers(self._without_text)}")
        if self._unreadable:
            notes.append(f"pages that cannot be read: {_format_numbers(self._unreadable)}")
        is_xfa = self._document.get_formtype() == pdfium.FORMTYPE_XFA_FULL
        parts = {"embedded file": files, "form in XFA": int(is_xfa)}
        return add_unread(add_note(metadata, "; ".join(notes)), parts)


def _read_text(page: PdfPage) -> str:
    """The text layer of a page; empty where the file does not say which letters most of its glyphs are."""
    with closing(page.get_textpage()) as layer:
        count = max(pdfium.FPDFText_CountChars(layer), 0)
        buffer = (ctypes.c_ushort * (2 * count + 2))()  # a letter takes two at most
        written = pdfium.FPDFText_GetText(layer, 0, count, buffer)
    text = bytes(memoryview(buffer)[: max(written - 1, 0)]).decode("utf-16-le", "replace")
    legible, without_letter = _NOT_TEXT.subn("", text)
    return "" if without_letter > len("".join(legible.split())) else _clean_text(legible)


def _iter_links(page: PdfPage) -> Iterator[str]:
    """Addresses of the web, as far as they can be read.

    Source: ISO 32000-1, 12.5.6.5 (link annotations) and 12.6.4.7 (URI actions)
    """
    position, link = ctypes.c_int(0), pdfium.FPDF_LINK()
    while pdfium.FPDFLink_Enumerate(page, position, link):
        if action := pdfium.FPDFLink_GetAction(link):
            size = pdfium.FPDFAction_GetURIPath(page.pdf, action, None, 0)
            buffer = ctypes.create_string_buffer(size)
            pdfium.FPDFAction_GetURIPath(page.pdf, action, buffer, size)
            written = buffer.raw[: max(size - 1, 0)].decode("utf-8", "replace")
            if _WEB_ADDRESS.match(written):
                yield written


def _join_options(form: Any, widget: Any) -> str:
    """What is chosen in a list, as people see it."""
    count = min(pdfium.FPDFAnnot_GetOptionCount(form, widget), _MAX_OPTIONS)
    chosen = (index for index in range(count) if pdfium.FPDFAnnot_IsOptionSelected(form, widget, index))
    return ", ".join(_read_string(pdfium.FPDFAnnot_GetOptionLabel, form, widget, index) for index in chosen)


def _read_file_name(attachment: Any) -> str:
    return " ".join(_read_string(pdfium.FPDFAttachment_GetName, attachment).split())


def _read_string(read: Callable[..., int], *arguments: Any) -> str:
    """What a function of PDFium writes into a buffer, whose size in bytes it gives."""
    size = read(*arguments, None, 0)
    buffer = (pdfium.FPDF_WCHAR * (size // 2 + 1))()
    read(*arguments, buffer, size)
    return _clean_text(_NOT_TEXT.sub("", bytes(buffer)[: max(size - 2, 0)].decode("utf-16-le", "replace")))


def _format_lines(title: str, lines: Sequence[str]) -> Iterable[str]:
    return ["\n".join([f"{title}:", *lines])] if lines else []


def _format_numbers(numbers: Sequence[int]) -> str:
    """Ascending numbers: "2, 4-6"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_MAX_RANGES_TOLD]]
    return ", ".join(shown) + (f" and more ({len(numbers)} in all)" if len(ranges) > len(shown) else "")


def _clean_text(text: str) -> str:
    """Text with words whole that a line's end divides, and without spaces at line ends."""
    lines = text.replace(_HYPHENATED, "").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()
