"""Books in EPUB as Markdown: their chapters in the order of reading, each read as a page of HTML.

Source: https://www.w3.org/TR/epub-33/
"""

from __future__ import annotations

import posixpath
import warnings
from io import BytesIO
from typing import Any
from urllib.parse import unquote
from zipfile import ZipFile

from bs4 import XMLParsedAsHTMLWarning

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.archives import describe_broken_archive, require_bounded_archive
from knowledge_pipeline.extraction.html import read_html
from knowledge_pipeline.extraction.office_package import parse_part
from knowledge_pipeline.extraction.text_decoding import MAX_CHARS, ExtractedText
from knowledge_pipeline.records import Metadata

_OPF = "{http://www.idpf.org/2007/opf}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_MAX_CHAPTERS = 10_000


def read_epub(payload: bytes) -> ExtractedText:
    """The chapters, without what a chapter's page leaves out; title and author as the book names them."""
    require_bounded_archive(payload, "EPUB")
    try:
        with ZipFile(BytesIO(payload)) as archive:
            path, package = _find_package(archive)
            chapters, unread = _read_chapters(archive, path, package)
    except DocumentSkipped:
        raise
    except Exception as error:  # a broken file: zipfile, zlib and lxml raise many kinds
        raise DocumentSkipped(describe_broken_archive(payload, "EPUB", "its parts cannot be read")) from error
    metadata: Metadata = {"format": "epub", "chapters": len(chapters)}
    if unread:
        metadata["note"] = f"parts not read: {unread:,} of {len(chapters) + unread:,} chapters"
    texts = (package.findtext(f".//{_DC}{name}") or "" for name in ("title", "creator"))
    title, author = (" ".join(text.split()) for text in texts)
    return ExtractedText("\n\n".join(chapters), title, metadata, "markdown", author or None)


def _find_package(archive: ZipFile) -> tuple[str, Any]:
    """The path of the package's description, and what is in it."""
    container = parse_part(archive, "META-INF/container.xml")
    path = next(str(element.get("full-path")) for element in container.iter("{*}rootfile"))
    return path, parse_part(archive, path)


def _read_chapters(archive: ZipFile, package_path: str, package: Any) -> tuple[list[str], int]:
    """The texts of the chapters, and how many cannot be read."""
    encrypted = _list_encrypted(archive)
    hrefs = {item.get("id"): item.get("href") for item in package.iter(f"{_OPF}item")}
    chapters, unread, chars = list[str](), 0, 0
    for reference in list(package.iter(f"{_OPF}itemref"))[:_MAX_CHAPTERS]:
        href = unquote(hrefs.get(reference.get("idref")) or "")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(package_path), href))
        if path in encrypted:
            raise DocumentSkipped("encrypted by its digital rights management")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)  # it is both
                text = read_html(archive.read(path)).text.strip()
        except (DocumentSkipped, KeyError):
            unread += 1
            continue
        chapters += [text] if text else []
        chars += len(text)
        if chars > MAX_CHARS:
            break
    return chapters, unread


def _list_encrypted(archive: ZipFile) -> set[str]:
    if "META-INF/encryption.xml" not in archive.NameToInfo:
        return set()
    listed = parse_part(archive, "META-INF/encryption.xml")
    return {unquote(str(element.get("URI"))) for element in listed.iter("{*}CipherReference")}
