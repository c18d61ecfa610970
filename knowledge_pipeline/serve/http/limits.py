"""What a request passes before a route: limits on bodies and connections, its id, its log line, its host."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from knowledge_pipeline.config.operation import ServeSettings, is_loopback
from knowledge_pipeline.errors import Busy, KnowledgeError
from knowledge_pipeline.serve.http.problems import (
    build_error_problem,
    build_problem,
    build_unexpected_problem,
)
from knowledge_pipeline.serve.logs import log_request, open_log_entry

SMALL_BYTES = 16_000  # of a body that anybody may send, and that counts for no total

_log = logging.getLogger(__name__)


class BodyLimitMiddleware:
    """Reads each body whole before a route sees it; refuses those too large, too slow, or too many at once.

    A body that is larger than most questions is read only for a sender who may ask, and all of them
    together have a limit. Smaller ones are read for everybody: `serve.max_connections` bounds what they hold.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_bytes: Callable[[str], int],
        max_total_bytes: int,
        timeout_s: float,
        authenticate: Callable[[Request], object],
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes  # by path
        self._max_total_bytes = max_total_bytes
        self._timeout_s = timeout_s
        self._authenticate = authenticate  # raises `Unauthenticated`
        self._total_bytes = 0  # of the bodies, other than small ones, whose requests are not answered yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request = Request(scope, receive)
        if not ("content-length" in request.headers or "transfer-encoding" in request.headers):
            return await self._app(scope, receive, send)
        body = _Body(request, self._max_bytes(scope["path"]))
        try:
            if await self._read_body(body, send):
                await self._app(scope, _replay_body(bytes(body.received), receive), send)
        finally:
            self._total_bytes -= body.counted_bytes

    async def _read_body(self, body: _Body, send: Send) -> bool:
        """Whether all of it came. Otherwise the request is answered, or nobody waits for an answer.

        The server reads and drops the rest of a body that is refused: a connection closed on a client
        that still sends would lose the response.
        """
        request = body.request
        id_ = request.scope["state"]["request_id"]
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._receive_body(body)
        except TimeoutError:
            sentence = f"the body did not arrive within {self._timeout_s:g} s"
            close = {"Connection": "close"}
            problem = build_problem(408, sentence, "RequestTimeout", request_id=id_, headers=close)
        except _TooLarge:
            sentence = f"the body has more than {body.max_bytes:,} bytes: send less"
            problem = build_problem(413, sentence, "ContentTooLarge", request_id=id_)
        except KnowledgeError as error:
            problem = build_error_problem(error, request_id=id_)
        await problem(request.scope, request.receive, send)
        return False

    async def _receive_body(self, body: _Body) -> bool:
        length = body.request.headers.get("content-length", "")
        await self._admit(body, int(length) if length.isdecimal() else 0)
        while True:
            message = await body.request.receive()
            if message["type"] == "http.disconnect":
                return False
            body.received += message.get("body", b"")
            await self._admit(body, len(body.received))
            if not message.get("more_body", False):
                return True

    async def _admit(self, body: _Body, n_bytes: int) -> None:
        """Raise an error if this sender may not send so much, or all together do not fit.

        What came is counted, not what was announced: that would let a few words take all there is.
        """
        if n_bytes > body.max_bytes:
            raise _TooLarge
        if n_bytes > SMALL_BYTES and not body.is_admitted:
            await run_in_threadpool(self._authenticate, body.request)
            body.is_admitted = True
        added = len(body.received) - body.counted_bytes
        if len(body.received) <= SMALL_BYTES:
            return
        if self._total_bytes + added > self._max_total_bytes:
            raise Busy("too many large bodies are being received at once: try again")
        body.counted_bytes += added
        self._total_bytes += added


class _TooLarge(Exception):
    pass


@dataclass(slots=True)
class _Body:
    request: Request
    max_bytes: int
    received: bytearray = field(default_factory=bytearray)
    counted_bytes: int = 0  # in the total
    is_admitted: bool = False  # its sender may send more than a small one


def _replay_body(body: bytes, receive: Receive) -> Receive:
    is_replayed = False

    async def replay() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


MAX_HEADER_BYTES = 64_000  # of one request
MAX_DROPPED_BYTES = 10_000_000  # of a body whose request was answered before all of it came


class _RequestCycle(Protocol):
    """What is read of uvicorn's `RequestResponseCycle`."""

    response_complete: bool
    more_body: bool


