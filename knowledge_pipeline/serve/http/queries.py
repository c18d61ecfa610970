"""Queries over HTTP: searches as JSON or a stream, contexts, the code graph, documents, the search as a tool.

Searches and contexts can also be asked for by GET, for a browser, a shell and clients that send nothing else:
the parameters of the address are the fields of the body and those of its filters; a list is a parameter that
is repeated.

Ids contain slashes, colons and whole addresses. A slash written as `%2F` always works; a plain one works
unless the id of the document itself ends in `/export`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from operator import attrgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.sse import format_sse_event
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from starlette.convertors import Convertor, register_url_convertor

from knowledge_pipeline.contract import requests, responses
from knowledge_pipeline.contract.aliases import rename_aliases
from knowledge_pipeline.contract.arguments import drop_unset, split_values
from knowledge_pipeline.contract.filters import (
    FILTER_NAMES,
    Filters,
    SearchType,
    build_filters,
    mark_limits,
    normalize_filters,
)
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.graph_queries import GraphRequest
from knowledge_pipeline.serve.documents import load_document
from knowledge_pipeline.serve.http.dependencies import AnswerResponse, CurrentContext, RequestContext
from knowledge_pipeline.serve.http.problems import BODILESS_PROBLEMS, QUERY_PROBLEMS, problem_responses
from knowledge_pipeline.serve.mcp.inputs import KnowledgeQueryInput
from knowledge_pipeline.serve.openai_tools import TOOL_NAME, ToolFormat, build_search_tool, run_search
from knowledge_pipeline.text import is_list

PREFIX = "/api/v1/knowledge"
EVENT_STREAM = "text/event-stream"

_STREAMED_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; as a stream each result is an event `result`, and the rest, with how "
        "many there were, the last event, `answer`.",
        "content": {
            EVENT_STREAM: {
                "schema": {"type": "string"},
                "example": 'event: result\ndata: {"id": "…", "content": "…"}\n\n'
                'event: answer\ndata: {"query_id": "…", "results": 1}\n\n',
            }
        },
    }
}

_LONG_ADDRESS: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "The address is too long to be read: send the same by POST.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}

Search = Callable[[AsyncKnowledgeBase, Access], Awaitable[responses.SearchResponse]]
Answer = Callable[[RequestContext, Any], Awaitable[Response]]
"""Answers a request of the type of its route."""

RequestT = TypeVar("RequestT", requests.SearchRequest, requests.ContextRequest)

routes = APIRouter(prefix=PREFIX, generate_unique_id_function=attrgetter("name"))


def _add_query(
    path: str,
    body_type: type[Any],
    response_type: type[Any],
    answer: Answer,
    description: str,
    *,
    tag: str = "search",
    operation_id: str | None = None,
    title: str | None = None,
) -> None:
    """Add a route that takes one request of the contract; its names come from the path."""

    async def endpoint(body: Any, ctx: CurrentContext) -> Response:
        return await answer(ctx, body)

    endpoint.__annotations__["body"] = body_type  # what FastAPI reads
    operation_id = operation_id or path.replace("/", "_")
    routes.add_api_route(
        f"/{path}",
        endpoint,
        methods=["POST"],
        tags=[tag],
        operation_id=operation_id,
        summary=title or operation_id.replace("_", " ").title(),
        description=description,
        response_model=response_type,
        responses=QUERY_PROBLEMS | (_STREAMED_RESPONSES if response_type is responses.SearchResponse else {}),
    )


def wants_events(accept: str) -> bool:
    """Whether events are preferred to JSON by an `Accept` header."""
    wanted: dict[str, float] = {}
    for part in accept.split(","):
        kind, *parameters = (field.strip().lower() for field in part.split(";"))
        quality = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
        wanted[kind] = float(quality) if quality.replace(".", "", 1).isdecimal() else 0.0
    return wanted.get(EVENT_STREAM, 0.0) > wanted.get("application/json", 0.0)


async def _respond(ctx: RequestContext, search: Search) -> Response:
    answer = await ctx.load_json(search)
    if not wants_events(ctx.request.headers.get("accept", "")):
        return AnswerResponse(answer)
    headers = {"X-Accel-Buffering": "no"}  # a proxy sends on what it has
    return StreamingResponse(_iter_events(answer), media_type=EVENT_STREAM, headers=headers)


def _iter_events(answer: dict[str, Any]) -> Iterator[bytes]:
    results = answer.pop("results")
    for result in results:
        yield format_sse_event(event="result", data_str=json.dumps(result, ensure_ascii=False))
    last = {**answer, "results": len(results)}
    yield format_sse_event(event="answer", data_str=json.dumps(last, ensure_ascii=False))


def _search_by(type: SearchType | None) -> Answer:
    """Searches by a type, unless the request has one; by None, the query decides."""

    async def search(ctx: RequestContext, body: requests.QueryRequest) -> Response:
        async def run(base: AsyncKnowledgeBase, access: Access) -> responses.SearchResponse:
            answer = await base.search(
                body.query,
                type=body.type if isinstance(body, requests.SearchRequest) else type,
                filters=body.filters,
                limit=body.limit,
                explain=body.explain,
                blame=body.blame,
                mode=body.mode,
                max_age=body.max_age,
                access=access.within_tenant(body.org_id),
            )
            if body.include_metadata:
                return answer
            return replace(answer, results=tuple(replace(it, metadata={}) for it in answer.results))

        return await _respond(ctx, run)

    return search


async def _find_similar(ctx: RequestContext, body: requests.SimilarRequest) -> Response:
    values = {field.name: getattr(body, field.name) for field in fields(body)}
    return await _respond(ctx, lambda base, access: base.similar(**values, access=access))


async def _build_context(ctx: RequestContext, body: requests.ContextRequest) -> JSONResponse:
    async def build(base: AsyncKnowledgeBase, access: Access) -> responses.ContextResponse:
        size: dict[str, Any] = {"max_tokens": body.max_tokens, "template": body.template}
        context = await base.context(body, **size, max_age=body.max_age, access=access)
        left_out: dict[str, Any] = {
            **({} if body.include_text else {"text": ""}),  # the prompt has it
            **({} if body.include_metadata else {"metadata": {}}),
        }
        excerpts = tuple(replace(excerpt, **left_out) for excerpt in context.excerpts)
        return replace(context, excerpts=excerpts)

    return await ctx.respond(build)


async def _call_search_tool(ctx: RequestContext, body: KnowledgeQueryInput) -> Response:
    return await _respond(ctx, lambda base, access: run_search(base, body, access))


def _query_graph(method: requests.GraphMethod) -> Answer:
    async def query(ctx: RequestContext, body: requests.GraphTargetRequest) -> Response:
        request = GraphRequest(method, **{item.name: getattr(body, item.name) for item in fields(body)})
        return await ctx.respond(lambda base, access: base.graph.query(request, access=access))

    return query


_search = _search_by("semantic")
for _path, _body_type, _answer, _description in (
    ("search", requests.SearchRequest, _search, "Find the results that answer a query best."),
    (
        "similar",
        requests.SimilarRequest,
        _find_similar,
        "Find results of other files that are similar to a text, or to an indexed file.",
    ),
    (
        "query",
        requests.QueryRequest,
        _search_by(None),
        "Search by the intent of the query: history, an implementation or a usage, otherwise everything.",
    ),
    (
        "query/code",
        requests.QueryRequest,
        _search_by("code"),
        "Search source code alone, deeper than `search` does.",
    ),
    (
        "query/tickets",
        requests.TicketQueryRequest,
        _search,
        "Search issues, discussions, tickets and pull requests alone.",
    ),
    (
        "query/docs",
        requests.DocumentQueryRequest,
        _search,
        "Search documents alone: Markdown, wiki pages, files, API descriptions, records.",
    ),
):
    _add_query(_path, _body_type, responses.SearchResponse, _answer, _description)
_add_query(
    "context",
    requests.ContextRequest,
    responses.ContextResponse,
    _build_context,
    "Build what an agent should read before a task: a prompt within a budget, with citations.",
)


class _Parameters(BaseModel):
    """The parameters of an address; one that is empty is not set, and a list may be one text."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        given = cast("Mapping[str, Any]", data).items()
        single = {name: value[0] if is_list(value) and len(value) == 1 else value for name, value in given}
        required = (name for name, field in cls.model_fields.items() if field.is_required())
        values = normalize_filters(rename_aliases(cls, drop_unset(single, required)))
        if isinstance(history := values.get("history"), str):
            values["history"] = [history]  # JSON, which has commas of its own
        return values | ({"files": split_values(values["files"])} if "files" in values else {})


