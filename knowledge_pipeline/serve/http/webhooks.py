"""Webhooks of services: an event refreshes the documents, or the sources, that it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowledge_pipeline.config.operation import WebhookSettings
from knowledge_pipeline.contract.responses.refreshes import Refresh, WebhookResponse
from knowledge_pipeline.serve.http.dependencies import AppState, CurrentState
from knowledge_pipeline.serve.http.problems import problem_responses
from knowledge_pipeline.serve.webhooks.deliveries import parse_payload
from knowledge_pipeline.serve.webhooks.events import Change, ServiceEvent, find_kind
from knowledge_pipeline.serve.webhooks.services import SERVICES, WebhookService

_PREFIX = "/webhooks"
_NOT_READ = "no source reads what the event is about"

routes = APIRouter(
    prefix=_PREFIX,
    tags=["webhooks"],
    responses=problem_responses(400, 401, 403, 408, 413, 421, 422, 429, 503),
)


def list_signed_paths(settings: WebhookSettings) -> tuple[str, ...]:
    """The paths whose deliveries are accepted, because there is something to verify them with."""
    return tuple(f"{_PREFIX}/{each.name}" for each in SERVICES if getattr(settings, each.setting))


def _add_route(service: WebhookService) -> None:
    header_parameters = [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in service.headers
        if name != "Authorization"  # which OpenAPI has security schemes for
    ]
    body: dict[str, Any] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    routes.add_api_route(
        f"/{service.name}",
        _build_endpoint(service),
        methods=["POST"],
        operation_id=f"{service.name}_webhook",
        summary=f"{service.title} Webhook",
        status_code=202,
        response_model=WebhookResponse,
        openapi_extra={"requestBody": body, "parameters": header_parameters},
    )


def _build_endpoint(service: WebhookService) -> Callable[..., Awaitable[JSONResponse]]:
    async def accept_delivery(request: Request, state: CurrentState) -> JSONResponse:
        body, headers = await request.body(), request.headers
        settings = state.service.settings.serve.webhooks
        await asyncio.to_thread(service.require_genuine, settings, body, headers)
        payload = parse_payload(body, headers.get("content-type", ""))
        event = service.parse(payload, headers)
        if event.challenge is not None:
            return JSONResponse({"challenge": event.challenge})
        keys = tuple(service.iter_delivery_keys(payload, body, headers))
        if event.changes and state.deliveries.has_seen(keys):
            event = ServiceEvent(ignored_reason="this delivery was received before")
        kind = find_kind(payload, headers)
        response = await _start_refreshes(state, service, event, kind)
        if event.changes:
            state.deliveries.remember(keys)
        return JSONResponse(response.as_json(), 202)

    accept_delivery.__doc__ = (
        f"Accept a webhook of {service.title}, verified with `serve.webhooks.{service.setting}`."
    )
    return accept_delivery


async def _start_refreshes(
    state: AppState, service: WebhookService, event: ServiceEvent, kind: str
) -> WebhookResponse:
    """Queue what an event asks for; each kind of refresh once."""
    if not event.changes:
        return WebhookResponse((), event.ignored_reason)
    sources = await asyncio.to_thread(state.declared.sources)
    found = [(change, [each.id for each in sources if change.is_of(each)]) for change in event.changes]
    documents = [f"{id_}/{uri}" for change, ids in found for id_ in ids for uri in change.documents]
    refreshes: list[Refresh] = []

    def add(refresh: Refresh, ids: Iterable[str]) -> None:
        refreshes.append(refresh)
        state.refreshes.note_event(refresh, ids, service.name, kind)

    if documents:
        ids = [id_ for change, ids in found if change.documents for id_ in ids]
        add(state.refreshes.submit_documents(documents, service.name), ids)
    for relist in (True, False):
        if ids := _list_whole_sources(found, relist=relist):
            add(state.refreshes.submit(ids, service.name, relist=relist), ids)
    return WebhookResponse(tuple(refreshes), None if refreshes else _NOT_READ)


def _list_whole_sources(found: list[tuple[Change, list[str]]], *, relist: bool) -> list[str]:
    whole = [ids for change, ids in found if not change.documents and change.relist == relist]
    return list(dict.fromkeys(id_ for ids in whole for id_ in ids))


for _service in SERVICES:
    _add_route(_service)
