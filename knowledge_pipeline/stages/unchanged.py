"""Recalls a refresh that found nothing to do, for as long as none of what it read has changed.

What the stages make of a source follows from its listing, the settings, the program and the tables that are
there. A refresh without a change writes no table; it keeps what it compared in the local state, and the next
process that finds the same opens no table: importing Arrow and Lance takes longer than a listing. Without
what is kept, the stages compare the tables.

Folders and git repositories are listed before the stages. Models that packages carry are known by the
program's versions, others by the files of their folders.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from knowledge_pipeline.config.connections import GitConnection, LocalConnection
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.registry import list_branches, list_notes
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.stages.context import (
    ORDINARY_REFRESH,
    Listing,
    RefreshOptions,
    RefreshOutcome,
    Stats,
    item_fingerprints,
    open_listed_source,
)
from knowledge_pipeline.stages.freshness import record_indexed
from knowledge_pipeline.stages.run_log import log_idle_refreshes
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.local_state import keep_result, recall_result
from knowledge_pipeline.text import is_object

_CARRIED_MODELS = {"all-MiniLM-L6-v2", "bge-small-en-v1.5", "static-v1"}
_NAME = "unchanged refresh"
_COUNTERS = ("skipped", "found", "notes")


class UnchangedRefresh:
    """What the last refresh without a change compared, beside what is there now.

    Lists the sources where a recall is possible; `listings` spare the stages to do so again.
    """

    def __init__(
        self, lake: Lake, settings: Settings, sources: Sequence[SourceConfig], options: RefreshOptions
    ) -> None:
        self._lake, self._settings, self._sources = lake, settings, sources
        self.listings: dict[str, Listing] = {}
        self._mark: dict[str, Any] = {}
        if options == ORDINARY_REFRESH and lake.is_local and _depends_on_files_alone(settings, sources):
            self._mark = self._compute_mark()

    def recall(self) -> RefreshOutcome | None:
        """What that refresh told, logged as one of now; None where anything differs from then."""
        if not self._mark or not is_object(kept := recall_result(self._lake.folder, _NAME, self._mark)):
            return None
        with suppress(OSError, KeyError, TypeError):
            stats = [_to_stats(values) for values in kept["stats"]]
            for stat in stats:
                stat.revision = self.listings[stat.source].revision if stat.stage == "snapshot" else None
            for source in self._sources:
                record_indexed(self._lake, source.id, [stat for stat in stats if stat.source == source.id])
            log_idle_refreshes(self._lake, self._settings, stats)
            return RefreshOutcome(stats, release=_to_stats(kept["release"]))
        return None

    def keep(self, outcome: RefreshOutcome) -> None:
        """Keep what a refresh told, if it changed nothing."""
        release = outcome.release
        is_complete = release is not None and bool(release.version) and not outcome.failures
        if not self._mark or release is None or not is_complete:
            return
        if any(stats.has_changes for stats in (*outcome.stats, release)):
            return
        if self._mark["tables"] != self._load_version_stamps():  # another process wrote meanwhile
            return
        stats = [stat.as_metadata() | {"at": None} for stat in outcome.stats]
        result = {"stats": stats, "release": release.as_metadata() | {"at": None}}
        keep_result(self._lake.folder, _NAME, self._mark, result)

    def _compute_mark(self) -> dict[str, Any]:
        """Everything that decides what a refresh does; the tables first, so that a later change shows.

        Nothing, where a source cannot be listed: the stages report it.
        """
        tables = self._load_version_stamps()
        for source in self._sources:
            stamps = self._lake.version_stamps(source.id)
            try:
                with open_listed_source(self._lake, source) as opened:
                    items = {item.uri: item for item in opened.discover()}
                    branches, notes = list_branches(opened), list_notes(opened)
                    revision = opened.revision
            except KnowledgeError as error:
                self.listings[source.id] = Listing({}, stamps, error)
                return {}
            self.listings[source.id] = Listing(
                items, stamps, branches=branches, notes=notes, revision=revision
            )
        listed = {id_: hash_listing(listing) for id_, listing in self.listings.items()}
        # `str` shows any secret as stars; the JSON of pydantic asks for its value, which may not be set.
        settings = hash_strings(json.dumps(self._settings.model_dump(warnings=False), default=str))
        models = _iter_model_files(self._settings.resolve_embedding(source) for source in self._sources)
        program = hash_strings(identify_program(), *sorted(set(models)))
        return {"tables": tables, "listed": listed, "settings": settings, "program": program}

    def _load_version_stamps(self) -> dict[str, list[int | str]]:
        return {name: list(stamp) for name, stamp in self._lake.all_version_stamps().items()}


def identify_program() -> str:
    """Changes with any module of this package, and with the version of any package installed beside it."""
    own = Path(__file__).parents[1]
    parts = [sys.version, *sorted(_iter_modules(own)), *sorted(_iter_distributions())]
    return hash_strings(*parts)


def _iter_modules(folder: Path | str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _iter_modules(entry.path)
            else:
                stat = entry.stat()
                yield f"{entry.path} {stat.st_size} {stat.st_mtime_ns}"


def _iter_distributions() -> Iterator[str]:
    for folder in sys.path:
        with suppress(OSError):
            names = (entry.name for entry in os.scandir(folder or "."))
            yield from (name for name in names if name.endswith(".dist-info"))


def _depends_on_files_alone(settings: Settings, sources: Sequence[SourceConfig]) -> bool:
    """Whether a refresh reads nothing but folders, the store, and what is installed."""
    if settings.evaluation.questions:  # files of their own, whose changes are evaluated
        return False
    if any(source.access.visibility == "from_source" for source in sources):  # permissions are asked for
        return False
    if any(source.retention for source in sources):  # what is kept depends on the time
        return False
    names = _list_models(settings.resolve_embedding(source) for source in sources)
    are_known = all(name in _CARRIED_MODELS or Path(name).expanduser().is_dir() for name in names)
    return are_known and all(
        isinstance(source.connection, LocalConnection | GitConnection) for source in sources
    )


def _list_models(embeddings: Iterable[EmbeddingSettings]) -> set[str]:
    """Names, or folders, of the models of this machine."""
    local = (embedding.model for embedding in embeddings if embedding.provider == "local")
    return {part.strip().removesuffix(":outline") for model in local for part in model.split("+")}


def _iter_model_files(embeddings: Iterable[EmbeddingSettings]) -> Iterator[str]:
    """The files of models that no package carries, each with its size and time."""
    for name in _list_models(embeddings) - _CARRIED_MODELS:
        yield from _iter_modules(Path(name).expanduser())


def hash_listing(listing: Listing) -> str:
    """What changes with anything that is listed."""
    listed = sorted(item_fingerprints(listing.items.values()).items())
    return hash_strings(*chain.from_iterable(listed), *listing.branches, *sorted(listing.notes))


def _to_stats(kept: Mapping[str, Any]) -> Stats:
    values: dict[str, Any] = {name: Counter[str](kept[name]) for name in _COUNTERS}
    values = {**kept, **values, "seconds": 0.0, "at": datetime.now(UTC)}
    return Stats(**values)
