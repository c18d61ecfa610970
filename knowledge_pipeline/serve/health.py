"""The health of a knowledge base, as `/health` and `/ready` report it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from knowledge_pipeline.contract.responses.health import (
    ComponentHealth,
    HealthResponse,
    WatcherHealth,
    WatcherHealthResponse,
)
from knowledge_pipeline.query.health import check_store
from knowledge_pipeline.query.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.store.watch.heartbeat import WatcherReport, list_watchers

CACHE_TTL_S = 5.0  # more frequent requests put no more load on the components

ResultT = TypeVar("ResultT")


class HealthCheck:
    """Checks one knowledge base, once for all who ask within `CACHE_TTL_S`."""

    def __init__(self, base: AsyncKnowledgeBase) -> None:
        self._base = base
        self._all = _Cached(self._check_all)
        self._store = _Cached(self._check_store)

    async def check(self) -> HealthResponse:
        """The state of every component, and of the whole."""
        return await self._all.get()

    async def check_store(self) -> ComponentHealth:
        """Whether there is a release, and its tables can be read."""
        return await self._store.get()

    async def _check_all(self) -> HealthResponse:
        components = await self._base.health()
        unhealthy = {name for name, each in components.items() if each.status == "unhealthy"}
        status = "unhealthy" if "store" in unhealthy else "degraded" if unhealthy else "ok"
        return HealthResponse(status, components)

    async def _check_store(self) -> ComponentHealth:
        # In a thread: the first check loads the store's library, and other requests wait for this loop.
        return await asyncio.to_thread(asyncio.run, check_store(self._base.open_index()))


class _Cached(Generic[ResultT]):
    """A result that is computed again when it is older than `CACHE_TTL_S`, by one of those who ask."""

    def __init__(self, compute: Callable[[], Awaitable[ResultT]]) -> None:
        self._compute = compute
        self._lock = asyncio.Lock()
        self._latest: tuple[float, ResultT] | None = None

    async def get(self) -> ResultT:
        """The result, at most so old."""
        async with self._lock:
            if self._latest is None or time.monotonic() - self._latest[0] > CACHE_TTL_S:
                result = await self._compute()
                self._latest = time.monotonic(), result
            return self._latest[1]


def check_watchers(folder: Path) -> WatcherHealthResponse:
    """How the watchers of a store are, by its local folder: in counts, as anybody may ask."""
    reports = list_watchers(folder)
    problems = [each.problem for each in reports if each.problem]
    if not reports:
        status, detail = "absent", "no watcher runs on this store: start `knowledge watch` on this machine"
    elif problems:
        status, detail = "unhealthy", f"a watcher is unhealthy: {problems[0]}"
    else:
        behind = sum(len(each.heartbeat.behind) for each in reports)
        status, detail = "ok", f"{len(reports)} running, {behind} sources behind"
    return WatcherHealthResponse(status, detail, tuple(map(_to_watcher_health, reports)))


def _to_watcher_health(report: WatcherReport) -> WatcherHealth:
    beat = report.heartbeat
    return WatcherHealth(
        status="unhealthy" if report.problem else "ok",
        state=beat.state,
        started_at=datetime.fromtimestamp(beat.started_at, UTC),
        looked_at=datetime.fromtimestamp(beat.looked_at, UTC),
        sources=beat.sources,
        behind=len(beat.behind),
        last_error_at=datetime.fromtimestamp(beat.last_error_at, UTC) if beat.last_error_at else None,
        detail=report.problem,
    )
