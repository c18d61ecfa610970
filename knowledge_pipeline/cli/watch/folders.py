"""What `knowledge watch` watches: folders that come and go, and the file that names them."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.errors import ConfigError, KnowledgeError, SourceRefused

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.config.sources.source import SourceConfig
    from knowledge_pipeline.stages.pipeline import IdleSources
    from knowledge_pipeline.store.lake import Lake

WATCHED_TRIGGERS = frozenset({"realtime", "on_commit"})
"""Triggers of the sources that are watched if none is named."""

_POLL_INTERVAL_S = 0.4  # between two checks of what raises no event: knowledge.yaml, missing folders
_SAVE_SETTLED_S = 0.15  # without a further change, a save is complete


class WatchedSources:
    """The chosen sources of a `knowledge.yaml`, which is read again when it changes."""

    settings: Settings
    lake: Lake
    sources: Sequence[SourceConfig]
    folders: Mapping[str, Path]  # of the sources on this machine, by id
    idle: IdleSources

    def __init__(self, path: Path, ids: Sequence[str], *, everything: bool) -> None:
        """Read the file.

        Raises:
            ConfigError: it is invalid, or names nothing to watch.
            NotFound: no source has such an id.
        """
        self._path, self._ids, self._everything = path, ids, everything
        self._generation, self._tried = 0, ()
        self._load_config()
        if not self.sources:
            raise ConfigError(
                f"no source is refreshed as it changes: set refresh.trigger to realtime or on_commit in "
                f"{path}, name one with --source, or give --all"
            )

    def _load_config(self) -> None:
        from knowledge_pipeline.config.file import load_settings
        from knowledge_pipeline.config.sources.source import resolve_trigger
        from knowledge_pipeline.stages import pipeline
        from knowledge_pipeline.store.lake import Lake

        settings = load_settings(self._path)
        sources: Sequence[SourceConfig] = settings.sources
        if self._ids:
            sources = settings.select_sources(dict.fromkeys(self._ids))
        elif not self._everything:
            sources = [each for each in sources if resolve_trigger(each) in WATCHED_TRIGGERS]
        self.settings, self.lake, self.sources = settings, Lake(settings.store), sources
        self.idle = pipeline.IdleSources()
        self._generation += 1

    def reload_if_edited(self) -> bool:
        """Read the file again if it was edited; returns whether it was. Raises as the constructor does.

        If the file is invalid now, the last valid settings stay.
        """
        from knowledge_pipeline.config.file import read_stamp

        stamp = read_stamp(self._path, self.settings)  # (): an editor is about to put it back
        if not stamp or stamp in (self.settings.stamp, self._tried):
            return False
        self._tried = stamp  # and if it is invalid, not again
        self._load_config()
        return True

    def iter_changes(self, *, debounce_s: float) -> Iterator[set[str] | None]:
        """Changed paths, as they change, and an empty set now and then.

        None each time that watching starts over, after which everything must be checked: at
        first, after `reload_if_edited` found an edit, and when a folder disappeared or returned.

        Args:
            debounce_s: how long successive changes are collected at most.

        Raises:
            SourceRefused: the system does not allow watching.
        """
        import watchfiles

        from knowledge_pipeline.sources.files.folder_changes import find_watched_folder

        while True:
            found = {source.id: find_watched_folder(source) for source in self.sources}
            self.folders = {id_: folder for id_, folder in found.items() if folder}
            generation, identities = self._generation, self._read_identities()
            changes = watchfiles.watch(
                *(folder for folder, identity in identities.items() if identity),
                watch_filter=None,
                debounce=round(debounce_s * 1000),
                step=round(min(_SAVE_SETTLED_S, debounce_s) * 1000),
                rust_timeout=round(_POLL_INTERVAL_S * 1000),
                yield_on_timeout=True,
            )
            try:
                next(changes)  # starts watching
                yield None
                while (generation, identities) == (self._generation, self._read_identities()):
                    yield {path for _, path in next(changes)}
            except FileNotFoundError:  # a folder disappeared just now
                time.sleep(_POLL_INTERVAL_S)
            except OSError as error:
                raise SourceRefused(
                    f"the folders cannot be watched ({error}): raise fs.inotify.max_user_watches, "
                    "or watch fewer sources with --source"
                ) from error
            finally:
                changes.close()

    def _read_identities(self) -> dict[Path, tuple[int, int] | None]:
        """Device and inode of each folder; None for a folder that is missing."""
        found = {folder: _stat(folder) for folder in self.folders.values()}
        return {folder: status and (status.st_dev, status.st_ino) for folder, status in found.items()}

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
        from knowledge_pipeline.sources.path_encoding import uri_to_path
        from knowledge_pipeline.store.filters import is_null

        @cache
        def load_paths() -> set[str]:
            """The documents at the last refresh, and their folders."""
            snapshot: Any = self.lake.snapshot(source.type, source.id)  # pyarrow is untyped
            uris: list[str] = snapshot.read_rows(["uri"], is_null("archived_at"))["uri"].to_pylist()
            files = [PurePosixPath(uri_to_path(uri)) for uri in uris]
            folders = {folder for file in files for folder in file.parents}
            return {path.as_posix() for path in folders.union(files)}

        try:
            return is_affected_by(
                source,
                self.folders[source.id],
                changed,
                store=self.lake.folder,
                was_document=lambda path: path in load_paths(),
            )
        except KnowledgeError:  # the refresh meets the same error, and reports it
            return True


def _group_by_folder(changed: Iterable[str], folders: set[Path]) -> dict[Path, list[str]]:
    """The changed paths in each folder; folders may be nested."""
    found: dict[Path, list[str]] = defaultdict(list)

    @cache
    def list_around(folder: Path) -> list[Path]:
        return [each for each in (folder, *folder.parents) if each in folders]

    for path in changed:
        for folder in list_around(Path(path)) if Path(path) in folders else list_around(Path(path).parent):
            found[folder].append(path)
    return found


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
