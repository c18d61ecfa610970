"""Sources on their way through the stages inside a step: progress, turns in pools, and who failed."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from pydantic import Field

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.failures import Context
from knowledge_pipeline.defs.metadata.materialization import build_stage_metadata
from knowledge_pipeline.defs.metadata.provenance import data_version
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.pools import build_pool_turn
from knowledge_pipeline.defs.runs.progress import build_progress_report
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshContext, Stats, claim_immediately
from knowledge_pipeline.stages.pipeline import STAGES, select_stages
from knowledge_pipeline.stages.run_log import log_refreshes
from knowledge_pipeline.store.lake import Lake


class RefreshConfig(dg.Config):
    """How sources are refreshed; the defaults are an ordinary refresh."""

    full: bool = Field(default=False, description="Make every row anew, whether it changed or not.")
    reembed: bool = Field(default=False, description="Embed again even what was embedded before.")
    allow_empty: bool = Field(default=False, description="Believe a listing that is empty all at once.")


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage of one source, done."""

    source_type: SourceType
    stats: Stats
    version: str  # the data version
    metadata: dict[str, Any]

    @property
    def key(self) -> dg.AssetKey:
        """The stage's asset."""
        return dg.AssetKey([self.source_type, self.stats.stage])


@dataclass(slots=True)
class RefreshResult:
    """What became of several sources; one that failed does not stop the others."""

    results: list[StageResult] = field(default_factory=list[StageResult])
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])

    @property
    def types(self) -> list[SourceType]:
        """Of the sources that came as far as some stage."""
        return list(dict.fromkeys(one.source_type for one in self.results))


def refresh_source(
    context: Context,
    project: ProjectResource,
    settings: Settings,
    refresh_config: RefreshConfig,
    source: str,
    stages: Collection[str] = tuple(STAGES),
) -> Iterator[StageResult]:
    """Run the chosen stages of one source, which nobody else refreshes meanwhile.

    Raises:
        NotFound: the source is not, or no longer, configured.
        KnowledgeError: as the stages do; what was done before is written down.
    """
    (found,) = pipeline.select_sources(settings, [source])
    turn = build_pool_turn(context) if project.pools else claim_immediately
    report = build_progress_report(context.log, source)
    this = RefreshContext(
        Lake(settings.store), settings, found, **refresh_config.model_dump(), report=report, claim_slot=turn
    )
    finished: list[Stats] = []
    try:
        with this.lake.lock_source(source):
            for stage, refresh in select_stages(found.type).items():
                if stage in stages:
                    stats = refresh(this)
                    finished.append(stats)
                    yield StageResult(
                        found.type,
                        stats,
                        data_version(settings, found, stats),
                        build_stage_metadata(this, stats),
                    )
    finally:
        context.log.info(_format_summary(source, finished))  # one line: each is a commit to the event log
        log_refreshes(this.lake, this.settings, finished, run_id=context.run.run_id)


def refresh_all_sources(
    context: Context,
    project: ProjectResource,
    refresh_config: RefreshConfig,
    sources: Iterable[str],
    stages: Collection[str] = tuple(STAGES),
    *,
    after_each: Callable[[StageResult], None] = lambda done: None,
) -> RefreshResult:
    """One source after the other.

    Args:
        context: of the step.
        project: the configuration and the store.
        how: an ordinary refresh, or a full one.
        sources: ids.
        stages: those to run.
        after_each: told of every stage as soon as it is done: a run that is stopped has told what it did.
    """
    refreshed, settings = RefreshResult(), project.load_settings()
    for source in sources:
        try:
            for done in refresh_source(context, project, settings, refresh_config, source, stages):
                refreshed.results.append(done)
                after_each(done)
        except KnowledgeError as error:
            refreshed.failed[source] = error
            context.log.error(f"{source}: {error}")
    return refreshed


def _format_summary(source: str, finished: Iterable[Stats]) -> str:
    """`docs: snapshot 1 changed, chunks 2 added 1 removed, embeddings 2 added, index as it was; 0.4 s`."""
    told, seconds = [], 0.0
    for stats in finished:
        counts = {"added": stats.added, "changed": stats.changed, "removed": stats.removed}
        shown = " ".join(f"{count} {name}" for name, count in counts.items() if count)
        told.append(f"{stats.stage} {shown or 'as it was'}")
        seconds += stats.seconds
    return f"{source}: {', '.join(told) or 'nothing was done'}; {seconds:.2g} s"
