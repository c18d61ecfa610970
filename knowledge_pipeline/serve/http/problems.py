"""Errors as problem details: https://www.rfc-editor.org/rfc/rfc9457."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import is_dataclass
from http import HTTPStatus
from typing import Any, get_type_hints

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from knowledge_pipeline import errors
from knowledge_pipeline.contract.aliases import PREFIX as ALIAS_PREFIX
from knowledge_pipeline.contract.aliases import list_names
from knowledge_pipeline.contract.arguments import suggest_name
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.serve.http.dependencies import build_origin, get_app_state

MEDIA_TYPE = "application/problem+json"

_API = ("/api/", f"{ALIAS_PREFIX}/")  # below it, an address may be meant as an id
_MAX_DETAIL_CHARS = 2_000  # of a sentence
_MAX_FIELD_ERRORS = 20  # fields that are reported
_UNKNOWN_NAME_ERRORS = ("extra_forbidden", "unexpected_keyword_argument")

_log = logging.getLogger(__name__)

_STATUS: dict[type[KnowledgeError], int] = {
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.InvalidQuery: 422,
    errors.ConfigError: 422,
    errors.TooManyRequests: 429,
    errors.ResponseTimeout: 504,
    KnowledgeError: 503,
}
_TITLES = {  # where they are not the standard's
    401: "Authentication required",
    413: "Content too large",
    422: "Invalid request",
    431: "Headers too large",
    504: "Response timeout",
}


class FieldError(BaseModel):
    """One invalid field."""

    field: str = Field(description="Its place: `body.limit`, `query.type`.")
    message: str


class Problem(BaseModel):
    """What went wrong, in the form of RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="One sentence: what was wrong, where, what to do.")
    code: str = Field(description="A name for programs: `NotFound`, `InvalidQuery`, `TooManyRequests`, …")
    request_id: str | None = None
    errors: list[FieldError] = []


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route, for OpenAPI."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _title_of(status), "content": content} for status in statuses}


def _title_of(status: int) -> str:
    return _TITLES.get(status) or HTTPStatus(status).phrase.capitalize()


QUERY_PROBLEMS = problem_responses(400, 401, 403, 404, 408, 413, 421, 422, 429, 500, 503, 504)
"""Of a route that reads a body and queries the knowledge base."""

BODILESS_PROBLEMS = problem_responses(401, 403, 404, 421, 422, 429, 500, 503, 504)
"""The same for a route that reads no body."""


def build_problem(
    status: int,
    detail: str,
    code: str,
    *,
    request_id: str | None = None,
    field_errors: list[FieldError] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """A response that reports one problem."""
    problem = Problem(
        title=_title_of(status),
        status=status,
        detail=_truncate(detail),
        code=code,
        request_id=request_id,
        errors=field_errors or [],
    )
    return JSONResponse(problem.model_dump(), status, headers=headers, media_type=MEDIA_TYPE)


def install_problem_handlers(app: FastAPI) -> None:
    """Report every error of an application as a problem."""
    app.add_exception_handler(KnowledgeError, _handle_knowledge_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)


def status_of(error: KnowledgeError) -> int:
    """The status that an error is reported with."""
    return next(_STATUS[cls] for cls in type(error).__mro__ if cls in _STATUS)


def build_error_problem(error: KnowledgeError, *, request_id: str | None) -> JSONResponse:
    """A response that reports one of our errors."""
    status = status_of(error)
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.TooManyRequests | errors.Overloaded):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    elif status in (503, 504) and isinstance(error, errors.TransientError):
        headers["Retry-After"] = "1"
    return build_problem(status, str(error), type(error).__name__, request_id=request_id, headers=headers)


async def _handle_knowledge_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KnowledgeError)
    return build_error_problem(error, request_id=_request_id_of(request))


async def _handle_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    field_errors: list[FieldError] = []
    for entry in error.errors()[:_MAX_FIELD_ERRORS]:
        is_unknown, field = entry["type"] in _UNKNOWN_NAME_ERRORS, ".".join(map(str, entry["loc"]))
        message = (_describe_unknown_name(request, entry["loc"]) if is_unknown else "") or entry["msg"]
        field_errors.append(FieldError(field=_truncate(field), message=_truncate(message)))
    detail = "; ".join(f"{field_error.field}: {field_error.message}" for field_error in field_errors)
    id_ = _request_id_of(request)
    return build_problem(422, detail, "InvalidQuery", request_id=id_, field_errors=field_errors)


def _describe_unknown_name(request: Request, location: tuple[int | str, ...]) -> str:
    """What the names of a body, of its part, or of parameters are; empty: nothing is known of them."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return ""
    where, *inner, name = location
    parameters = route.dependant.query_params if where == "query" else [route.body_field]
    kind: Any = next((parameter.field_info.annotation for parameter in parameters if parameter), None)
    for part in inner:
        kind = get_type_hints(kind).get(str(part)) if is_dataclass(kind) else None
    names = list_names(kind)
    return f"unknown; allowed: {', '.join(names)}{suggest_name(str(name), kind)}" if names else ""


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else {}
    if error.status_code == 404 and request.url.path.startswith(_API):
        service = get_app_state(request).service
        await asyncio.to_thread(service.log_unknown_address, request.headers, build_origin(request))
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_list_allowed_methods(request))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    status, id_ = error.status_code, _request_id_of(request)
    return build_problem(status, str(error.detail), "HTTPError", request_id=id_, headers=headers)


def build_unexpected_problem(error: Exception, request_id: str) -> JSONResponse:
    """The response to an unexpected error; the log has the traceback."""
    _log.error("request %s failed", request_id, exc_info=error)
    detail = f"an unexpected {type(error).__name__}: the server's log has the details, under the request id"
    return build_problem(500, detail, "InternalError", request_id=request_id)


def _list_allowed_methods(request: Request) -> list[str]:
    """The methods of all routes at this path; a route itself knows only its own."""
    routes, allowed = request.app.router.routes, list[str]()
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes):
            allowed.append(method)
    return [*allowed, *(["HEAD"] if "GET" in allowed else []), "OPTIONS"]


def _truncate(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _MAX_DETAIL_CHARS else f"{text[:_MAX_DETAIL_CHARS]}…"


def _request_id_of(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)
