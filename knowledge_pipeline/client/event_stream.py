"""Follows the events of a server, and goes on after the last one where the connection breaks.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import httpx2

from knowledge_pipeline.client.responses import EventDict
from knowledge_pipeline.client.transport import Transport
from knowledge_pipeline.errors import TooManyRequests, TransientError

SILENT_S = 60.0  # without an event or a comment, after which a connection counts as broken
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 30.0  # before connecting again


async def iter_events(
    transport: Transport, path: str, types: Sequence[str], after: str | None
) -> AsyncGenerator[EventDict]:
    """Events as they come; errors that may pass are waited for."""
    pause_s, position = FIRST_PAUSE_S, after
    while True:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": position} if position else {})
        try:
            async with transport.stream(path, {"types": list(types)}, headers, read_s=SILENT_S) as response:
                async for fields in _iter_fields(response.aiter_lines()):
                    pause_s, position = FIRST_PAUSE_S, fields.get("id", position)
                    if "data" in fields:
                        event: Any = json.loads(fields["data"])
                        event["position"] = position
                        yield event
        except (httpx2.TransportError, TransientError, TooManyRequests):
            pass
        await asyncio.sleep(pause_s)
        pause_s = min(MAX_PAUSE_S, pause_s * 2)


async def _iter_fields(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, str]]:
    """The fields of each block that a blank line ends; comments have none."""
    fields: dict[str, str] = {}
    async for line in lines:
        if not line:
            if fields:
                yield fields
            fields = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name:
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