class ConnectionLimits(asyncio.Protocol):
    """Comes before one of uvicorn's protocols, whose attributes these are; see `create_protocol_class`.

    uvicorn closes a connection that is idle between two requests, and nothing else: headers that never end
    would hold one open for ever.
    """

    max_connections: int
    header_timeout_s: float

    loop: asyncio.AbstractEventLoop
    connections: set[Any]  # every open one, this one included
    transport: asyncio.Transport
    cycle: _RequestCycle | None  # of the latest request whose headers are complete

    _timer: asyncio.TimerHandle | None = None
    _waiting_bytes = 0  # received since the last request was answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, or refuse at once where too many others are open."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            _log.warning("a connection was refused: %d are open", self.max_connections)
            sentence = f"{self.max_connections} connections are open, which serve.max_connections allows"
            self._refuse(503, sentence, "TooManyConnections")
        else:
            self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Take what came; the time runs until the headers are complete, however often some of them come."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
            self._waiting_bytes = 0
            return
        self._start_timer()
        self._waiting_bytes += len(data)
        if self.cycle is not None and self.cycle.more_body:
            if self._waiting_bytes > MAX_DROPPED_BYTES:
                self.transport.close()
        elif self._waiting_bytes > MAX_HEADER_BYTES:
            sentence = f"the headers have more than {MAX_HEADER_BYTES:,} bytes: send less"
            self._refuse(431, sentence, "HeadersTooLarge")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.header_timeout_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, detail: str, code: str) -> None:
        answer = build_problem(status, detail, code, headers={"Connection": "close"})
        if status == 503:
            answer.headers["Retry-After"] = "1"
        lines = [b"HTTP/1.1 %d " % status, *(b"%b: %b" % header for header in answer.raw_headers), b"", b""]
        self.transport.write(b"\r\n".join(lines) + bytes(answer.body))
        self.transport.close()


def create_protocol_class(
    *, max_connections: int, header_timeout_s: float, base: type[asyncio.Protocol] = AutoHTTPProtocol
) -> type[asyncio.Protocol]:
    """The class of connections for `uvicorn.Config(http=...)`: the fastest that is installed, with limits."""
    limits = {"max_connections": max_connections, "header_timeout_s": header_timeout_s}
    return type("LimitedConnection", (ConnectionLimits, base), limits)


_REQUEST_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_SECURITY_HEADERS: Mapping[str, str] = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_DEFAULT_HEADERS: Mapping[str, str] = {"Cache-Control": "no-store", "X-Frame-Options": "DENY"}


class RequestMiddleware:
    """The outermost middleware: gives each request an id, security headers, an answer to HEAD, a log line.

    The line says who sent a request and how long it took, never what was searched or found.
    """

    def __init__(self, app: ASGIApp, *, challenge: str = "Bearer") -> None:
        self._app = app
        self._challenge = challenge  # what programs without a valid token are told: RFC 6750, RFC 9728

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        sent_id = Headers(scope=scope).get("x-request-id", "")
        id_ = sent_id if _REQUEST_ID.fullmatch(sent_id) else str(uuid.uuid4())
        status, started_s = 0, time.perf_counter()  # the status of the response; 0: none yet

        async def send_tracked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(MutableHeaders(scope=message), id_)
            await send(message)

        # The server drops the bodies of responses to HEAD, so that routes need not handle it.
        is_head = scope["method"] == "HEAD"
        inner = {**scope, "method": "GET" if is_head else scope["method"]}
        inner["state"] = {**scope.get("state", {}), "request_id": id_, "is_head": is_head}
        with open_log_entry(id_) as entry:
            try:
                await self._app(inner, receive, send_tracked)
            except Exception as error:
                if status:  # half of a response was sent: the connection has to break
                    raise
                await build_unexpected_problem(error, id_)(inner, receive, send_tracked)
            finally:
                duration_ms = round((time.perf_counter() - started_s) * 1000, 1)
                route, method = _find_route(inner), scope["method"]
                log_request(entry, method=method, route=route, status=status, duration_ms=duration_ms)

    def _add_headers(self, headers: MutableHeaders, request_id: str) -> None:
        headers["X-Request-ID"] = request_id
        headers.update(_SECURITY_HEADERS)
        if "www-authenticate" in headers:
            headers["WWW-Authenticate"] = self._challenge
        for name, value in _DEFAULT_HEADERS.items():
            headers.setdefault(name, value)


def _find_route(scope: Scope) -> str | None:
    """The route's pattern and not the path, which may hold ids."""
    route = getattr(scope.get("route"), "path", None)
    if route is None and "endpoint" in scope and not scope.get("path_params"):
        return scope["path"]  # of a route of Starlette's own: its pattern is the path
    return route


_PROBE_PATHS = ("/health", "/ready")  # asked by address, and without content


class HostCheckMiddleware:
    """Refuses requests for hosts that this server is not.

    A page may point its own name at 127.0.0.1 after it was loaded (DNS rebinding): then the browser takes
    this server for the page's, and only the `Host` that it sends tells.
    """

    def __init__(self, app: ASGIApp, *, serve: ServeSettings) -> None:
        self._app = app
        self._allowed_names = frozenset(name.casefold() for name in serve.allowed_hosts)
        self._loopback_only = not serve.allowed_hosts and is_loopback(serve.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] in _PROBE_PATHS or self._is_allowed(scope):
            return await self._app(scope, receive, send)
        sentence = "this server does not accept this host name: add it to serve.allowed_hosts"
        refused = build_problem(421, sentence, "MisdirectedRequest", request_id=scope["state"]["request_id"])
        await refused(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        try:
            host = urlsplit(f"//{Headers(scope=scope).get('host', '')}").hostname or ""
        except ValueError:
            host = ""
        if self._allowed_names:
            return host in self._allowed_names
        return not self._loopback_only or is_loopback(host)