def _build_parameters(name: str, request: type[Any]) -> type[BaseModel]:
    parameters: dict[str, Any] = {}
    for declared in (request, Filters):
        hints = get_type_hints(declared)
        for field in fields(declared):
            if is_dataclass(hints[field.name]):
                continue  # the filters, whose fields are parameters themselves
            if field.name == "history":
                history = (
                    "For `chat`: the conversation so far, oldest message first, each as JSON: "
                    '`{"role": "user", "content": "…"}`.'
                )
                parameters[field.name] = (tuple[str, ...], Field(default=(), description=history))
                continue
            default = ... if field.default is MISSING else field.default
            parameters[field.name] = (hints[field.name], Field(default=default, **field.metadata))
    return create_model(name, __base__=_Parameters, **parameters)


if TYPE_CHECKING:  # a type checker does not see what is built
    SearchParameters = ContextParameters = BaseModel
else:
    SearchParameters = _build_parameters("SearchParameters", requests.SearchRequest)
    ContextParameters = _build_parameters("ContextParameters", requests.ContextRequest)


@routes.get(
    "/semantic",
    operation_id="semantic_by_get",
    summary="Semantic",
    tags=["search"],
    response_model=responses.SearchResponse,
    responses=BODILESS_PROBLEMS | _STREAMED_RESPONSES | _LONG_ADDRESS,
)
@routes.get(
    "/search",
    operation_id="search_by_get",
    tags=["search"],
    response_model=responses.SearchResponse,
    responses=BODILESS_PROBLEMS | _STREAMED_RESPONSES | _LONG_ADDRESS,
)
async def search(parameters: Annotated[SearchParameters, Query()], ctx: CurrentContext) -> Response:
    """Find the results that answer a query best, with all that `search` takes as parameters."""
    return await _search(ctx, _to_request(requests.SearchRequest, parameters))


