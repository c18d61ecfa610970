"""From a document back to the bytes of the file that it was read from.

A document is text: its byte order mark is gone, and its line ends are one character. What that
cannot tell is kept in the document's metadata, under `original`: nothing for the usual file (UTF-8,
no mark, "\\n"), a few words for a file that is regular in another way, else the file itself.
"""

from __future__ import annotations

import base64
import codecs
import zlib
from typing import Any

from knowledge_pipeline.records import Metadata

ORIGINAL_KEY = "original"
"""Key of a document's metadata. It may hold what a sanitizer would take out: not for chunks."""

_BYTE_ORDER_MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}


def build_original_metadata(text: str, payload: bytes) -> dict[str, Any]:
    """Metadata from which `original_bytes` makes `payload` of `text`; empty for the usual file."""
    ways: list[dict[str, Any]] = [{}, {ORIGINAL_KEY: {"newlines": "crlf"}}]
    for encoding, mark in _BYTE_ORDER_MARKS.items():
        if payload.startswith(mark):
            ways += [{ORIGINAL_KEY: {"encoding": encoding, "newlines": ends}} for ends in ("lf", "crlf")]
    for way in ways:
        if restore_original_bytes(text, way) == payload:
            return way
    packed = base64.b85encode(zlib.compress(payload, 9)).decode("ascii")
    return {ORIGINAL_KEY: {"bytes": packed}}  # zlib, base 85


def restore_original_bytes(document_text: str, metadata: Metadata) -> bytes:
    """The bytes of the file that a document was read from, by its text and its metadata."""
    original: dict[str, Any] = metadata.get(ORIGINAL_KEY, {})
    if "bytes" in original:
        return zlib.decompress(base64.b85decode(original["bytes"]))
    text = document_text.replace("\n", "\r\n") if original.get("newlines") == "crlf" else document_text
    encoding = original.get("encoding")
    return text.encode() if encoding is None else _BYTE_ORDER_MARKS[encoding] + text.encode(encoding)
