"""The jobs over all types: one that refreshes any sources, and one that makes them anew.

A run has partitions of one set, and each type has a set of its own. So `refresh_<type>`
is the asset job to launch for a partition, a backfill or from a sensor; `refresh` and
`full_reindex` take sources of any type, and record one run of `refresh_<type>` for each.
"""

import dagster as dg
from pydantic import Field

from knowledge_pipeline.defs import record
from knowledge_pipeline.defs.assets import RefreshConfig
from knowledge_pipeline.defs.resources import ProjectResource


class SourcesConfig(RefreshConfig):
    """Which sources, and how."""

    sources: list[str] = Field(default=[], description="Ids of sources; none means all that are configured.")


@dg.op
def refresh_sources(context: dg.OpExecutionContext, config: SourcesConfig, project: ProjectResource) -> None:
    """Record one run for each source, and one for the release; fail at the end if any failed."""
    how = RefreshConfig(full=config.full, reembed=config.reembed, allow_empty=config.allow_empty)
    tags = {"knowledge/refreshed_by": context.run_id}
    recorded = record.refresh(project, context.instance, config.sources, how, tags)
    context.log.info(f"{len(recorded.runs)} runs, {len(recorded.failures)} of them failed")
    if recorded.failures:
        reasons = "; ".join(f"{source}: {reason}" for source, reason in recorded.failures.items())
        raise dg.Failure(f"{len(recorded.failures)} of {len(recorded.runs)} runs failed: {reasons}")


@dg.job(description="Refresh sources of any type, all where none is named, and release what they gave.")
def refresh() -> None:
    """A refresh of any sources."""
    refresh_sources()


@dg.job(
    description="Read sources of any type anew and make all their rows again, vectors aside; then release.",
    config={"ops": {"refresh_sources": {"config": {"full": True}}}},
)
def full_reindex() -> None:
    """A refresh of any sources that takes nothing as done."""
    refresh_sources()
