"""Whether the server lives, and whether it can answer."""

from __future__ import annotations

from fastapi import APIRouter

routes = APIRouter(tags=["operation"])


@routes.get("/health", operation_id="health")
async def health() -> dict[str, str]:
    """That the server lives."""
    return {"status": "ok"}
