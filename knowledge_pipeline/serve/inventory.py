"""What there is, and how it is used: counts of what the caller may see."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.store.filters import at_least, eq
from knowledge_pipeline.store.lake import Lake

MAX_HOURS = 24 * 366

_QUERY_LOG_COLUMNS = ("type", "door", "results", "took_ms", "cached", "degraded")


async def list_collections(settings: Settings, base: KnowledgeBase, access: Access) -> dict[str, Any]:
    """The sources that the caller may see something of."""
    status = await base.astatus(access=access)
    lake = Lake(settings.store)
    types, times = await asyncio.gather(
        asyncio.to_thread(_source_types, settings, lake),
        asyncio.to_thread(_load_read_times, lake, status.by_source),
    )
    held = [
        {"id": source, "type": types.get(source, ""), "chunks": rows, "refreshed_at": times.get(source)}
        for source, rows in status.by_source.items()
    ]
    return {
        "release": status.release,
        "released_at": status.released_at.isoformat(),
        "collections": held,
    }


async def compute_stats(
    settings: Settings, base: KnowledgeBase, access: Access, *, hours: int
) -> dict[str, Any]:
    """How much there is, and the questions of the last hours: a tenant's own, an operator's all."""
    status = await base.astatus(access=access)
    questions = None
    if settings.logs.queries and (access.everything or access.tenant):
        questions = await asyncio.to_thread(_summarize_queries, Lake(settings.store), access, hours)
    return {
        "release": status.release,
        "chunks": status.rows,
        "by_type": dict(status.by_type),
        "hours": hours,
        "questions": questions,
    }


def _source_types(settings: Settings, lake: Lake) -> dict[str, str]:
    return lake.list_stored_sources() | {source.id: source.type for source in settings.sources}


def _load_read_times(lake: Lake, sources: Mapping[str, int]) -> dict[str, str]:
    """When each source was last read, as far as the log goes back."""
    table = lake.log_table("refreshes")
    if not table.exists:
        return {}
    newest: dict[str, datetime] = {}
    for row in table.read_rows(["source", "at"], eq("stage", "snapshot")).to_pylist():
        if row["source"] in sources:
            at: datetime = row["at"]
            newest[row["source"]] = max(at, newest.get(row["source"], at))
    return {source: at.isoformat() for source, at in newest.items()}


def _summarize_queries(lake: Lake, access: Access, hours: int) -> dict[str, Any]:
    table = lake.log_table("queries")
    where = at_least("at", datetime.now(UTC) - timedelta(hours=hours))
    if not access.everything:
        where &= eq("tenant", access.tenant or "")
    rows = table.read_rows(list(_QUERY_LOG_COLUMNS), where).to_pylist() if table.exists else []
    times = sorted(row["took_ms"] for row in rows)
    return {
        "count": len(rows),
        "without_results": sum(not row["results"] for row in rows),
        "degraded": sum(bool(row["degraded"]) for row in rows),
        "cached": sum(row["cached"] for row in rows),
        "by_type": dict(Counter(row["type"] for row in rows)),
        "by_door": dict(Counter(row["door"] for row in rows)),
        **{f"p{percent}_ms": _compute_percentile(times, percent) for percent in (50, 95, 99)},
    }


def _compute_percentile(ordered: Sequence[float], percent: int) -> float | None:
    """The value that so many of a hundred do not exceed; None of nothing."""
    if not ordered:
        return None
    return round(ordered[max(0, -(-len(ordered) * percent // 100) - 1)], 3)
