"""Errors as problem details: https://www.rfc-editor.org/rfc/rfc9457."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from knowledge_pipeline import errors
from knowledge_pipeline.errors import KnowledgeError

MEDIA_TYPE = "application/problem+json"

_log = logging.getLogger(__name__)

_STATUS: dict[type[KnowledgeError], int] = {
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.QuestionRefused: 422,
    errors.ConfigError: 422,
    errors.TooManyRequests: 429,
    errors.AnswerTimedOut: 504,
    KnowledgeError: 503,
}
_TITLES = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "The token does not allow this",
    404: "There is no such thing",
    405: "The method is not allowed here",
    413: "The body is too large",
    415: "The body is of a type that is not taken",
    422: "The request makes no sense",
    429: "Too many requests",
    500: "Something went wrong in the server",
    503: "The server cannot answer now",
    504: "The answer took too long",
}


class Wrong(BaseModel):
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
    errors: list[Wrong] = []


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route, for OpenAPI."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _TITLES[status], "content": content} for status in statuses}


def problem(
    status: int,
    detail: str,
    code: str,
    *,
    request_id: str | None = None,
    wrong: list[Wrong] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """A response that tells one problem."""
    told = Problem(
        title=_TITLES.get(status, "The request failed"),
        status=status,
        detail=detail,
        code=code,
        request_id=request_id,
        errors=wrong or [],
    )
    return JSONResponse(told.model_dump(), status, headers=headers, media_type=MEDIA_TYPE)


def tell_problems(app: FastAPI) -> None:
    """Let every error of an application leave as a problem."""
    app.add_exception_handler(KnowledgeError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


def status_of(error: KnowledgeError) -> int:
    """The status that an error is told with."""
    return next(_STATUS[cls] for cls in type(error).__mro__ if cls in _STATUS)


async def _known(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KnowledgeError)
    status, headers = status_of(error), {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.TooManyRequests):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    elif status in (503, 504) and isinstance(error, errors.TransientError):
        headers["Retry-After"] = "1"
    return problem(status, str(error), type(error).__name__, request_id=_id(request), headers=headers)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    wrong = [Wrong(field=".".join(map(str, each["loc"])), problem=each["msg"]) for each in error.errors()]
    detail = "; ".join(f"{each.field}: {each.problem}" for each in wrong)
    return problem(422, detail, "QuestionRefused", request_id=_id(request), wrong=wrong)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    return problem(
        error.status_code, str(error.detail), "HTTPError", request_id=_id(request), headers=headers
    )


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    _log.error("request %s failed", _id(request), exc_info=error)
    detail = f"an unexpected {type(error).__name__}: the server's log has more, under the request id"
    return problem(500, detail, "Unexpected", request_id=_id(request))


def _id(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)
