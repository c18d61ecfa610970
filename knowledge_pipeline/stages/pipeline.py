"""The stages in their order, for one source and for many.

The CLI calls this; Dagster calls the same stage functions, one asset each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from knowledge_pipeline.config.settings import Settings, SourceConfig, SourceType
from knowledge_pipeline.errors import KnowledgeError, NotFound, ReleaseRefused
from knowledge_pipeline.stages import chunks, embeddings, evaluate, index, release, snapshot
from knowledge_pipeline.stages.code_graph import refresh as graph
from knowledge_pipeline.stages.context import Pass, Report, Stats, silent
from knowledge_pipeline.stages.run_log import note_refreshes
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import Mark

STAGES: dict[str, Callable[[Pass], Stats]] = {
    "snapshot": snapshot.refresh,
    "chunks": chunks.refresh,
    "embeddings": embeddings.refresh,
    "index": index.refresh,
    "graph": graph.refresh,
}
_OF_SOME: dict[str, frozenset[SourceType]] = {"graph": frozenset({"code"})}

_TRIES = 3  # of a release: another process may write the index while it is evaluated


@dataclass(slots=True)
class Outcome:
    """What a refresh of some sources did; a source that failed keeps what it had."""

    stats: list[Stats] = field(default_factory=list[Stats])
    failures: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    release: Stats | None = None


def stages_of(source_type: SourceType) -> dict[str, Callable[[Pass], Stats]]:
    """The stages that sources of a type go through, in their order."""
    return {stage: run for stage, run in STAGES.items() if source_type in _OF_SOME.get(stage, (source_type,))}


@dataclass(frozen=True, slots=True)
class _Settled:
    """A source for which no stage had anything to do, and what the stages looked at."""

    settings: Settings
    source: SourceConfig
    marks: Mapping[str, Mark]
    stats: list[Stats]  # of the stages after the first


_settled: dict[tuple[Lake, str], _Settled] = {}  # by store and id


def refresh_source(this: Pass) -> list[Stats]:
    """Bring one source up to date, stage by stage, without releasing it.

    Where a process has found nothing to do before, and nothing was written since, the source is listed and no
    table is read.

    Raises:
        Busy: another process refreshes the same source.
        KnowledgeError: as the stages do.
    """
    first, *others = stages_of(this.source.type).values()
    with this.lake.source_lock(this.source.id):
        listed = first(this)
        marks = {} if this.full or this.reembed or not this.lake.is_local else this.lake.marks(this.source.id)
        if marks and not listed.touched and (known := _known(this, marks)):
            return [listed, *known]
        stats = [refresh(this) for refresh in others]
        idle = not any(each.touched for each in (listed, *stats))
        if marks and idle and this.lake.marks(this.source.id) == marks:
            _settled[this.lake, this.source.id] = _Settled(this.settings, this.source, marks, stats)
        return [listed, *stats]


def _known(this: Pass, marks: Mapping[str, Mark]) -> list[Stats]:
    """What the other stages told when they had nothing to do; empty where they may have."""
    known = _settled.get((this.lake, this.source.id))
    if known is None or known.settings is not this.settings or known.source is not this.source:
        return []
    if known.marks != marks:
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
    report: Callable[[SourceConfig], Report] = lambda source: silent,
) -> Outcome:
    """Bring sources up to date and release what they gave.

    One source that fails does not stop the others; it is named in the outcome.
    """
    outcome = Outcome()
    for source in sources:
        this = Pass(lake, settings, source, full, reembed, allow_empty, report(source))
        try:
            outcome.stats += refresh_source(this)
        except KnowledgeError as error:
            outcome.failures[source.id] = error
    note_refreshes(lake, settings, outcome.stats)
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
    for _ in range(_TRIES - 1):
        evaluate.refresh(lake, settings)
        try:
            return release.refresh(lake, settings)
        except ReleaseRefused:
            if not evaluate.due(lake, settings):  # what was evaluated is what was refused
                raise
    evaluate.refresh(lake, settings)
    return release.refresh(lake, settings)


def chosen(settings: Settings, ids: Iterable[str]) -> list[SourceConfig]:
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
