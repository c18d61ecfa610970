"""Events over HTTP: those of the store as a stream, and those of services, which start refreshes.

An event of a service refreshes the documents, or the sources, that it is about.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.sse import format_sse_event

from knowledge_pipeline.config.operation import WebhookSettings
from knowledge_pipeline.config.sources import resolve_trigger
from knowledge_pipeline.connectors.events import ServiceEvent
from knowledge_pipeline.contract.filters import EventType
from knowledge_pipeline.contract.operation import Refresh, WebhookResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve import webhooks
from knowledge_pipeline.serve.events import (
    MAX_POSITION,
    STREAM_HEADERS,
    EventWriter,
    iter_visible_events,
    parse_position,
)
from knowledge_pipeline.serve.http import dependencies
from knowledge_pipeline.serve.http.problems import problem_responses
from knowledge_pipeline.serve.http.queries import EVENT_STREAM, PREFIX
from knowledge_pipeline.serve.service import Identity
from knowledge_pipeline.serve.tokens import Scope
from knowledge_pipeline.store.logs import Event

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
    ctx: dependencies.CurrentContext,
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
        return [
            format_sse_event(event=content["type"], id=str(position), data_str=json.dumps(content))
            for position, content in iter_visible_events(events, access, ctx.state.declared, types)
        ]

    def identify() -> Identity:
        identity = ctx.service.identify_headers(ctx.request.headers, dependencies.build_origin(ctx.request))
        identity.require_scope("events")
        return identity

    return await open_stream(
        ctx, write, identify, scope="events", after=after, last_event_id=last_event_id, follow=follow
    )


async def open_stream(
    ctx: dependencies.RequestContext,
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

    async def find_start(*_: object) -> int:
        newest = await streams.follower.find_newest()
        return newest if after is None else after

    start = await ctx.execute(find_start, scope=scope)
    if ctx.request.state.is_head:
        return Response(media_type=EVENT_STREAM, headers=STREAM_HEADERS)
    streams.require_room(ctx.identity.rate_limit_key)
    text = streams.iter_stream(ctx.identity, start, write, identify, follow=follow)
    return StreamingResponse(text, media_type=EVENT_STREAM, headers=STREAM_HEADERS)


_PREFIX = "/webhooks"
_NOT_READ = "no source reads what the event is about"

webhook_routes = APIRouter(
    prefix=_PREFIX,
    tags=["webhooks"],
    responses=problem_responses(400, 401, 403, 408, 413, 421, 422, 429, 503),
)


def list_signed_paths(settings: WebhookSettings) -> tuple[str, ...]:
    """The paths whose deliveries are accepted, because there is something to verify them with."""
    signed = (service for service in webhooks.SERVICES if getattr(settings, service.setting))
    return tuple(f"{_PREFIX}/{service.name}" for service in signed)


def _add_route(service: webhooks.WebhookService) -> None:
    async def accept_delivery(request: Request, state: dependencies.CurrentState) -> JSONResponse:
        body, headers = await request.body(), request.headers
        settings = state.service.settings.serve.webhooks
        with state.service.observe_identification(dependencies.build_origin(request)):
            await asyncio.to_thread(service.require_genuine, settings, body, headers)
        payload = webhooks.parse_payload(body, headers.get("content-type", ""))
        event = service.parse(payload, headers)
        if event.challenge is not None:
            return JSONResponse({"challenge": event.challenge})
        keys = tuple(service.iter_delivery_keys(payload, body, headers))
        if event.changes and state.deliveries.has_seen(keys):
            event = ServiceEvent(ignored_reason="this delivery was received before")
        response = await _start_refreshes(state, service, event, webhooks.find_kind(payload, headers))
        if event.changes:
            state.deliveries.remember(keys)
        return JSONResponse(response.as_json(), 202)

    body: dict[str, Any] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    header_parameters = [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in service.headers
        if name != "Authorization"  # which OpenAPI has security schemes for
    ]
    webhook_routes.add_api_route(
        f"/{service.name}",
        accept_delivery,
        methods=["POST"],
        operation_id=f"{service.name}_webhook",
        summary=f"{service.title} Webhook",
        description=f"Accept a webhook of {service.title}, verified with `serve.webhooks.{service.setting}`.",
        status_code=202,
        response_model=WebhookResponse,
        openapi_extra={"requestBody": body, "parameters": header_parameters},
    )


async def _start_refreshes(
    state: dependencies.AppState, service: webhooks.WebhookService, event: ServiceEvent, kind: str
) -> WebhookResponse:
    """Queue what an event asks for; each kind of refresh once."""
    if not event.changes:
        return WebhookResponse((), event.ignored_reason)
    sources = await asyncio.to_thread(state.declared.sources)
    sources = [source for source in sources if resolve_trigger(source) != "manual"]
    pairs = [(change, [source.id for source in sources if change.is_of(source)]) for change in event.changes]
    documents = [f"{id_}/{uri}" for change, ids in pairs for id_ in ids for uri in change.documents]
    refreshes: list[Refresh] = []

    def add(refresh: Refresh, ids: Iterable[str]) -> None:
        refreshes.append(refresh)
        state.refreshes.note_event(refresh, ids, service.name, kind)

    if documents:
        ids = [id_ for change, ids in pairs if change.documents for id_ in ids]
        add(state.refreshes.submit_documents(documents, service.name), ids)
    for relist in (True, False):
        whole = [ids for change, ids in pairs if not change.documents and change.relist == relist]
        if ids := list(dict.fromkeys(id_ for ids in whole for id_ in ids)):
            add(state.refreshes.submit(ids, service.name, relist=relist), ids)
    return WebhookResponse(tuple(refreshes), None if refreshes else _NOT_READ)


for _service in webhooks.SERVICES:
    _add_route(_service)
