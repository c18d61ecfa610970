"""A tree of files, wherever it lies: what a folder and a commit have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from knowledge_pipeline.records import Metadata


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file that the source's selection wants, as its tree lists it."""

    path: str  # POSIX, relative to the tree's root; see `path_encoding`
    size_bytes: int
    revision: str
    locator: str
    skip: str | None = None  # a reason not to read it
    variant: str = ""  # its blob, where only further branches have it; see `build_variant_uri`


@dataclass(frozen=True, slots=True)
class FileContent:
    """One file, read."""

    payload: bytes
    author: str | None
    last_modified: datetime | None
    metadata: Metadata = field(default_factory=dict[str, Any])


class FileTree(Protocol):
    """Files below one root, symbolic links never followed."""

    def list_entries(self) -> Iterator[FileEntry]:
        """Every wanted file, each once; errors as `Source.discover`."""
        ...

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """The first bytes of a listed file; DocumentSkipped where it cannot be read."""
        ...

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file, from what its entry said; errors as `Source.fetch`.

        A file of more than `limit_bytes` is skipped.
        """
        ...

    def close(self) -> None:
        """Free what was opened."""
        ...


def format_too_large(size_bytes: int, limit_bytes: int) -> str:
    """The reason recorded for a file over the limit."""
    return f"larger than {limit_bytes} bytes ({size_bytes})"
