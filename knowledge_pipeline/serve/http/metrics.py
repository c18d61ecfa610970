"""The metrics at /metrics, if they are enabled.

They cover the whole server, and have no content: a monitor's token has the scope `metrics` alone.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Response

from knowledge_pipeline.serve.http.dependencies import CurrentContext

PATH = "/metrics"

routes = APIRouter(include_in_schema=False)


@routes.get(PATH)
async def metrics(ctx: CurrentContext, accept: Annotated[str, Header()] = "") -> Response:
    """Return what Prometheus scrapes, exempt from rate limits so that it works when they are reached."""
    # Monitors of earlier versions have `admin` without a tenant, with which they manage nothing any more.
    if not ("admin" in ctx.identity.scopes and ctx.identity.access.tenant is None):
        ctx.service.require_scope(ctx.identity, "metrics")
    assert ctx.service.metrics, "the route exists if metrics are enabled"
    rendered, content_type = await asyncio.to_thread(ctx.service.metrics.render, accept)
    return Response(rendered, headers={"Content-Type": content_type})
