"""Pages about one document: all of it, what is like it, what it is related to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.excerpts import Excerpt, Part, excerpts
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.search.assemble import Answer, Result
from knowledge_pipeline.serve.page import links
from knowledge_pipeline.serve.page.page_query import Asked
from knowledge_pipeline.serve.page.rendering import PageRoute, page
from knowledge_pipeline.serve.page.results import Line, code_lines, is_shown_as_code, prose_of, shown
from knowledge_pipeline.serve.page.sessions import Visiting
from knowledge_pipeline.serve.page.term_matching import Marks

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_SIMILAR = 10
_OUTLINED = 500


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines of a document that follow each other."""

    start_line: int
    end_line: int
    lines: tuple[Line, ...]
    prose: Markup | None


@routes.get("/doc")
async def document(request: Request, visiting: Visiting) -> Response:
    """A whole document, with the lines that were asked for marked."""
    given = request.query_params
    id_, q = _id(request), given.get("q", "")[:1000]
    answer = await visiting.ask(lambda base, access: _whole(base, id_, access))
    first = answer.results[0]
    as_code, span = is_shown_as_code(first), links.span_of(given.get("lines", ""))
    plainly = as_code or given.get("view") == "source"
    how: dict[str, Any] = {"span": span, "marks": Marks(q), "plainly": plainly}
    pieces = await asyncio.to_thread(_pieces, answer.results, **how)
    url = first.citation.url
    return page(
        request,
        "document.html.j2",
        asked=Asked(q=q),
        answer=answer,
        first=first,
        id=f"{first.citation.source}:{first.span.uri}",
        source_url=links.followed(url.removesuffix(f"#{first.citation.lines}") if url else None),
        pieces=pieces,
        outline=_outline(answer.results),
        other_view=None if as_code else _other_view(request, plainly=plainly),
        plainly=plainly,
    )


@routes.get("/similar")
async def similar(request: Request, visiting: Visiting) -> Response:
    """Passages of other files that are like a passage or a document."""
    id_ = _id(request)
    like, answer = await visiting.ask(lambda base, access: _similar(base, id_, access))
    results = await asyncio.to_thread(shown, answer, Marks(""), "")
    return page(request, "similar.html.j2", like=like, answer=answer, results=results)


@routes.get("/related")
async def related(request: Request, visiting: Visiting) -> Response:
    """What a document says of others, and what others say of it."""
    target = _id(request)
    found = await visiting.ask(lambda base, access: base.arelated(target, access=access))
    return page(request, "related.html.j2", target=target, found=found)


def _id(request: Request) -> str:
    id_ = request.query_params.get("id", "")
    if not id_:
        raise QuestionRefused("the address names no document: open one from the results of a search")
    return id_


async def _whole(base: KnowledgeBase, id_: str, access: Access) -> Answer:
    answer = await base.aget(id_, access=access)
    first = answer.results[0]
    if first.id == id_:
        document = f"{first.citation.source}:{first.span.uri}"
        answer = await base.aget(document, access=access)
    return answer


async def _similar(base: KnowledgeBase, id_: str, access: Access) -> tuple[Result, Answer]:
    """What others shall be like, and those that are."""
    first = (await base.aget(id_, access=access)).results[0]
    where: dict[str, Any] = {"path": first.citation.path, "source": first.citation.source}
    text = first.content if first.id == id_ else None
    found = await base.asimilar(text=text, **where, limit=_SIMILAR, explain=True, access=access)
    return first, found


def _pieces(
    results: Sequence[Result], *, span: tuple[int, int] | None, marks: Marks, plainly: bool
) -> list[Piece]:
    found = list[Piece]()
    for excerpt in excerpts(map(Part.whole, results)):
        first = excerpt.parts[0].result
        lines, prose = list[Line](), None
        if plainly:
            lines = code_lines(first, excerpt.text, excerpt.start_line, marks, folding=False)
            lines = [
                replace(line, hit=span is not None and span[0] <= line.number <= span[1]) for line in lines
            ]
        else:
            prose = prose_of(first, excerpt.text, marks, first_line=excerpt.start_line)
        found.append(Piece(excerpt.start_line, _last_line(excerpt), tuple(lines), prose))
    return found


def _last_line(excerpt: Excerpt) -> int:
    return excerpt.start_line + excerpt.text.count("\n")


def _outline(results: Sequence[Result]) -> list[tuple[str, int]]:
    """What the document defines or is about, with the lines where each begins; each name once."""
    found: dict[str, int] = {}
    for result in results:
        name = str(result.metadata.get("symbol") or result.metadata.get("section") or "")
        if name and len(found) < _OUTLINED:
            found.setdefault(name, result.span.start_line)
    return list(found.items())


def _other_view(request: Request, *, plainly: bool) -> str:
    given = {name: value for name, value in request.query_params.items() if name in ("id", "q", "lines")}
    return f"/doc?{urlencode(given if plainly else {**given, 'view': 'source'})}"
