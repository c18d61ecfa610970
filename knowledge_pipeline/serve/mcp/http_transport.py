"""MCP over streamable HTTP. Stateless: every request is authenticated, so no session outlives a token.

The SDK takes seconds to import, so it is loaded with the first request, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from knowledge_pipeline.errors import Forbidden
from knowledge_pipeline.serve.http.dependencies import build_origin
from knowledge_pipeline.serve.service import Identity, Service

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
CORS_HEADERS = ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")  # that a browser's client sends


class McpEndpoint:
    """An ASGI application for one path; it answers inside `run`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._requested = asyncio.Event()
        self._manager_ready: asyncio.Future[StreamableHTTPSessionManager] | None = None

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Answer requests inside; at the end, drop those under way."""
        self._manager_ready = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(self._run_manager(self._manager_ready))
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises `Unauthenticated` and `Forbidden` before anything of it is read."""
        request = Request(scope, receive)
        if request.method != "POST":  # there is nothing to listen to, and no session to end
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        _require_allowed_origin(request, self._service)
        origin = build_origin(request, "mcp")
        request.state.identity = await run_in_threadpool(  # it may have to wait for the identity server
            self._service.identify_headers, request.headers, origin
        )
        assert self._manager_ready is not None, "requests come while the application runs"
        self._requested.set()
        manager = await asyncio.shield(self._manager_ready)
        await manager.handle_request(scope, receive, send)

    async def _run_manager(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """Enter and leave the manager in one task, as its task group requires."""
        await self._requested.wait()
        try:
            manager = await asyncio.to_thread(_create_manager, self._service)
        except Exception as error:
            ready.set_exception(error)
            raise
        async with manager.run():
            ready.set_result(manager)
            await asyncio.Event().wait()


def _create_manager(service: Service) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from knowledge_pipeline.serve.mcp.server import create_server

    def get_identity(context: ServerRequestContext | None) -> Identity:
        assert context and context.request is not None, "the HTTP transport sets the request"
        return context.request.state.identity

    return StreamableHTTPSessionManager(
        create_server(service, get_identity),
        stateless=True,
        max_request_body_size=service.settings.serve.max_body_bytes,
    )


def _require_allowed_origin(request: Request, service: Service) -> None:
    """Raise `Forbidden` for what a browser sends for a page of another site, whatever name that site uses."""
    page = request.headers.get("origin")
    if page is None or page in service.settings.serve.cors_origins:
        return
    if urlsplit(page).netloc != request.headers.get("host"):
        raise Forbidden("the request comes from a page of another site: add its origin to serve.cors_origins")
