"""The job that keeps the store small and fast: a plain op whose run page shows what it did."""

from typing import Any

import dagster as dg
from pydantic import Field

from knowledge_pipeline.defs.dagster_internals import COMPUTE_KIND
from knowledge_pipeline.defs.failures import translate_failures
from knowledge_pipeline.defs.metadata.tables import build_list, build_table
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.event_log import log_release
from knowledge_pipeline.defs.runs.progress import build_progress_report
from knowledge_pipeline.maintenance import maintain as maintenance_stage
from knowledge_pipeline.maintenance.work import GRACE_S, MaintenanceOptions, MaintenanceReport
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.store.lake import Lake


class MaintenanceConfig(dg.Config):
    """What to do; by default everything."""

    collect_vectors: bool = Field(default=True, description="Delete vectors of texts that are long gone.")
    compact: bool = Field(default=True, description="Merge small fragments and those with deleted rows.")
    indexes: bool = Field(default=True, description="Build missing indexes, index the rows that are not.")
    versions: bool = Field(default=True, description="Delete old versions that no release names.")
    logs: bool = Field(default=True, description="Delete log entries older than logs.keep_days.")
    leftovers: bool = Field(default=True, description="Remove unused mirrors, spaces and files.")
    grace_s: float = Field(
        default=GRACE_S, ge=0, description="How long a version stays after another one took its place."
    )
    dry_run: bool = Field(default=False, description="Only report what would be done.")


def build_maintenance_job(names: Names = PLAIN) -> dg.JobDefinition:
    """The job that keeps the store small and fast."""

    @dg.op(
        name=names.definition("maintain"),
        description="Collects vectors, merges fragments, updates indexes, deletes versions, logs and "
        "leftovers.",
        out=dg.Out(dg.Nothing),
        tags={COMPUTE_KIND: "lancedb"},
    )
    @names.bind
    def maintain(context: dg.OpExecutionContext, config: MaintenanceConfig, project: ProjectResource) -> None:
        """Maintain the store. It needs no pool: the store's locks separate it from refreshes."""
        with translate_failures(context, project.retry_policy()):
            settings = project.load_settings()
            options = MaintenanceOptions(**config.model_dump())
            report = build_progress_report(context.log, "maintenance")
            maintained = maintenance_stage.refresh(
                Lake(settings.store), settings, options=options, report=report
            )
        for action in maintained.actions.values():
            context.log.info(
                f"{action.action}: {action.touched_count} tables, {action.removed} removed, "
                f"{action.bytes_before} bytes before, {action.bytes_after} after, {action.seconds:.1f} s"
            )
        if release := maintained.release:
            context.log.info(f"release {release.release} is live, with the same rows")
            log_release(
                context, Stats("release", "", rows=release.rows, version=release.release), project.names
            )
        for name, reason in maintained.skipped.items():
            context.log.warning(f"{name}: skipped: {reason}")
        context.add_output_metadata(build_metadata(maintained))

    @dg.job(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("maintenance"),
        description="Keep the store small and fast; search gives the same results before, during and after.",
        tags={"knowledge/kind": "maintenance"},
    )
    def maintenance() -> None:
        """Maintain the store, as `knowledge maintain` does."""
        maintain.alias("maintain")()  # pyright: ignore[reportUnknownMemberType]  # it has no types

    return maintenance


def build_metadata(maintained: MaintenanceReport) -> dict[str, Any]:
    """Numbers, a row for each action, and the touched tables."""
    actions = maintained.actions.values()
    rows = [action.to_row() for action in actions]
    touched = [f"{action.action}: `{path}`" for action in actions for path in action.touched]
    skipped = [f"{name}: {reason}" for name, reason in maintained.skipped.items()]
    metadata: dict[str, Any] = {
        "sources": maintained.sources,
        "freed_bytes": maintained.freed_bytes,
        "vectors_removed": maintained.actions["vectors"].removed if "vectors" in maintained.actions else 0,
        "skipped": len(skipped),
        "seconds": maintained.seconds,
        "dry_run": maintained.dry_run,
    }
    if maintained.release:
        metadata["release"] = maintained.release.release
    if rows:
        metadata["actions"] = build_table(rows)
        metadata["touched"] = build_list(touched)
    if skipped:
        metadata["skipped_because"] = build_list(skipped)
    return metadata
