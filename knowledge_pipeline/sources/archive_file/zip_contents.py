"""Files of a ZIP archive, by its directory: only what is asked for is read and unpacked.

Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipInfo

from knowledge_pipeline.sources.archive_file.packed_files import (
    ChangedArchive,
    DamagedArchive,
    PackedFile,
    build_file,
    require_bounded,
    translate_damage,
)
from knowledge_pipeline.sources.files.local import NOT_REGULAR_REASON, SYMLINK_REASON

BLOCK_BYTES = 1 << 20  # read at once
ENCRYPTED_REASON = "encrypted in its archive"

_MAX_DIRECTORY_BYTES = 100_000_000  # which is read into memory
_BOUNDED_METHODS = frozenset({ZIP_STORED, ZIP_DEFLATED})  # the others unpack to any size at once
_ENCRYPTED, _STRONGLY_ENCRYPTED, _UTF8 = 0x1, 0x40, 0x800  # flags
_UNIX = 3  # a system whose files have modes
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError),
    *(NotImplementedError, RuntimeError),  # of a packing that is not known
)


class ZipContents:
    """A ZIP archive that is open."""

    def __init__(self, raw: io.RawIOBase, packed_bytes: int) -> None:
        """Read its directory; raises as `ArchiveContents`."""
        self._packed_bytes = packed_bytes
        self._bytes = _DirectoryGuard(raw, BLOCK_BYTES)
        with translate_damage(*_BROKEN):
            self._zip = zipfile.ZipFile(self._bytes)

    def list_files(self) -> Iterator[PackedFile]:
        """Every file and link, by the directory alone."""
        found = self._zip.infolist()
        require_bounded(len(found), sum(info.file_size for info in found), self._packed_bytes)
        for position, info in enumerate(found):
            name = _decode_name(info)
            if not name.endswith("/"):
                mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
                yield build_file(
                    name,
                    _digest(info),
                    info.file_size,
                    position,
                    executable=bool(mode & 0o111),
                    skip=_find_reason(info, stat.S_IFMT(mode)),
                )

    def read(self, position: int, digest: str, limit_bytes: int) -> bytes:
        """The first bytes of a file; all of them are compared with the directory's checksum."""
        found = self._zip.infolist()
        if position >= len(found) or _digest(found[position]) != digest:
            raise ChangedArchive
        with translate_damage(*_BROKEN), self._zip.open(found[position]) as file:
            return file.read(limit_bytes)

    def close(self) -> None:
        """Free the directory and the archive's bytes."""
        self._zip.close()
        self._bytes.close()


class _DirectoryGuard(io.BufferedReader):
    """Refuses to read a directory that would fill the memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MAX_DIRECTORY_BYTES:
            raise DamagedArchive(f"its directory has {size:,} bytes")
        return super().read(size)


def _find_reason(info: ZipInfo, kind: int) -> str | None:
    if kind == stat.S_IFLNK:
        return SYMLINK_REASON
    if kind not in (0, stat.S_IFREG):
        return NOT_REGULAR_REASON
    if info.flag_bits & (_ENCRYPTED | _STRONGLY_ENCRYPTED):
        return ENCRYPTED_REASON
    if info.compress_type not in _BOUNDED_METHODS:
        return f"packed by method {info.compress_type} of ZIP, which is not read; known are store and deflate"
    return None


def _decode_name(info: ZipInfo) -> str:
    """As the flag says; many programs write UTF-8 without it, and others an encoding that nobody tells."""
    if not info.flag_bits & _UTF8:
        try:
            return info.orig_filename.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    return info.orig_filename


def _digest(info: ZipInfo) -> str:
    return f"{info.CRC:08x}-{info.file_size}"
