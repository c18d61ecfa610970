"""Sources on their way through the stages inside a step: progress, turns in pools, and who failed."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from pydantic import Field

from knowledge_pipeline.config.settings import Settings, SourceType
from knowledge_pipeline.defs.failures import Context
from knowledge_pipeline.defs.metadata.materialization import metadata_of
from knowledge_pipeline.defs.metadata.provenance import data_version
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.pools import turns
from knowledge_pipeline.defs.runs.progress import progress
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import Pass, Stats, at_once
from knowledge_pipeline.stages.pipeline import STAGES, stages_of
from knowledge_pipeline.stages.run_log import note_refreshes
from knowledge_pipeline.store.lake import Lake


class RefreshConfig(dg.Config):
    """How sources are refreshed; the defaults are an ordinary refresh."""

    full: bool = Field(default=False, description="Make every row anew, whether it changed or not.")
    reembed: bool = Field(default=False, description="Embed again even what was embedded before.")
    allow_empty: bool = Field(default=False, description="Believe a listing that is empty all at once.")


@dataclass(frozen=True, slots=True)
class Done:
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
class Refreshed:
    """What became of several sources; one that failed does not stop the others."""

    done: list[Done] = field(default_factory=list[Done])
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])

    @property
    def types(self) -> list[SourceType]:
        """Of the sources that came as far as some stage."""
        return list(dict.fromkeys(one.source_type for one in self.done))


def refresh_one(
    context: Context,
    project: ProjectResource,
    settings: Settings,
    how: RefreshConfig,
    source: str,
    stages: Collection[str] = tuple(STAGES),
) -> Iterator[Done]:
    """Run the chosen stages of one source, which nobody else refreshes meanwhile.

    Raises:
        NotFound: the source is not, or no longer, configured.
        KnowledgeError: as the stages do; what was done before is written down.
    """
    (found,) = pipeline.chosen(settings, [source])
    turn = turns(context) if project.pools else at_once
    report = progress(context.log, source)
    this = Pass(Lake(settings.store), settings, found, **how.model_dump(), report=report, turn=turn)
    finished: list[Stats] = []
    try:
        with this.lake.source_lock(source):
            for stage, refresh in stages_of(found.type).items():
                if stage in stages:
                    stats = refresh(this)
                    finished.append(stats)
                    yield Done(
                        found.type, stats, data_version(settings, found, stats), metadata_of(this, stats)
                    )
    finally:
        context.log.info(_summary(source, finished))  # one line: each is a commit to the event log
        note_refreshes(this.lake, this.settings, finished, run=context.run.run_id)


def refresh_each(
    context: Context,
    project: ProjectResource,
    how: RefreshConfig,
    sources: Iterable[str],
    stages: Collection[str] = tuple(STAGES),
    *,
    after_each: Callable[[Done], None] = lambda done: None,
) -> Refreshed:
    """One source after the other.

    Args:
        context: of the step.
        project: the configuration and the store.
        how: an ordinary refresh, or a full one.
        sources: ids.
        stages: those to run.
        after_each: told of every stage as soon as it is done: a run that is stopped has told what it did.
    """
    refreshed, settings = Refreshed(), project.settings()
    for source in sources:
        try:
            for done in refresh_one(context, project, settings, how, source, stages):
                refreshed.done.append(done)
                after_each(done)
        except KnowledgeError as error:
            refreshed.failed[source] = error
            context.log.error(f"{source}: {error}")
    return refreshed


def _summary(source: str, finished: Iterable[Stats]) -> str:
    """`docs: snapshot 1 changed, chunks 2 added 1 removed, embeddings 2 added, index as it was; 0.4 s`."""
    told, seconds = [], 0.0
    for stats in finished:
        counts = {"added": stats.added, "changed": stats.changed, "removed": stats.removed}
        shown = " ".join(f"{count} {name}" for name, count in counts.items() if count)
        told.append(f"{stats.stage} {shown or 'as it was'}")
        seconds += stats.seconds
    return f"{source}: {', '.join(told) or 'nothing was done'}; {seconds:.2g} s"
