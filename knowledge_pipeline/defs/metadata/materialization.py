"""A stage's statistics and a few of its rows, as Dagster shows them beside a materialization."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.metadata.asset_specs import table_metadata
from knowledge_pipeline.defs.metadata.code_graph import graph_metadata
from knowledge_pipeline.embedding.registry import space_of
from knowledge_pipeline.stages.context import Pass, Stats
from knowledge_pipeline.store.filters import Filter, eq
from knowledge_pipeline.store.tables import Table

_PREVIEW_ROWS = 5
_PREVIEW_CHARS = 80
_PREVIEWED: Mapping[str, Sequence[str]] = {
    "snapshot": ("uri", "title", "language", "last_modified", "skipped"),
    "chunks": ("uri", "anchor", "start_line", "end_line", "tokens", "skipped"),
    "graph": ("path", "kind", "name", "full_name", "start_line"),
}


def metadata_of(this: Pass, stats: Stats) -> dict[str, Any]:
    """What one stage did for one source: counts, costs, reasons, a preview."""
    shown = stats.as_metadata()
    return {
        "source": stats.source,
        "dagster/row_count": shown.pop("rows"),
        **table_metadata(_table_of(this, stats.stage)),
        **{name: shown[name] for name in ("seen", "added", "changed", "removed", "unchanged")},
        "seconds": shown["seconds"],
        **_consumption(stats),
        **_reasons(stats),
        **_preview(this, stats.stage),
        **(graph_metadata(this.lake, stats.source) if stats.stage == "graph" else {}),
    }


def _consumption(stats: Stats) -> dict[str, Any]:
    worked = stats.added + stats.changed
    rate = {"per_second": round(worked / stats.seconds, 1)} if worked and stats.seconds else {}
    return {**rate, "tokens": stats.tokens, "cost": stats.cost}


def _reasons(stats: Stats) -> dict[str, Any]:
    """Tables of what was skipped, found or noted; the number of skipped documents always."""
    shown: dict[str, Any] = {"skipped": stats.skipped.total()}
    counted = {"skipped_reasons": stats.skipped, "secrets_found": stats.found, "notes": stats.notes}
    for name, counts in counted.items():
        if counts:
            rows = [f"| {_one_line(reason)} | {count} |" for reason, count in counts.most_common(50)]
            shown[name] = dg.MetadataValue.md("\n".join(["| what | count |", "| --- | ---: |", *rows]))
    return shown


def _table_of(this: Pass, stage: str) -> Table:
    if stage == "graph":
        return this.lake.graph("symbols")
    if stage in _PREVIEWED:
        open_table = {"snapshot": this.lake.snapshot, "chunks": this.lake.chunks}[stage]
        return open_table(this.source.type, this.source.id)
    space = space_of(this.settings.embedding_of(this.source))
    if stage == "embeddings":
        return this.lake.embeddings(space.name, this.source.id, space.dimensions)
    return this.lake.index(space.name, space.dimensions)


def _preview(this: Pass, stage: str) -> dict[str, Any]:
    if stage not in _PREVIEWED:
        return {}
    mine = eq("source", this.source.id) if stage == "graph" else None
    rows = _first_rows(_table_of(this, stage), _PREVIEWED[stage], mine)
    if not rows:
        return {}
    schema = dg.TableSchema(columns=[dg.TableColumn(name) for name in _PREVIEWED[stage]])
    return {"preview": dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema)}


def _first_rows(table: Table, columns: Sequence[str], where: Filter | None) -> list[dict[str, str]]:
    for batch in table.batches(columns, where, batch_rows=_PREVIEW_ROWS):
        found = batch.slice(0, _PREVIEW_ROWS).to_pylist()
        return [{name: _one_line(value) for name, value in row.items()} for row in found]
    return []


def _one_line(value: Any) -> str:
    """Fit for a cell of a table."""
    text = "" if value is None else " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= _PREVIEW_CHARS else f"{text[: _PREVIEW_CHARS - 1]}…"
