"""Where an archive lies, and its bytes: those alone that are asked for, of an object by ranges."""

from __future__ import annotations

import io
import stat
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from knowledge_pipeline.config.connections.archive_file import ArchiveFileConnection
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.bucket.objects import Bucket
from knowledge_pipeline.sources.bucket.tree import open_bucket


class ArchivePlace(ABC):
    """A file or an object. Methods raise SourceRefused or SourceUnavailable."""

    @abstractmethod
    def read_stamp(self) -> tuple[str, int]:
        """What differs once the archive does, and its size in bytes."""

    @abstractmethod
    def open(self) -> io.RawIOBase:
        """Its bytes, from any position."""

    def close(self) -> None:  # noqa: B027 - a file holds nothing open
        """Free the connections."""


def open_place(connection: ArchiveFileConnection, *, sleep: Sleep = time.sleep) -> ArchivePlace:
    """The place that a connection names; nothing is read or sent yet."""
    if connection.object is None:
        assert connection.path is not None  # `ArchiveFileConnection` requires one
        return _File(connection.path.expanduser().absolute())
    bucket = open_bucket(connection.object, sleep=sleep)
    return _Object(bucket, connection.object.prefix, connection.location)


class _File(ArchivePlace):
    def __init__(self, path: Path) -> None:
        self._path = path

    def read_stamp(self) -> tuple[str, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise self._to_error(error) from None
        if not stat.S_ISREG(found.st_mode):
            raise SourceRefused(
                f"{self._path} is no file: correct connection.path, or set type local for a folder"
            )
        return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ctime_ns}", found.st_size

    def open(self) -> io.RawIOBase:
        try:
            return io.FileIO(self._path)
        except OSError as error:
            raise self._to_error(error) from None

    def _to_error(self, error: OSError) -> SourceRefused:
        if isinstance(error, FileNotFoundError):
            return SourceRefused(f"the archive {self._path} does not exist: correct connection.path")
        return SourceRefused(f"the archive {self._path} cannot be read ({error.strerror}): make it readable")


class _Object(ArchivePlace):
    def __init__(self, bucket: Bucket, key: str, location: str) -> None:
        self._bucket, self._key, self._location = bucket, key, location
        self._locator, self._size_bytes = "", 0

    def read_stamp(self) -> tuple[str, int]:
        found = next(iter(self._bucket.list_objects(self._key)), None)  # keys come in order: itself first
        if found is None or found.key != self._key:
            raise SourceRefused(
                f"the archive {self._location} does not exist: correct connection.object.prefix"
            )
        self._locator, self._size_bytes = found.locator, found.size_bytes
        return found.revision, found.size_bytes

    def open(self) -> io.RawIOBase:
        if not self._size_bytes:
            self.read_stamp()
        return _ObjectBytes(self._bucket, self._key, self._locator, self._size_bytes, self._location)

    def close(self) -> None:
        self._bucket.close()


class _ObjectBytes(io.RawIOBase):
    """The bytes of an object as a file that can be read from any position."""

    def __init__(self, bucket: Bucket, key: str, locator: str, size_bytes: int, location: str) -> None:
        self._bucket, self._key, self._locator = bucket, key, locator
        self._size_bytes, self._location, self._position = size_bytes, location, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        if start + offset < 0:
            raise OSError("a position before the beginning")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        wanted = min(len(buffer), self._size_bytes - self._position)
        if wanted <= 0:
            return 0
        try:
            found = self._bucket.read(self._key, self._locator, wanted - 1, self._position).payload
        except DocumentSkipped as reason:
            raise SourceRefused(f"the archive {self._location} cannot be read: {reason}") from None
        if not found:
            raise SourceUnavailable(f"the archive {self._location} changed while it was read: refresh again")
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)
