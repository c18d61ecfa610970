"""Questions over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter
from fastapi.responses import Response

from knowledge_pipeline.query.filters import Filters
from knowledge_pipeline.query.search.profiles import SearchType
from knowledge_pipeline.query.search.understand import Intent, understand
from knowledge_pipeline.serve.http.dependencies import Asks, Inquiry
from knowledge_pipeline.serve.http.models import (
    AnswerTold,
    DocumentsAsked,
    Likeness,
    Narrowed,
    Search,
    TicketsAsked,
)
from knowledge_pipeline.serve.http.problems import ANSWERING, problems
from knowledge_pipeline.serve.http.streaming import STREAMED, told

PREFIX = "/api/v1/knowledge"

_TYPES: Mapping[Intent, SearchType] = {
    "find_history": "historical",
    "find_implementation": "code",
    "find_usage": "code",
}

routes = APIRouter(prefix=PREFIX, tags=["search"], responses=problems(*ANSWERING))
_streamed = {"response_model": AnswerTold, "responses": STREAMED}


@routes.post("/search", operation_id="search", **_streamed)
async def search(body: Search, asks: Asks) -> Response:
    """Find the passages that answer a question best."""
    return await _found(asks, body, body.type, body.filters.meant())


@routes.post("/similar", operation_id="similar", **_streamed)
async def similar(body: Likeness, asks: Asks) -> Response:
    """Find passages of other files that are like a text, or like an indexed file."""
    how = {"filters": body.filters.meant(), "limit": body.limit, "explain": body.explain}
    like = {"text": body.text, "path": body.path, "source": body.source}
    answer = await asks.ask(lambda base, access: base.asimilar(**like, **how, access=access))
    return told(asks.request, answer)


@routes.post("/query", operation_id="query", **_streamed)
async def query(body: Narrowed, asks: Asks) -> Response:
    """Search by what the question is after: history, an implementation or a usage, else everything."""
    type_ = _TYPES.get(understand(body.query).intent, "semantic")
    return await _found(asks, body, type_, body.filters.meant())


@routes.post("/query/code", operation_id="query_code", **_streamed)
async def query_code(body: Narrowed, asks: Asks) -> Response:
    """Search source code alone, deeper than `search` does."""
    return await _found(asks, body, "code", body.filters.meant())


@routes.post("/query/tickets", operation_id="query_tickets", **_streamed)
async def query_tickets(body: TicketsAsked, asks: Asks) -> Response:
    """Search issues, tickets and pull requests alone."""
    return await _found(asks, body, "semantic", body.filters.meant())


@routes.post("/query/docs", operation_id="query_docs", **_streamed)
async def query_docs(body: DocumentsAsked, asks: Asks) -> Response:
    """Search documents alone: Markdown, wiki pages, files, API descriptions, records."""
    return await _found(asks, body, "semantic", body.filters.meant())


async def _found(asks: Inquiry, body: Narrowed, type_: SearchType, filters: Filters) -> Response:
    how = {"type": type_, "filters": filters, "limit": body.limit, "explain": body.explain}
    answer = await asks.ask(lambda base, access: base.asearch(body.query, **how, access=access))
    return told(asks.request, answer)
