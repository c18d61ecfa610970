"""What the store holds, counted by source, by space, and by table of the code graph."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.records import FAILED_STAGE
from knowledge_pipeline.store.filters import UNEMBEDDED, eq, is_null, one_of
from knowledge_pipeline.store.indexes import count_unindexed_rows, newest_version_time
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import compute_size
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.tables import Table

LEFT_OUT = "left_out"
"""The note of a snapshot: what the last listing of its files did not read, counted by kind."""


def summarize_sources(lake: Lake, settings: Settings, *, detailed: bool) -> list[dict[str, Any]]:
    """One row per source that is configured or stored."""
    configured = {source.id: source.type for source in settings.sources}
    sources = {**configured, **lake.list_stored_sources()}
    rows, unembedded = Counter[str](), Counter[str]()  # of the newest versions, which the next release names
    for space, dimensions in lake.list_spaces().items():
        table = lake.index(space, dimensions)
        rows.update({source: table.count_rows(eq("source", source)) for source in sources})
        waiting: list[Any] = table.read_rows(["source"], UNEMBEDDED)["source"].to_pylist()
        unembedded.update(waiting)
    return [
        {
            "source": source,
            "type": type_,
            "configured": source in configured,
            **_summarize_source(lake, source, type_, detailed=detailed),
            "rows": rows[source],
            "embedded": rows[source] - unembedded[source],
        }
        for source, type_ in sources.items()
    ]


def list_failures(lake: Lake) -> list[dict[str, Any]]:
    """The sources whose last refresh failed, each with the time since when and the last reason."""
    log = open_log(lake, "refreshes")
    if not log.exists:
        return []
    failed: list[dict[str, Any]] = log.read_rows(
        ["source", "at", "problem"], eq("stage", FAILED_STAGE)
    ).to_pylist()
    if not failed:
        return []
    done = eq("stage", "index") & one_of("source", sorted({row["source"] for row in failed}))
    rows: list[dict[str, Any]] = [*failed, *log.read_rows(["source", "at"], done).to_pylist()]
    failures: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        if "problem" not in row:
            failures.pop(row["source"], None)
        else:
            since = failures.get(row["source"], {}).get("since", row["at"].isoformat(timespec="seconds"))
            failures[row["source"]] = {**row, "since": since}
    return [{name: row[name] for name in ("source", "since", "problem")} for row in failures.values()]


def summarize_spaces(lake: Lake) -> list[dict[str, Any]]:
    """One row per space: its index table at the newest version."""
    tables = {
        (space, dimensions): lake.index(space, dimensions) for space, dimensions in lake.list_spaces().items()
    }
    return [
        {
            "space": space,
            "dimensions": dimensions,
            "unindexed": count_unindexed_rows(table),
            **_summarize_table(table),
        }
        for (space, dimensions), table in tables.items()
    ]


def summarize_code_graph(lake: Lake) -> list[dict[str, Any]]:
    """One row per table of the code graph, at its newest version; none if no code was read."""
    return [{"code_graph": name, **_summarize_table(table)} for name, table in lake.graph_tables().items()]


def _summarize_table(table: Table) -> dict[str, Any]:
    size = compute_size(table.path)
    return {"rows": table.count_rows(), "versions": _count_versions(table), "disk_bytes": size}


def _summarize_source(lake: Lake, source: str, type_: str, *, detailed: bool) -> dict[str, Any]:
    snapshot, chunks = lake.snapshot(type_, source), lake.chunks(type_, source)
    reasons = Counter[str]()
    for table in (snapshot, chunks):
        reasons.update(table.read_rows(["skipped"], ~is_null("skipped")).to_pydict()["skipped"])
    # A refresh that finds nothing new adds no version.
    times = [
        datetime.fromtimestamp(newest_version_time(table), UTC)
        for table in (snapshot, chunks)
        if table.exists
    ]
    row: dict[str, Any] = {
        "documents": snapshot.count_rows(is_null("archived_at") & is_null("skipped")),
        "archived": snapshot.count_rows(~is_null("archived_at")),
        "skipped": reasons.total(),
        "chunks": chunks.count_rows(is_null("skipped")),
        "last_change": max(times).isoformat(timespec="seconds") if times else None,
        "left_out": json.loads(snapshot.read_notes().get(LEFT_OUT, "{}")),
    }
    if detailed:
        facts = lake.facts(type_, source)
        embeddings = (lake.root / "embeddings").glob(f"*/{source}.lance")
        row["versions"] = sum(map(_count_versions, (snapshot, chunks, facts)))
        row["disk_bytes"] = sum(map(compute_size, [snapshot.path, chunks.path, facts.path, *embeddings]))
        row["skipped_reasons"] = dict(reasons.most_common())
    return row


def _count_versions(table: Table) -> int:
    return len(table.open_newest().versions()) if table.exists else 0
