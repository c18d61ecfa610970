"""Pages that query: the search itself and judgements, documents, and what is similar or related to them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, cast
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from markupsafe import Markup

from knowledge_pipeline.context.select import build_excerpts
from knowledge_pipeline.contract.base import QueryResponse
from knowledge_pipeline.contract.describe import describe_doubt, describe_skipped_step, format_nested
from knowledge_pipeline.contract.filters import Judgement
from knowledge_pipeline.contract.operation import StatusResponse
from knowledge_pipeline.contract.responses import SearchResponse, SearchResult
from knowledge_pipeline.errors import Forbidden, InvalidQuery, KnowledgeError, NotFound
from knowledge_pipeline.file_languages import LANGUAGES
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.known_values import TAKEN_AS_FILTERS
from knowledge_pipeline.query.plan import understand
from knowledge_pipeline.serve.documents import document_id_of, document_url_of, read_document
from knowledge_pipeline.serve.http.dependencies import RequestContext
from knowledge_pipeline.serve.page import results as views
from knowledge_pipeline.serve.page.markdown_html import TermMatcher
from knowledge_pipeline.serve.page.progress import list_progress, render_unreleased
from knowledge_pipeline.serve.page.rendering import PageRoute, render_error, render_page, safe_redirect_path
from knowledge_pipeline.serve.page.sessions import PageContext, read_form

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_SUGGESTION = re.compile(r"did you mean ([^?]+)\?")


Hint = tuple[str, str]
"""A suggestion if nothing was found: its text and address."""


@routes.get("/")
async def search(request: Request, ctx: PageContext) -> Response:
    """The results of a query; without one, what is indexed."""
    page_query = views.PageQuery.from_params(request.query_params)
    try:
        render = _render_results if page_query.q else _render_home
        return await render(request, ctx, page_query)
    except Forbidden:
        raise
    except KnowledgeError as error:
        return render_error(request, error, page_query=page_query)


async def _render_home(request: Request, ctx: RequestContext, page_query: views.PageQuery) -> Response:
    try:
        status = await ctx.execute(lambda base, access: base.status(access=access))
    except NotFound:
        return render_unreleased(request, ctx, page_query)
    return render_page(
        request, "home.html.j2", page_query=page_query, live=status, running=list_progress(ctx)
    )


async def _render_results(request: Request, ctx: RequestContext, page_query: views.PageQuery) -> Response:
    try:
        answer = await ctx.execute(
            lambda base, access: base.search(
                page_query.q,
                type=page_query.type,
                filters=page_query.to_filters(),
                limit=page_query.limit,
                explain=True,
                mode=page_query.mode,
                access=access,
            )
        )
    except NotFound:  # a search raises it only if nothing is released
        return render_unreleased(request, ctx, page_query)
    is_exact = page_query.mode in ("exact", "regex")  # then lines are marked, not words
    matcher = TermMatcher("" if page_query.type == "similar" or is_exact else page_query.q)
    results = await asyncio.to_thread(views.build_result_views, answer, matcher, page_query.q)
    most, more_url = ctx.service.settings.limits.results, None
    if len(results) == page_query.limit < most:
        more_url = page_query.url(limit=min(most, page_query.limit + views.LIMIT_STEP))
    explain = answer.explain or {}
    reasons: Mapping[str, Any] = explain.get("degraded", {})
    shown = {name: explain.get(name) for name in ("corrected", "generated", "filters", "confidence")}
    parts = {**explain.get("question", {}), **shown}
    match, likely = views.describe_match(answer)
    typed = views.list_typed_filters(page_query, explain.get("filters", ()))
    return render_page(
        request,
        "search.html.j2",
        page_query=page_query,
        answer=answer,
        results=results,
        match=match,
        likely=likely,
        typed=typed,
        notes=[note for note in answer.notes if not (typed and note.startswith(TAKEN_AS_FILTERS))],
        facets=views.count_facets(answer.results),
        hints=[] if results else await _list_hints(ctx, page_query, typed),
        more_url=more_url,
        skipped_steps=[
            (describe_skipped_step(step, answer.embedded_share), format_nested(reasons.get(step, "")))
            for step in answer.degraded
        ],
        doubt=describe_doubt(answer),
        parsed_query=[(name, format_nested(value)[:500]) for name, value in parts.items() if value],
    )


async def _list_hints(ctx: RequestContext, page_query: views.PageQuery, typed: Sequence[Hint]) -> list[Hint]:
    """Similar names first, then fewer filters, then another type of search."""
    status = await ctx.execute(lambda base, access: base.status(access=access))
    hints = [*_suggest_filters(page_query, status), *await _suggest_symbols(ctx, page_query)]
    hints += [(f"Without {term}", url) for term, url in typed]
    for name in views.FILTER_NAMES:
        if value := getattr(page_query, name):
            listed = value if isinstance(value, str) else ", ".join(value)
            url = page_query.url(**{name: "" if name == "since" else ()})
            hints.append((f"Without {name.replace('_', ' ')}: {listed}", url))
    if page_query.mode != "hybrid":
        hints.append((f"Search by {views.MODES['hybrid'].lower()}", page_query.url(mode="hybrid")))
    if page_query.type != "semantic":
        hints.append((f"Search {views.TABS['semantic'].lower()}", page_query.url(type="semantic")))
    return hints


def _suggest_filters(page_query: views.PageQuery, status: StatusResponse) -> list[Hint]:
    choices = {"source": status.by_source, "source_type": status.by_type, "language": LANGUAGES}
    hints = list[Hint]()
    for name, names in choices.items():
        values: tuple[str, ...] = getattr(page_query, name)
        for value in values:
            for near in get_close_matches(value.lower(), list(names), n=2) if value not in names else ():
                changed = tuple(near if other == value else other for other in values)
                text = f"Did you mean the {name.replace('_', ' ')} {near}?"
                hints.append((text, page_query.url(**{name: changed})))
    return hints


async def _suggest_symbols(ctx: RequestContext, page_query: views.PageQuery) -> list[Hint]:
    identifiers = understand(page_query.q).identifiers

    async def find_names(base: AsyncKnowledgeBase, access: Access) -> list[str]:
        try:  # unlogged, as the caller did not query the graph: a name that it does not have is no refusal
            await base.graph.find_usages(identifiers[0], limit=1, access=access.unlogged)
        except (NotFound, InvalidQuery) as error:
            match = _SUGGESTION.search(str(error))
            return match[1].split(", ") if match else []
        return []

    names = await ctx.execute(find_names) if identifiers else []
    return [(f"Did you mean {name}?", page_query.url(q=name)) for name in names]


@routes.post("/feedback")
async def judge(request: Request, ctx: PageContext) -> Response:
    """Record a judgement of a result; a script gets no content, a form a page that leads back."""
    fields = await read_form(request)
    query_id, result_id = fields.get("query_id", ""), fields.get("result_id", "")
    judgement = cast("Judgement", fields.get("judgement", ""))  # `afeedback` checks it
    await ctx.execute(lambda base, access: base.feedback(query_id, result_id, judgement, access=access))
    if fields.get("background"):
        return Response(status_code=204)
    return render_page(
        request, "thanks.html.j2", judgement=judgement, back=safe_redirect_path(fields.get("back", ""))
    )


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
    lines: tuple[views.CodeLine, ...]
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
        line_range=views.parse_line_range(params.get("lines", "")),
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
        page_query=views.PageQuery(q=q),
        answer=answer,
        first=first,
        id=document_id_of(first),
        source_url=views.web_url_of(document_url_of(first.citation)),
        blocks=view.blocks,
        outline=view.outline,
        other_view=None if views.is_shown_as_code(first) else f"/doc?{urlencode(other)}",
        as_source=view.as_source,
    )


@routes.get("/similar")
async def similar(request: Request, ctx: PageContext, id_: DocumentId) -> Response:
    """Results of other files that are similar to a chunk or a document."""
    example, answer = await ctx.execute(lambda base, access: _find_similar(base, id_, access))
    results = await asyncio.to_thread(views.build_result_views, answer, TermMatcher(""), "")
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
    outline: dict[str, int] = {}
    for result in answer.results:
        name = str(result.metadata.get("symbol") or result.metadata.get("section") or "")
        if name and len(outline) < _MAX_OUTLINE:
            outline.setdefault(name, result.span.start_line)
    as_source = as_source or views.is_shown_as_code(answer.results[0])
    blocks = list[DocumentBlock]()
    first_target, last_target = line_range or (1, 0)
    for excerpt in build_excerpts(answer.results):
        first = excerpt.parts[0]
        lines, prose = list[views.CodeLine](), None
        if as_source:
            lines = [
                replace(line, is_target=first_target <= line.number <= last_target)
                for line in views.build_code_lines(
                    first, excerpt.text, excerpt.start_line, matcher, fold=False
                )
            ]
        else:
            prose = views.render_prose(first, excerpt.text, matcher, first_line=excerpt.start_line)
        end_line = excerpt.start_line + excerpt.text.count("\n")
        blocks.append(DocumentBlock(excerpt.start_line, end_line, tuple(lines), prose))
    return DocumentView(tuple(blocks), tuple(outline.items()), as_source)
