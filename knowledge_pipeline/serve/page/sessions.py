"""Sessions of the page: a token in a cookie, and forms that only the page itself can send."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from knowledge_pipeline.errors import Forbidden, InvalidQuery, Unauthenticated
from knowledge_pipeline.serve.http.dependencies import RequestContext, build_origin, get_app_state
from knowledge_pipeline.serve.page.rendering import (
    CSRF_COOKIE,
    SIGNED_OUT_PATH,
    TOKEN_COOKIE,
    PageRoute,
    render_sign_in,
    safe_redirect_path,
    set_private_cookie,
)

_TOKEN_COOKIE_S = 30 * 86_400
_MAX_FORM_FIELDS = 10

routes = APIRouter(include_in_schema=False, route_class=PageRoute)


def build_page_context(request: Request) -> RequestContext:
    """The request with its sender, by header, cookie or origin; raises `Unauthenticated`."""
    state = get_app_state(request)
    origin, cookie = build_origin(request, "page"), request.cookies.get(TOKEN_COOKIE)
    identity = state.service.identify_headers(request.headers, origin, cookie=cookie)
    return RequestContext(request, state, identity)


PageContext = Annotated[RequestContext, Depends(build_page_context)]


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form that this page has sent.

    A form of another site has neither the CSRF token nor its cookie. The browser's `Sec-Fetch-Site` counts
    as well.

    Raises:
        Forbidden: another page sent it.
        InvalidQuery: it is not a form.
    """
    try:
        fields = dict(parse_qsl((await request.body()).decode(), max_num_fields=_MAX_FORM_FIELDS))
    except ValueError:
        raise InvalidQuery("the form cannot be read: reload the page and try again") from None
    expected, sent = request.cookies.get(CSRF_COOKIE, ""), fields.get("csrf", "")
    is_foreign = request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
    if is_foreign or not expected or not hmac.compare_digest(expected.encode(), sent.encode()):
        raise Forbidden("this form was not sent by this page: reload the page and try again")
    return fields


@routes.get("/sign-in")
async def show_sign_in(request: Request, token: str = "") -> Response:
    """The page that asks for a token; the link that the server printed when it started signs in at once."""
    if not get_app_state(request).service.tokens.is_of_process(token):
        problem = "this link is of another start of the server: see what it printed last" if token else ""
        return render_sign_in(request, status=401 if token else 200, problem=problem)
    response = RedirectResponse("/", 303)
    set_private_cookie(request, response, TOKEN_COOKIE, token)
    return response


@routes.post("/sign-in")
async def save_token(request: Request) -> Response:
    """Keep a valid token in a cookie, and redirect."""
    fields = await read_form(request)
    token = fields.get("token", "").strip()
    if not token:
        return render_sign_in(request, status=422, problem="paste a token")
    try:
        service, origin = get_app_state(request).service, build_origin(request, "page")
        await run_in_threadpool(service.identify, token, origin)
    except Unauthenticated as error:
        return render_sign_in(request, status=401, problem=str(error))
    response = RedirectResponse(safe_redirect_path(fields.get("next", "")), 303)
    set_private_cookie(request, response, TOKEN_COOKIE, token, max_age_s=_TOKEN_COOKIE_S)
    return response


@routes.post("/sign-out")
async def forget_token(request: Request) -> Response:
    """Delete the cookie with the token; a session of the identity server's ends for everybody who has it."""
    await read_form(request)
    oidc, token = get_app_state(request).service.oidc, request.cookies.get(TOKEN_COOKIE, "")
    had_session = oidc is not None and oidc.sessions.end(token)
    response = RedirectResponse(SIGNED_OUT_PATH if had_session else "/", 303)
    response.delete_cookie(TOKEN_COOKIE, path="/", httponly=True, samesite="strict")
    return response
