"""Pages about one document: all of it, what is like it, what it is related to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from knowledge_pipeline.contract.responses import SearchResponse, SearchResult
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.excerpts import ChunkPart, Excerpt, build_excerpts
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.serve.page import links
from knowledge_pipeline.serve.page.page_query import PageQuery
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page
from knowledge_pipeline.serve.page.results import (
    CodeLine,
    build_code_lines,
    build_result_views,
    is_shown_as_code,
    render_prose,
)
from knowledge_pipeline.serve.page.sessions import PageContext
from knowledge_pipeline.serve.page.term_matching import TermMatcher

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_SIMILAR_LIMIT = 10
_MAX_OUTLINE = 500


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """Lines of a document that follow each other."""

    start_line: int
    end_line: int
    lines: tuple[CodeLine, ...]
    prose: Markup | None


@routes.get("/doc")
async def document(request: Request, ctx: PageContext) -> Response:
    """A whole document, with the lines that were asked for marked."""
    given = request.query_params
    id_, q = _require_id(request), given.get("q", "")[:1000]
    answer = await ctx.execute(lambda base, access: _load_document(base, id_, access))
    first = answer.results[0]
    as_code, span = is_shown_as_code(first), links.parse_line_range(given.get("lines", ""))
    plainly = as_code or given.get("view") == "source"
    how: dict[str, Any] = {"span": span, "marks": TermMatcher(q), "plainly": plainly}
    pieces = await asyncio.to_thread(_build_blocks, answer.results, **how)
    url = first.citation.url
    return render_page(
        request,
        "document.html.j2",
        asked=PageQuery(q=q),
        answer=answer,
        first=first,
        id=f"{first.citation.source}:{first.span.uri}",
        source_url=links.web_url_of(url.removesuffix(f"#{first.citation.lines}") if url else None),
        pieces=pieces,
        outline=_build_outline(answer.results),
        other_view=None if as_code else _other_view_url(request, as_source=plainly),
        plainly=plainly,
    )


@routes.get("/similar")
async def similar(request: Request, ctx: PageContext) -> Response:
    """Passages of other files that are like a passage or a document."""
    id_ = _require_id(request)
    like, answer = await ctx.execute(lambda base, access: _find_similar(base, id_, access))
    results = await asyncio.to_thread(build_result_views, answer, TermMatcher(""), "")
    return render_page(request, "similar.html.j2", like=like, answer=answer, results=results)


@routes.get("/related")
async def related(request: Request, ctx: PageContext) -> Response:
    """What a document says of others, and what others say of it."""
    target = _require_id(request)
    found = await ctx.execute(lambda base, access: base.arelated(target, access=access))
    return render_page(request, "related.html.j2", target=target, found=found)


def _require_id(request: Request) -> str:
    id_ = request.query_params.get("id", "")
    if not id_:
        raise InvalidQuery("the address names no document: open one from the results of a search")
    return id_


async def _load_document(base: KnowledgeBase, id_: str, access: Access) -> SearchResponse:
    answer = await base.aget(id_, access=access)
    first = answer.results[0]
    if first.id == id_:
        document = f"{first.citation.source}:{first.span.uri}"
        answer = await base.aget(document, access=access)
    return answer


async def _find_similar(base: KnowledgeBase, id_: str, access: Access) -> tuple[SearchResult, SearchResponse]:
    """What others shall be like, and those that are."""
    first = (await base.aget(id_, access=access)).results[0]
    where: dict[str, Any] = {"path": first.citation.path, "source": first.citation.source}
    text = first.content if first.id == id_ else None
    found = await base.asimilar(text=text, **where, limit=_SIMILAR_LIMIT, explain=True, access=access)
    return first, found


def _build_blocks(
    results: Sequence[SearchResult], *, span: tuple[int, int] | None, matcher: TermMatcher, as_source: bool
) -> list[DocumentBlock]:
    found = list[DocumentBlock]()
    for excerpt in build_excerpts(map(ChunkPart.from_result, results)):
        first = excerpt.parts[0].result
        lines, prose = list[CodeLine](), None
        if as_source:
            lines = build_code_lines(first, excerpt.text, excerpt.start_line, matcher, fold=False)
            lines = [
                replace(line, hit=span is not None and span[0] <= line.number <= span[1]) for line in lines
            ]
        else:
            prose = render_prose(first, excerpt.text, matcher, first_line=excerpt.start_line)
        found.append(DocumentBlock(excerpt.start_line, _last_line(excerpt), tuple(lines), prose))
    return found


def _last_line(excerpt: Excerpt) -> int:
    return excerpt.start_line + excerpt.text.count("\n")


def _build_outline(results: Sequence[SearchResult]) -> list[tuple[str, int]]:
    """What the document defines or is about, with the lines where each begins; each name once."""
    found: dict[str, int] = {}
    for result in results:
        name = str(result.metadata.get("symbol") or result.metadata.get("section") or "")
        if name and len(found) < _MAX_OUTLINE:
            found.setdefault(name, result.span.start_line)
    return list(found.items())


def _other_view_url(request: Request, *, as_source: bool) -> str:
    given = {name: value for name, value in request.query_params.items() if name in ("id", "q", "lines")}
    return f"/doc?{urlencode(given if as_source else {**given, 'view': 'source'})}"
