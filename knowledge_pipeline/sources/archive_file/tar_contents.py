"""Files of a TAR archive, as it is or packed by gzip: listed by one reading of the whole.

TAR has no checksums of contents, so that all are read to be compared. A listing that ends without the end's
mark is an error: the rest is missing.
"""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zlib
from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO, Self, cast

from knowledge_pipeline.sources.archive_file.packed_files import (
    ChangedArchive,
    PackedFile,
    build_file,
    require_bounded,
    size_of,
    translate_damage,
)
from knowledge_pipeline.sources.files.local import NOT_REGULAR_REASON, SYMLINK_REASON

BLOCK_BYTES = 8 << 20  # read at once
HARD_LINK_REASON = "hard link, not followed"
SPARSE_REASON = "packed with its holes left out (tar --sparse), which is not read"

_HASHED_BYTES = 1 << 20  # at once
_MAX_HEADER_BYTES = 1 << 20  # which is read into memory
_NO_DIGEST = "0"
_EXTENSIONS = frozenset(
    (
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
        *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    )
)
_BROKEN = (tarfile.TarError, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError)


class TarContents:
    """A TAR archive that is open."""

    def __init__(self, raw: io.RawIOBase, packed_bytes: int, *, is_gzip: bool) -> None:
        self._packed_bytes = packed_bytes
        self._bytes = io.BufferedReader(raw, BLOCK_BYTES)
        # a position behind the last one is reached by reading on: documents are read in their order
        self._unpacked = gzip.GzipFile(fileobj=self._bytes) if is_gzip else self._bytes

    def list_files(self) -> Iterator[PackedFile]:
        """Every file and link; each file is read, and the archive up to its end."""
        count = total = 0
        with translate_damage(*_BROKEN):
            self._unpacked.seek(0)
            stream = cast(BinaryIO, self._unpacked)
            with tarfile.TarFile(
                fileobj=stream, tarinfo=_Header, encoding="utf-8", errors="surrogateescape"
            ) as opened:
                kept: list[tarfile.TarInfo] = vars(opened)["members"]
                while (header := opened.next()) is not None:
                    kept.clear()  # which has every header
                    count, total = count + 1, total + header.size
                    require_bounded(count, total, self._packed_bytes)
                    if not header.isdir():
                        yield self._to_file(header)
            self._require_whole_rest(total)

    def read(self, position: int, digest: str, limit_bytes: int) -> bytes:
        """The first bytes of a file; all of them are compared with its digest."""
        size = min(size_of(digest), limit_bytes)
        with translate_damage(*_BROKEN):
            self._unpacked.seek(position)
            content = self._unpacked.read(size)
        is_whole = size == size_of(digest)
        if len(content) < size or (is_whole and _format_digest(sha256(content).hexdigest(), size) != digest):
            raise ChangedArchive
        return content

    def close(self) -> None:
        """Free the archive's bytes."""
        self._unpacked.close()
        self._bytes.close()

    def _to_file(self, header: tarfile.TarInfo) -> PackedFile:
        skip, digest = _find_reason(header), _NO_DIGEST
        if skip is None:
            digest = self._hash_content(header.size)
        return build_file(
            header.name,
            _format_digest(digest, header.size),
            header.size,
            header.offset_data,
            executable=bool(header.mode & 0o111),
            skip=skip,
        )

    def _hash_content(self, size: int) -> str:
        """The digest of what follows."""
        hashed, left = sha256(), size
        while left:
            block = self._unpacked.read(min(left, _HASHED_BYTES))
            if not block:
                raise EOFError("it breaks off within a file")
            hashed.update(block)
            left -= len(block)
        return hashed.hexdigest()

    def _require_whole_rest(self, total: int) -> None:
        """Read what follows the end's mark: gzip has its checksum there."""
        while block := self._unpacked.read(_HASHED_BYTES):
            total += len(block)
            require_bounded(0, total, self._packed_bytes)


class _Header(tarfile.TarInfo):
    """A header that is whole and of a sensible size, or an error: tarfile takes others for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]  # typeshed lacks it
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"it breaks off, or is no TAR file: {error}") from None
        if header.size < 0 or (header.type in _EXTENSIONS and header.size > _MAX_HEADER_BYTES):
            raise tarfile.ReadError(f"a header of {header.size} bytes")
        return header


def _find_reason(header: tarfile.TarInfo) -> str | None:
    if header.issym():
        return SYMLINK_REASON
    if header.islnk():
        return HARD_LINK_REASON
    if header.issparse():
        return SPARSE_REASON
    return None if header.isreg() else NOT_REGULAR_REASON


def _format_digest(hashed: str, size: int) -> str:
    return f"{hashed[:32]}-{size}"
