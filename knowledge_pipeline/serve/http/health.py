"""Health and readiness, for anybody and without content."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from knowledge_pipeline.contract.responses.health import HealthResponse, WatcherHealthResponse
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.serve.health import check_watchers
from knowledge_pipeline.serve.http.dependencies import CurrentState
from knowledge_pipeline.serve.http.problems import problem_responses
from knowledge_pipeline.store.lake import Lake

routes = APIRouter(tags=["operations"])


class ReadyResponse(BaseModel):
    """The server answers queries."""

    status: Literal["ready"]


@routes.get("/health", operation_id="health", response_model=HealthResponse)
async def health(state: CurrentState) -> JSONResponse:
    """The state of each component. The status is always 200; `/ready` says whether to send queries."""
    return JSONResponse((await state.health.check()).as_json())


@routes.get("/ready", operation_id="ready", response_model=ReadyResponse, responses=problem_responses(503))
async def ready(state: CurrentState) -> JSONResponse:
    """Whether the server can answer queries: there is a release, and it can be opened."""
    store = await state.health.check_store()
    if store.status != "ok":
        raise Busy(f"queries cannot be answered: {store.detail}")
    return JSONResponse({"status": "ready"})


@routes.get(
    "/health/watcher",
    operation_id="watcher_health",
    response_model=WatcherHealthResponse,
    responses={503: {"model": WatcherHealthResponse, "description": "One is unhealthy, or none runs."}},
)
async def watcher_health(state: CurrentState) -> JSONResponse:
    """Whether `knowledge watch` runs on the store, looks for changes and does not hang; 503 if not."""
    folder = Lake(state.service.settings.store).folder
    health = await asyncio.to_thread(check_watchers, folder)
    return JSONResponse(health.as_json(), 200 if health.status == "ok" else 503)
