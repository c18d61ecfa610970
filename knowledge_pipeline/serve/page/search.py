"""The search page itself, and judgements of its results."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.contract.describe import describe_doubt, describe_skipped_step
from knowledge_pipeline.contract.filters import Judgement
from knowledge_pipeline.contract.operation import StatusResponse
from knowledge_pipeline.errors import Forbidden, InvalidQuery, KnowledgeError, NotFound
from knowledge_pipeline.file_languages import LANGUAGES
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.understand import understand
from knowledge_pipeline.serve.http.dependencies import RequestContext
from knowledge_pipeline.serve.page.markdown_html import TermMatcher
from knowledge_pipeline.serve.page.progress import list_progress, render_unreleased
from knowledge_pipeline.serve.page.rendering import PageRoute, render_error, render_page, safe_redirect_path
from knowledge_pipeline.serve.page.results import (
    FILTER_NAMES,
    LIMIT_STEP,
    TABS,
    PageQuery,
    build_result_views,
    count_facets,
)
from knowledge_pipeline.serve.page.sessions import PageContext, read_form

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_SUGGESTION = re.compile(r"did you mean (.+)\?$")


Hint = tuple[str, str]
"""A suggestion if nothing was found: its text and address."""


@routes.get("/")
async def search(request: Request, ctx: PageContext) -> Response:
    """The results of a query; without one, what is indexed."""
    page_query = PageQuery.from_params(request.query_params)
    try:
        render = _render_results if page_query.q else _render_home
        return await render(request, ctx, page_query)
    except Forbidden:
        raise
    except KnowledgeError as error:
        return render_error(request, error, page_query=page_query)


async def _render_home(request: Request, ctx: RequestContext, page_query: PageQuery) -> Response:
    try:
        status = await ctx.execute(lambda base, access: base.status(access=access))
    except NotFound:
        return render_unreleased(request, ctx, page_query)
    return render_page(
        request, "home.html.j2", page_query=page_query, live=status, running=list_progress(ctx)
    )


async def _render_results(request: Request, ctx: RequestContext, page_query: PageQuery) -> Response:
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
    matcher = TermMatcher(page_query.q if page_query.type != "similar" else "")
    results = await asyncio.to_thread(build_result_views, answer, matcher, page_query.q)
    most, more_url = ctx.service.settings.limits.results, None
    if len(results) == page_query.limit < most:
        more_url = page_query.url(limit=min(most, page_query.limit + LIMIT_STEP))
    explain = answer.explain or {}
    reasons: Mapping[str, Any] = explain.get("degraded", {})
    shown = {name: explain.get(name) for name in ("corrected", "generated", "filters", "confidence")}
    parts = {**explain.get("question", {}), **shown}
    return render_page(
        request,
        "search.html.j2",
        page_query=page_query,
        answer=answer,
        results=results,
        facets=count_facets(answer.results),
        hints=[] if results else await _list_hints(ctx, page_query),
        more_url=more_url,
        skipped_steps=[
            (describe_skipped_step(step, answer.embedded_share), _format_value(reasons.get(step, "")))
            for step in answer.degraded
        ],
        doubt=describe_doubt(answer),
        parsed_query=[(name, _format_value(value)[:500]) for name, value in parts.items() if value],
    )


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return "; ".join(f"{name}: {_format_value(inner)}" for name, inner in items)
    is_list = isinstance(value, list | tuple)
    return ", ".join(map(_format_value, cast("Sequence[Any]", value))) if is_list else str(value)


async def _list_hints(ctx: RequestContext, page_query: PageQuery) -> list[Hint]:
    """Similar names first, then fewer filters, then another type of search."""
    status = await ctx.execute(lambda base, access: base.status(access=access))
    hints = [*_suggest_filters(page_query, status), *await _suggest_symbols(ctx, page_query)]
    for name in FILTER_NAMES:
        if value := getattr(page_query, name):
            listed = value if isinstance(value, str) else ", ".join(value)
            url = page_query.url(**{name: "" if name == "since" else ()})
            hints.append((f"Without {name.replace('_', ' ')}: {listed}", url))
    if page_query.type != "semantic":
        hints.append((f"Search {TABS['semantic'].lower()}", page_query.url(type="semantic")))
    return hints


def _suggest_filters(page_query: PageQuery, status: StatusResponse) -> list[Hint]:
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


async def _suggest_symbols(ctx: RequestContext, page_query: PageQuery) -> list[Hint]:
    """Names in the code graph that are similar to an identifier of the query."""
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
