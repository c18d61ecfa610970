"""Searches, and the context of an agent's task, over HTTP."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from knowledge_pipeline.contract.requests import (
    ContextRequest,
    DocumentQueryRequest,
    QueryRequest,
    SearchRequest,
    SimilarRequest,
    TicketQueryRequest,
)
from knowledge_pipeline.contract.responses.context import ContextResponse
from knowledge_pipeline.contract.responses.search import SearchResponse
from knowledge_pipeline.contract.types import SearchType
from knowledge_pipeline.serve.http.dependencies import CurrentContext, RequestContext
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.streaming import STREAMED_RESPONSES, to_response

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
        answer = replace(answer, results=tuple(replace(each, metadata={}) for each in answer.results))
    return to_response(ctx.request, answer)
