"""The job that keeps the store small and fast: a plain op, which shows what it did in the run's page."""

from typing import Any

import dagster as dg
from pydantic import Field

from knowledge_pipeline.defs.failures import translate_failures
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.event_log import log_release
from knowledge_pipeline.defs.runs.progress import build_progress_report
from knowledge_pipeline.maintenance import maintain as stage
from knowledge_pipeline.maintenance.work import GRACE_S, MaintenanceOptions, MaintenanceReport
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.store.lake import Lake

_MAX_LISTED = 200  # touched tables, and skipped sources, that are listed one by one
_COLUMNS = ("action", "tables", "removed", "bytes_before", "bytes_after", "seconds")


class MaintenanceConfig(dg.Config):
    """What is done; by default everything."""

    collect_vectors: bool = Field(default=True, description="Delete vectors of texts that are long gone.")
    compact: bool = Field(default=True, description="Merge small fragments and those with deleted rows.")
    indexes: bool = Field(default=True, description="Build missing indexes, take unindexed rows in.")
    versions: bool = Field(default=True, description="Drop old versions that no release names.")
    logs: bool = Field(default=True, description="Delete log entries older than logs.keep_days.")
    leftovers: bool = Field(default=True, description="Remove mirrors, spaces and files nobody uses.")
    grace_s: float = Field(
        default=GRACE_S, ge=0, description="How long a version stays after another one took its place."
    )
    dry_run: bool = Field(default=False, description="Only tell what would be done.")


@dg.op(
    description="Collects vectors, merges fragments, updates indexes, drops versions, logs and leftovers.",
    out=dg.Out(dg.Nothing),
    tags={"dagster/compute_kind": "lancedb"},
)
def maintain(context: dg.OpExecutionContext, config: MaintenanceConfig, project: ProjectResource) -> None:
    """It needs no pool: the store's own locks keep it from refreshes, which are not waited for."""
    with translate_failures(context, project.retry_policy()):
        settings = project.load_settings()
        asked = MaintenanceOptions(**config.model_dump())
        report = build_progress_report(context.log, "maintenance")
        done = stage.refresh(Lake(settings.store), settings, options=asked, report=report)
    for action in done.actions.values():
        context.log.info(
            f"{action.action}: {action.touched_count} tables, {action.removed} removed, "
            f"{action.bytes_before} bytes before, {action.bytes_after} after, {action.seconds:.1f} s"
        )
    if done.release:
        context.log.info(f"release {done.release.release} is live, with the same rows")
        log_release(context, Stats("release", "", rows=done.release.rows, version=done.release.release))
    for what, why in done.skipped.items():
        context.log.warning(f"{what}: skipped: {why}")
    context.add_output_metadata(build_metadata(done))


def build_metadata(maintained: MaintenanceReport) -> dict[str, Any]:
    """Numbers, a row for each action, and which tables were touched."""
    schema = dg.TableSchema(columns=[dg.TableColumn(name, _column_type(name)) for name in _COLUMNS])
    rows = [dg.TableRecord(each.to_row()) for each in maintained.actions.values()]
    touched = [f"- {each.action}: `{path}`" for each in maintained.actions.values() for path in each.touched]
    skipped = [f"- {what}: {why}" for what, why in maintained.skipped.items()]
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
        metadata["actions"] = dg.MetadataValue.table(rows, schema)
        metadata["touched"] = dg.MetadataValue.md(_format_list(touched))
    if skipped:
        metadata["skipped_because"] = dg.MetadataValue.md(_format_list(skipped))
    return metadata


def _column_type(column: str) -> str:
    return {"action": "string", "seconds": "float"}.get(column, "int")


def _format_list(lines: list[str]) -> str:
    rest = [f"- and {len(lines) - _MAX_LISTED} more"] if len(lines) > _MAX_LISTED else []
    return "\n".join([*lines[:_MAX_LISTED], *rest])


@dg.job(
    description="Keep the store small and fast; search answers the same before, meanwhile and after.",
    tags={"knowledge/kind": "maintenance"},
)
def maintenance() -> None:
    """What `knowledge maintain` does."""
    maintain()
