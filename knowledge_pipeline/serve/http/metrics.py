"""The metrics at /metrics, where they are turned on.

They are numbers of the whole server, so a token of one tenant does not open them. A token with the scope
`admin` and nothing else is enough, which can read no content: what a monitor should be given. A monitor
on the server's own machine needs none, where that machine's programs are answered without one.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from knowledge_pipeline.errors import Forbidden
from knowledge_pipeline.serve.http.dependencies import CurrentIdentity, CurrentService, build_origin
from knowledge_pipeline.serve.service import Identity

PATH = "/metrics"

routes = APIRouter(include_in_schema=False)


@routes.get(PATH)
async def metrics(
    request: Request,
    service: CurrentService,
    identity: CurrentIdentity,
    accept: Annotated[str, Header()] = "",
) -> Response:
    """Tell what Prometheus scrapes; past the limits of questions, so that it works when they are reached."""
    _require_metrics_access(request, identity)
    assert service.metrics, "the route exists where there are metrics"
    told, content_type = await asyncio.to_thread(service.metrics.render, accept)
    return Response(told, headers={"Content-Type": content_type})


def _require_metrics_access(request: Request, identity: Identity) -> None:
    """Raises `Forbidden` for who may not see the numbers of all tenants."""
    caller = identity.access.caller
    if caller.token is None and identity.access.everything and build_origin(request).is_local:
        return
    identity.require_scope("admin")
    if identity.access.tenant is not None:
        raise Forbidden("metrics are of all tenants: make a token with `--scope admin` and without a tenant")
