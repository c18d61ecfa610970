"""Whether the server lives, how its parts are, and whether it can answer; for anybody, without content."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.query.health import ComponentHealth, check_store
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.serve.http.dependencies import CurrentService
from knowledge_pipeline.serve.http.models_documents import HealthResponse, ReadyResponse
from knowledge_pipeline.serve.http.problems import problem_responses
from knowledge_pipeline.store.lake import Lake

CACHE_TTL_S = 5.0  # an answer is given again for so long: who asks more often asks no more of the parts

routes = APIRouter(tags=["operation"])


class HealthCheck:
    """The health of one knowledge base, looked at once however many ask."""

    def __init__(self, base: KnowledgeBase) -> None:
        self._base = base
        self._lock = asyncio.Lock()
        self._cached: tuple[float, Mapping[str, ComponentHealth]] | None = None

    async def check(self) -> dict[str, Any]:
        """As `HealthTold` says."""
        async with self._lock:
            if self._cached is None or time.monotonic() - self._cached[0] > CACHE_TTL_S:
                self._cached = time.monotonic(), await self._base.ahealth()
        components = self._cached[1]
        ill = {name for name, component in components.items() if component.status == "ill"}
        status = "ill" if "store" in ill else "degraded" if ill else "ok"
        return {"status": status, "components": {name: asdict(each) for name, each in components.items()}}


@routes.get("/health", operation_id="health", response_model=HealthResponse)
async def health(request: Request) -> JSONResponse:
    """That the server lives, and which of its parts is ill. Always 200: `ready` says whether to ask."""
    return JSONResponse(await request.app.state.checkup.told())


@routes.get("/ready", operation_id="ready", response_model=ReadyResponse, responses=problem_responses(503))
async def ready(service: CurrentService) -> JSONResponse:
    """Whether questions can be answered: there is a release, and it can be opened."""
    # Elsewhere: the first time loads the store's library, and others wait for this loop.
    store = await asyncio.to_thread(asyncio.run, check_store(Lake(service.settings.store)))
    if store.status != "ok":
        raise Busy(f"questions cannot be answered: {store.detail}")
    return JSONResponse({"status": "ready"})
