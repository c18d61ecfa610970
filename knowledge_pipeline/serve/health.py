"""The health of a knowledge base, as `/health` and `/ready` report it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from knowledge_pipeline.contract.responses import ComponentHealth, HealthResponse
from knowledge_pipeline.query.health import check_store
from knowledge_pipeline.query.knowledge_base import AsyncKnowledgeBase

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
