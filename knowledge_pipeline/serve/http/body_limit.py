"""Limits on request bodies: each is read whole before a route sees it, within a size and a time.

A body that is larger than most questions is read only for a sender who may ask, and all of them together
have a limit. Smaller ones are read for everybody: `serve.max_connections` bounds what they hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_pipeline.errors import Busy, KnowledgeError
from knowledge_pipeline.serve.http.problems import build_error_problem, build_problem

SMALL_BYTES = 16_000  # of a body that anybody may send, and that counts for no total


class BodyLimitMiddleware:
    """Reads each request's body; refuses those that are too large, too slow, or too many at once."""

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
            self._count(body)
            if not message.get("more_body", False):
                return True

    async def _admit(self, body: _Body, n_bytes: int) -> None:
        """Raise an error if this sender may not send so much."""
        if n_bytes > body.max_bytes:
            raise _TooLarge
        if n_bytes > SMALL_BYTES and not body.is_admitted:
            await run_in_threadpool(self._authenticate, body.request)
            body.is_admitted = True

    def _count(self, body: _Body) -> None:
        """Count what came, not what was announced: that would let a few words take all there is."""
        if len(body.received) <= SMALL_BYTES:
            return
        added = len(body.received) - body.counted_bytes
        if self._total_bytes + added > self._max_total_bytes:
            raise Busy("too many large bodies are being received at once: try again")
        body.counted_bytes += added
        self._total_bytes += added


class _TooLarge(Exception):
    pass


class _Body:
    """One body, as far as it came."""

    def __init__(self, request: Request, max_bytes: int) -> None:
        self.request = request
        self.max_bytes = max_bytes
        self.received = bytearray()
        self.counted_bytes = 0  # in the total
        self.is_admitted = False  # its sender may send more than a small one


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Receives the body once, and then what the connection sends."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
