"""Errors as problem details: https://www.rfc-editor.org/rfc/rfc9457."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from knowledge_pipeline import errors
from knowledge_pipeline.errors import KnowledgeError

MEDIA_TYPE = "application/problem+json"

QUERY_STATUSES = (400, 401, 403, 404, 408, 413, 421, 422, 429, 500, 503, 504)
"""Statuses of a route that reads a body and asks the knowledge base."""

_MAX_DETAIL_CHARS = 2_000  # of a sentence
_MAX_FIELD_ERRORS = 20  # fields that are told

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
_TITLES = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "The token does not allow this",
    404: "There is no such thing",
    405: "The method is not allowed here",
    408: "The body took too long",
    413: "The body is too large",
    415: "The body is of a type that is not taken",
    421: "The server is not called that",
    422: "The request makes no sense",
    429: "Too many requests",
    500: "Something went wrong in the server",
    503: "The server cannot answer now",
    504: "The answer took too long",
}


class FieldError(BaseModel):
    """One field that makes no sense."""

    field: str = Field(description="Where it is: `body.limit`, `query.type`.")
    problem: str


class Problem(BaseModel):
    """What went wrong, in the form of RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="One sentence: what was wrong, where, what to do.")
    code: str = Field(description="A name for programs: `NotFound`, `QuestionRefused`, `TooManyRequests`, …")
    request_id: str | None = None
    errors: list[FieldError] = []


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route, for OpenAPI."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _TITLES[status], "content": content} for status in statuses}


def build_problem(
    status: int,
    detail: str,
    code: str,
    *,
    request_id: str | None = None,
    field_errors: list[FieldError] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """A response that tells one problem."""
    told = Problem(
        title=_TITLES.get(status, "The request failed"),
        status=status,
        detail=_truncate(detail),
        code=code,
        request_id=request_id,
        errors=field_errors or [],
    )
    return JSONResponse(told.model_dump(), status, headers=headers, media_type=MEDIA_TYPE)


def install_problem_handlers(app: FastAPI) -> None:
    """Let every error of an application leave as a problem."""
    app.add_exception_handler(KnowledgeError, _handle_knowledge_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)


def status_of(error: KnowledgeError) -> int:
    """The status that an error is told with."""
    return next(_STATUS[cls] for cls in type(error).__mro__ if cls in _STATUS)


async def _handle_knowledge_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KnowledgeError)
    status, headers = status_of(error), {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.TooManyRequests):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    elif status in (503, 504) and isinstance(error, errors.TransientError):
        headers["Retry-After"] = "1"
    return build_problem(
        status, str(error), type(error).__name__, request_id=_request_id_of(request), headers=headers
    )


async def _handle_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    wrong = [
        FieldError(field=_truncate(".".join(map(str, each["loc"]))), problem=_truncate(each["msg"]))
        for each in error.errors()[:_MAX_FIELD_ERRORS]
    ]
    detail = "; ".join(f"{each.field}: {each.problem}" for each in wrong)
    return build_problem(
        422, detail, "QuestionRefused", request_id=_request_id_of(request), field_errors=wrong
    )


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else {}
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_list_allowed_methods(request))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    return build_problem(
        error.status_code, str(error.detail), "HTTPError", request_id=_request_id_of(request), headers=headers
    )


def build_unexpected_problem(error: Exception, request_id: str) -> JSONResponse:
    """The answer where nobody knows what went wrong; the log has the traceback."""
    _log.error("request %s failed", request_id, exc_info=error)
    detail = f"an unexpected {type(error).__name__}: the server's log has more, under the request id"
    return build_problem(500, detail, "Unexpected", request_id=request_id)


def _list_allowed_methods(request: Request) -> list[str]:
    """The methods that some route takes at this path; a route itself knows only its own."""
    routes, scope = request.app.router.routes, dict(request.scope)
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
    taken = [
        method
        for method in methods
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return [*taken, *(["HEAD"] if "GET" in taken else []), "OPTIONS"]


def _truncate(text: str) -> str:
    """Text that JSON can hold, and not all of a very long one."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _MAX_DETAIL_CHARS else f"{text[:_MAX_DETAIL_CHARS]}…"


def _request_id_of(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)
