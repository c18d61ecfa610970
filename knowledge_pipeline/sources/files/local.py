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
from knowledge_pipeline.sources.base import DELETED_REASON
from knowledge_pipeline.sources.files.gitignore import IgnoreRules, load_folder_rules, load_root_rules
from knowledge_pipeline.sources.files.trees import FileContent, FileEntry, format_too_large
from knowledge_pipeline.sources.path_encoding import decode_path, encode_path, path_to_uri
from knowledge_pipeline.sources.patterns import FileSelection

SUBMODULE_REASON = "git submodule; declare it as a source of its own"
NOT_REGULAR_REASON = "not a regular file"
SYMLINK_REASON = "symbolic link, not followed"
_PERMANENT_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP})


class LocalTree:
    """The files of a folder; `.gitignore` files are honoured, and nothing is cached."""

    def __init__(self, root: Path, selection: FileSelection) -> None:
        self._root = root.expanduser().absolute()
        self._selection = selection

    def list_entries(self) -> Iterator[FileEntry]:
        """Every wanted file, folder by folder, sorted by name.

        Raises:
            SourceRefused: the folder is missing or no folder, or one in it is not readable.
            SourceUnavailable: reading the folder failed otherwise, or it changed meanwhile.
        """
        if not self._root.is_dir():
            found = "is not a folder" if self._root.exists() else "does not exist"
            raise SourceRefused(f"the folder {self._root} {found}: correct connection.path")
        pending: list[tuple[str, IgnoreRules | None]] = [("", load_root_rules(self._root.resolve()))]
        while pending:
            folder, rules = pending.pop()
            found = self._scan_folder(folder)
            if folder and any(entry.name == b".gitignore" for entry in found):
                rules = load_folder_rules(Path(os.fsdecode(self._encode_location(folder))), folder, rules)
            below: list[tuple[str, IgnoreRules | None]] = []
            for entry in found:
                path = f"{folder}/{decode_path(entry.name)}" if folder else decode_path(entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    yield from self._to_entries(entry, path, rules)
                elif not self._selection.is_pruned(path) and not (rules and rules.ignores(f"{path}/")):
                    if os.path.lexists(self._encode_location(f"{path}/.git")):
                        yield FileEntry(path, 0, "submodule", path_to_uri(path), SUBMODULE_REASON)
                    else:
                        below.append((path, rules))
            pending.extend(reversed(below))

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """The first bytes of a file; DocumentSkipped where it cannot be opened."""
        try:
            with os.fdopen(self._open_file(entry.path), "rb") as file:
                return file.read(limit_bytes)
        except OSError as error:
            raise DocumentSkipped(_unreadable_reason(error)) from error

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file; its last change as the file system has it, its author unknown.

        Raises:
            DocumentSkipped: it is gone, not readable, not a file any more, or too large.
        """
        del locator  # the path says it all
        try:
            with os.fdopen(self._open_file(path), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise DocumentSkipped(NOT_REGULAR_REASON)
                payload = file.read(limit_bytes + 1)
        except OSError as error:
            raise DocumentSkipped(_unreadable_reason(error)) from error
        if len(payload) > limit_bytes:
            raise DocumentSkipped(format_too_large(max(status.st_size, len(payload)), limit_bytes))
        return FileContent(payload, None, datetime.fromtimestamp(status.st_mtime, UTC))

    def close(self) -> None:
        """Nothing is kept open."""

    def _scan_folder(self, folder: str) -> list[os.DirEntry[bytes]]:
        location = self._encode_location(folder)
        try:
            with os.scandir(location) as found:
                return sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            place = os.fsencode(self._root / folder).decode("utf-8", "replace")
            why = error.strerror or "input/output error"
            if error.errno in _PERMANENT_ERRNOS:
                raise SourceRefused(
                    f"the folder {place} cannot be listed ({why}): make it readable, or exclude it"
                ) from error
            raise SourceUnavailable(f"listing the folder {place} failed ({why}): try again later") from error

    def _to_entries(
        self, dir_entry: os.DirEntry[bytes], path: str, rules: IgnoreRules | None
    ) -> Iterator[FileEntry]:
        if dir_entry.is_symlink() and _is_folder_link(dir_entry):
            return
        executable = "." not in path.rpartition("/")[2] and _is_executable(dir_entry)
        if not self._selection.accepts(path, executable=executable) or (rules and rules.ignores(path)):
            return
        if (status := _stat(dir_entry)) is None:  # removed since its folder was read
            return
        revision = f"{status.st_mtime_ns}-{status.st_size}-{status.st_ctime_ns}"
        skip = None if stat.S_ISREG(status.st_mode) else NOT_REGULAR_REASON
        skip = SYMLINK_REASON if stat.S_ISLNK(status.st_mode) else skip
        yield FileEntry(path, status.st_size, revision, path_to_uri(path), skip)

    def _open_file(self, path: str) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        return os.open(self._encode_location(path), flags)

    def _encode_location(self, path: str) -> bytes:
        return os.fsencode(self._root) + (b"/" + encode_path(path) if path else b"")


def _stat(dir_entry: os.DirEntry[bytes]) -> os.stat_result | None:
    try:
        return dir_entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_executable(dir_entry: os.DirEntry[bytes]) -> bool:
    status = _stat(dir_entry)
    return status is not None and stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)


def _is_folder_link(dir_entry: os.DirEntry[bytes]) -> bool:
    with suppress(OSError):  # a loop of links, or one whose end we may not see
        return dir_entry.is_dir()
    return False


def _unreadable_reason(error: OSError) -> str:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return DELETED_REASON
    if error.errno == errno.ELOOP:
        return SYMLINK_REASON
    return f"cannot be read ({error.strerror or 'input/output error'})"
