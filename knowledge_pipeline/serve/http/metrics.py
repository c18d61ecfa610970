"""The metrics at /metrics, if they are enabled.

They cover the whole server, so a token of one tenant cannot read them. A token with only the scope `admin`
can, and reads no content: give a monitor such a token. A monitor on the server's own machine needs none if
programs of that machine are answered without one.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Response

from knowledge_pipeline.errors import Forbidden
from knowledge_pipeline.serve.http.dependencies import CurrentContext, build_origin

PATH = "/metrics"

routes = APIRouter(include_in_schema=False)


@routes.get(PATH)
async def metrics(ctx: CurrentContext, accept: Annotated[str, Header()] = "") -> Response:
    """Return what Prometheus scrapes, exempt from rate limits so that it works when they are reached."""
    identity = ctx.identity
    is_local_operator = identity.access.caller.token is None and identity.access.everything
    if not (is_local_operator and build_origin(ctx.request).is_local):
        identity.require_scope("admin")
        if identity.access.tenant is not None:
            raise Forbidden(
                "metrics cover all tenants: make a token with `--scope admin` and without a tenant"
            )
    assert ctx.service.metrics, "the route exists if metrics are enabled"
    rendered, content_type = await asyncio.to_thread(ctx.service.metrics.render, accept)
    return Response(rendered, headers={"Content-Type": content_type})
