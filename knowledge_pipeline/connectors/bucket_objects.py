"""What a tree of files needs of a bucket, whichever service holds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as its bucket lists it."""

    key: str  # bytes that are not UTF-8 as in `decode_path`
    size_bytes: int
    revision: str
    locator: str = ""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The bytes of one object, or the first of them, as they are stored."""

    payload: bytes
    encoding: str = ""  # the Content-Encoding that it was stored with
    last_modified: datetime | None = None


class Bucket(Protocol):
    """One bucket of one service. Errors as `Source`; calls are retried."""

    def list_objects(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object whose key begins with a prefix, in few calls; complete, or an exception."""
        ...

    def list_folders(self, prefix: str) -> Iterator[str]:
        """The prefixes of what is below a prefix, each up to the next slash; complete, or an exception."""
        ...

    def read(self, key: str, locator: str, limit_bytes: int, start_byte: int = 0) -> FetchResult:
        """The bytes of one object from one on, one more than `limit_bytes` at most.

        Raises DocumentSkipped where it has none there, or cannot be read.
        """
        ...

    def close(self) -> None:
        """Free the connections."""
        ...
