"""Limits on request bodies: each is read whole before a route sees it, within a size and a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_pipeline.serve.http.problems import build_problem


class BodyLimitMiddleware:
    """Reads each request's body; refuses those that are too large or too slow."""

    def __init__(self, app: ASGIApp, *, max_bytes: Callable[[str], int], timeout_s: float) -> None:
        self._app = app
        self._max_bytes = max_bytes  # by path
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        if not ("content-length" in headers or "transfer-encoding" in headers):
            return await self._app(scope, receive, send)
        limit = self._max_bytes(scope["path"])
        try:
            async with asyncio.timeout(self._timeout_s):
                body = await _read_body(headers, receive, limit)
        except TimeoutError:
            sentence = f"the body did not arrive within {self._timeout_s:g} s"
            return await _send_problem(408, sentence, scope, receive, send)
        except _TooLarge:
            sentence = f"the body has more than {limit:,} bytes: send less"
            return await _send_problem(413, sentence, scope, receive, send)
        if body is not None:  # else nobody waits for an answer any more
            await self._app(scope, _replay_body(body, receive), send)


class _TooLarge(Exception):
    pass


async def _read_body(headers: Headers, receive: Receive, limit: int) -> bytes | None:
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _TooLarge
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > limit:
            raise _TooLarge
        if not message.get("more_body", False):
            return bytes(body)


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


async def _send_problem(status: int, detail: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Respond. The server reads and drops the rest of a body that is too large: a connection closed on a
    client that still sends would lose the response."""
    code, headers = (
        ("ContentTooLarge", None) if status == 413 else ("RequestTimeout", {"Connection": "close"})
    )
    answer = build_problem(status, detail, code, request_id=scope["state"]["request_id"], headers=headers)
    await answer(scope, receive, send)
