"""Files of a folder of this machine, as they lie there now.

Nothing is followed out of the folder: symbolic links are not, and a repository inside
the folder is a source of its own.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.files.gitignore import Rules, rules_at, rules_below
from knowledge_pipeline.sources.files.trees import Content, Entry, too_large
from knowledge_pipeline.sources.path_encoding import bytes_of_path, path_of_bytes, uri_of
from knowledge_pipeline.sources.patterns import Selection

SUBMODULE = "git submodule; declare it as a source of its own"
SYMLINK = "symbolic link, not followed"
_PERMANENT = frozenset({errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP})


class LocalTree:
    """The files of a folder; `.gitignore` files are honoured, and nothing is cached."""

    def __init__(self, root: Path, selection: Selection) -> None:
        self._root = root.expanduser().absolute()
        self._selection = selection

    def entries(self) -> Iterator[Entry]:
        """Every wanted file, folder by folder, sorted by name.

        Raises:
            SourceRefused: the folder is missing or no folder, or one in it is not readable.
            SourceUnavailable: reading the folder failed otherwise, or it changed meanwhile.
        """
        if not self._root.is_dir():
            found = "is not a folder" if self._root.exists() else "does not exist"
            raise SourceRefused(f"the folder {self._root} {found}: correct connection.path")
        pending: list[tuple[str, Rules | None]] = [("", rules_at(self._root.resolve()))]
        while pending:
            folder, rules = pending.pop()
            found = self._scan(folder)
            if folder and any(entry.name == b".gitignore" for entry in found):
                rules = rules_below(Path(os.fsdecode(self._bytes(folder))), folder, rules)
            below: list[tuple[str, Rules | None]] = []
            for entry in found:
                path = f"{folder}/{path_of_bytes(entry.name)}" if folder else path_of_bytes(entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    yield from self._file(entry, path, rules)
                elif self._is_walked(path, rules):
                    if self._is_repository(path):
                        yield Entry(path, 0, "submodule", uri_of(path), SUBMODULE)
                    else:
                        below.append((path, rules))
            pending.extend(reversed(below))

    def head(self, entry: Entry, limit_bytes: int) -> bytes:
        """The first bytes of a file; DocumentSkipped where it cannot be opened."""
        try:
            with os.fdopen(self._open(entry.path), "rb") as file:
                return file.read(limit_bytes)
        except OSError as error:
            raise DocumentSkipped(_why_unreadable(error)) from error

    def read(self, path: str, locator: str, limit_bytes: int) -> Content:
        """A whole file; its last change as the file system has it, its author unknown.

        Raises:
            DocumentSkipped: it is gone, not readable, not a file any more, or too large.
        """
        del locator  # the path says it all
        try:
            with os.fdopen(self._open(path), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise DocumentSkipped("not a regular file")
                payload = file.read(limit_bytes + 1)
        except OSError as error:
            raise DocumentSkipped(_why_unreadable(error)) from error
        if len(payload) > limit_bytes:
            raise DocumentSkipped(too_large(max(status.st_size, len(payload)), limit_bytes))
        return Content(payload, None, datetime.fromtimestamp(status.st_mtime, UTC))

    def close(self) -> None:
        """Nothing is kept open."""

    def _scan(self, folder: str) -> list[os.DirEntry[bytes]]:
        location = self._bytes(folder)
        try:
            with os.scandir(location) as found:
                return sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            place, why = self._root / folder, error.strerror or "input/output error"
            if error.errno in _PERMANENT:
                raise SourceRefused(
                    f"the folder {_printable(place)} cannot be listed ({why}): "
                    "make it readable, or exclude it"
                ) from error
            raise SourceUnavailable(
                f"listing the folder {_printable(place)} failed ({why}): try again"
            ) from error

    def _is_walked(self, path: str, rules: Rules | None) -> bool:
        return not self._selection.prunes(path) and not (rules is not None and rules.ignores(f"{path}/"))

    def _is_repository(self, path: str) -> bool:
        return os.path.lexists(self._bytes(f"{path}/.git"))

    def _file(self, found: os.DirEntry[bytes], path: str, rules: Rules | None) -> Iterator[Entry]:
        if found.is_symlink() and _leads_to_folder(found):
            return
        executable = "." not in path.rpartition("/")[2] and _is_executable(found)
        if not self._selection.wants(path, executable=executable):
            return
        if rules is not None and rules.ignores(path):
            return
        status = _status(found)
        if status is None:  # removed since its folder was read
            return
        revision = f"{status.st_mtime_ns}-{status.st_size}-{status.st_ctime_ns}"
        yield Entry(path, status.st_size, revision, uri_of(path), _why_not(status.st_mode))

    def _open(self, path: str) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        return os.open(self._bytes(path), flags)

    def _bytes(self, path: str) -> bytes:
        return os.fsencode(self._root) + (b"/" + bytes_of_path(path) if path else b"")


def _status(found: os.DirEntry[bytes]) -> os.stat_result | None:
    try:
        return found.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_executable(found: os.DirEntry[bytes]) -> bool:
    status = _status(found)
    return status is not None and stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)


def _leads_to_folder(found: os.DirEntry[bytes]) -> bool:
    with suppress(OSError):  # a loop of links, or one whose end we may not see
        return found.is_dir()
    return False


def _why_not(mode: int) -> str | None:
    if stat.S_ISLNK(mode):
        return SYMLINK
    return None if stat.S_ISREG(mode) else "not a regular file"


def _why_unreadable(error: OSError) -> str:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return "removed while it was read"
    if error.errno == errno.ELOOP:
        return SYMLINK
    return f"cannot be read ({error.strerror or 'input/output error'})"


def _printable(place: Path) -> str:
    return os.fsencode(place).decode("utf-8", "replace")
