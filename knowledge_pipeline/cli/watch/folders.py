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
    from knowledge_pipeline.stages.pipeline import IdleSources
    from knowledge_pipeline.store.lake import Lake

WATCHED_TRIGGERS = frozenset({"realtime", "on_commit"})
"""Triggers of the sources that are watched where none is named."""

_POLL_INTERVAL_S = 0.4  # between two looks at what no event tells: knowledge.yaml, folders that are gone
_SAVE_SETTLED_S = 0.15  # without a further change, a save is complete

_FolderIdentity = tuple[int, int] | None  # None: there is no such folder
_NOTHING_TO_WATCH = (
    "no source is refreshed as it changes: set refresh.trigger to realtime or on_commit in {path}, "
    "name one with --source, or take --all"
)


class WatchedSources:
    """The chosen sources of a `knowledge.yaml`, as it says now."""

    settings: Settings
    lake: Lake
    sources: Sequence[SourceConfig]
    folders: Mapping[str, Path]  # of the sources on this machine, by id
    idle: IdleSources

    def __init__(self, path: Path, ids: Sequence[str], *, everything: bool) -> None:
        """Read the file.

        Raises:
            ConfigError: it is wrong, or names nothing to watch.
            NotFound: no source has such an id.
        """
        self._path, self._ids, self._everything = path, ids, everything
        self._generation = 0
        self._load_config()
        if not self.sources:
            raise ConfigError(_NOTHING_TO_WATCH.format(path=path))

    def _load_config(self) -> None:
        from knowledge_pipeline.config.file import load_settings
        from knowledge_pipeline.config.settings import resolve_trigger
        from knowledge_pipeline.stages import pipeline
        from knowledge_pipeline.store.lake import Lake

        self._stamp = _read_stamp(self._path)
        settings = load_settings(self._path)
        if self._ids:
            sources = pipeline.select_sources(settings, dict.fromkeys(self._ids))
        else:
            sources = [
                source
                for source in settings.sources
                if self._everything or resolve_trigger(source) in WATCHED_TRIGGERS
            ]
        self.settings, self.lake, self.sources = settings, Lake(settings.store), sources
        self.idle = pipeline.IdleSources()
        self._generation += 1

    def reload_if_edited(self) -> bool:
        """Read the file again if it was edited; False if it was not. Errors as at the beginning.

        What was read before holds on where the file is wrong now.
        """
        found = _read_stamp(self._path)
        if found is None or found == self._stamp:  # none: an editor is about to put it back
            return False
        self._load_config()
        return True

    def iter_changes(self, *, debounce_s: float) -> Iterator[set[str] | None]:
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
            self._update_folders()
            edition, there = self._generation, self._read_identities()
            found = watchfiles.watch(
                *(folder for folder, identity in there.items() if identity),
                watch_filter=None,
                debounce=round(debounce_s * 1000),
                step=round(min(_SAVE_SETTLED_S, debounce_s) * 1000),
                rust_timeout=round(_POLL_INTERVAL_S * 1000),
                yield_on_timeout=True,
            )
            try:
                next(found)  # begins to watch
                yield None
                while (edition, there) == (self._generation, self._read_identities()):
                    yield {path for _, path in next(found)}
            except FileNotFoundError:  # a folder went just now
                time.sleep(_POLL_INTERVAL_S)
            except OSError as error:
                raise SourceRefused(
                    f"the folders cannot be watched ({error}): raise fs.inotify.max_user_watches, "
                    "or watch fewer sources with --source"
                ) from error
            finally:
                found.close()

    def _update_folders(self) -> None:
        from knowledge_pipeline.sources.files.folder_changes import find_watched_folder

        found = {source.id: find_watched_folder(source) for source in self.sources}
        self.folders = {id_: folder for id_, folder in found.items() if folder}

    def _read_identities(self) -> dict[Path, _FolderIdentity]:
        return {folder: _read_identity(folder) for folder in self.folders.values()}

    def find_affected_sources(self, changed: Iterable[str]) -> set[str]:
        """Ids of the sources that changed paths may concern."""
        below = _group_by_folder(changed, set(self.folders.values()))
        return {
            source.id
            for source in self.sources
            if (folder := self.folders.get(source.id)) in below and self._is_affected(source, below[folder])
        }

    def _is_affected(self, source: SourceConfig, changed: Iterable[str]) -> bool:
        from knowledge_pipeline.sources.files.folder_changes import is_affected_by

        held = _build_path_lookup(self.lake, source)
        try:
            return is_affected_by(
                source, self.folders[source.id], changed, store=self.lake.folder, was_document=held
            )
        except KnowledgeError:  # the refresh meets the same error, and tells it
            return True


def _build_path_lookup(lake: Lake, source: SourceConfig) -> Callable[[str], bool]:
    """Whether a path is one of the documents at the last refresh, or a folder of them."""
    from knowledge_pipeline.sources.path_encoding import uri_to_path
    from knowledge_pipeline.store.filters import is_null

    @cache
    def load_paths() -> set[str]:
        uris = lake.snapshot(source.type, source.id).read_rows(["uri"], is_null("archived_at"))["uri"]
        files = [PurePosixPath(uri_to_path(uri)) for uri in uris.to_pylist()]
        folders = {folder for file in files for folder in file.parents}
        return {path.as_posix() for path in folders.union(files)}

    return lambda path: path in load_paths()


def _group_by_folder(changed: Iterable[str], folders: set[Path]) -> dict[Path, list[str]]:
    """The changed paths in each folder; folders may lie inside each other."""
    found: dict[Path, list[str]] = defaultdict(list)
    within = cache(lambda folder: [each for each in (folder, *folder.parents) if each in folders])
    for path in changed:
        for folder in within(Path(path)) if Path(path) in folders else within(Path(path).parent):
            found[folder].append(path)
    return found


def _read_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_identity(folder: Path) -> _FolderIdentity:
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino)