@routes.get(
    "/context",
    operation_id="context_by_get",
    tags=["search"],
    response_model=responses.ContextResponse,
    responses=BODILESS_PROBLEMS | _LONG_ADDRESS,
)
async def context(parameters: Annotated[ContextParameters, Query()], ctx: CurrentContext) -> JSONResponse:
    """Build what an agent should read before a task, with all that `context` takes as parameters."""
    return await _build_context(ctx, _to_request(requests.ContextRequest, parameters))


def _to_request(kind: type[RequestT], parameters: BaseModel) -> RequestT:
    values = {name: getattr(parameters, name) for name in parameters.model_fields_set}
    filters = build_filters({name: values.pop(name) for name in FILTER_NAMES if name in values})
    if "history" in values:
        values["history"] = tuple(turn for text in values["history"] for turn in requests.parse_history(text))
    return kind(**values, filters=filters)


class ToolListResponse(BaseModel):
    """The value of `tools` in a request to a model."""

    tools: list[dict[str, Any]]


@routes.get(
    "/tools",
    tags=["search"],
    response_model=ToolListResponse,
    responses=problem_responses(401, 403, 421, 422, 429, 500, 503, 504),
)
async def list_tools(
    ctx: CurrentContext,
    format: Annotated[
        ToolFormat, Query(description="Which of OpenAI's APIs the schema is for.")
    ] = "chat_completions",
) -> JSONResponse:
    """The search as a tool, for the request to a model."""

    async def list_search_tool(*_: object) -> list[dict[str, Any]]:
        return [build_search_tool(format)]

    return JSONResponse({"tools": await ctx.execute(list_search_tool)})


