"""What an archive says that it holds: its files, whichever format packs them, and what is not believed.

A name is only a name: nothing is unpacked to disk, and no name reaches the file system.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

MAX_FILES = 500_000
MAX_UNPACKED_BYTES = 50_000_000_000
MAX_RATIO = 200  # of unpacked bytes to packed ones
_SMALL_BYTES = 100_000_000  # unpacked, of which no ratio does harm

OUTSIDE_REASON = "a path that leads out of the archive"
_DRIVE = re.compile(r"[A-Za-z]:")
_NOT_CONTENT = "__MACOSX"  # what the Finder packs beside the files


class DamagedArchive(Exception):
    """It cannot be read, or not be believed; `str(error)` says why."""


class ChangedArchive(Exception):
    """A file is no longer as it was listed."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file of an archive."""

    path: str  # POSIX, relative to the archive's root; see `decode_path`
    digest: str  # of the content, then "-" and its size
    size_bytes: int
    position: int  # where its archive finds it
    executable: bool = False
    skip: str | None = None  # a reason not to read it


class ArchiveContents(Protocol):
    """An archive that is open. Both methods raise DamagedArchive, and what reading its bytes raises."""

    def list_files(self) -> Iterator[PackedFile]:
        """Every file and link, in the archive's order; a name may come again, and the last one counts."""
        ...

    def read(self, position: int, digest: str, limit_bytes: int) -> bytes:
        """The first bytes of a listed file; ChangedArchive where it is another one now."""
        ...

    def close(self) -> None:
        """Free what was opened, the archive's bytes included."""
        ...


@contextmanager
def translate_damage(*errors: type[Exception]) -> Generator[None]:
    """Raise `DamagedArchive` for what a library raises of bytes that it cannot read."""
    try:
        yield
    except errors as error:
        raise DamagedArchive(str(error)[:200] or type(error).__name__) from None


def size_of(digest: str) -> int:
    """The size in bytes of a file with a digest."""
    return int(digest.rpartition("-")[2])


def require_bounded(files: int, unpacked_bytes: int, packed_bytes: int) -> None:
    """Raise DamagedArchive for what unpacks to far more than it has."""
    if files > MAX_FILES:
        raise DamagedArchive(f"it holds more than {MAX_FILES:,} files")
    if unpacked_bytes > MAX_UNPACKED_BYTES:
        raise DamagedArchive(f"it unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
    if unpacked_bytes > max(_SMALL_BYTES, packed_bytes * MAX_RATIO):
        raise DamagedArchive(f"it unpacks to more than {MAX_RATIO} times its size")


def build_file(
    name: str,
    digest: str,
    size_bytes: int,
    position: int,
    *,
    executable: bool = False,
    skip: str | None = None,
) -> PackedFile:
    """A file by its name in the archive: its path, or the name and the reason that it is none."""
    path = _clean_path(name)
    skip = skip if path else OUTSIDE_REASON
    path = path or name.replace("\0", "\ufffd") or "(no name)"
    return PackedFile(path, digest, size_bytes, position, executable, skip)


def arrange_files(listed: Iterable[PackedFile]) -> Sequence[PackedFile]:
    """Each path once; without the folder that all of them are in, whose name tells a version or a day."""
    files = {file.path: file for file in listed if file.path.partition("/")[0] != _NOT_CONTENT}
    inside = [path for path, file in files.items() if file.skip != OUTSIDE_REASON]
    tops = {path.partition("/")[0] if "/" in path else "" for path in inside}
    if len(tops) != 1 or "" in tops:
        return list(files.values())
    top = f"{tops.pop()}/"
    return [
        file if file.skip == OUTSIDE_REASON else replace(file, path=file.path.removeprefix(top))
        for file in files.values()
    ]


def _clean_path(name: str) -> str:
    """The path that a name stands for; "" for one that leads out of the archive, or to no file."""
    if "/" not in name:
        name = name.replace("\\", "/")  # as some programs of Windows write it
    steps = name.split("/")
    if "\0" in name or steps[0] == "" or ".." in re.split(r"[/\\]", name) or _DRIVE.match(name):
        return ""
    return "/".join(step for step in steps if step not in ("", "."))
