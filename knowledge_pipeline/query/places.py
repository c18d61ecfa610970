"""Reads what callers write for a place: absolute paths, `file://` addresses, backslashes, lines, names.

Paths of a machine are mapped to those of sources only where the caller may know of the source: what they may
not see has no folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from knowledge_pipeline.config.connections import GitConnection, LocalConnection
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.query.access import Access, may_see_source

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task

CHUNK_ID = re.compile(r"[0-9a-f]{32}")
_LINES = re.compile(r"L?(\d{1,9})(?:-L?(\d{1,9}))?")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


@dataclass(frozen=True, slots=True)
class Place:
    """A path, and what is meant of it."""

    path: str
    lines: tuple[int, int] | None = None  # the first and the last
    name: str = ""  # of a definition

    @property
    def suffix(self) -> str:
        """`:10`, `:Store.get`, or nothing: what follows the path in a target of the code graph."""
        of_path = str(self.lines[0]) if self.lines else self.name
        return f":{of_path}" if of_path else ""


def parse_place(text: str) -> Place:
    """A path with its lines or a name: `a.py:10-24`, `a.py#L10-L24`, `a.py::Store.get`, `a.py#get`."""
    for mark in (":", "#"):
        path, _, rest = text.rpartition(mark)
        is_address = mark == "#" and not rest.startswith("L")  # of an issue: `owner/name#12`
        if path and not is_address and (lines := _LINES.fullmatch(rest)):
            return Place(path, (int(lines[1]), int(lines[2] or lines[1])))
    for path, _, name in (text.partition("::"), text.partition("#"), text.rpartition(":")):
        if name and not name.isdecimal() and _is_path(path):
            return Place(path, name=name)
    return Place(text)


def _is_path(text: str) -> bool:
    """Whether a text is surely a path, and no name of code, address or source."""
    return detect_language(text) is not None or (":" not in text and ("/" in text or "\\" in text))


@dataclass(frozen=True, slots=True)
class SourceFolders:
    """The folders of this machine that sources are read from, as far as a caller may know of them."""

    sources: Iterable[SourceConfig]
    access: Access

    def list_folders(self) -> list[tuple[str, str]]:
        """Source, and its folder by slashes, without one at the end."""
        visible = (source for source in self.sources if may_see_source(source.access, self.access))
        return [(source.id, folder) for source in visible for folder in _list_folders(source)]

    def locate(self, text: str) -> list[tuple[str, str | None]]:
        """The path within its source of what may be an absolute one, for each source; None: of any source.

        Raises `InvalidQuery`: it is of a machine, and in no folder of a source.
        """
        path = to_slashes(text)
        if not is_absolute(path):
            return [(path.removeprefix("./"), None)]
        path = posixpath.normpath(Path(path).expanduser().as_posix())
        located: list[tuple[str, str | None]] = []
        for source, folder in self.list_folders():
            if path == folder or path.startswith(f"{folder}/"):
                located.append((path[len(folder) + 1 :], source))
        if not located and self.access.everything:  # else a caller would learn which folders there are
            located += self._locate_in_checkout(Path(path))
        if not located and not path.startswith("/"):
            raise InvalidQuery(
                f"{text[:200]!r} is a path of a machine, and no source that you may see is read from there: "
                "give the path within its source, as results name it"
            )
        return located or [(path.lstrip("/"), None)]

    def _locate_in_checkout(self, path: Path) -> Iterator[tuple[str, str]]:
        """The path in each git source that the checkout around a file or folder was cloned from."""
        from knowledge_pipeline.connectors.git.command import find_repository, list_remotes

        is_folder = path.is_dir()
        if (checkout := find_repository(path if is_folder else path.parent)) is None:
            return
        repository, prefix = checkout
        name = prefix.rstrip("/") if is_folder else f"{prefix}{path.name}"
        remotes = {remote.host_and_path for remote in list_remotes(repository)}
        for source in self.sources:
            if isinstance(source.connection, GitConnection) and source.connection.host_and_path in remotes:
                yield name, source.id

    def localize(self, text: str) -> str:
        """The name of a document or of code; an absolute path in it as its source has it."""
        by_slashes = to_slashes(text)
        path = parse_place(by_slashes).path
        rest = by_slashes[len(path) :]
        if is_absolute(path):
            located = self.locate(path)
            path, source = located[0]
            if source is None:  # a slash before a path within a source
                return by_slashes
            return f"{source}:{path}{rest}" if len(located) == 1 else f"{path}{rest}"
        is_windows_path = "\\" in text and detect_language(path) is not None
        return by_slashes if is_windows_path else text.strip()

    def localize_filters(self, filters: Filters) -> Filters:
        """The filters with the patterns of paths that sources have."""
        return replace(filters, paths=tuple(map(self.localize_pattern, filters.paths)))

    def localize_task(self, task: Task) -> Task:
        """The task with the paths that its sources have, and with the source if only one has them."""
        located = [self.locate(path) for path in task.paths]
        sources = {source for places in located for _, source in places}
        return replace(
            task,
            file=located[0][0][0] if task.file else None,
            files=tuple(path for (path, _), *_ in located[1 if task.file else 0 :]),
            source=task.source or (sources.pop() if len(sources) == 1 else None),
            filters=self.localize_filters(task.filters),
        )

    def localize_pattern(self, pattern: str) -> str:
        """A pattern of paths, from the root of its source where it is absolute."""
        negation = "!" if pattern.startswith("!") else ""
        text = pattern.removeprefix("!")
        if not is_absolute(to_slashes(text)):
            return pattern
        ((path, _), *_) = self.locate(text)
        below = "/" if to_slashes(text).endswith("/") else ""
        return f"{negation}/{path}{below}" if path and path != "." else f"{negation}**"


def to_slashes(text: str) -> str:
    """A path by slashes, out of an address of a file where it is one."""
    text = text.strip()
    if text.lower().startswith("file:"):
        parts = urlsplit(text)
        text = unquote(parts.path) + (f"#{parts.fragment}" if parts.fragment else "")
        text = text[1:] if _DRIVE.match(text[1:]) else text  # of `/C:/src`
    return text.replace("\\", "/")


def is_absolute(path: str) -> bool:
    """Whether a path by slashes is one of a machine, or at least has a slash before it."""
    return path.startswith(("/", "~/")) or _DRIVE.match(path) is not None


def _list_folders(source: SourceConfig) -> list[str]:
    connection = source.connection
    if isinstance(connection, LocalConnection):
        return _resolve(connection.path)
    if isinstance(connection, GitConnection) and connection.url.startswith(("/", "file:///")):
        return _resolve(Path(to_slashes(connection.url)))
    return []


@lru_cache(maxsize=1_000)
def _resolve(folder: Path) -> list[str]:
    """A folder as it is written, and without links."""
    paths = (folder.absolute(), folder.resolve())
    return list(dict.fromkeys(path.as_posix().rstrip("/") for path in paths))
