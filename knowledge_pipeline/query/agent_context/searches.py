"""Runs the searches that suit an agent's task, all at once, and reports what each found or why it failed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, get_args

from knowledge_pipeline.contract.responses.context import SearchRun
from knowledge_pipeline.contract.responses.search import SearchResponse
from knowledge_pipeline.contract.types import DocumentType, SearchName, TaskKind
from knowledge_pipeline.errors import InvalidQuery, KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.select import LINKING_RESULTS, WeightedResults
from knowledge_pipeline.query.agent_context.similar_files import find_similar
from knowledge_pipeline.query.agent_context.task_text import build_query, get_example, name_files
from knowledge_pipeline.query.search.engine import Engine, SearchType

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task

_OF_QUESTIONS: Mapping[SearchName, float] = {
    "documents": 1.0,
    "code": 0.8,
    "tickets": 0.6,
    "history": 0.5,
    "similar": 0.5,
}
_WEIGHTS: Mapping[TaskKind, Mapping[SearchName, float]] = {
    "code_generation": {"code": 1.0, "similar": 0.9, "documents": 0.7, "history": 0.4, "tickets": 0.4},
    "code_review": {"code": 1.0, "similar": 1.0, "documents": 0.6, "history": 0.6, "tickets": 0.4},
    "merge_resolution": {"history": 1.0, "code": 1.0, "similar": 0.6, "tickets": 0.5, "documents": 0.4},
    "issue_resolution": {"code": 1.0, "tickets": 0.8, "history": 0.7, "documents": 0.7, "similar": 0.6},
    "complete_code": {"code": 1.0, "similar": 1.0, "documents": 0.3},
    "question": _OF_QUESTIONS,
    "chat": _OF_QUESTIONS,
}
_TYPES: Mapping[SearchName, SearchType] = {
    "code": "code",
    "documents": "semantic",
    "history": "historical",
    "tickets": "semantic",
    "similar": "similar",
}
_SOURCE_TYPES: Mapping[SearchName, tuple[str, ...]] = {
    "code": ("code",),
    "documents": get_args(DocumentType),
    "history": ("git_history", "github_pr"),
    "tickets": ("github_issues", "discussions", "jira", "slack"),
}
_FILE_SEARCHES = ("code", "history")  # searches whose query names the file
_MAX_ATTEMPTS = 3  # to search one release with all


@dataclass(frozen=True, slots=True)
class TaskSearchResults:
    """What all searches of a task found."""

    release: int
    runs: tuple[SearchRun, ...]
    weighted_results: tuple[WeightedResults, ...]
    is_truncated: bool  # whether only the beginning of the task's text was searched for


async def run_task_searches(engine: Engine, access: Access, task: Task, *, limit: int) -> TaskSearchResults:
    """Run the searches of a task, at most `limit` results each, all of one release.

    The run of a search that fails has a problem; the others go on.

    Raises:
        KnowledgeError: none could be run; the first one's error.
    """
    query, is_truncated = build_query(task)
    runs = list(_plan_runs(task, query))
    if not runs:
        raise InvalidQuery("the filters leave out every search of the task: name other source types")
    outcomes: list[SearchResponse | KnowledgeError] = []
    for _ in range(_MAX_ATTEMPTS):
        outcomes = await asyncio.gather(*(_run_search(engine, access, task, run, limit) for run in runs))
        if len({outcome.release for outcome in outcomes if isinstance(outcome, SearchResponse)}) <= 1:
            break
    responses = [outcome for outcome in outcomes if isinstance(outcome, SearchResponse)]
    if not responses:
        raise next(outcome for outcome in outcomes if isinstance(outcome, KnowledgeError))
    release = max(response.release for response in responses)
    weighted = [
        WeightedResults(run.name, _WEIGHTS[task.kind][run.name], outcome.results)
        for run, outcome in zip(runs, outcomes, strict=True)
        if isinstance(outcome, SearchResponse) and outcome.release == release
    ]
    return TaskSearchResults(
        release=release,
        runs=tuple(_complete_run(run, outcome, release) for run, outcome in zip(runs, outcomes, strict=True)),
        weighted_results=tuple(
            [await _add_used_code(engine, access, task, each, release) for each in weighted]
        ),
        is_truncated=is_truncated,
    )


async def _add_used_code(
    engine: Engine, access: Access, task: Task, found: WeightedResults, release: int
) -> WeightedResults:
    """What the code search found, and after it the definitions that the best code calls or extends."""
    if found.name != "code":
        return found
    shown = {
        (each.citation.source, each.citation.path, line)
        for each in found.results
        for line in range(each.span.start_line, each.span.end_line + 1)
    }
    used = (
        (each.source, each.path, each.line)
        for result in found.results[:LINKING_RESULTS]
        if result.graph
        for each in (*result.graph.calls, *result.graph.extends)
        if each.source and each.path and each.line
    )
    filters = replace(task.filters, source_types=("code",))
    response = await engine.read_lines(
        [place for place in dict.fromkeys(used) if place not in shown], access, filters
    )
    if response.release != release:
        return found
    return replace(found, results=(*found.results, *response.results))


def _plan_runs(task: Task, query: str) -> Iterator[SearchRun]:
    """The searches of the task's kind that the task says enough for, and that its filters allow."""
    for name in _WEIGHTS[task.kind]:
        if name == "similar":
            if task.paths or get_example(task):
                yield SearchRun(name, _TYPES[name], ", ".join(task.paths) or "the snippet")
            continue
        allowed = task.filters.source_types
        source_types = tuple(each for each in _SOURCE_TYPES[name] if not allowed or each in allowed)
        if source_types:
            named = name_files(task) if name in _FILE_SEARCHES else ()
            yield SearchRun(name, _TYPES[name], " ".join((query, *named)), source_types)


async def _run_search(
    engine: Engine, access: Access, task: Task, run: SearchRun, limit: int
) -> SearchResponse | KnowledgeError:
    try:
        if run.name != "similar":
            filters = replace(task.filters, source_types=run.source_types)
            search = partial(engine.search, run.query, access, type=run.type, filters=filters, limit=limit)
            return await search(explain=True, diverse=False)
        return await find_similar(engine, access, task, limit)
    except KnowledgeError as error:
        return error


def _complete_run(run: SearchRun, outcome: SearchResponse | KnowledgeError, release: int) -> SearchRun:
    if isinstance(outcome, KnowledgeError):
        return replace(run, problem=str(outcome))
    if outcome.release != release:
        return replace(run, problem=f"it searched release {outcome.release}, the others {release}: try again")
    reasons = dict((outcome.explain or {}).get("degraded", {}))
    degraded = {step: reasons.get(step, "") for step in outcome.degraded}
    return replace(run, found=len(outcome.results), took_ms=outcome.took_ms, degraded=degraded)
