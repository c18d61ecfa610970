"""A stage's statistics and a few of its rows, as Dagster shows them beside a materialization."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.metadata.asset_specs import build_table_metadata
from knowledge_pipeline.defs.metadata.code_graph import build_graph_metadata
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.store.filters import Filter, eq
from knowledge_pipeline.store.tables import Table

_PREVIEW_ROWS = 5
_PREVIEW_CHARS = 80
_PREVIEW_COLUMNS: Mapping[str, Sequence[str]] = {
    "snapshot": ("uri", "title", "language", "last_modified", "skipped"),
    "chunks": ("uri", "anchor", "start_line", "end_line", "tokens", "skipped"),
    "graph": ("path", "kind", "name", "full_name", "start_line"),
}


def build_stage_metadata(ctx: RefreshContext, stats: Stats) -> dict[str, Any]:
    """What one stage did for one source: counts, costs, reasons, a preview."""
    shown = stats.as_metadata()
    return {
        "source": stats.source,
        "dagster/row_count": shown.pop("rows"),
        **build_table_metadata(_open_table(ctx, stats.stage)),
        **{name: shown[name] for name in ("seen", "added", "changed", "removed", "unchanged")},
        "seconds": shown["seconds"],
        **_usage_metadata(stats),
        **_reason_tables(stats),
        **_build_preview(ctx, stats.stage),
        **(build_graph_metadata(ctx.lake, stats.source) if stats.stage == "graph" else {}),
    }


def _usage_metadata(stats: Stats) -> dict[str, Any]:
    worked = stats.added + stats.changed
    rate = {"per_second": round(worked / stats.seconds, 1)} if worked and stats.seconds else {}
    return {**rate, "tokens": stats.tokens, "cost": stats.cost}


def _reason_tables(stats: Stats) -> dict[str, Any]:
    """Tables of what was skipped, found or noted; the number of skipped documents always."""
    shown: dict[str, Any] = {"skipped": stats.skipped.total()}
    counted = {"skipped_reasons": stats.skipped, "secrets_found": stats.found, "notes": stats.notes}
    for name, counts in counted.items():
        if counts:
            rows = [f"| {_format_cell(reason)} | {count} |" for reason, count in counts.most_common(50)]
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


def _build_preview(ctx: RefreshContext, stage: str) -> dict[str, Any]:
    if stage not in _PREVIEW_COLUMNS:
        return {}
    mine = eq("source", ctx.source.id) if stage == "graph" else None
    rows = _read_first_rows(_open_table(ctx, stage), _PREVIEW_COLUMNS[stage], mine)
    if not rows:
        return {}
    schema = dg.TableSchema(columns=[dg.TableColumn(name) for name in _PREVIEW_COLUMNS[stage]])
    return {"preview": dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema)}


def _read_first_rows(table: Table, columns: Sequence[str], where: Filter | None) -> list[dict[str, str]]:
    for batch in table.iter_batches(columns, where, batch_rows=_PREVIEW_ROWS):
        found = batch.slice(0, _PREVIEW_ROWS).to_pylist()
        return [{name: _format_cell(value) for name, value in row.items()} for row in found]
    return []


def _format_cell(value: Any) -> str:
    """Fit for a cell of a table."""
    text = "" if value is None else " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= _PREVIEW_CHARS else f"{text[: _PREVIEW_CHARS - 1]}…"
