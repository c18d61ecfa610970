"""The jobs over sources of any type: refresh, full reindex, purge.

A run of an asset job has partitions of one set, and each type has a set of its own: `refresh_<type>` is
the asset job to launch for a partition or a backfill. The jobs here take sources of any type by their
ids: one run, one process, one step, whatever the number of sources.
"""

# The signature of `dg.job` has a bare PathLike.
# pyright: reportUnknownMemberType=false
import dagster as dg
from pydantic import Field

from knowledge_pipeline.defs.failures import translate_failures
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.dead_workers import tag_process
from knowledge_pipeline.defs.runs.event_log import refresh_and_record
from knowledge_pipeline.defs.runs.executor import SOURCE_STEP_TAGS
from knowledge_pipeline.defs.runs.refresh_steps import RefreshConfig
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.maintenance.purge import purge_former_types, purge_source
from knowledge_pipeline.store.lake import Lake


class SourcesConfig(RefreshConfig):
    """Which sources, and how."""

    sources: list[str] = Field(default=[], description="Ids of sources; none means all that are configured.")


class PurgeConfig(dg.Config):
    """What to erase."""

    sources: list[str] = Field(description="Ids of stored sources that are no longer configured.")


def build_source_jobs(names: Names = PLAIN) -> list[dg.JobDefinition]:
    """The jobs `refresh`, `full_reindex` and `purge`.

    Whatever the prefix, a run's configuration names the ops `refresh_sources` and `purge_sources`.
    """
    refresh_sources, purge_sources = _build_refresh_op(names), _build_purge_op(names)

    @dg.job(
        name=names.definition("refresh"),
        description="Refresh sources of any type, all where none is named, and release what changed.",
    )
    def refresh() -> None:
        refresh_sources.alias("refresh_sources")()

    @dg.job(
        name=names.definition("full_reindex"),
        description="Read sources of any type again, rebuild all rows except vectors, and release them.",
        config={"ops": {"refresh_sources": {"config": {"full": True}}}},
    )
    def full_reindex() -> None:
        refresh_sources.alias("refresh_sources")()

    @dg.job(
        name=names.definition("purge"),
        description="Erase everything stored of sources that are no longer configured.",
    )
    def purge() -> None:
        purge_sources.alias("purge_sources")()

    return [refresh, full_reindex, purge]


def _build_refresh_op(names: Names) -> dg.OpDefinition:
    @dg.op(
        name=names.definition("refresh_sources"),
        description="Refreshes one source after the other, records each, and releases what changed.",
        tags=SOURCE_STEP_TAGS,
    )
    @names.bind
    def refresh_sources(
        context: dg.OpExecutionContext, config: SourcesConfig, project: ProjectResource
    ) -> None:
        """Fail at the end if any source failed; the others are done, recorded and released."""
        with translate_failures(context, project.retry_policy()):
            tag_process(context)
            ids = [source.id for source in project.load_settings().select_sources(config.sources)]
            refresh_and_record(context, project, config.options, ids, release=True, skip_recorded=True)

    return refresh_sources


def _build_purge_op(names: Names) -> dg.OpDefinition:
    @dg.op(
        name=names.definition("purge_sources"),
        description="Erases everything stored of sources that are no longer configured.",
    )
    @names.bind
    def purge_sources(context: dg.OpExecutionContext, config: PurgeConfig, project: ProjectResource) -> None:
        """Of a source that is configured again by now, erase only what is left of its former type."""
        with translate_failures(context, project.retry_policy()):
            settings = project.load_settings()
            if unlisted := settings.unlisted_organisations:
                raise ConfigError(
                    f"the members of {', '.join(unlisted)} are not known here: launch the job organisations "
                    "before anything is purged"
                )
            lake = Lake(settings.store)
            configured = {source.id for source in settings.sources}
            for source in lake.list_stored_sources().keys() & set(config.sources):
                erase = purge_former_types if source in configured else purge_source
                context.log.info(f"{source}: {erase(lake, settings, source)} documents erased")

    return purge_sources
