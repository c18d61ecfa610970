"""Limits on connections: how many there are, and how long and large what comes before a request may be.

uvicorn closes a connection that is idle between two requests, and nothing else: headers that never end
would hold one open for ever.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from knowledge_pipeline.serve.http.problems import build_problem

MAX_HEADER_BYTES = 64_000  # of one request
MAX_DROPPED_BYTES = 10_000_000  # of a body whose request was answered before all of it came

_RETRY_AFTER_S = 1

_log = logging.getLogger(__name__)


class _RequestCycle(Protocol):
    """What is read of uvicorn's `RequestResponseCycle`."""

    response_complete: bool
    more_body: bool


class ConnectionLimits(asyncio.Protocol):
    """Comes before one of uvicorn's protocols, whose attributes these are; see `create_protocol_class`."""

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
        """Send a problem, without a request to answer, and close."""
        answer = build_problem(status, detail, code, headers={"Connection": "close"})
        if status == 503:
            answer.headers["Retry-After"] = str(_RETRY_AFTER_S)
        lines = [b"HTTP/1.1 %d " % status, *(b"%b: %b" % header for header in answer.raw_headers), b"", b""]
        self.transport.write(b"\r\n".join(lines) + bytes(answer.body))
        self.transport.close()


def create_protocol_class(
    *, max_connections: int, header_timeout_s: float, base: type[asyncio.Protocol] = AutoHTTPProtocol
) -> type[asyncio.Protocol]:
    """The class of connections for `uvicorn.Config(http=...)`: the fastest that is installed, with limits."""
    limits = {"max_connections": max_connections, "header_timeout_s": header_timeout_s}
    return type("LimitedConnection", (ConnectionLimits, base), limits)
