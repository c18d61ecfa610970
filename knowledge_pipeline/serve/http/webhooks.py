"""Webhooks of GitHub and GitLab: a push refreshes the sources that read the repository."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse

from knowledge_pipeline.config.operation import WebhookSettings
from knowledge_pipeline.contract.responses import WebhookResponse
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.serve import webhooks
from knowledge_pipeline.serve.http.dependencies import AppState, CurrentState
from knowledge_pipeline.serve.http.problems import problem_responses
from knowledge_pipeline.serve.webhooks import CodeHost, Push

_PREFIX = "/webhooks"

HeaderText = Annotated[str | None, Header(max_length=500)]

_PUSH_EVENTS = frozenset({"push", "Push Hook", "Tag Push Hook", "System Hook"})  # headers
_PUSH_KINDS = frozenset({"push", "tag_push"})  # in the bodies of GitLab
_BODY_SCHEMA = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
}
routes = APIRouter(
    prefix=_PREFIX,
    tags=["webhooks"],
    responses=problem_responses(400, 401, 403, 404, 408, 413, 421, 422, 429, 503),
)


def list_signed_paths(settings: WebhookSettings) -> tuple[str, ...]:
    """The paths whose deliveries are accepted, because there is a secret to check them with."""
    secrets = {"/github": settings.github_secret, "/gitlab": settings.gitlab_token}
    return tuple(f"{_PREFIX}{path}" for path, secret in secrets.items() if secret)


@routes.post(
    "/github",
    operation_id="github_webhook",
    status_code=202,
    response_model=WebhookResponse,
    openapi_extra=_BODY_SCHEMA,
)
async def github(
    request: Request,
    state: CurrentState,
    x_hub_signature_256: HeaderText = None,
    x_github_event: HeaderText = None,
    x_github_delivery: HeaderText = None,
) -> JSONResponse:
    """Accept a webhook of GitHub, signed with `serve.webhooks.github_secret`."""
    body = await request.body()
    secret = state.service.settings.serve.webhooks.github_secret
    webhooks.require_signature(secret.get_secret_value() if secret else None, body, x_hub_signature_256)
    return await _accept_delivery(
        request, state, "github", body, event=x_github_event, delivery=x_github_delivery
    )


@routes.post(
    "/gitlab",
    operation_id="gitlab_webhook",
    status_code=202,
    response_model=WebhookResponse,
    openapi_extra=_BODY_SCHEMA,
)
async def gitlab(
    request: Request,
    state: CurrentState,
    x_gitlab_token: HeaderText = None,
    x_gitlab_event: HeaderText = None,
    x_gitlab_event_uuid: HeaderText = None,
    idempotency_key: HeaderText = None,
) -> JSONResponse:
    """Accept a webhook of GitLab, sent with `serve.webhooks.gitlab_token`."""
    body = await request.body()
    token = state.service.settings.serve.webhooks.gitlab_token
    webhooks.require_token(token.get_secret_value() if token else None, x_gitlab_token)
    delivery = idempotency_key or x_gitlab_event_uuid
    return await _accept_delivery(request, state, "gitlab", body, event=x_gitlab_event, delivery=delivery)


async def _accept_delivery(
    request: Request,
    state: AppState,
    code_host: CodeHost,
    body: bytes,
    *,
    event: str | None,
    delivery: str | None,
) -> JSONResponse:
    """Start the refresh that a genuine delivery asks for, once."""
    payload = webhooks.parse_payload(body, request.headers.get("content-type", ""))
    keys = webhooks.delivery_keys(code_host, delivery, body)
    kinds = {str(payload.get(name, "push")) for name in ("object_kind", "event_name")}
    if event == "ping":
        response = WebhookResponse((), "a ping: the webhook works")
    elif event not in _PUSH_EVENTS or not kinds <= _PUSH_KINDS:
        response = WebhookResponse((), "only pushes start a refresh")
    elif state.deliveries.has_seen(keys):
        response = WebhookResponse((), "this delivery was received before")
    else:
        response = await _start_refresh(state, code_host, webhooks.parse_push(code_host, payload))
        state.deliveries.remember(keys)
    return JSONResponse(response.as_json(), 202)


async def _start_refresh(state: AppState, code_host: CodeHost, push: Push) -> WebhookResponse:
    sources = await asyncio.to_thread(state.declared.sources)
    if not any(push.matches_repository(source) for source in sources):
        raise NotFound("no source reads this repository by git")
    if push.is_deleted:
        return WebhookResponse((), "the branch was deleted")
    if push.is_too_old:
        return WebhookResponse((), "the push is older than three days")
    found = [source.id for source in sources if push.is_read_by(source)]
    if not found:
        return WebhookResponse((), "no source reads this branch")
    return WebhookResponse((state.refreshes.submit(found, code_host),), None)
