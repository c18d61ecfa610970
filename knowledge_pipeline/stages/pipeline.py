"""The stages in their order, for one source and for many.

The CLI calls this; Dagster calls the same stage functions, one asset each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from knowledge_pipeline.config.settings import Settings, SourceConfig
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.errors import KnowledgeError, NotFound, ReleaseRefused
from knowledge_pipeline.stages import chunks, embeddings, evaluate, index, release, snapshot
from knowledge_pipeline.stages.code_graph import refresh as graph
from knowledge_pipeline.stages.context import (
    ORDINARY_REFRESH,
    ProgressCallback,
    RefreshContext,
    RefreshOptions,
    Stats,
    ignore_progress,
)
from knowledge_pipeline.stages.run_log import log_refreshes
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import VersionStamp

STAGES: dict[str, Callable[[RefreshContext], Stats]] = {
    "snapshot": snapshot.refresh,
    "chunks": chunks.refresh,
    "embeddings": embeddings.refresh,
    "index": index.refresh,
    "graph": graph.refresh,
}
_RELEASE_ATTEMPTS = 3  # another process may write the index while it is evaluated


@dataclass(slots=True)
class RefreshOutcome:
    """What a refresh of some sources did; a source that failed keeps what it had."""

    stats: list[Stats] = field(default_factory=list[Stats])
    failures: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    release: Stats | None = None


class IdleSources:
    """Remembers sources for which no stage had anything to do, so that the next look reads no table.

    A long-running process holds one for each store. It empties itself for another `Settings` object.
    """

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._idle: dict[str, tuple[Mapping[str, VersionStamp], list[Stats]]] = {}  # by source

    def find(self, ctx: RefreshContext, version_stamps: Mapping[str, VersionStamp]) -> list[Stats]:
        """The statistics of the stages after the first; empty where something may have changed."""
        known = self._idle.get(ctx.source.id)
        if known is None or self._settings is not ctx.settings or known[0] != version_stamps:
            return []
        return [replace(stats, seconds=0.0, at=datetime.now(UTC)) for stats in known[1]]

    def add(
        self, ctx: RefreshContext, version_stamps: Mapping[str, VersionStamp], stats: list[Stats]
    ) -> None:
        """Remember a source whose stages had nothing to do while its tables had these versions."""
        if self._settings is not ctx.settings:
            self._settings, self._idle = ctx.settings, {}
        self._idle[ctx.source.id] = version_stamps, stats


def select_stages(source_type: SourceType) -> dict[str, Callable[[RefreshContext], Stats]]:
    """The stages that sources of a type go through, in their order."""
    return {stage: run for stage, run in STAGES.items() if stage != "graph" or source_type == "code"}


def refresh_source(ctx: RefreshContext, idle: IdleSources | None = None) -> list[Stats]:
    """Bring one source up to date, stage by stage, without releasing it.

    The caller keeps `idle` from call to call: a source in it, and unchanged since, is only listed.

    Raises:
        Busy: another process refreshes the same source.
        KnowledgeError: as the stages do.
    """
    list_source, *later_stages = select_stages(ctx.source.type).values()
    with ctx.lake.lock_source(ctx.source.id):
        listed = list_source(ctx)
        if idle is None or ctx.options.full or ctx.options.reembed or not ctx.lake.is_local:
            return [listed, *(refresh(ctx) for refresh in later_stages)]
        version_stamps = ctx.lake.version_stamps(ctx.source.id)
        if not listed.has_changes and (known := idle.find(ctx, version_stamps)):
            return [listed, *known]
        stats = [refresh(ctx) for refresh in later_stages]
        has_changes = listed.has_changes or any(each.has_changes for each in stats)
        if version_stamps and not has_changes and ctx.lake.version_stamps(ctx.source.id) == version_stamps:
            idle.add(ctx, version_stamps, stats)
        return [listed, *stats]


def refresh(
    lake: Lake,
    settings: Settings,
    sources: Iterable[SourceConfig],
    options: RefreshOptions = ORDINARY_REFRESH,
    *,
    report: Callable[[SourceConfig], ProgressCallback] = lambda source: ignore_progress,
    idle: IdleSources | None = None,
) -> RefreshOutcome:
    """Bring sources up to date and release what changed.

    A source that fails does not stop the others; the outcome names it.
    """
    outcome = RefreshOutcome()
    for source in sources:
        try:
            ctx = RefreshContext(lake, settings, source, options, report(source))
            outcome.stats += refresh_source(ctx, idle)
        except KnowledgeError as error:
            outcome.failures[source.id] = error
    log_refreshes(lake, settings, outcome.stats)
    try:
        outcome.release = refresh_release(lake, settings)
    except KnowledgeError as error:
        outcome.failures["release"] = error
    return outcome


def refresh_release(lake: Lake, settings: Settings) -> Stats:
    """Evaluate the newest index by the golden questions, if there are any, and release it if it is good.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
        KnowledgeError: as `evaluate.refresh` does.
    """
    for _ in range(_RELEASE_ATTEMPTS - 1):
        evaluate.refresh(lake, settings)
        try:
            return release.refresh(lake, settings)
        except ReleaseRefused:
            if not evaluate.needs_evaluation(lake, settings):  # the refused index is the evaluated one
                raise
    evaluate.refresh(lake, settings)
    return release.refresh(lake, settings)


def select_sources(settings: Settings, ids: Iterable[str]) -> list[SourceConfig]:
    """Configured sources by id; all of them where no id is given.

    Raises:
        NotFound: no source has such an id.
    """
    by_id = {source.id: source for source in settings.sources}
    ids = list(ids) or list(by_id)
    for id_ in ids:
        if id_ not in by_id:
            raise NotFound(f"there is no source {id_!r}; configured sources: {', '.join(by_id) or 'none'}")
    return [by_id[id_] for id_ in ids]
