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
from knowledge_pipeline.stages.context import ProgressCallback, RefreshContext, Stats, ignore_progress
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
_STAGE_SOURCE_TYPES: dict[str, frozenset[SourceType]] = {"graph": frozenset({"code"})}

_RELEASE_ATTEMPTS = 3  # of a release: another process may write the index while it is evaluated


@dataclass(slots=True)
class RefreshOutcome:
    """What a refresh of some sources did; a source that failed keeps what it had."""

    stats: list[Stats] = field(default_factory=list[Stats])
    failures: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    release: Stats | None = None


def select_stages(source_type: SourceType) -> dict[str, Callable[[RefreshContext], Stats]]:
    """The stages that sources of a type go through, in their order."""
    return {
        stage: run
        for stage, run in STAGES.items()
        if source_type in _STAGE_SOURCE_TYPES.get(stage, (source_type,))
    }


@dataclass(frozen=True, slots=True)
class _IdleResult:
    """A source for which no stage had anything to do, and what the stages looked at."""

    settings: Settings
    source: SourceConfig
    version_stamps: Mapping[str, VersionStamp]
    stats: list[Stats]  # of the stages after the first


_idle_results: dict[tuple[Lake, str], _IdleResult] = {}  # by store and id


def refresh_source(ctx: RefreshContext) -> list[Stats]:
    """Bring one source up to date, stage by stage, without releasing it.

    Where a process has found nothing to do before, and nothing was written since, the source is listed and no
    table is read.

    Raises:
        Busy: another process refreshes the same source.
        KnowledgeError: as the stages do.
    """
    first, *others = select_stages(ctx.source.type).values()
    with ctx.lake.lock_source(ctx.source.id):
        listed = first(ctx)
        marks = (
            {} if ctx.full or ctx.reembed or not ctx.lake.is_local else ctx.lake.version_stamps(ctx.source.id)
        )
        if marks and not listed.has_changes and (known := _reuse_idle_stats(ctx, marks)):
            return [listed, *known]
        stats = [refresh(ctx) for refresh in others]
        idle = not any(each.has_changes for each in (listed, *stats))
        if marks and idle and ctx.lake.version_stamps(ctx.source.id) == marks:
            _idle_results[ctx.lake, ctx.source.id] = _IdleResult(ctx.settings, ctx.source, marks, stats)
        return [listed, *stats]


def _reuse_idle_stats(ctx: RefreshContext, version_stamps: Mapping[str, VersionStamp]) -> list[Stats]:
    """What the other stages told when they had nothing to do; empty where they may have."""
    known = _idle_results.get((ctx.lake, ctx.source.id))
    if known is None or known.settings is not ctx.settings or known.source is not ctx.source:
        return []
    if known.version_stamps != version_stamps:
        return []
    return [replace(each, seconds=0.0, at=datetime.now(UTC)) for each in known.stats]


def refresh(
    lake: Lake,
    settings: Settings,
    sources: Iterable[SourceConfig],
    *,
    full: bool = False,
    reembed: bool = False,
    allow_empty: bool = False,
    report: Callable[[SourceConfig], ProgressCallback] = lambda source: ignore_progress,
) -> RefreshOutcome:
    """Bring sources up to date and release what they gave.

    One source that fails does not stop the others; it is named in the outcome.
    """
    outcome = RefreshOutcome()
    for source in sources:
        this = RefreshContext(lake, settings, source, full, reembed, allow_empty, report(source))
        try:
            outcome.stats += refresh_source(this)
        except KnowledgeError as error:
            outcome.failures[source.id] = error
    log_refreshes(lake, settings, outcome.stats)
    try:
        outcome.release = refresh_release(lake, settings)
    except KnowledgeError as error:
        outcome.failures["release"] = error
    return outcome


def refresh_release(lake: Lake, settings: Settings) -> Stats:
    """Ask the newest index the golden questions, where there are any, and release it if it is good.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
        KnowledgeError: as `evaluate.refresh` does.
    """
    for _ in range(_RELEASE_ATTEMPTS - 1):
        evaluate.refresh(lake, settings)
        try:
            return release.refresh(lake, settings)
        except ReleaseRefused:
            if not evaluate.needs_evaluation(lake, settings):  # what was evaluated is what was refused
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
