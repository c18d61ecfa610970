"""The search page itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.errors import Forbidden, KnowledgeError, NotFound, QuestionRefused
from knowledge_pipeline.languages import LANGUAGES
from knowledge_pipeline.query.search.assemble import Answer
from knowledge_pipeline.query.search.profiles import MAX_RESULTS
from knowledge_pipeline.query.search.understand import understand
from knowledge_pipeline.query.status import Status
from knowledge_pipeline.serve.http.dependencies import Inquiry
from knowledge_pipeline.serve.page.page_query import MORE, NARROWING, TABS, Asked
from knowledge_pipeline.serve.page.rendering import PageRoute, page, told
from knowledge_pipeline.serve.page.results import facets, shown
from knowledge_pipeline.serve.page.sessions import Visiting
from knowledge_pipeline.serve.page.term_matching import Marks

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_WITHOUT: Mapping[str, str] = {
    "vector": "Searched by words alone: the embedding model could not be used.",
    "hyde": "Searched without a hypothetical answer: the language model did not make one.",
    "expansion": "Searched without related terms: the language model did not name any.",
    "decompose": "Searched as one question: the language model did not take it apart.",
    "graph": "Without what calls the code and what it calls: there is no code graph to read.",
    "rerank": "Not reranked: the reranker could not be used or took too long.",
}
_NEAR = re.compile(r"did you mean (.+)\?$")


@dataclass(frozen=True, slots=True)
class Hint:
    """Something to try where nothing was found."""

    told: str
    url: str


@routes.get("/")
async def search(request: Request, visiting: Visiting) -> Response:
    """What a question finds; without one, what there is to be found."""
    asked = Asked.of(request.query_params)
    try:
        if not asked.q:
            return await _home(request, visiting, asked)
        return await _found(request, visiting, asked)
    except Forbidden:
        raise
    except KnowledgeError as error:
        return told(request, error, asked=asked)


async def _home(request: Request, visiting: Inquiry, asked: Asked) -> Response:
    try:
        status = await visiting.ask(lambda base, access: base.astatus(access=access))
    except NotFound:
        return page(request, "unreleased.html.j2", asked=asked)
    return page(request, "home.html.j2", asked=asked, live=status)


async def _found(request: Request, visiting: Inquiry, asked: Asked) -> Response:
    how: dict[str, Any] = {"type": asked.type, "limit": asked.limit, "explain": True}
    how["filters"] = asked.filters()
    try:
        answer = await visiting.ask(lambda base, access: base.asearch(asked.q, access=access, **how))
    except NotFound:  # a search finds nothing otherwise
        return page(request, "unreleased.html.j2", asked=asked)
    marks = Marks(asked.q if asked.type != "similar" else "")
    results = await asyncio.to_thread(shown, answer, marks, asked.q)
    hints = [] if results else [hint async for hint in _hints(visiting, asked)]
    more = asked.url(limit=min(MAX_RESULTS, asked.limit + MORE)) if _may_have_more(answer, asked) else None
    return page(
        request,
        "search.html.j2",
        asked=asked,
        answer=answer,
        results=results,
        facets=facets(answer.results),
        hints=hints,
        more=more,
        lacking=list(_lacking(answer)),
        understood=_understood(answer),
    )


def _may_have_more(answer: Answer, asked: Asked) -> bool:
    return len(answer.results) == asked.limit < MAX_RESULTS


def _lacking(answer: Answer) -> list[tuple[str, str]]:
    """What the answer had to do without, and why."""
    why = (answer.explain or {}).get("degraded", {})
    return [
        (_WITHOUT.get(step, f"Answered without {step}."), _listed(why.get(step, "")))
        for step in answer.degraded
    ]


def _understood(answer: Answer) -> list[tuple[str, str]]:
    explain = answer.explain or {}
    question: Mapping[str, Any] = explain.get("question", {})
    every = {**question, **{name: explain.get(name) for name in ("generated", "filters")}}
    return [(name, _listed(value)[:500]) for name, value in every.items() if value]


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_listed(inner)}" for name, inner in value.items())
    return ", ".join(map(_listed, value)) if isinstance(value, list | tuple) else str(value)


async def _hints(visiting: Inquiry, asked: Asked) -> AsyncIterator[Hint]:
    """Near names first, then fewer filters, then another type of search."""
    status = await visiting.ask(lambda base, access: base.astatus(access=access))
    for hint in _near_filters(asked, status):
        yield hint
    for hint in await _near_symbols(visiting, asked):
        yield hint
    for name in NARROWING:
        if value := getattr(asked, name):
            listed = value if isinstance(value, str) else ", ".join(value)
            without = asked.url(**{name: "" if name == "since" else ()})
            yield Hint(f"Without {name.replace('_', ' ')}: {listed}", without)
    if asked.type != "semantic":
        yield Hint(f"Search {TABS['semantic'].lower()}", asked.url(type="semantic"))


def _near_filters(asked: Asked, status: Status) -> list[Hint]:
    known = {
        "source": list(status.by_source),
        "source_type": list(status.by_type),
        "language": list(LANGUAGES),
    }
    found = list[Hint]()
    for name, names in known.items():
        given: tuple[str, ...] = getattr(asked, name)
        for value in given:
            for near in get_close_matches(value.lower(), names, n=2) if value not in names else ():
                changed = tuple(near if each == value else each for each in given)
                found.append(
                    Hint(f"Did you mean the {name.replace('_', ' ')} {near}?", asked.url(**{name: changed}))
                )
    return found


async def _near_symbols(visiting: Inquiry, asked: Asked) -> list[Hint]:
    """Names in the code graph that are like the one that was asked for."""
    try:
        named = understand(asked.q).identifiers[:1]
        for name in named:
            await visiting.ask(lambda base, access: base.agraph.find_usages(name, limit=1, access=access))  # noqa: B023
    except (NotFound, QuestionRefused) as error:
        match = _NEAR.search(str(error))
        near = match[1].split(", ") if match else []
        return [Hint(f"Did you mean {name}?", asked.url(q=name)) for name in near]
    return []
