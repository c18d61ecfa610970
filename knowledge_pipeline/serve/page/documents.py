"""Pages about one document: the document itself, similar results, related documents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from markupsafe import Markup

from knowledge_pipeline.context.select import build_excerpts
from knowledge_pipeline.contract.base import QueryResponse
from knowledge_pipeline.contract.responses import SearchResponse, SearchResult
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.documents import document_id_of, document_url_of, read_document
from knowledge_pipeline.serve.page.markdown_html import TermMatcher
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page
from knowledge_pipeline.serve.page.results import (
    CodeLine,
    PageQuery,
    build_code_lines,
    build_result_views,
    is_shown_as_code,
    parse_line_range,
    render_prose,
    web_url_of,
)
from knowledge_pipeline.serve.page.sessions import PageContext

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_SIMILAR_LIMIT = 10
_MAX_OUTLINE = 500


async def _require_id(id: str = "") -> str:
    if not id:
        raise InvalidQuery("the address has no document id: open a document from the results of a search")
    return id


DocumentId = Annotated[str, Depends(_require_id)]


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """Consecutive lines of a document."""

    start_line: int
    end_line: int
    lines: tuple[CodeLine, ...]
    prose: Markup | None


@dataclass(frozen=True, slots=True)
class DocumentView:
    """What the page shows of a whole document."""

    blocks: tuple[DocumentBlock, ...]
    outline: tuple[tuple[str, int], ...]  # symbols or sections, and the line where each begins
    as_source: bool


@routes.get("/doc")
async def document(request: Request, ctx: PageContext, id_: DocumentId) -> Response:
    """A whole document, with the requested lines marked."""
    params = request.query_params
    q = params.get("q", "")[:1000]
    build = partial(
        _build_view,
        line_range=parse_line_range(params.get("lines", "")),
        matcher=TermMatcher(q),
        as_source=params.get("view") == "source",
    )
    answer, view = await ctx.execute(lambda base, access: read_document(base, id_, access, build))
    first = answer.results[0]
    other = {name: value for name, value in params.items() if name in ("id", "q", "lines")}
    if not view.as_source:
        other["view"] = "source"
    return render_page(
        request,
        "document.html.j2",
        page_query=PageQuery(q=q),
        answer=answer,
        first=first,
        id=document_id_of(first),
        source_url=web_url_of(document_url_of(first.citation)),
        blocks=view.blocks,
        outline=view.outline,
        other_view=None if is_shown_as_code(first) else f"/doc?{urlencode(other)}",
        as_source=view.as_source,
    )


@routes.get("/similar")
async def similar(request: Request, ctx: PageContext, id_: DocumentId) -> Response:
    """Results of other files that are similar to a chunk or a document."""
    example, answer = await ctx.execute(lambda base, access: _find_similar(base, id_, access))
    results = await asyncio.to_thread(build_result_views, answer, TermMatcher(""), "")
    return render_page(request, "similar.html.j2", example=example, answer=answer, results=results)


def _add_page(
    path: str, template: str, ask: Callable[[AsyncKnowledgeBase, str, Access], Awaitable[QueryResponse]]
) -> None:
    async def show(request: Request, ctx: PageContext, id_: DocumentId) -> Response:
        answer = await ctx.execute(lambda base, access: ask(base, id_, access))
        return render_page(request, template, target=id_, answer=answer)

    routes.add_api_route(path, show)


# What documents say of one another; who last changed the lines of a chunk; what made it.
_add_page("/related", "related.html.j2", lambda base, id_, access: base.related(id_, access=access))
_add_page("/blame", "blame.html.j2", lambda base, id_, access: base.get(id_, blame=True, access=access))
_add_page("/trace", "trace.html.j2", lambda base, id_, access: base.trace(id_, access=access))


async def _find_similar(
    base: AsyncKnowledgeBase, id_: str, access: Access
) -> tuple[SearchResult, SearchResponse]:
    """The chunk or document that serves as the example, and what is similar to it."""
    first = (await base.get(id_, access=access.unlogged)).results[0]
    answer = await base.similar(
        text=first.content if first.id == id_ else None,
        path=first.citation.path,
        source=first.citation.source,
        limit=_SIMILAR_LIMIT,
        explain=True,
        access=access,
    )
    return first, answer


def _build_view(
    answer: SearchResponse, *, line_range: tuple[int, int] | None, matcher: TermMatcher, as_source: bool
) -> DocumentView:
    """Code is always shown as its source."""
    as_source = as_source or is_shown_as_code(answer.results[0])
    blocks = list[DocumentBlock]()
    first_target, last_target = line_range or (1, 0)
    for excerpt in build_excerpts(answer.results):
        first = excerpt.parts[0]
        lines, prose = list[CodeLine](), None
        if as_source:
            lines = [
                replace(line, is_target=first_target <= line.number <= last_target)
                for line in build_code_lines(first, excerpt.text, excerpt.start_line, matcher, fold=False)
            ]
        else:
            prose = render_prose(first, excerpt.text, matcher, first_line=excerpt.start_line)
        end_line = excerpt.start_line + excerpt.text.count("\n")
        blocks.append(DocumentBlock(excerpt.start_line, end_line, tuple(lines), prose))
    return DocumentView(tuple(blocks), tuple(_build_outline(answer.results)), as_source)


def _build_outline(results: Sequence[SearchResult]) -> list[tuple[str, int]]:
    outline: dict[str, int] = {}
    for result in results:
        name = str(result.metadata.get("symbol") or result.metadata.get("section") or "")
        if name and len(outline) < _MAX_OUTLINE:
            outline.setdefault(name, result.span.start_line)
    return list(outline.items())
