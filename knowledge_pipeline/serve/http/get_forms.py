"""Searches and contexts by GET, for a browser, a shell and clients that send nothing else.

The parameters of the address are the fields of the body and those of its filters; a list is a parameter that
is repeated.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, create_model

from knowledge_pipeline.contract.filters import FILTER_NAMES, Filters
from knowledge_pipeline.contract.requests import ContextRequest, SearchRequest, parse_history
from knowledge_pipeline.contract.responses import ContextResponse, SearchResponse
from knowledge_pipeline.serve.http.dependencies import CurrentContext
from knowledge_pipeline.serve.http.problems import BODILESS_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX, STREAMED_RESPONSES, answer_context, answer_search

routes = APIRouter(prefix=PREFIX, tags=["search"], responses=problem_responses(*BODILESS_STATUSES))

_HISTORY = (
    "For `chat`: the conversation so far, oldest message first, each as JSON: "
    '`{"role": "user", "content": "…"}`.'
)

RequestT = TypeVar("RequestT", SearchRequest, ContextRequest)


def _build_parameters(name: str, request: type[Any]) -> type[BaseModel]:
    """A model of the parameters of a request: its own fields, and those of its filters."""
    parameters: dict[str, Any] = {}
    for declared in (request, Filters):
        hints = get_type_hints(declared)
        for field in fields(declared):
            if is_dataclass(hints[field.name]):
                continue  # the filters, whose fields are parameters themselves
            if field.name == "history":
                parameters[field.name] = (tuple[str, ...], Field(default=(), description=_HISTORY))
                continue
            default = ... if field.default is MISSING else field.default
            parameters[field.name] = (hints[field.name], Field(default=default, **field.metadata))
    return create_model(name, __config__=ConfigDict(extra="forbid"), **parameters)


if TYPE_CHECKING:  # a type checker does not see what is built
    SearchParameters = ContextParameters = BaseModel
else:
    SearchParameters = _build_parameters("SearchParameters", SearchRequest)
    ContextParameters = _build_parameters("ContextParameters", ContextRequest)


@routes.get(
    "/search", operation_id="search_by_get", response_model=SearchResponse, responses=STREAMED_RESPONSES
)
async def search(parameters: Annotated[SearchParameters, Query()], ctx: CurrentContext) -> Response:
    """Find the results that answer a query best, with all that `search` takes as parameters."""
    return await answer_search(ctx, _to_request(SearchRequest, parameters))


@routes.get("/context", operation_id="context_by_get", response_model=ContextResponse)
async def context(parameters: Annotated[ContextParameters, Query()], ctx: CurrentContext) -> JSONResponse:
    """Build what an agent should read before a task, with all that `context` takes as parameters."""
    return await answer_context(ctx, _to_request(ContextRequest, parameters))


def _to_request(kind: type[RequestT], parameters: BaseModel) -> RequestT:
    values = {name: getattr(parameters, name) for name in parameters.model_fields_set}
    filters = Filters(**{name: values.pop(name) for name in FILTER_NAMES if name in values})
    if "history" in values:
        values["history"] = tuple(turn for text in values["history"] for turn in parse_history(text))
    return kind(**values, filters=filters)
