"""Renders templates to responses, with the headers of HTML pages, and serves the files that they refer to."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from knowledge_pipeline.contract.describe import describe_relation, to_sentence
from knowledge_pipeline.errors import KnowledgeError, NotFound, Unauthenticated
from knowledge_pipeline.serve.http.dependencies import get_app_state
from knowledge_pipeline.serve.http.problems import status_of
from knowledge_pipeline.serve.page import results as links
from knowledge_pipeline.serve.page.markdown_html import TermMatcher, render_lines
from knowledge_pipeline.serve.page.results import MODES, TABS, PageQuery, type_label_of
from knowledge_pipeline.text import format_share

_MEDIA_TYPES = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

routes = APIRouter(include_in_schema=False)


@routes.get("/static/{name}")
async def static(name: str, request: Request) -> Response:
    """The style sheet, the script or the icon; an address with the hash of its content is cached for ever."""
    if name not in _MEDIA_TYPES:
        raise NotFound("the page has no such file")
    content, digest = _read_file(name)
    current = request.query_params.get("v") == digest
    cache_control = "public, max-age=31536000, immutable" if current else "no-cache"
    headers = {"Cache-Control": cache_control, "ETag": f'"{digest}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_MEDIA_TYPES[name], headers=headers)


def static_url(name: str) -> str:
    """The address of a file, with the hash of its content."""
    return f"/static/{name}?v={_read_file(name)[1]}"


@cache
def _read_file(name: str) -> tuple[bytes, str]:
    content = files("knowledge_pipeline.serve.page").joinpath("static", name).read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:16]


TOKEN_COOKIE = "knowledge_token"  # noqa: S105 - a name
CSRF_COOKIE = "knowledge_csrf"
SIGNED_OUT_PATH = "/sign-in/signed-out"
THEME_COOKIE = "knowledge_theme"

_UNITS = (("second", 1, 60), ("minute", 60, 3_600), ("hour", 3_600, 86_400), ("day", 86_400, 365 * 86_400))
_HEADERS: Mapping[str, str] = {  # in addition to those of every response
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def render_page(request: Request, template: str, *, status: int = 200, **variables: Any) -> Response:
    """A page; `page_query` is the query in its search box, by default none.

    A request with `part` gets only the body, to be inserted into another page.
    """
    theme = request.cookies.get(THEME_COOKIE, "")
    cookie = read_cookie(request, CSRF_COOKIE) or ""
    csrf = cookie if len(cookie) == 43 else secrets.token_urlsafe(32)
    part = bool(request.query_params.get("part"))
    defaults: dict[str, Any] = {
        "page_query": PageQuery(),
        "part": part,
        "frame": "part.html.j2" if part else "frame.html.j2",
        "csrf": csrf,
        "theme": theme if theme in ("light", "dark") else "",
        "signed_in": read_cookie(request, TOKEN_COOKIE) is not None,
        "tabs": TABS,
        "modes": MODES,
    }
    html = _load_templates().get_template(template).render(defaults | variables)
    response = HTMLResponse(html, status, headers=dict(_HEADERS))
    if csrf != cookie:
        set_private_cookie(request, response, CSRF_COOKIE, csrf)
    return response


def render_part(template: str, **variables: Any) -> str:
    """HTML that is put into a page which is open already."""
    return _load_templates().get_template(template).render(variables)


def set_private_cookie(
    request: Request,
    response: Response,
    name: str,
    value: str,
    *,
    max_age_s: int | None = None,
    path: str = "/",
    samesite: Literal["strict", "lax"] = "strict",
) -> None:
    """Set a cookie that no script reads, until the browser ends or for some time.

    A strict one comes with no request that another site causes, a lax one with links that lead here. Where
    `public_url` has https, its name says that this host alone has set it, for HTTPS alone.
    """
    name, is_own = name_cookie(request, name)
    secure = is_own or request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(
        name,
        value,
        max_age=max_age_s,
        path="/" if is_own else path,
        httponly=True,
        samesite=samesite,
        secure=secure,
    )


def name_cookie(request: Request, name: str) -> tuple[str, bool]:
    """The name that a cookie has here, and whether it is bound to this host and HTTPS."""
    oidc = get_app_state(request).service.settings.serve.oidc
    is_own = oidc is not None and oidc.public_url.lower().startswith("https://")
    return (f"__Host-{name}" if is_own else name), is_own


def read_cookie(request: Request, name: str) -> str | None:
    """The value of a cookie that `set_private_cookie` has set."""
    return request.cookies.get(name_cookie(request, name)[0])


def delete_private_cookie(
    request: Request,
    response: Response,
    name: str,
    *,
    path: str = "/",
    samesite: Literal["strict", "lax"] = "strict",
) -> None:
    """Delete a cookie that `set_private_cookie` has set."""
    name, is_own = name_cookie(request, name)
    path = "/" if is_own else path
    response.delete_cookie(name, path=path, httponly=True, samesite=samesite, secure=is_own)


def safe_redirect_path(address: str) -> str:
    """An address of this site; "/" in place of one that is invalid or leads elsewhere."""
    plain = all(33 <= ord(char) < 127 and char != "\\" for char in address)
    try:
        parts = urlsplit(address)
    except ValueError:
        return "/"
    own = address.startswith("/") and not address.startswith("//") and not parts.scheme and not parts.netloc
    return address if plain and own and not parts.path.startswith(("/sign-in", "/sign-out")) else "/"


class PageRoute(APIRoute):
    """A route whose errors are shown as a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except KnowledgeError as error:
                return render_error(request, error)

        return handle


