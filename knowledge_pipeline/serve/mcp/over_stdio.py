"""MCP over stdin and stdout, for a client that starts the server itself."""

from __future__ import annotations

import logging
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.logs import written
from knowledge_pipeline.serve.mcp.server import Who, make_server
from knowledge_pipeline.serve.service import Asker, Origin, Service

_PIPE = Origin("mcp", None)

_log = logging.getLogger(__name__)


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
        beside.start_soon(_warm, service)
        await server.run(reading, writing, server.create_initialization_options())
        beside.cancel_scope.cancel()


async def _warm(service: Service) -> None:
    """Load a local model while the client is still greeting: the first question should not wait for it."""
    if service.settings.embedding.provider != "local":
        return
    try:
        await service.base.ahealth()
    except (KnowledgeError, OSError, RuntimeError) as error:  # a question that meets it will tell
        _log.debug("not warmed up: %s", type(error).__name__)


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
