"""Webhooks of GitHub and GitLab: a push starts the refresh of the sources that read the repository."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.serve import webhooks
from knowledge_pipeline.serve.http.models_operation import WebhookResponse
from knowledge_pipeline.serve.http.problems import problem_responses
from knowledge_pipeline.serve.refresh_queue import Refresh
from knowledge_pipeline.serve.webhooks import CodeHost, Push

PREFIX = "/webhooks"

HeaderText = Annotated[str | None, Header(max_length=500)]

_PUSH_EVENTS = frozenset({"push", "Push Hook", "Tag Push Hook", "System Hook"})  # headers
_PUSH_KINDS = frozenset({"push", "tag_push"})  # in the bodies of GitLab
_BODY_SCHEMA = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
}
routes = APIRouter(
    prefix=PREFIX, tags=["webhooks"], responses=problem_responses(400, 403, 404, 408, 413, 421, 422, 429, 503)
)


@routes.post(
    "/github",
    operation_id="github_webhook",
    status_code=202,
    response_model=WebhookResponse,
    openapi_extra=_BODY_SCHEMA,
)
async def github(
    request: Request,
    x_hub_signature_256: HeaderText = None,
    x_github_event: HeaderText = None,
    x_github_delivery: HeaderText = None,
) -> JSONResponse:
    """Take a webhook of GitHub, signed with `serve.webhooks.github_secret`."""
    body = await request.body()
    secret = request.app.state.service.settings.serve.webhooks.github_secret
    webhooks.require_signature(secret and secret.get_secret_value(), body, x_hub_signature_256)
    return await _accept_delivery(request, "github", body, event=x_github_event, delivery=x_github_delivery)


@routes.post(
    "/gitlab",
    operation_id="gitlab_webhook",
    status_code=202,
    response_model=WebhookResponse,
    openapi_extra=_BODY_SCHEMA,
)
async def gitlab(
    request: Request,
    x_gitlab_token: HeaderText = None,
    x_gitlab_event: HeaderText = None,
    x_gitlab_event_uuid: HeaderText = None,
    idempotency_key: HeaderText = None,
) -> JSONResponse:
    """Take a webhook of GitLab, sent with `serve.webhooks.gitlab_token`."""
    body = await request.body()
    token = request.app.state.service.settings.serve.webhooks.gitlab_token
    webhooks.require_token(token and token.get_secret_value(), x_gitlab_token)
    delivery = idempotency_key or x_gitlab_event_uuid
    return await _accept_delivery(request, "gitlab", body, event=x_gitlab_event, delivery=delivery)


async def _accept_delivery(
    request: Request, code_host: CodeHost, body: bytes, *, event: str | None, delivery: str | None
) -> JSONResponse:
    """Start what a genuine delivery asks for, once."""
    told = webhooks.parse_payload(body, request.headers.get("content-type", ""))
    deliveries = request.app.state.deliveries
    names = webhooks.delivery_keys(code_host, delivery, body)
    if event == "ping":
        return _to_response([], "a ping: the webhook works")
    kinds = {str(told.get(name, "push")) for name in ("object_kind", "event_name")}
    if event not in _PUSH_EVENTS or not kinds <= _PUSH_KINDS:
        return _to_response([], "only pushes start a refresh")
    if deliveries.known(names):
        return _to_response([], "this delivery was taken before")
    started, ignored = await _start_refresh(request, code_host, webhooks.parse_push(code_host, told))
    deliveries.remember(names)
    return _to_response([each.as_json() for each in started], ignored)


async def _start_refresh(
    request: Request, code_host: CodeHost, push: Push
) -> tuple[list[Refresh], str | None]:
    sources = await asyncio.to_thread(request.app.state.declared.sources)
    if not any(push.matches_repository(source) for source in sources):
        raise NotFound("no source reads this repository by git")
    if push.is_deleted:
        return [], "the branch is gone"
    if push.is_too_old:
        return [], "the push is older than three days"
    found = [source.id for source in webhooks.sources_reading(push, sources)]
    if not found:
        return [], "no source reads this branch"
    return [request.app.state.refreshes.start(found, code_host)], None


def _to_response(refreshes: list[dict[str, Any]], ignored_reason: str | None) -> JSONResponse:
    return JSONResponse({"started": refreshes, "ignored": ignored_reason}, 202)
