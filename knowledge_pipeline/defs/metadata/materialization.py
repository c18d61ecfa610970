"""A stage's statistics and a few of its rows, as metadata of a materialization."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.dagster_internals import ROW_COUNT
from knowledge_pipeline.defs.metadata.code_graph import build_graph_metadata
from knowledge_pipeline.defs.metadata.tables import build_table, truncate
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.tables import Table

_PREVIEW_ROWS = 5
_PREVIEW_COLUMNS: Mapping[str, Sequence[str]] = {
    "snapshot": ("uri", "title", "language", "last_modified", "skipped"),
    "chunks": ("uri", "anchor", "start_line", "end_line", "tokens", "skipped"),
    "graph": ("path", "kind", "name", "full_name", "start_line"),
}


def build_stage_metadata(ctx: RefreshContext, stats: Stats) -> dict[str, Any]:
    """What one stage did for one source: counts, costs, reasons, a preview."""
    table, written = _open_table(ctx, stats.stage), stats.added + stats.changed
    return {
        "source": stats.source,
        ROW_COUNT: stats.rows,
        "table": dg.PathMetadataValue(str(table.path)),
        "table_version": table.version,
        **{name: getattr(stats, name) for name in ("seen", "added", "changed", "removed", "unchanged")},
        "seconds": stats.seconds,
        **({"rows_without_vector": stats.unembedded} if stats.stage == "index" else {}),
        **({"per_second": round(written / stats.seconds, 1)} if written and stats.seconds else {}),
        "tokens": stats.tokens,
        "cost": stats.cost,
        **_reason_tables(stats),
        **_build_preview(ctx, stats.stage, table),
        **(build_graph_metadata(ctx.lake, stats.source) if stats.stage == "graph" else {}),
    }


def _reason_tables(stats: Stats) -> dict[str, Any]:
    """The number of skipped documents, and tables of what was skipped, found or noted."""
    shown: dict[str, Any] = {"skipped": stats.skipped.total()}
    counted = {"skipped_reasons": stats.skipped, "secrets_found": stats.found, "notes": stats.notes}
    for name, counts in counted.items():
        if counts:
            cells = [
                (truncate(reason).replace("|", "\\|"), count) for reason, count in counts.most_common(50)
            ]
            rows = [f"| {reason} | {count} |" for reason, count in cells]
            shown[name] = dg.MetadataValue.md("\n".join(["| what | count |", "| --- | ---: |", *rows]))
    return shown


def _open_table(ctx: RefreshContext, stage: str) -> Table:
    if stage == "graph":
        return ctx.lake.graph_table("symbols")
    if stage in _PREVIEW_COLUMNS:
        open_table = {"snapshot": ctx.lake.snapshot, "chunks": ctx.lake.chunks}[stage]
        return open_table(ctx.source.type, ctx.source.id)
    space = resolve_space(ctx.settings.resolve_embedding(ctx.source))
    if stage == "embeddings":
        return ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions)
    return ctx.lake.index(space.name, space.dimensions)


def _build_preview(ctx: RefreshContext, stage: str, table: Table) -> dict[str, Any]:
    if stage not in _PREVIEW_COLUMNS:
        return {}
    where = eq("source", ctx.source.id) if stage == "graph" else None
    for batch in table.iter_batches(_PREVIEW_COLUMNS[stage], where, batch_rows=_PREVIEW_ROWS):
        rows = batch.slice(0, _PREVIEW_ROWS).to_pylist()
        shown = [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
        return {"preview": build_table(shown)} if rows else {}
    return {}
