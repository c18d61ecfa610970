"""The health of a knowledge base, as `/health` reports it."""

from __future__ import annotations

import asyncio
import time

from knowledge_pipeline.contract.responses import HealthResponse
from knowledge_pipeline.query.knowledge_base import AsyncKnowledgeBase

CACHE_TTL_S = 5.0  # more frequent requests put no more load on the components


class HealthCheck:
    """Checks one knowledge base, once for all who ask within `CACHE_TTL_S`."""

    def __init__(self, base: AsyncKnowledgeBase) -> None:
        self._base = base
        self._lock = asyncio.Lock()
        self._cached: tuple[float, HealthResponse] | None = None

    async def check(self) -> HealthResponse:
        """The state of every component, and of the whole."""
        async with self._lock:
            if self._cached is None or time.monotonic() - self._cached[0] > CACHE_TTL_S:
                components = await self._base.health()
                unhealthy = {name for name, each in components.items() if each.status == "unhealthy"}
                status = "unhealthy" if "store" in unhealthy else "degraded" if unhealthy else "ok"
                self._cached = time.monotonic(), HealthResponse(status, components)
        return self._cached[1]
