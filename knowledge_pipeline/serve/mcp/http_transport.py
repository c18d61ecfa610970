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
from knowledge_pipeline.serve.http.dependencies import origin_of
from knowledge_pipeline.serve.service import Asker, Service

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
HEADERS = ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")  # that a browser's client sends


class Endpoint:
    """An ASGI application for one path; it answers while `running` is entered."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._wanted = asyncio.Event()
        self._made: asyncio.Future[StreamableHTTPSessionManager] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests; at the end, give up those under way."""
        self._made = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(self._serve(self._made))
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
        _require_own_page(request, self._service)
        request.state.asker = _asker(request, self._service)
        assert self._made is not None, "requests come while the application runs"
        self._wanted.set()
        manager = await asyncio.shield(self._made)
        await manager.handle_request(scope, receive, send)

    async def _serve(self, made: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """One task enters and leaves the manager, as its task group wants it."""
        await self._wanted.wait()
        try:
            manager = await asyncio.to_thread(_manager, self._service)
        except Exception as error:
            made.set_exception(error)
            raise
        async with manager.run():
            made.set_result(manager)
            await asyncio.Event().wait()


def _manager(service: Service) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from knowledge_pipeline.serve.mcp.server import make_server

    return StreamableHTTPSessionManager(
        make_server(service, _who),
        stateless=True,
        max_request_body_size=service.settings.serve.max_body_bytes,
    )


def _who(context: ServerRequestContext) -> Asker:
    assert context.request is not None, "HTTP requests are told with their request"
    return context.request.state.asker


def _asker(request: Request, service: Service) -> Asker:
    """Raises `Unauthenticated`."""
    given = request.headers.get("authorization")
    scheme, _, token = (given or "").partition(" ")
    if given is not None and (scheme.lower() != "bearer" or not token.strip()):
        raise Unauthenticated("only tokens are taken here: send `Authorization: Bearer TOKEN`")
    return service.identify(token.strip() if given else None, origin_of(request, "mcp"))


def _require_own_page(request: Request, service: Service) -> None:
    """Refuse what a browser sends for a page of another site, whatever name that site has taken.

    Raises:
        Forbidden: the page is not of this server, nor of `serve.cors_origins`.
    """
    page = request.headers.get("origin")
    if page is None or page in service.settings.serve.cors_origins:
        return
    if urlsplit(page).netloc != request.headers.get("host"):
        raise Forbidden("a page of another site asks: name its origin under serve.cors_origins")
