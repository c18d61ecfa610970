"""Sessions of the page: a token in a cookie, forms that only the page itself can send, and signing in.

One signs in by a token, or by the identity server: the way there, and back with an answer.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from knowledge_pipeline import errors
from knowledge_pipeline.serve.http.dependencies import RequestContext, build_origin, get_app_state
from knowledge_pipeline.serve.page import rendering
from knowledge_pipeline.serve.tokens import CALLBACK_PATH, MAX_PENDING_S

if TYPE_CHECKING:
    from knowledge_pipeline.serve.sign_in import OidcAuthenticator

PENDING_COOKIE = "knowledge_sign_in"

_PENDING_PATH = "/sign-in"
_MAX_COOKIE_S = 30 * 86_400
_MAX_FORM_FIELDS = 10

routes = APIRouter(include_in_schema=False, route_class=rendering.PageRoute)
oidc_routes = APIRouter(include_in_schema=False, route_class=rendering.PageRoute)
"""Of a server with an identity server."""


def build_page_context(request: Request) -> RequestContext:
    """The request with its sender, by header, cookie or origin; raises `Unauthenticated`."""
    state = get_app_state(request)
    origin, cookie = build_origin(request, "page"), rendering.read_cookie(request, rendering.TOKEN_COOKIE)
    identity = state.service.identify_headers(request.headers, origin, cookie=cookie)
    return RequestContext(request, state, identity)


PageContext = Annotated[RequestContext, Depends(build_page_context)]


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form. Raises `Forbidden` if another page than this one sent it, and `InvalidQuery`.

    A form of another site has neither the CSRF token nor its cookie; `Sec-Fetch-Site` counts as well.
    """
    try:
        fields = dict(parse_qsl((await request.body()).decode(), max_num_fields=_MAX_FORM_FIELDS))
    except ValueError:
        raise errors.InvalidQuery("the form cannot be read: reload the page and try again") from None
    expected, sent = rendering.read_cookie(request, rendering.CSRF_COOKIE) or "", fields.get("csrf", "")
    is_foreign = request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
    if is_foreign or not expected or not hmac.compare_digest(expected.encode(), sent.encode()):
        raise errors.Forbidden("this form was not sent by this page: reload the page and try again")
    return fields


@routes.get("/sign-in")
async def show_sign_in(request: Request, token: str = "") -> Response:
    """The page that asks for a token; the link that the server printed when it started signs in at once."""
    if not get_app_state(request).service.tokens.is_of_process(token):
        problem = "this link is of another start of the server: see what it printed last" if token else ""
        return rendering.render_sign_in(request, status=401 if token else 200, problem=problem)
    response = RedirectResponse("/", 303)
    rendering.set_private_cookie(request, response, rendering.TOKEN_COOKIE, token)
    return response


@routes.post("/sign-in")
async def save_token(request: Request) -> Response:
    """Keep a valid token in a cookie, and redirect."""
    fields = await read_form(request)
    token = fields.get("token", "").strip()
    if not token:
        return rendering.render_sign_in(request, status=422, problem="paste a token")
    try:
        service, origin = get_app_state(request).service, build_origin(request, "page")
        await run_in_threadpool(service.identify, token, origin)
    except errors.Unauthenticated as error:
        return rendering.render_sign_in(request, status=401, problem=str(error))
    response = RedirectResponse(rendering.safe_redirect_path(fields.get("next", "")), 303)
    rendering.set_private_cookie(request, response, rendering.TOKEN_COOKIE, token, max_age_s=_MAX_COOKIE_S)
    return response


@routes.post("/sign-out")
async def forget_token(request: Request) -> Response:
    """Delete the cookie with the token; a session of the identity server's ends for everybody who has it."""
    await read_form(request)
    oidc = get_app_state(request).service.oidc
    token = rendering.read_cookie(request, rendering.TOKEN_COOKIE) or ""
    had_session = oidc is not None and oidc.end_session(token)
    response = RedirectResponse(rendering.SIGNED_OUT_PATH if had_session else "/", 303)
    rendering.delete_private_cookie(request, response, rendering.TOKEN_COOKIE)
    return response


@oidc_routes.get("/sign-in/start")
def start_sign_in(request: Request, next: str = "/") -> Response:
    """Lead to the identity server; what it has to answer with stays in a cookie."""
    address, pending = _get_oidc(request).begin_sign_in(rendering.safe_redirect_path(next))
    response = RedirectResponse(address, 303)
    rendering.set_private_cookie(
        request,
        response,
        PENDING_COOKIE,
        pending,
        max_age_s=MAX_PENDING_S,
        path=_PENDING_PATH,
        samesite="lax",  # the answer comes by a link of another site
    )
    return response


@oidc_routes.get(CALLBACK_PATH)
def finish_sign_in(request: Request) -> Response:
    """Take the identity server's answer, and begin a session."""
    try:
        response = _begin_session(request)
    except errors.Unauthenticated as error:
        response = rendering.render_sign_in(request, status=401, problem=str(error))
    except errors.KnowledgeError as error:
        response = rendering.render_error(request, error)
    rendering.delete_private_cookie(request, response, PENDING_COOKIE, path=_PENDING_PATH, samesite="lax")
    return response


def _begin_session(request: Request) -> Response:
    """A page that leads on: a redirect would be the identity server's, and no strict cookie come with it."""
    oidc, service = _get_oidc(request), get_app_state(request).service
    with service.observe_identification(build_origin(request, "page")):
        cookie = rendering.read_cookie(request, PENDING_COOKIE) or ""
        subject, secret, path = oidc.finish_sign_in(dict(request.query_params), cookie)
    response = rendering.render_page(request, "signed_in.html.j2", next=rendering.safe_redirect_path(path))
    left_s = min(max(1, subject.expires_at_s - int(time.time())), _MAX_COOKIE_S)
    rendering.set_private_cookie(request, response, rendering.TOKEN_COOKIE, secret, max_age_s=left_s)
    return response


@oidc_routes.get(rendering.SIGNED_OUT_PATH)
def show_signed_out(request: Request) -> Response:
    """The page after a session has ended here: one is still signed in at the identity server."""
    try:
        url = _get_oidc(request).build_sign_out_url()
    except errors.IdentityUnavailable:
        url = None
    return rendering.render_sign_in(request, status=200, is_signed_out=True, sign_out_url=url)


def _get_oidc(request: Request) -> OidcAuthenticator:
    oidc = get_app_state(request).service.oidc
    assert oidc, "these routes are there only with it"
    return oidc
