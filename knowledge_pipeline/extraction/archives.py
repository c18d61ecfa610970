"""Files that are ZIP archives, as those of offices are: bounds, passwords, and what is wrong."""

from __future__ import annotations

import zlib
from contextlib import suppress
from io import BytesIO
from zipfile import BadZipFile, ZipFile

from knowledge_pipeline.errors import DocumentSkipped

MAX_UNPACKED_BYTES = 200_000_000
MAX_PARTS = 20_000
_OLD_FORMAT_START = b"\xd0\xcf\x11\xe0"  # a compound file: before 2007, or encrypted
# https://learn.microsoft.com/openspecs/office_file_formats/ms-offcrypto
_ENCRYPTED_STREAM = "EncryptedPackage".encode("utf-16-le")
_BROKEN = (BadZipFile, KeyError, ValueError, NotImplementedError, OSError, RuntimeError, EOFError, zlib.error)
_MAX_MANIFEST_BYTES = 10_000_000


def require_bounded_archive(payload: bytes, kind: str) -> None:
    """Skip an office file that is no ZIP archive, or unpacks to far more than a document has.

    `kind` is its format in capitals, for the reason.
    """
    try:
        with ZipFile(BytesIO(payload)) as archive:
            parts = archive.infolist()
    except (BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise DocumentSkipped(
            describe_broken_archive(payload, kind, "its archive is cut or damaged")
        ) from error
    unpacked = sum(part.file_size for part in parts)
    if unpacked > MAX_UNPACKED_BYTES or len(parts) > MAX_PARTS:
        raise DocumentSkipped(f"{kind} that unpacks to {unpacked} bytes in {len(parts)} parts")


def describe_broken_archive(payload: bytes, kind: str, reason: str) -> str:
    """Why an office file cannot be read, by its first bytes and what its reader met."""
    if payload.startswith(_OLD_FORMAT_START):
        return f"an old {kind[:3]} file under the name of a {kind}, which is not read"
    if not payload.startswith(b"PK"):
        return f"not a {kind} file, though its name says so"
    return f"broken {kind} ({reason})"


def require_no_password(payload: bytes) -> None:
    """Skip an office file that is encrypted: Office packs it into a compound file, ODF says so within."""
    if payload.startswith(_OLD_FORMAT_START) and _ENCRYPTED_STREAM in payload:
        raise DocumentSkipped("encrypted with a password")
    if payload.startswith(b"PK"):
        manifest = b""
        with suppress(*_BROKEN), ZipFile(BytesIO(payload)) as archive:  # what is broken, its reader tells
            manifest = archive.open("META-INF/manifest.xml").read(_MAX_MANIFEST_BYTES)
        if b"encryption-data" in manifest:
            raise DocumentSkipped("encrypted with a password")
