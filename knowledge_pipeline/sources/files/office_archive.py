"""Office files are ZIP archives; this says which are read, before anything is unpacked."""

from __future__ import annotations

from io import BytesIO
from zipfile import BadZipFile, ZipFile

from knowledge_pipeline.errors import DocumentSkipped

MAX_UNPACKED_BYTES = 200_000_000
MAX_PARTS = 20_000
_OLD_FORMAT_START = b"\xd0\xcf\x11\xe0"  # a compound file: before 2007, or encrypted


def require_bounded_archive(payload: bytes, kind: str) -> None:
    """Refuse an archive that unpacks to far more than a document has.

    Args:
        payload: the file.
        kind: its format in capitals, for the reason.

    Raises:
        DocumentSkipped: it is too large, or no ZIP archive.
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
