"""What is indexed, and how it is used, as far as the caller may see it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection as Container
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses import Collection, CollectionsResponse, QueryStats, StatsResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.store.filters import at_least, eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log

MAX_HOURS = 24 * 366

_QUERY_LOG_COLUMNS = ("type", "interface", "results", "took_ms", "cached", "degraded")


async def list_collections(
    settings: Settings, base: AsyncKnowledgeBase, access: Access
) -> CollectionsResponse:
    """The sources with content that the caller may see."""
    status = await base.status(access=access)
    lake = Lake(settings.store)
    types, times = await asyncio.gather(
        asyncio.to_thread(lake.list_stored_sources),
        asyncio.to_thread(_load_refresh_times, lake, status.by_source),
    )
    types |= {source.id: source.type for source in settings.sources}
    collections = (
        Collection(
            source,
            types.get(source, ""),
            rows,
            times.get(source),
            rows - status.unembedded_rows.get(source, 0),
        )
        for source, rows in status.by_source.items()
    )
    return CollectionsResponse(status.release, status.released_at, tuple(collections))


async def compute_stats(
    settings: Settings, base: AsyncKnowledgeBase, access: Access, *, hours: int
) -> StatsResponse:
    """How much is indexed, and recent queries: of the caller's tenant, or all for an operator."""
    status = await base.status(access=access)
    queries = None
    if settings.logs.queries and (access.everything or access.tenant):
        queries = await asyncio.to_thread(_summarize_queries, Lake(settings.store), access, hours)
    return StatsResponse(status.release, status.rows, status.by_type, hours, queries)


def _load_refresh_times(lake: Lake, sources: Container[str]) -> dict[str, datetime]:
    """When each source was last read, as far as the log goes back."""
    table = open_log(lake, "refreshes")
    newest: dict[str, datetime] = {}
    if table.exists:
        for row in table.read_rows(["source", "at"], eq("stage", "snapshot")).to_pylist():
            if row["source"] in sources:
                at: datetime = row["at"]
                newest[row["source"]] = max(at, newest.get(row["source"], at))
    return newest


def _summarize_queries(lake: Lake, access: Access, hours: int) -> QueryStats:
    table = lake.log_table("queries")
    where = at_least("at", datetime.now(UTC) - timedelta(hours=hours))
    if not access.everything:
        where &= eq("tenant", access.tenant or "")
    rows = table.read_rows(list(_QUERY_LOG_COLUMNS), where).to_pylist() if table.exists else []
    times = sorted(row["took_ms"] for row in rows)
    return QueryStats(
        count=len(rows),
        zero_result_count=sum(not row["results"] for row in rows),
        degraded=sum(bool(row["degraded"]) for row in rows),
        cached=sum(row["cached"] for row in rows),
        by_type=Counter(row["type"] for row in rows),
        by_interface=Counter(row["interface"] for row in rows),
        p50_ms=_compute_percentile(times, 50),
        p95_ms=_compute_percentile(times, 95),
        p99_ms=_compute_percentile(times, 99),
    )


def _compute_percentile(ordered: Sequence[float], percent: int) -> float | None:
    """The value that `percent` of a hundred values do not exceed; None if there are no values."""
    if not ordered:
        return None
    return round(ordered[max(0, -(-len(ordered) * percent // 100) - 1)], 3)
