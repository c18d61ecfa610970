"""Events as a stream: what is refreshed, released, and what failed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response, StreamingResponse
from fastapi.sse import format_sse_event

from knowledge_pipeline.contract.types import EventType
from knowledge_pipeline.errors import InvalidQuery, KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.serve.events.visibility import iter_visible_events
from knowledge_pipeline.serve.http.dependencies import CurrentContext, RequestContext, build_origin
from knowledge_pipeline.serve.http.problems import problem_responses
from knowledge_pipeline.serve.http.search import PREFIX
from knowledge_pipeline.serve.http.streaming import EVENT_STREAM

HEARTBEAT_S = 15.0  # between two comments, and between two checks of the caller's token
RECONNECT_MS = 2_000  # how long clients are told to wait before they connect again

_MAX_POSITION = 2**63 - 2
_COMMENT = b": still here\n\n"

routes = APIRouter(prefix=PREFIX, tags=["operations"])


@routes.get(
    "/events",
    operation_id="follow_events",
    response_class=Response,
    responses={
        200: {
            "description": "Events in the order in which they were recorded. Each has an `id`, after which a "
            "client that sends it as `Last-Event-ID` goes on, a type, and JSON with the same fields that a "
            "webhook delivers.",
            "content": {
                EVENT_STREAM: {
                    "schema": {"type": "string"},
                    "example": 'event: index.refreshed\nid: 1795633305120000\ndata: {"id": "evt_5f0c…", '
                    '"type": "index.refreshed", "timestamp": "2026-11-25T21:41:45+00:00", "data": '
                    '{"source": "handbook", "documents": {"added": 1, "changed": 2, "removed": 0}}}\n\n',
                }
            },
        },
        **problem_responses(401, 403, 421, 422, 429, 503, 504),
    },
)
async def follow_events(
    ctx: CurrentContext,
    types: Annotated[list[EventType], Query(description="Only these; by default all.")] = [],  # noqa: B006
    after: Annotated[
        int | None,
        Query(ge=0, le=_MAX_POSITION, description="Start after the event with this id; by default now."),
    ] = None,
    follow: Annotated[bool, Query(description="false: end after what there is.")] = True,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """Follow events of the sources that the caller manages, with a token of the scope `events`."""
    streams = ctx.state.streams
    if last_event_id:
        after = _parse_position(last_event_id)

    async def find_start(_: AsyncKnowledgeBase, access: Access) -> int:
        del access
        newest = await streams.follower.find_newest()
        return newest if after is None else after

    start = await ctx.execute(find_start, scope="events")
    headers = {"X-Accel-Buffering": "no"}  # a proxy sends on what it has
    if ctx.request.state.is_head:
        return Response(media_type=EVENT_STREAM, headers=headers)
    streams.require_room(ctx.identity.rate_limit_key)
    events = _iter_stream(ctx, start, types, follow=follow)
    return StreamingResponse(events, media_type=EVENT_STREAM, headers=headers)


def _parse_position(last_event_id: str) -> int:
    if last_event_id.isascii() and last_event_id.isdecimal() and int(last_event_id) <= _MAX_POSITION:
        return int(last_event_id)
    raise InvalidQuery("Last-Event-ID is not the id of an event of this stream: leave it out to start now")


async def _iter_stream(
    ctx: RequestContext, position: int, types: list[EventType], *, follow: bool
) -> AsyncGenerator[bytes]:
    """The stream's text, until the server ends, the client goes, or the token is revoked."""
    streams, access = ctx.state.streams, ctx.identity.access
    yield f"id: {position}\nretry: {RECONNECT_MS}\n\n".encode()  # so that who reconnects misses nothing
    spoke_s = checked_s = time.monotonic()
    with streams.hold(ctx.identity.rate_limit_key), suppress(KnowledgeError):  # the client connects again
        while not streams.is_ending():
            events = await streams.follower.read_after(position)
            visible = partial(iter_visible_events, events, access, ctx.state.declared, types)
            for text in await asyncio.to_thread(_format_events, visible):
                yield text
                spoke_s = time.monotonic()
            position = events[-1].position if events else position
            if not follow:
                return
            if time.monotonic() >= checked_s + HEARTBEAT_S:
                checked_s = time.monotonic()
                access = await asyncio.to_thread(_identify_again, ctx)
            if time.monotonic() >= spoke_s + HEARTBEAT_S:
                spoke_s = time.monotonic()
                yield _COMMENT
            await asyncio.sleep(streams.follower.interval_s)


def _format_events(iter_events: Callable[[], Iterator[tuple[int, dict[str, Any]]]]) -> list[bytes]:
    return [
        format_sse_event(event=content["type"], id=str(position), data_str=json.dumps(content))
        for position, content in iter_events()
    ]


def _identify_again(ctx: RequestContext) -> Access:
    """What the caller may see now. Raises as `Service.identify` does, and without the scope."""
    identity = ctx.service.identify_headers(ctx.request.headers, build_origin(ctx.request))
    identity.require_scope("events")
    return identity.access
