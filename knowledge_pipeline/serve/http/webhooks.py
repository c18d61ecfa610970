"""Webhooks of GitHub and GitLab: a push starts the refresh of the sources that read the repository."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.serve import webhooks
from knowledge_pipeline.serve.http.models_operation import HookTold
from knowledge_pipeline.serve.http.problems import problems
from knowledge_pipeline.serve.refresh_queue import Refresh
from knowledge_pipeline.serve.webhooks import Forge, Push

PREFIX = "/webhooks"

Text = Annotated[str | None, Header(max_length=500)]

_PUSHES = frozenset({"push", "Push Hook", "Tag Push Hook", "System Hook"})  # headers
_KINDS = frozenset({"push", "tag_push"})  # in the bodies of GitLab
_body = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}
routes = APIRouter(
    prefix=PREFIX, tags=["webhooks"], responses=problems(400, 403, 404, 408, 413, 421, 422, 429, 503)
)


@routes.post(
    "/github",
    operation_id="github_webhook",
    status_code=202,
    response_model=HookTold,
    openapi_extra=_body,
)
async def github(
    request: Request,
    x_hub_signature_256: Text = None,
    x_github_event: Text = None,
    x_github_delivery: Text = None,
) -> JSONResponse:
    """Take a webhook of GitHub, signed with `serve.webhooks.github_secret`."""
    body = await request.body()
    secret = request.app.state.service.settings.serve.webhooks.github_secret
    webhooks.require_signed(secret and secret.get_secret_value(), body, x_hub_signature_256)
    return await _taken(request, "github", body, event=x_github_event, delivery=x_github_delivery)


@routes.post(
    "/gitlab",
    operation_id="gitlab_webhook",
    status_code=202,
    response_model=HookTold,
    openapi_extra=_body,
)
async def gitlab(
    request: Request,
    x_gitlab_token: Text = None,
    x_gitlab_event: Text = None,
    x_gitlab_event_uuid: Text = None,
    idempotency_key: Text = None,
) -> JSONResponse:
    """Take a webhook of GitLab, sent with `serve.webhooks.gitlab_token`."""
    body = await request.body()
    token = request.app.state.service.settings.serve.webhooks.gitlab_token
    webhooks.require_token(token and token.get_secret_value(), x_gitlab_token)
    delivery = idempotency_key or x_gitlab_event_uuid
    return await _taken(request, "gitlab", body, event=x_gitlab_event, delivery=delivery)


async def _taken(
    request: Request, forge: Forge, body: bytes, *, event: str | None, delivery: str | None
) -> JSONResponse:
    """Start what a genuine delivery asks for, once."""
    told = webhooks.payload_of(body, request.headers.get("content-type", ""))
    deliveries = request.app.state.deliveries
    names = webhooks.names_of(forge, delivery, body)
    if event == "ping":
        return _told([], "a ping: the webhook works")
    kinds = {str(told.get(name, "push")) for name in ("object_kind", "event_name")}
    if event not in _PUSHES or not kinds <= _KINDS:
        return _told([], "only pushes start a refresh")
    if deliveries.known(names):
        return _told([], "this delivery was taken before")
    started, ignored = await _start(request, forge, webhooks.push_of(forge, told))
    deliveries.remember(names)
    return _told([each.as_json() for each in started], ignored)


async def _start(request: Request, forge: Forge, push: Push) -> tuple[list[Refresh], str | None]:
    sources = await asyncio.to_thread(request.app.state.declared.sources)
    if not any(push.of_repository(source) for source in sources):
        raise NotFound("no source reads this repository by git")
    if push.gone:
        return [], "the branch is gone"
    if push.too_old:
        return [], "the push is older than three days"
    found = [source.id for source in webhooks.reading(push, sources)]
    if not found:
        return [], "no source reads this branch"
    return [request.app.state.refreshes.start(found, forge)], None


def _told(started: list[dict[str, Any]], ignored: str | None) -> JSONResponse:
    return JSONResponse({"started": started, "ignored": ignored}, 202)
