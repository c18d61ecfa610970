"""MCP over stdin and stdout, for a client that starts the server itself."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.logs import written
from knowledge_pipeline.serve.mcp.server import Who, make_server
from knowledge_pipeline.serve.service import Asker, Origin, Service

_PIPE = Origin("mcp", None)


def run(service: Service, *, token: str | None = None) -> None:
    """Answer until stdin ends, as the holder of a token, or as the operator.

    Raises:
        Unauthenticated: the token is not valid.
    """
    who = _operator(service) if token is None else _holder(service, token)
    with written(service.settings.serve):
        anyio.run(_serve, service, who)


async def _serve(service: Service, who: Who) -> None:
    server = make_server(service, who)
    async with stdio_server() as (reading, writing), anyio.create_task_group() as beside:
        beside.start_soon(service.warm)
        await server.run(reading, writing, server.create_initialization_options())
        beside.cancel_scope.cancel()


def _operator(service: Service) -> Who:
    """Whoever runs this can read the store's files, and sees all that is in them."""
    per_minute = service.settings.serve.requests_per_minute
    asker = Asker(Access.operator("mcp"), frozenset({"query"}), "operator", per_minute)
    return lambda _: asker


def _holder(service: Service, token: str) -> Who:
    """Looked up for every request: a token may end while this runs."""
    service.identify(token, _PIPE)

    def who(_: ServerRequestContext[Any]) -> Asker:
        return service.identify(token, _PIPE)

    return who
