"""From a file's bytes to a document's text, and which office files are read at all."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from typing import Any
from zipfile import BadZipFile, ZipFile

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Metadata

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_DECLARED_ENCODING = re.compile(
    rb"^(?:[^\n]*\n)?[ \t\f]*(?:#|//|/\*|;|%|--)[^\n]*?coding[:=][ \t]*(?P<encoding>[-\w.]+)"
)

MAX_CHARS = 20_000_000  # of one document's text
_MIN_CHARS_LIMIT = 1_000_000
_CHARS_PER_BYTE = 20  # prose is packed to a fifth

DECODING_VERSION = "1"
"""Changes whenever the same bytes may give another text."""


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The text of one file, and what the file says about itself."""

    text: str
    title: str = ""
    metadata: Metadata = field(default_factory=dict[str, Any])
    language: str | None = None  # of the text: "markdown" for what was converted to it
    author: str | None = None  # None: what the tree says
    last_modified: datetime | None = None  # None: what the tree says


def limit_chars(size_bytes: int) -> int:
    """How many characters of a file's text are kept: a few kB can hold the same page a thousand times."""
    return min(MAX_CHARS, max(_MIN_CHARS_LIMIT, _CHARS_PER_BYTE * size_bytes))


def decode_text(payload: bytes) -> str:
    r"""The text of a file in UTF-8, or in the encoding that it declares.

    The byte order mark is dropped and "\r\n" becomes "\n"; nothing else is changed.

    Raises:
        DocumentSkipped: it is binary, empty, or in an unknown encoding.
    """
    text = _decode(payload).replace("\r\n", "\n")
    if "\0" in text:
        raise DocumentSkipped("binary file")
    if not text or text.isspace():
        raise DocumentSkipped("empty")
    return text


def _decode(payload: bytes) -> str:
    """Decode strictly; charset-normalizer took French and Polish for other alphabets."""
    encoding = next((encoding for mark, encoding in _BOMS if payload.startswith(mark)), None)
    if encoding is None and b"\0" in payload:
        raise DocumentSkipped("binary file")
    try:
        return payload.decode(encoding or "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        reason = f"not valid {(encoding or 'utf-8').upper()} at byte {error.start}"
        if encoding is not None:
            raise DocumentSkipped(f"{reason}, though its byte order mark says so") from error
        return _decode_as_declared(payload, reason)


def _decode_as_declared(payload: bytes, reason: str) -> str:
    """Text in the encoding that one of the first two lines declares, as Python, Ruby and Emacs write it.

    Source: https://peps.python.org/pep-0263/
    """
    declared = _DECLARED_ENCODING.match(payload)
    try:
        if declared is not None:
            text = payload.decode(declared["encoding"].decode("ascii"))
            text.encode()  # some encodings of Python give lone surrogates, which cannot be stored
            return text
    except (UnicodeError, LookupError):
        pass  # the first reason says more
    raise DocumentSkipped(reason)


MAX_UNPACKED_BYTES = 200_000_000
MAX_PARTS = 20_000
_OLD_FORMAT_START = b"\xd0\xcf\x11\xe0"  # a compound file: before 2007, or encrypted


def require_bounded_archive(payload: bytes, kind: str) -> None:
    """Skip an office file that is no ZIP archive, or unpacks to far more than a document has.

    `kind` is its format in capitals, for the reason.
    """
    try:
        with ZipFile(BytesIO(payload)) as archive:
            parts = archive.infolist()
    except (BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise DocumentSkipped(describe_broken_archive(payload, kind, error)) from error
    unpacked = sum(part.file_size for part in parts)
    if unpacked > MAX_UNPACKED_BYTES or len(parts) > MAX_PARTS:
        raise DocumentSkipped(f"{kind} that unpacks to {unpacked} bytes in {len(parts)} parts")


def describe_broken_archive(payload: bytes, kind: str, error: Exception) -> str:
    """Why an office file cannot be read, by its first bytes and what its parser raised."""
    if payload.startswith(_OLD_FORMAT_START):
        return f"encrypted {kind}, or an old {kind[:3]} file under its name"
    if not payload.startswith(b"PK"):
        return f"not a {kind} file, though its name says so"
    return f"broken {kind} ({type(error).__name__}: {str(error)[:200]})"
