"""What is indexed, and how it is used, as far as the caller may see it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection as Container
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.operation import Collection, CollectionsResponse, QueryStats, StatsResponse
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.status import load_states
from knowledge_pipeline.store.filters import at_least, eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log

MAX_HOURS = 24 * 366

_QUERY_LOG_COLUMNS = ("type", "interface", "results", "took_ms", "cached", "degraded")
_BATCH_ROWS = 8192


async def list_collections(
    settings: Settings, base: AsyncKnowledgeBase, access: Access, config: Path | None = None
) -> CollectionsResponse:
    """The sources with content that the caller may see, and whether they are stale.

    `config` is the knowledge.yaml that the settings are from, which may have changed since.
    """
    status = await base.status(access=access)
    lake = Lake(settings.store)
    types, times = await asyncio.gather(
        asyncio.to_thread(lake.list_stored_sources),
        asyncio.to_thread(_load_refresh_times, lake, status.by_source),
    )
    types |= {source.id: source.type for source in base.settings.sources}
    states = await load_states(settings, config, access)
    collections = (
        Collection(
            source,
            types.get(source, ""),
            rows,
            times.get(source),
            rows - status.unembedded_rows.get(source, 0),
            states.get(source),
        )
        for source, rows in status.by_source.items()
    )
    return CollectionsResponse(status.release, status.released_at, tuple(collections), status.pin)


async def compute_stats(
    settings: Settings, base: AsyncKnowledgeBase, access: Access, *, hours: int
) -> StatsResponse:
    """How much is indexed, and recent queries: of the caller's tenant, or all for an operator."""
    status = await base.status(access=access)
    queries = None
    if settings.logs.queries and (access.everything or access.tenant):
        queries = await base.compute(_summarize_queries, Lake(settings.store), access, hours)
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
    """Counts over the rows as they are streamed; of each only its time is kept, in 8 bytes."""
    where = at_least("at", datetime.now(UTC) - timedelta(hours=hours))
    if not access.everything:
        where &= eq("tenant", access.tenant or "")
    zero_results, cached, degraded = 0, 0, 0
    by_type, by_interface = Counter[str](), Counter[str]()
    times = [np.empty(0)]
    batches: Any = lake.log_table("queries").iter_batches(_QUERY_LOG_COLUMNS, where, batch_rows=_BATCH_ROWS)
    for batch in batches:  # of pyarrow, whose columns have no types
        zero_results += int(np.count_nonzero(batch["results"].to_numpy() == 0))
        cached += batch["cached"].true_count
        degraded += int(np.count_nonzero(batch["degraded"].value_lengths().to_numpy()))
        for column, counts in (("type", by_type), ("interface", by_interface)):
            counts.update({row["values"]: row["counts"] for row in batch[column].value_counts().to_pylist()})
        times.append(batch["took_ms"].to_numpy())
    all_times = np.concatenate(times)
    return QueryStats(
        count=len(all_times),
        zero_result_count=zero_results,
        degraded=degraded,
        cached=cached,
        by_type=by_type,
        by_interface=by_interface,
        p50_ms=_compute_percentile(all_times, 50),
        p95_ms=_compute_percentile(all_times, 95),
        p99_ms=_compute_percentile(all_times, 99),
    )


def _compute_percentile(values: np.ndarray, percent: int) -> float | None:
    """The value that `percent` of a hundred values do not exceed; None if there are no values."""
    if not len(values):
        return None
    rank = max(0, -(-len(values) * percent // 100) - 1)
    return round(float(np.partition(values, rank)[rank]), 3)
