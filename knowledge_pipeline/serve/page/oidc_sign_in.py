"""Signing in at the page by the identity server: the way there, and back with an answer."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from knowledge_pipeline.errors import IdentityUnavailable, KnowledgeError, Unauthenticated
from knowledge_pipeline.serve.http.dependencies import build_origin, get_app_state
from knowledge_pipeline.serve.page.rendering import (
    SIGNED_OUT_PATH,
    TOKEN_COOKIE,
    PageRoute,
    render_error,
    render_page,
    render_sign_in,
    safe_redirect_path,
    set_private_cookie,
)
from knowledge_pipeline.serve.sign_in import CALLBACK_PATH, MAX_PENDING_S, OidcAuthenticator

PENDING_COOKIE = "knowledge_sign_in"

_PENDING_PATH = "/sign-in"
_MAX_COOKIE_S = 30 * 86_400

routes = APIRouter(include_in_schema=False, route_class=PageRoute)


@routes.get("/sign-in/start")
def start_sign_in(request: Request, next: str = "/") -> Response:
    """Lead to the identity server; what it has to answer with stays in a cookie."""
    address, pending = _get_oidc(request).sign_in.begin(safe_redirect_path(next))
    response = RedirectResponse(address, 303)
    set_private_cookie(
        request,
        response,
        PENDING_COOKIE,
        pending.to_cookie(),
        max_age_s=MAX_PENDING_S,
        path=_PENDING_PATH,
        samesite="lax",  # the answer comes by a link of another site
    )
    return response


@routes.get(CALLBACK_PATH)
def finish_sign_in(request: Request) -> Response:
    """Take the identity server's answer, and begin a session."""
    try:
        response = _begin_session(request)
    except Unauthenticated as error:
        response = render_sign_in(request, status=401, problem=str(error))
    except KnowledgeError as error:
        response = render_error(request, error)
    response.delete_cookie(PENDING_COOKIE, path=_PENDING_PATH, httponly=True, samesite="lax")
    return response


def _begin_session(request: Request) -> Response:
    """A page that leads on: a redirect would be the identity server's, and no strict cookie come with it."""
    oidc, service = _get_oidc(request), get_app_state(request).service
    with service.observe_identification(build_origin(request, "page")):
        cookie = request.cookies.get(PENDING_COOKIE, "")
        subject, secret, path = oidc.finish_sign_in(dict(request.query_params), cookie)
    response = render_page(request, "signed_in.html.j2", next=safe_redirect_path(path))
    left_s = min(max(1, subject.expires_at_s - int(time.time())), _MAX_COOKIE_S)
    set_private_cookie(request, response, TOKEN_COOKIE, secret, max_age_s=left_s)
    return response


@routes.get(SIGNED_OUT_PATH)
def show_signed_out(request: Request) -> Response:
    """The page after a session has ended here: one is still signed in at the identity server."""
    try:
        url = _get_oidc(request).sign_in.build_sign_out_url()
    except IdentityUnavailable:
        url = None
    return render_sign_in(request, status=200, is_signed_out=True, sign_out_url=url)


def _get_oidc(request: Request) -> OidcAuthenticator:
    oidc = get_app_state(request).service.oidc
    assert oidc, "these routes are there only with it"
    return oidc