def render_error(request: Request, error: KnowledgeError, *, page_query: PageQuery | None = None) -> Response:
    """The page that shows an error."""
    status = status_of(error)
    if isinstance(error, Unauthenticated):
        problem = str(error) if read_cookie(request, TOKEN_COOKIE) is not None else ""
        return render_sign_in(request, status=status, problem=problem)
    response = render_page(
        request,
        "problem.html.j2",
        status=status,
        sentence=str(error),
        is_not_found=isinstance(error, NotFound),
        page_query=page_query or PageQuery(),
        facets={},
    )
    if (after_s := getattr(error, "retry_after_s", None)) is not None:
        response.headers["Retry-After"] = str(max(1, round(after_s)))
    return response


def render_sign_in(request: Request, *, status: int, problem: str = "", **variables: Any) -> Response:
    """The page that asks for a token or leads to the identity server, and then to the requested page."""
    path, parameters = request.url.path, request.url.query
    here = f"{path}?{parameters}" if request.method == "GET" and not path.startswith("/sign-in") else "/"
    oidc = get_app_state(request).service.settings.serve.oidc
    defaults = {
        "provider": urlsplit(oidc.issuer).netloc if oidc else "",
        "next": here,
        "is_signed_out": False,
    }
    shown = defaults | variables | {"problem": problem}
    response = render_page(request, "sign_in.html.j2", status=status, **shown)
    if status == 401 and read_cookie(request, TOKEN_COOKIE) is not None:  # the next request has no token
        delete_private_cookie(request, response, TOKEN_COOKIE)
    return response


def load_templates() -> None:
    """Compile every template and load a lexer, which the first page would have to wait for."""
    templates = _load_templates()
    for name in templates.list_templates(filter_func=lambda name: name.endswith(".j2")):
        templates.get_template(name)
    render_lines("def first(): ...", "python", TermMatcher(""))


@cache
def _load_templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("knowledge_pipeline.serve.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= dict[str, Any](static_url=static_url, links=links)
    environment.filters |= {
        "type_label": type_label_of,
        "relation": describe_relation,
        "age": format_age,
        "number": "{:,}".format,
        "share": format_share,
        "sentence": _render_sentence,
    }
    return environment


def _render_sentence(note: str) -> Markup:
    """A note as a sentence, with what stands in backticks as code."""
    escaped = str(escape(to_sentence(note)))  # text: what `re` joins of Markup is escaped again
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", escaped))  # noqa: S704


def format_age(moment: datetime) -> str:
    """How long ago a moment was, in one unit; its date if that is more than a year."""
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    for name, unit_s, below_s in _UNITS:
        if seconds < below_s:
            count = int(seconds // unit_s)
            return f"{count} {name}{'' if count == 1 else 's'} ago"
    return moment.date().isoformat()
