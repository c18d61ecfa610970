"""MCP over stdin and stdout, for a client that starts the server itself."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.logs import configure_logging
from knowledge_pipeline.serve.mcp.server import IdentityResolver, create_server
from knowledge_pipeline.serve.service import Identity, Origin, Service

_STDIO_ORIGIN = Origin("mcp", None)


def run(service: Service, *, token: str | None = None) -> None:
    """Answer until stdin ends, as the holder of a token, or as the operator.

    Raises:
        Unauthenticated: the token is not valid.
    """
    who = _operator_identity(service) if token is None else _token_identity(service, token)
    with configure_logging(service.settings.serve):
        anyio.run(_serve, service, who)


async def _serve(service: Service, resolve_identity: IdentityResolver) -> None:
    server = create_server(service, resolve_identity)
    async with stdio_server() as (reading, writing), anyio.create_task_group() as beside:
        beside.start_soon(service.warm)
        await server.run(reading, writing, server.create_initialization_options())
        beside.cancel_scope.cancel()


def _operator_identity(service: Service) -> IdentityResolver:
    """Whoever runs this can read the store's files, and sees all that is in them."""
    per_minute = service.settings.serve.requests_per_minute
    asker = Identity(Access.operator("mcp"), frozenset({"query"}), "operator", per_minute)
    return lambda _: asker


def _token_identity(service: Service, token: str) -> IdentityResolver:
    """Looked up for every request: a token may end while this runs."""
    service.identify(token, _STDIO_ORIGIN)

    def resolve_identity(_: ServerRequestContext[Any]) -> Identity:
        return service.identify(token, _STDIO_ORIGIN)

    return resolve_identity
