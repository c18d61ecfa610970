"""What every request gets: an id, security headers, an answer to HEAD, a line in the log.

A line says who sent a request and how long it took, never what was searched or found.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_pipeline.serve.http.problems import build_unexpected_problem
from knowledge_pipeline.serve.logs import RequestLogEntry, log_request, open_log_entry

_REQUEST_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_SECURITY_HEADERS: Mapping[str, str] = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_DEFAULT_HEADERS: Mapping[str, str] = {"Cache-Control": "no-store", "X-Frame-Options": "DENY"}


class RequestMiddleware:
    """The outermost middleware: all that happens inside has an id and a line in the log."""

    def __init__(self, app: ASGIApp, *, challenge: str = "Bearer") -> None:
        self._app = app
        self._challenge = challenge  # what programs without a valid token are told: RFC 6750, RFC 9728

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        id_ = Headers(scope=scope).get("x-request-id", "")
        tracked = _TrackedRequest(
            id_ if _REQUEST_ID.fullmatch(id_) else str(uuid.uuid4()), send, self._challenge
        )
        # The server drops the bodies of responses to HEAD, so that routes need not handle it.
        inner = {**scope, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        inner["state"] = {
            **scope.get("state", {}),
            "request_id": tracked.id,
            "is_head": scope["method"] == "HEAD",
        }
        with open_log_entry(tracked.id) as entry:
            try:
                await self._app(inner, receive, tracked.send)
            except Exception as error:
                if tracked.status:  # half of a response was sent: the connection has to break
                    raise
                await build_unexpected_problem(error, tracked.id)(inner, receive, tracked.send)
            finally:
                tracked.log(entry, scope["method"], inner)


class _TrackedRequest:
    """One request, and the status of its response."""

    def __init__(self, id_: str, send: Send, challenge: str) -> None:
        self.id = id_
        self._challenge = challenge
        self.status = 0  # of the response; 0: none yet
        self._send = send
        self._started_s = time.perf_counter()

    async def send(self, message: Message) -> None:
        """Send a message, with the headers of every response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.id
            headers.update(_SECURITY_HEADERS)
            if "www-authenticate" in headers:
                headers["WWW-Authenticate"] = self._challenge
            for name, value in _DEFAULT_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    def log(self, entry: RequestLogEntry, method: str, scope: Scope) -> None:
        """Write the line, with the route's pattern and not the path, which may hold ids."""
        route = getattr(scope.get("route"), "path", None)
        if route is None and "endpoint" in scope and not scope.get("path_params"):
            route = scope["path"]  # of a route of Starlette's own: its pattern is the path
        duration_ms = round((time.perf_counter() - self._started_s) * 1000, 1)
        log_request(entry, method=method, route=route, status=self.status, duration_ms=duration_ms)
