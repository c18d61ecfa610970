"""Names that the server answers to, so that a web page cannot reach it under a name of its own.

A page may point its own name at 127.0.0.1 after it was loaded (DNS rebinding): then the browser takes
this server for the page's, and only the `Host` that it sends tells.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge_pipeline.config.operation import Serve
from knowledge_pipeline.serve.http.problems import problem
from knowledge_pipeline.serve.service import is_loopback

_FOR_PROBES = ("/health", "/ready")  # asked by address, and without content


class HostNames:
    """Refuses requests for hosts that this server is not."""

    def __init__(self, app: ASGIApp, *, serve: Serve) -> None:
        self._app = app
        self._names = frozenset(name.casefold() for name in serve.names)
        self._own_only = not serve.names and is_loopback(serve.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] in _FOR_PROBES or self._taken(_host(scope)):
            return await self._app(scope, receive, send)
        sentence = "this server does not answer under this host name: add it to serve.names"
        refused = problem(421, sentence, "WrongHost", request_id=scope["state"]["request_id"])
        await refused(scope, receive, send)

    def _taken(self, host: str) -> bool:
        if self._names:
            return host in self._names
        return is_loopback(host) if self._own_only else True


def _host(scope: Scope) -> str:
    """The name without the port, in lower case; "" where it makes no sense."""
    try:
        return urlsplit(f"//{Headers(scope=scope).get('host', '')}").hostname or ""
    except ValueError:
        return ""
