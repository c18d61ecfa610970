"""Questions over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter
from fastapi.responses import Response

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.types import SearchType
from knowledge_pipeline.query.search.understand import Intent, understand
from knowledge_pipeline.serve.http.dependencies import CurrentContext, RequestContext
from knowledge_pipeline.serve.http.models import (
    DocumentQueryRequest,
    QueryRequest,
    SearchRequestBody,
    SearchResponse,
    SimilarRequest,
    TicketQueryRequest,
)
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.streaming import STREAMED_RESPONSES, to_response

PREFIX = "/api/v1/knowledge"

_TYPE_BY_INTENT: Mapping[Intent, SearchType] = {
    "find_history": "historical",
    "find_implementation": "code",
    "find_usage": "code",
}

routes = APIRouter(prefix=PREFIX, tags=["search"], responses=problem_responses(*QUERY_STATUSES))
_STREAMED_ROUTE = {"response_model": SearchResponse, "responses": STREAMED_RESPONSES}


@routes.post("/search", operation_id="search", **_STREAMED_ROUTE)
async def search(body: SearchRequestBody, ctx: CurrentContext) -> Response:
    """Find the passages that answer a question best."""
    return await _run_search(ctx, body, body.type, body.filters.to_filters())


@routes.post("/similar", operation_id="similar", **_STREAMED_ROUTE)
async def similar(body: SimilarRequest, ctx: CurrentContext) -> Response:
    """Find passages of other files that are like a text, or like an indexed file."""
    how = {"filters": body.filters.to_filters(), "limit": body.limit, "explain": body.explain}
    like = {"text": body.text, "path": body.path, "source": body.source}
    answer = await ctx.execute(lambda base, access: base.asimilar(**like, **how, access=access))
    return to_response(ctx.request, answer)


@routes.post("/query", operation_id="query", **_STREAMED_ROUTE)
async def query(body: QueryRequest, ctx: CurrentContext) -> Response:
    """Search by what the question is after: history, an implementation or a usage, else everything."""
    type_ = _TYPE_BY_INTENT.get(understand(body.query).intent, "semantic")
    return await _run_search(ctx, body, type_, body.filters.to_filters())


@routes.post("/query/code", operation_id="query_code", **_STREAMED_ROUTE)
async def query_code(body: QueryRequest, ctx: CurrentContext) -> Response:
    """Search source code alone, deeper than `search` does."""
    return await _run_search(ctx, body, "code", body.filters.to_filters())


@routes.post("/query/tickets", operation_id="query_tickets", **_STREAMED_ROUTE)
async def query_tickets(body: TicketQueryRequest, ctx: CurrentContext) -> Response:
    """Search issues, tickets and pull requests alone."""
    return await _run_search(ctx, body, "semantic", body.filters.to_filters())


@routes.post("/query/docs", operation_id="query_docs", **_STREAMED_ROUTE)
async def query_docs(body: DocumentQueryRequest, ctx: CurrentContext) -> Response:
    """Search documents alone: Markdown, wiki pages, files, API descriptions, records."""
    return await _run_search(ctx, body, "semantic", body.filters.to_filters())


async def _run_search(
    ctx: RequestContext, body: QueryRequest, type_: SearchType, filters: Filters
) -> Response:
    how = {"type": type_, "filters": filters, "limit": body.limit, "explain": body.explain}
    answer = await ctx.execute(lambda base, access: base.asearch(body.query, **how, access=access))
    return to_response(ctx.request, answer)
