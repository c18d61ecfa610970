"""What the store holds, counted: by source and by space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.store.lake import Lake
    from knowledge_pipeline.store.tables import Table


def of_sources(lake: Lake, settings: Settings, *, detailed: bool) -> list[dict[str, Any]]:
    """One row per source that is configured or stored."""
    configured = {source.id: source.type for source in settings.sources}
    stored = lake.stored_sources()
    rows = _rows_by_source(lake, [*configured, *stored])
    return [
        {
            "source": source,
            "type": type_,
            "configured": source in configured,
            **_of_source(lake, source, type_, detailed=detailed),
            "rows": rows[source],
        }
        for source, type_ in {**configured, **stored}.items()
    ]


def of_spaces(lake: Lake) -> list[dict[str, Any]]:
    """One row per space: its index table at the newest version."""
    from knowledge_pipeline.store.indexes import unindexed_rows
    from knowledge_pipeline.store.lance_storage import size

    found: list[dict[str, Any]] = []
    for space, dimensions in lake.spaces().items():
        table = lake.index(space, dimensions)
        found.append(
            {
                "space": space,
                "dimensions": dimensions,
                "rows": table.count(),
                "unindexed": unindexed_rows(table),
                "versions": versions_of(table),
                "disk_bytes": size(table.path),
            }
        )
    return found


def of_graph(lake: Lake) -> list[dict[str, Any]]:
    """One row per table of the code graph, at its newest version; none where no code was read."""
    from knowledge_pipeline.store.lance_storage import size

    return [
        {
            "code_graph": name,
            "rows": table.count(),
            "versions": versions_of(table),
            "disk_bytes": size(table.path),
        }
        for name, table in lake.graphs().items()
    ]


def _of_source(lake: Lake, source: str, type_: str, *, detailed: bool) -> dict[str, Any]:
    from knowledge_pipeline.store.filters import is_null
    from knowledge_pipeline.store.lance_storage import size

    snapshot, chunks = lake.snapshot(type_, source), lake.chunks(type_, source)
    reasons = Counter[str]()
    for table in (snapshot, chunks):
        reasons.update(table.rows(["skipped"], ~is_null("skipped"))["skipped"].to_pylist())
    row: dict[str, Any] = {
        "documents": snapshot.count(is_null("archived_at") & is_null("skipped")),
        "archived": snapshot.count(~is_null("archived_at")),
        "skipped": reasons.total(),
        "chunks": chunks.count(is_null("skipped")),
        "last_change": _changed_at([snapshot, chunks]),
    }
    if detailed:
        facts = lake.facts(type_, source)
        made = (lake.root / "embeddings").glob(f"*/{source}.lance")
        folders = [snapshot.path, chunks.path, facts.path, *made]
        row["versions"] = sum(map(versions_of, (snapshot, chunks, facts)))
        row["disk_bytes"] = sum(size(folder) for folder in folders)
        row["skipped_reasons"] = dict(reasons.most_common())
    return row


def _rows_by_source(lake: Lake, sources: Iterable[str]) -> Counter[str]:
    """Rows in the newest index versions, which the next release makes live."""
    from knowledge_pipeline.store.filters import eq

    counted = Counter[str]()
    for space, dimensions in lake.spaces().items():
        table = lake.index(space, dimensions)
        counted.update({source: table.count(eq("source", source)) for source in dict.fromkeys(sources)})
    return counted


def _changed_at(tables: Iterable[Table]) -> str | None:
    """When one of the tables last got a new version: a refresh that finds nothing new makes none."""
    from knowledge_pipeline.store.table_files import newest_version

    times = [newest_version(table) for table in tables if table.exists]
    return datetime.fromtimestamp(max(times), UTC).isoformat(timespec="seconds") if times else None


def versions_of(table: Table) -> int:
    """How many versions are kept."""
    return len(table.newest().versions()) if table.exists else 0
