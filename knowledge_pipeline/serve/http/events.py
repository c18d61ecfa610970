"""Events as a stream: what is refreshed, released, and what failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response, StreamingResponse
from fastapi.sse import format_sse_event

from knowledge_pipeline.contract.types import EventType
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.serve.events.streams import (
    MAX_POSITION,
    STREAM_HEADERS,
    EventWriter,
    parse_position,
)
from knowledge_pipeline.serve.events.visibility import iter_visible_events
from knowledge_pipeline.serve.http.dependencies import CurrentContext, RequestContext, build_origin
from knowledge_pipeline.serve.http.problems import problem_responses
from knowledge_pipeline.serve.http.search import PREFIX
from knowledge_pipeline.serve.http.streaming import EVENT_STREAM
from knowledge_pipeline.serve.service import Identity
from knowledge_pipeline.serve.tokens import Scope
from knowledge_pipeline.store.events.log import Event

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
        Query(ge=0, le=MAX_POSITION, description="Start after the event with this id; by default now."),
    ] = None,
    follow: Annotated[bool, Query(description="false: end after what there is.")] = True,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """Follow events of the sources that the caller manages, with a token of the scope `events`."""

    def write(events: Sequence[Event], access: Access) -> list[bytes]:
        return _format_events(iter_visible_events(events, access, ctx.state.declared, types))

    identify = partial(_identify_again, ctx)
    return await open_stream(
        ctx, write, identify, scope="events", after=after, last_event_id=last_event_id, follow=follow
    )


async def open_stream(
    ctx: RequestContext,
    write: EventWriter,
    identify: Callable[[], Identity],
    *,
    scope: Scope,
    after: int | None = None,
    last_event_id: str | None = None,
    follow: bool = True,
) -> Response:
    """A stream of what `write` makes of events, from now or after a position; see `EventStreams`."""
    streams = ctx.state.streams
    if last_event_id:
        after = parse_position(last_event_id)

    async def find_start(_: AsyncKnowledgeBase, access: Access) -> int:
        del access
        newest = await streams.follower.find_newest()
        return newest if after is None else after

    start = await ctx.execute(find_start, scope=scope)
    if ctx.request.state.is_head:
        return Response(media_type=EVENT_STREAM, headers=STREAM_HEADERS)
    streams.require_room(ctx.identity.rate_limit_key)
    text = streams.iter_stream(ctx.identity, start, write, identify, follow=follow)
    return StreamingResponse(text, media_type=EVENT_STREAM, headers=STREAM_HEADERS)


def _format_events(events: Iterable[tuple[int, dict[str, Any]]]) -> list[bytes]:
    return [
        format_sse_event(event=content["type"], id=str(position), data_str=json.dumps(content))
        for position, content in events
    ]


def _identify_again(ctx: RequestContext) -> Identity:
    """Who the caller is now. Raises as `Service.identify` does, and without the scope."""
    identity = ctx.service.identify_headers(ctx.request.headers, build_origin(ctx.request))
    identity.require_scope("events")
    return identity
