"""Searches, and the context of an agent's task, over HTTP: as JSON, or as a stream of events on request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.sse import format_sse_event

from knowledge_pipeline.contract.filters import SearchType
from knowledge_pipeline.contract.requests import (
    ContextRequest,
    DocumentQueryRequest,
    QueryRequest,
    SearchRequest,
    SimilarRequest,
    TicketQueryRequest,
)
from knowledge_pipeline.contract.responses import ContextResponse, SearchResponse
from knowledge_pipeline.serve.http.dependencies import AnswerResponse, CurrentContext, RequestContext
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses

EVENT_STREAM = "text/event-stream"
STREAMED_RESPONSES: dict[int | str, dict[str, Any]] = {
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
"""The `responses` of a route whose answers can be streamed."""


def to_response(request: Request, answer: SearchResponse) -> Response:
    """An answer in the form that the request accepts."""
    if not wants_events(request.headers.get("accept", "")):
        return AnswerResponse(answer.as_json())
    headers = {"X-Accel-Buffering": "no"}  # a proxy sends on what it has
    return StreamingResponse(_iter_events(answer), media_type=EVENT_STREAM, headers=headers)


def wants_events(accept: str) -> bool:
    """Whether events are preferred to JSON by an `Accept` header."""
    wanted: dict[str, float] = {}
    for part in accept.split(","):
        kind, *parameters = (field.strip().lower() for field in part.split(";"))
        quality = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
        wanted[kind] = float(quality) if quality.replace(".", "", 1).isdecimal() else 0.0
    return wanted.get(EVENT_STREAM, 0.0) > wanted.get("application/json", 0.0)


def _iter_events(answer: SearchResponse) -> Iterator[bytes]:
    rest = answer.as_json()
    results = rest.pop("results")
    for result in results:
        yield format_sse_event(event="result", data_str=json.dumps(result, ensure_ascii=False))
    last = {**rest, "results": len(results)}
    yield format_sse_event(event="answer", data_str=json.dumps(last, ensure_ascii=False))


PREFIX = "/api/v1/knowledge"

routes = APIRouter(prefix=PREFIX, tags=["search"], responses=problem_responses(*QUERY_STATUSES))


@routes.post("/search", operation_id="search", response_model=SearchResponse, responses=STREAMED_RESPONSES)
async def search(body: SearchRequest, ctx: CurrentContext) -> Response:
    """Find the results that answer a query best."""
    return await answer_search(ctx, body)


@routes.post("/similar", operation_id="similar", response_model=SearchResponse, responses=STREAMED_RESPONSES)
async def similar(body: SimilarRequest, ctx: CurrentContext) -> Response:
    """Find results of other files that are similar to a text, or to an indexed file."""
    answer = await ctx.execute(
        lambda base, access: base.similar(
            text=body.text,
            path=body.path,
            source=body.source,
            filters=body.filters,
            limit=body.limit,
            explain=body.explain,
            mode=body.mode,
            access=access,
        )
    )
    return to_response(ctx.request, answer)


@routes.post("/query", operation_id="query", response_model=SearchResponse, responses=STREAMED_RESPONSES)
async def query(body: QueryRequest, ctx: CurrentContext) -> Response:
    """Search by the intent of the query: history, an implementation or a usage, otherwise everything."""
    return await _run_search(ctx, body, None)


@routes.post(
    "/query/code", operation_id="query_code", response_model=SearchResponse, responses=STREAMED_RESPONSES
)
async def query_code(body: QueryRequest, ctx: CurrentContext) -> Response:
    """Search source code alone, deeper than `search` does."""
    return await _run_search(ctx, body, "code")


@routes.post(
    "/query/tickets",
    operation_id="query_tickets",
    response_model=SearchResponse,
    responses=STREAMED_RESPONSES,
)
async def query_tickets(body: TicketQueryRequest, ctx: CurrentContext) -> Response:
    """Search issues, discussions, tickets and pull requests alone."""
    return await _run_search(ctx, body, "semantic")


@routes.post(
    "/query/docs", operation_id="query_docs", response_model=SearchResponse, responses=STREAMED_RESPONSES
)
async def query_docs(body: DocumentQueryRequest, ctx: CurrentContext) -> Response:
    """Search documents alone: Markdown, wiki pages, files, API descriptions, records."""
    return await _run_search(ctx, body, "semantic")


@routes.post("/context", operation_id="context", response_model=ContextResponse)
async def context(body: ContextRequest, ctx: CurrentContext) -> JSONResponse:
    """Build what an agent should read before a task: a prompt within a budget, with citations."""
    return await answer_context(ctx, body)


async def answer_search(ctx: RequestContext, body: SearchRequest) -> Response:
    """The response to a search of a type."""
    return await _run_search(ctx, body, body.type)


async def answer_context(ctx: RequestContext, body: ContextRequest) -> JSONResponse:
    """The response to a request for a context."""
    return await ctx.respond(
        lambda base, access: base.context(
            body, max_tokens=body.max_tokens, template=body.template, access=access
        )
    )


async def _run_search(ctx: RequestContext, body: QueryRequest, type: SearchType | None) -> Response:
    answer = await ctx.execute(
        lambda base, access: base.search(
            body.query,
            type=type,
            filters=body.filters,
            limit=body.wanted_results,
            explain=body.explain,
            blame=body.blame,
            mode=body.mode,
            access=access,
        )
    )
    if not body.include_metadata:
        answer = replace(answer, results=tuple(replace(result, metadata={}) for result in answer.results))
    return to_response(ctx.request, answer)