_add_query(
    f"tools/{TOOL_NAME}",
    KnowledgeQueryInput,
    responses.SearchResponse,
    _call_search_tool,
    "Run a model's call: the body is the arguments of the call, as the model wrote them.",
    operation_id=TOOL_NAME,
    title="Call Search Tool",
)

for _method, _operation in requests.GRAPH_OPERATIONS.items():
    _request_type = requests.GraphTargetRequest
    if _operation.default_depth is not None:
        _request_type = (
            requests.CallGraphRequest if _operation.has_direction else requests.GraphTraversalRequest
        )
    _add_query(
        f"graph/{_operation.path}",
        _request_type,
        responses.GraphResponse,
        _query_graph(_method),
        _operation.summary,
        tag="code graph",
        title=_operation.title,
    )

_add_query(
    "related",
    requests.RelationsRequest,
    responses.RelationsResponse,
    lambda ctx, body: ctx.respond(
        lambda base, access: base.related(body.target, max_age=body.max_age, access=access)
    ),
    "How a document is related to others: what it closes, implements, references; what mentions it.",
    tag="documents",
    operation_id="related_documents",
    title="Related",
)


class _KnowledgeIdConvertor(Convertor[str]):
    """A chunk's id, `source:uri`, or a key with a capital or a digit: nothing that names another route."""

    regex = r"[0-9a-f]{32}|[^/:]+:(?s:.+)|(?=[a-z_.-]*[A-Z0-9])[A-Za-z0-9_.-]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("knowledge_id", _KnowledgeIdConvertor())

_ID = "An `id` of a result, `source:uri` of a document, or its key: `PAY-12`; a slash in it is written `%2F`."
KnowledgeId = Annotated[
    str, Path(min_length=1, description=_ID, examples=["docs:guides/retries.md"], **mark_limits("id_chars"))
]
Blame = Annotated[bool, Query(description="Say who last changed the lines of each chunk, by git.")]
MaxAge = Annotated[str | None, Query(**requests.MAX_AGE)]

id_routes = APIRouter(
    prefix=PREFIX,
    tags=["documents"],
    responses=BODILESS_PROBLEMS,
    generate_unique_id_function=attrgetter("name"),
)
"""To be included after all others of the prefix."""


@id_routes.get(
    "/docs/{id:knowledge_id}/export",
    operation_id="export_document",
    response_class=Response,
    responses={
        200: {
            "description": "The document as a text file.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
)
async def export(id: KnowledgeId, ctx: CurrentContext) -> Response:
    """Return a document as a file: its indexed text, secrets redacted."""
    if bytes(ctx.request.scope.get("raw_path", b"")).lower().endswith(b"%2fexport"):
        return await document(f"{id}/export", ctx)  # the end of the id, not of the route
    answer = await ctx.execute(lambda base, access: load_document(base, id, access))
    name = PurePosixPath(answer.path).name or "document"
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(answer.text.encode("utf-8", "replace"), media_type="text/plain", headers=headers)


@id_routes.get(
    "/trace/{id:knowledge_id}", operation_id="trace_result", response_model=responses.TraceResponse
)
async def trace(id: KnowledgeId, ctx: CurrentContext, max_age: MaxAge = None) -> JSONResponse:
    """Return what made a chunk: the document as read, the refresh, its Dagster run, the first release."""
    return await ctx.respond(lambda base, access: base.trace(id, max_age=max_age, access=access))


@id_routes.get(
    "/docs/{id:knowledge_id}", operation_id="get_document", response_model=responses.DocumentResponse
)
async def document(id: KnowledgeId, ctx: CurrentContext, max_age: MaxAge = None) -> Response:
    """Return a document, assembled from its chunks; for a chunk's id, the document that holds it."""
    return await ctx.respond(lambda base, access: load_document(base, id, access, max_age))


@id_routes.get("/{id:knowledge_id}", response_model=responses.SearchResponse)
async def get_chunk(
    id: KnowledgeId, ctx: CurrentContext, blame: Blame = False, max_age: MaxAge = None
) -> JSONResponse:
    """Return one chunk, or all chunks of a document in order."""
    return await ctx.respond(lambda base, access: base.get(id, blame=blame, max_age=max_age, access=access))
