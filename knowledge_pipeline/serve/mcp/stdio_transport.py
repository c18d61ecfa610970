"""MCP over stdin and stdout, for a client that starts the server."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

from knowledge_pipeline.contract.usage_labels import UsageLabels
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.logs import configure_logging
from knowledge_pipeline.serve.mcp.server import IdentityResolver, create_server
from knowledge_pipeline.serve.service import Identity, Origin, Service

_NO_LABELS = UsageLabels()


def run(service: Service, *, token: str | None = None, labels: UsageLabels = _NO_LABELS) -> None:
    """Answer until stdin ends, with the access of a token, or as the operator; labels are for the logs.

    Raises:
        Unauthenticated: the token is not valid.
    """
    per_minute = service.settings.serve.requests_per_minute
    operator = Identity(Access.operator("mcp"), frozenset({"query"}), "operator", per_minute)

    def resolve_identity(_: ServerRequestContext[Any] | None) -> Identity:
        """Look a token up for every request: it may expire. The operator could read the files anyway."""
        identity = operator if token is None else service.identify(token, Origin("mcp", None))
        return identity.with_labels(labels)

    resolve_identity(None)
    with configure_logging(service.settings.serve):
        anyio.run(_serve, service, resolve_identity)


async def _serve(service: Service, resolve_identity: IdentityResolver) -> None:
    server = create_server(service, resolve_identity)
    async with stdio_server() as (reader, writer), anyio.create_task_group() as tasks:
        tasks.start_soon(service.warm)
        await server.run(reader, writer, server.create_initialization_options())
        tasks.cancel_scope.cancel()
