"""What `knowledge watch` looks at: folders that come and go, and the file that names them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from knowledge_pipeline.errors import ConfigError, KnowledgeError, SourceRefused

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings, SourceConfig
    from knowledge_pipeline.store.lake import Lake

AS_THEY_CHANGE = frozenset({"realtime", "on_commit"})
"""Triggers of the sources that are watched where none is named."""

_TICK_S = 0.4  # between two looks at what no event tells: knowledge.yaml, folders that are gone
_QUIET_S = 0.15  # without a further change, a save is complete

_Identity = tuple[int, int] | None  # None: there is no such folder
_NOTHING = (
    "no source is refreshed as it changes: set refresh.trigger to realtime or on_commit in {path}, "
    "name one with --source, or take --all"
)


class Watched:
    """The chosen sources of a `knowledge.yaml`, as it says now."""

    settings: Settings
    lake: Lake
    sources: Sequence[SourceConfig]
    folders: Mapping[str, Path]  # of the sources on this machine, by id

    def __init__(self, path: Path, ids: Sequence[str], *, everything: bool) -> None:
        """Read the file.

        Raises:
            ConfigError: it is wrong, or names nothing to watch.
            NotFound: no source has such an id.
        """
        self._path, self._ids, self._everything = path, ids, everything
        self._edition = 0
        self._read()
        if not self.sources:
            raise ConfigError(_NOTHING.format(path=path))

    def _read(self) -> None:
        from knowledge_pipeline.config.file import load
        from knowledge_pipeline.config.settings import trigger_of
        from knowledge_pipeline.stages import pipeline
        from knowledge_pipeline.store.lake import Lake

        self._stamp = _stamp(self._path)
        settings = load(self._path)
        if self._ids:
            sources = pipeline.chosen(settings, dict.fromkeys(self._ids))
        else:
            sources = [
                source
                for source in settings.sources
                if self._everything or trigger_of(source) in AS_THEY_CHANGE
            ]
        self.settings, self.lake, self.sources = settings, Lake(settings.store), sources
        self._edition += 1

    def reread(self) -> bool:
        """Read the file again if it was edited; False if it was not. Errors as at the beginning.

        What was read before holds on where the file is wrong now.
        """
        found = _stamp(self._path)
        if found is None or found == self._stamp:  # none: an editor is about to put it back
            return False
        self._read()
        return True

    def changes(self, *, debounce_s: float) -> Iterator[set[str] | None]:
        """Changed paths, as they change, and an empty set now and then.

        None each time that watching begins anew, after which everything has to be looked at:
        at first, when `reread` found an edit, and when a folder went or came back.

        Args:
            debounce_s: how long changes that follow each other are collected at most.

        Raises:
            SourceRefused: the system does not let us watch.
        """
        import watchfiles

        while True:
            self._find_folders()
            edition, there = self._edition, self._identities()
            found = watchfiles.watch(
                *(folder for folder, identity in there.items() if identity),
                watch_filter=None,
                debounce=round(debounce_s * 1000),
                step=round(min(_QUIET_S, debounce_s) * 1000),
                rust_timeout=round(_TICK_S * 1000),
                yield_on_timeout=True,
            )
            try:
                next(found)  # begins to watch
                yield None
                while (edition, there) == (self._edition, self._identities()):
                    yield {path for _, path in next(found)}
            except FileNotFoundError:  # a folder went just now
                time.sleep(_TICK_S)
            except OSError as error:
                raise SourceRefused(
                    f"the folders cannot be watched ({error}): raise fs.inotify.max_user_watches, "
                    "or watch fewer sources with --source"
                ) from error
            finally:
                found.close()

    def _find_folders(self) -> None:
        from knowledge_pipeline.sources.files.folder_changes import watched_folder

        found = {source.id: watched_folder(source) for source in self.sources}
        self.folders = {id_: folder for id_, folder in found.items() if folder}

    def _identities(self) -> dict[Path, _Identity]:
        return {folder: _identity(folder) for folder in self.folders.values()}

    def concerned(self, changed: Iterable[str]) -> set[str]:
        """Ids of the sources that changed paths may concern."""
        below = _by_folder(changed, set(self.folders.values()))
        return {
            source.id
            for source in self.sources
            if (folder := self.folders.get(source.id)) in below and self._concerns(source, below[folder])
        }

    def _concerns(self, source: SourceConfig, changed: Iterable[str]) -> bool:
        from knowledge_pipeline.sources.files.folder_changes import concerned

        held = _held(self.lake, source)
        try:
            return concerned(source, self.folders[source.id], changed, store=self.lake.folder, held=held)
        except KnowledgeError:  # the refresh meets the same error, and tells it
            return True


def _held(lake: Lake, source: SourceConfig) -> Callable[[str], bool]:
    """Whether a path is one of the documents at the last refresh, or a folder of them."""
    from knowledge_pipeline.sources.path_encoding import path_of
    from knowledge_pipeline.store.filters import is_null

    @cache
    def paths() -> set[str]:
        uris = lake.snapshot(source.type, source.id).rows(["uri"], is_null("archived_at"))["uri"]
        files = [PurePosixPath(path_of(uri)) for uri in uris.to_pylist()]
        folders = {folder for file in files for folder in file.parents}
        return {path.as_posix() for path in folders.union(files)}

    return lambda path: path in paths()


def _by_folder(changed: Iterable[str], folders: set[Path]) -> dict[Path, list[str]]:
    """The changed paths in each folder; folders may lie inside each other."""
    found: dict[Path, list[str]] = defaultdict(list)
    within = cache(lambda folder: [each for each in (folder, *folder.parents) if each in folders])
    for path in changed:
        for folder in within(Path(path)) if Path(path) in folders else within(Path(path).parent):
            found[folder].append(path)
    return found


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _identity(folder: Path) -> _Identity:
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino)
