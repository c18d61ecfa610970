"""Runs the searches of a context's configured sections, besides those of the task's kind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from knowledge_pipeline.config.context_sections import SectionSettings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses.context import ContextSection
from knowledge_pipeline.contract.responses.search import SearchResponse, SearchResult
from knowledge_pipeline.contract.types import SearchType, SectionType
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.prompt_templates import render_query
from knowledge_pipeline.query.agent_context.task_text import (
    build_query,
    describe_task,
    get_example,
    neutralize_filters,
)
from knowledge_pipeline.query.code_graph.used_types import CodePlace
from knowledge_pipeline.query.search.engine import Engine

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task

_QUERY_CHARS = 4_000
_LINKING_RESULTS = 3  # of code, whose types are shown
_CONVENTIONS = "coding conventions, style and best practices {{ languages | join(' ') }} {{ task }}"
_CONVENTION_NAMES = ("contributing", "conventions", "coding", "style", "guidelines", "best-practices")
_CONVENTION_PATHS = Filters(
    paths=(
        *(f"**/{form}*" for name in _CONVENTION_NAMES for form in (name, name.upper(), name.capitalize())),
        *(f"**/{name}*/**" for name in _CONVENTION_NAMES),
        "**/AGENTS.md",
    )
)
_SEARCH_TYPES: Mapping[SectionType, SearchType] = {
    "semantic": "semantic",
    "code": "code",
    "similar": "similar",
    "historical": "historical",
    "conventions": "semantic",
}


@dataclass(frozen=True, slots=True)
class SectionResults:
    """A section, and what its search found, best first."""

    section: ContextSection
    results: tuple[SearchResult, ...] = ()
    release: int | None = None  # None: its search failed
    error: KnowledgeError | None = None


async def run_sections(
    engine: Engine,
    access: Access,
    task: Task,
    sections: Sequence[SectionSettings],
    *,
    code: Sequence[SearchResult],
) -> list[SectionResults]:
    """The results of all sections, in their order; a search that fails has a problem.

    Type definitions are those that the task's files, and the best `code` that was found, refer to.
    """
    found = await asyncio.gather(*(_run_section(engine, access, task, each, code) for each in sections))
    return list(found)


def require_release(found: Iterable[SectionResults], release: int) -> list[SectionResults]:
    """The sections, without what is of another release than the rest of the context."""
    return [
        each
        if each.release in (None, release)
        else SectionResults(
            replace(
                each.section, problem=f"it searched release {each.release}, the others {release}: try again"
            )
        )
        for each in found
    ]


async def _run_section(
    engine: Engine, access: Access, task: Task, settings: SectionSettings, code: Sequence[SearchResult]
) -> SectionResults:
    query = _build_section_query(task, settings)
    heading = settings.heading or settings.name
    section = ContextSection(settings.name, heading, settings.type, query, settings.share)
    try:
        if settings.type == "type_definitions":
            response = await _find_type_definitions(engine, access, task, code, settings.limit)
        else:
            use_defaults = settings.type == "conventions" and settings.filters == Filters()
            response = await engine.search(
                query,
                access,
                type=_SEARCH_TYPES[settings.type],
                filters=task.filters,
                within=_CONVENTION_PATHS if use_defaults else settings.filters,
                limit=settings.limit,
                explain=True,
                diverse=False,
            )
    except KnowledgeError as error:
        return SectionResults(replace(section, problem=str(error)), error=error)
    reasons = dict((response.explain or {}).get("degraded", {}))
    completed = replace(
        section,
        found=len(response.results),
        took_ms=response.took_ms,
        degraded={step: reasons.get(step, "") for step in response.degraded},
    )
    return SectionResults(completed, response.results, response.release)


def _build_section_query(task: Task, settings: SectionSettings) -> str:
    """The section's own query, else the task's; what the task says is text in it, and never a filter."""
    if settings.type == "type_definitions":
        return ", ".join(task.paths) or "the code that was found"
    if settings.query is None and settings.type != "conventions":
        example = get_example(task) if settings.type == "similar" else None
        return example or build_query(task)[0]
    place = f"the query of the section {settings.name} in context.sections"
    return neutralize_filters(render_query(settings.query or _CONVENTIONS, place, describe_task(task)))[
        :_QUERY_CHARS
    ]


async def _find_type_definitions(
    engine: Engine, access: Access, task: Task, code: Sequence[SearchResult], limit: int
) -> SearchResponse:
    places: list[CodePlace] = [(path, task.source) for path in task.paths]
    places += [
        (f"{each.citation.path}:{each.span.start_line}", each.citation.source)
        for each in code[:_LINKING_RESULTS]
    ]
    types = await engine.find_used_types(places, access)
    lines = (
        (node.source, node.path, int(node.lines[1:].partition("-")[0]))
        for node in types
        if node.source and node.path and node.lines
    )
    filters = replace(task.filters, source_types=("code",))
    response = await engine.read_lines(list(lines)[: 2 * limit], access, filters)
    return replace(response, results=response.results[:limit])
