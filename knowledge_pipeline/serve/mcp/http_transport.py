"""MCP over streamable HTTP. Stateless: every request says anew who asks, so no session outlives a token.

The SDK takes seconds to import, so it is loaded with the first request, beside the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from knowledge_pipeline.errors import Forbidden, Unauthenticated
from knowledge_pipeline.serve.http.dependencies import build_origin
from knowledge_pipeline.serve.service import Identity, Service

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
CORS_HEADERS = ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")  # that a browser's client sends


class McpEndpoint:
    """An ASGI application for one path; it answers while `running` is entered."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._requested = asyncio.Event()
        self._manager_ready: asyncio.Future[StreamableHTTPSessionManager] | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Answer requests; at the end, give up those under way."""
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
        request.state.asker = _authenticate(request, self._service)
        assert self._manager_ready is not None, "requests come while the application runs"
        self._requested.set()
        manager = await asyncio.shield(self._manager_ready)
        await manager.handle_request(scope, receive, send)

    async def _run_manager(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """One task enters and leaves the manager, as its task group wants it."""
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

    return StreamableHTTPSessionManager(
        create_server(service, _identity_of_context),
        stateless=True,
        max_request_body_size=service.settings.serve.max_body_bytes,
    )


def _identity_of_context(context: ServerRequestContext) -> Identity:
    assert context.request is not None, "HTTP requests are told with their request"
    return context.request.state.asker


def _authenticate(request: Request, service: Service) -> Identity:
    """Raises `Unauthenticated`."""
    given = request.headers.get("authorization")
    scheme, _, token = (given or "").partition(" ")
    if given is not None and (scheme.lower() != "bearer" or not token.strip()):
        raise Unauthenticated("only tokens are taken here: send `Authorization: Bearer TOKEN`")
    return service.identify(token.strip() if given else None, build_origin(request, "mcp"))


def _require_allowed_origin(request: Request, service: Service) -> None:
    """Refuse what a browser sends for a page of another site, whatever name that site has taken.

    Raises:
        Forbidden: the page is not of this server, nor of `serve.cors_origins`.
    """
    page = request.headers.get("origin")
    if page is None or page in service.settings.serve.cors_origins:
        return
    if urlsplit(page).netloc != request.headers.get("host"):
        raise Forbidden("a page of another site asks: name its origin under serve.cors_origins")
