"""Refreshes sources inside a step: progress, slots in pools, and which sources failed."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import dagster as dg
from pydantic import Field

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.failures import Context
from knowledge_pipeline.defs.metadata.materialization import build_stage_metadata
from knowledge_pipeline.defs.metadata.provenance import data_version
from knowledge_pipeline.defs.names import Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.pools import build_slot_claim
from knowledge_pipeline.defs.runs.progress import build_progress_report
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages.context import RefreshContext, RefreshOptions, Stats, claim_immediately
from knowledge_pipeline.stages.early_release import EarlyReleases
from knowledge_pipeline.stages.pipeline import STAGES, SourceRefresh
from knowledge_pipeline.stages.run_log import log_refreshes
from knowledge_pipeline.store.lake import Lake


class RefreshConfig(dg.Config):
    """The run configuration of `RefreshOptions`."""

    full: bool = Field(default=False, description="Rebuild every row, whether it changed or not.")
    reembed: bool = Field(default=False, description="Embed texts again, even those with a vector.")
    allow_empty: bool = Field(
        default=False, description="Accept an empty listing of a source that had documents."
    )
    relist: bool = Field(default=False, description="List services in full, to detect deletions.")
    documents: list[str] = Field(
        default=[], description="SOURCE/URI: of their sources, read these documents and no others."
    )

    @property
    def options(self) -> RefreshOptions:
        """What the stages take."""
        return RefreshOptions(self.full, self.reembed, self.allow_empty, self.relist, tuple(self.documents))


@dataclass(frozen=True, slots=True)
class StageResult:
    """One finished stage of one source."""

    ctx: RefreshContext
    stats: Stats
    version: str  # the data version
    key: dg.AssetKey  # the stage's asset
    is_final: bool = True  # else of the index, by words alone, and more will follow

    @property
    def source_type(self) -> SourceType:
        """The type of the source."""
        return self.ctx.source.type

    def read_metadata(self) -> dict[str, Any]:
        """What the UI shows of it, read from the tables as they are now."""
        return build_stage_metadata(self.ctx, self.stats)


@dataclass(slots=True)
class RefreshResult:
    """What became of several sources; one that failed does not stop the others."""

    types: list[SourceType] = field(default_factory=list[SourceType])  # of which some stage finished
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])


def refresh_source(
    context: Context,
    project: ProjectResource,
    settings: Settings,
    options: RefreshOptions,
    source: str,
    stages: Collection[str] = tuple(STAGES),
    releases: EarlyReleases | None = None,
) -> Iterator[StageResult]:
    """Run the chosen stages of one source, which nobody else refreshes meanwhile.

    Raises:
        NotFound: the source is not, or no longer, configured.
        KnowledgeError: as the stages do; the stages before are logged.
    """
    run = _open_source(context, project, settings, options, source, stages, releases)
    try:
        yield from _iter_results(run, run.cut_and_index_words(), project.names)
        yield from _iter_results(run, run.finish(), project.names)
    finally:
        context.log.info(describe_source(run))
        log_refreshes(run.ctx.lake, run.ctx.settings, run.stats, run_id=context.run.run_id)


def _open_source(
    context: Context,
    project: ProjectResource,
    settings: Settings,
    options: RefreshOptions,
    source: str,
    stages: Collection[str],
    releases: EarlyReleases | None,
) -> SourceRefresh:
    (found,) = settings.select_sources([source])
    report = build_progress_report(context.log, source)
    claim_slot = build_slot_claim(context, project.names) if project.pools else claim_immediately
    ctx = RefreshContext(Lake(settings.store), settings, found, options, report, claim_slot)
    return SourceRefresh(ctx, stages, releases)


def _iter_results(
    run: SourceRefresh, stats_of_stages: Iterable[Stats], names: Names
) -> Iterator[StageResult]:
    ctx = run.ctx
    for stats in stats_of_stages:
        version = data_version(ctx.settings, ctx.source, stats)
        is_final = any(stats is each for each in run.stats)
        yield StageResult(ctx, stats, version, names.key(ctx.source.type, stats.stage), is_final)


def describe_source(run: SourceRefresh) -> str:
    """What its stages did, in one line for the run's log, where each line is a commit."""
    done: list[str] = []
    for stats in run.stats:
        counts = {"added": stats.added, "changed": stats.changed, "removed": stats.removed}
        changes = " ".join(f"{count} {name}" for name, count in counts.items() if count)
        done.append(f"{stats.stage} {changes or 'unchanged'}")
    seconds = sum(stats.seconds for stats in run.stats)
    return f"{run.ctx.source.id}: {', '.join(done) or 'no stage finished'}; {seconds:.2g} s"


class Recorder(Protocol):
    """What is told of each source's progress, and writes it down."""

    def record_stage(self, result: StageResult) -> None:
        """A stage is done."""
        ...

    def record_source(self, run: SourceRefresh) -> None:
        """A source is done, or has failed."""
        ...

    def flush(self) -> None:
        """Write what is not written yet."""
        ...


def refresh_all_sources(
    context: Context,
    project: ProjectResource,
    options: RefreshOptions,
    sources: Iterable[str],
    stages: Collection[str] = tuple(STAGES),
    releases: EarlyReleases | None = None,
    *,
    recorder: Recorder,
) -> RefreshResult:
    """Refresh sources: read one after the other, then finish one after the other.

    The recorder has all that was done when this returns or raises, and between the two steps.
    """
    refreshed, settings = RefreshResult(), project.load_settings()
    runs: dict[str, SourceRefresh] = {}

    def fail(source: str, error: KnowledgeError) -> None:
        refreshed.failed[source] = error
        context.log.error(f"{source}: {error}")

    for source in sources:
        try:
            runs[source] = _open_source(context, project, settings, options, source, stages, releases)
        except KnowledgeError as error:
            fail(source, error)
    for step in (SourceRefresh.cut_and_index_words, SourceRefresh.finish):
        try:
            for source, run in runs.items():
                if source not in refreshed.failed:
                    try:
                        _finish_step(refreshed, recorder, run, step, project.names)
                    except KnowledgeError as error:
                        fail(source, error)
        finally:
            recorder.flush()
        if releases and step is SourceRefresh.cut_and_index_words:
            releases.flush()
    return refreshed


def _finish_step(
    refreshed: RefreshResult,
    recorder: Recorder,
    run: SourceRefresh,
    step: Callable[[SourceRefresh], Iterable[Stats]],
    names: Names,
) -> None:
    is_done = step is SourceRefresh.finish
    try:
        for result in _iter_results(run, step(run), names):
            if result.source_type not in refreshed.types:
                refreshed.types.append(result.source_type)
            recorder.record_stage(result)
    except BaseException:
        is_done = True
        raise
    finally:
        if is_done:
            recorder.record_source(run)
