"""Names that the server answers to, so that a web page cannot reach it under a name of its own.

A page may point its own name at 127.0.0.1 after it was loaded (DNS rebinding): then the browser takes
this server for the page's, and only the `Host` that it sends tells.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge_pipeline.config.operation import ServeSettings
from knowledge_pipeline.serve.http.problems import build_problem
from knowledge_pipeline.serve.service import is_loopback

_PROBE_PATHS = ("/health", "/ready")  # asked by address, and without content


class HostCheckMiddleware:
    """Refuses requests for hosts that this server is not."""

    def __init__(self, app: ASGIApp, *, serve: ServeSettings) -> None:
        self._app = app
        self._allowed_names = frozenset(name.casefold() for name in serve.allowed_hosts)
        self._loopback_only = not serve.allowed_hosts and is_loopback(serve.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] in _PROBE_PATHS or self._is_allowed(_parse_host(scope)):
            return await self._app(scope, receive, send)
        sentence = "this server does not accept this host name: add it to serve.allowed_hosts"
        refused = build_problem(421, sentence, "MisdirectedRequest", request_id=scope["state"]["request_id"])
        await refused(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        if self._allowed_names:
            return host in self._allowed_names
        return is_loopback(host) if self._loopback_only else True


def _parse_host(scope: Scope) -> str:
    """The name without the port, in lower case; "" where it makes no sense."""
    try:
        return urlsplit(f"//{Headers(scope=scope).get('host', '')}").hostname or ""
    except ValueError:
        return ""
