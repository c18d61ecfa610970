"""The searches that suit an agent's task, run at once, each told with what it gave or why it could not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.contract.responses import SearchResponse, SearchRun
from knowledge_pipeline.contract.types import (
    MAX_EXAMPLE_CHARS,
    MAX_QUERY_CHARS,
    SearchName,
    TaskKind,
)
from knowledge_pipeline.errors import InvalidQuery, KnowledgeError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.select import WeightedResults
from knowledge_pipeline.query.filters import replace_invalid_characters
from knowledge_pipeline.query.search.engine import Engine, SearchType

_WEIGHTS: Mapping[TaskKind, Mapping[SearchName, float]] = {
    "code_generation": {"code": 1.0, "similar": 0.9, "documents": 0.7, "history": 0.4, "tickets": 0.4},
    "code_review": {"code": 1.0, "similar": 1.0, "documents": 0.6, "history": 0.6, "tickets": 0.4},
    "merge_resolution": {"history": 1.0, "code": 1.0, "similar": 0.6, "tickets": 0.5, "documents": 0.4},
    "issue_resolution": {"code": 1.0, "tickets": 0.8, "history": 0.7, "documents": 0.7, "similar": 0.6},
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
    "documents": ("markdown", "openapi", "files", "confluence", "archive"),
    "history": ("git_history", "github_pr"),
    "tickets": ("github_issues", "jira", "slack"),
}
_FILE_SEARCHES = ("code", "history")  # searches whose question names it
_MAX_ATTEMPTS = 3  # to find one release live in all searches
_FILTER_TERM = re.compile(r"(?<!\S)(\w+):(?!:|//|\s)")


@dataclass(frozen=True, slots=True)
class TaskSearchResults:
    """What all searches of a task gave."""

    release: int
    runs: tuple[SearchRun, ...]
    weighted_results: tuple[WeightedResults, ...]
    is_truncated: bool  # whether only the beginning of the task's text was searched for


@dataclass(frozen=True, slots=True)
class _PlannedSearch:
    run: SearchRun
    weight: float
    ask: Callable[[], Awaitable[SearchResponse]]


async def run_task_searches(engine: Engine, access: Access, task: Task, *, limit: int) -> TaskSearchResults:
    """Run the searches of a task, at most `limit` results each, all of one release.

    One that fails is told as a problem; the others go on.

    Raises:
        KnowledgeError: none could be run; the first one's error.
    """
    question, shortened = _build_question(task)
    planned = list(_plan_searches(engine, access, task, question, limit))
    if not planned:
        raise InvalidQuery("the filters leave out every search of the task: name other source types")
    answers: list[SearchResponse | KnowledgeError] = []
    for _ in range(_MAX_ATTEMPTS):
        answers = await asyncio.gather(*(_run_planned(each) for each in planned))
        if len({answer.release for answer in answers if isinstance(answer, SearchResponse)}) <= 1:
            break
    given = [answer for answer in answers if isinstance(answer, SearchResponse)]
    if not given:
        raise next(answer for answer in answers if isinstance(answer, KnowledgeError))
    newest = max(answer.release for answer in given)
    both = list(zip(planned, answers, strict=True))
    found = tuple(
        WeightedResults(each.run.name, each.weight, answer.results)
        for each, answer in both
        if isinstance(answer, SearchResponse) and answer.release == newest
    )
    return TaskSearchResults(
        newest, tuple(_complete_run(each.run, answer, newest) for each, answer in both), found, shortened
    )


def _plan_searches(
    engine: Engine, access: Access, task: Task, question: str, limit: int
) -> Iterator[_PlannedSearch]:
    """The searches that the task's kind asks for, as far as it says enough, and its filters allow them."""
    for name, weight in _WEIGHTS[task.kind].items():
        if name == "similar":
            if task.file or task.snippet:
                run = SearchRun(name, _TYPES[name], task.file or "the snippet")
                yield _PlannedSearch(run, weight, lambda: _search_similar(engine, access, task, limit))
            continue
        allowed = task.filters.source_types
        types = tuple(each for each in _SOURCE_TYPES[name] if not allowed or each in allowed)
        if types:
            asked = f"{question} {task.file}" if task.file and name in _FILE_SEARCHES else question
            run = SearchRun(name, _TYPES[name], asked, types)
            yield _PlannedSearch(run, weight, _bind_search(engine, access, run, task.filters, limit))


def _bind_search(
    engine: Engine, access: Access, run: SearchRun, filters: Filters, limit: int
) -> Callable[[], Awaitable[SearchResponse]]:
    narrowed = replace(filters, source_types=run.source_types)
    return lambda: engine.search(
        run.query,
        access,
        type=run.type,
        filters=narrowed,
        limit=limit,
        explain=True,
        include_near_duplicates=True,
    )


async def _search_similar(engine: Engine, access: Access, task: Task, limit: int) -> SearchResponse:
    """Like the snippet, else like the file, which must be in the index unless there is a snippet."""
    snippet = task.snippet[:MAX_EXAMPLE_CHARS] if task.snippet else None
    how: dict[str, Any] = {"text": snippet, "filters": task.filters, "limit": limit, "explain": True}
    try:
        return await engine.similar(access, path=task.file, source=task.source, **how)
    except NotFound:
        if task.file is None or snippet is None:
            raise
        return await engine.similar(access, **how)


async def _run_planned(planned: _PlannedSearch) -> SearchResponse | KnowledgeError:
    try:
        return await planned.ask()
    except KnowledgeError as error:
        return error


def _complete_run(run: SearchRun, answer: SearchResponse | KnowledgeError, release: int) -> SearchRun:
    if isinstance(answer, KnowledgeError):
        return replace(run, problem=str(answer))
    if answer.release != release:
        return replace(run, problem=f"it saw release {answer.release}, the others {release}: ask again")
    reasons = dict((answer.explain or {}).get("degraded", {}))
    degraded = {step: reasons.get(step, "") for step in answer.degraded}
    return replace(run, found=len(answer.results), took_ms=answer.took_ms, degraded=degraded)


def _build_question(task: Task) -> tuple[str, bool]:
    """The task's text as a question, and whether it had to be shortened.

    Its `word:value` is text, and no filter: tasks hold pasted logs, where `status:500` narrows nothing.
    """
    text = _FILTER_TERM.sub(r"\1: ", replace_invalid_characters(task.text)).strip()
    room = MAX_QUERY_CHARS - len(task.file or "") - 1
    if len(text) <= room:
        return text, False
    return text[:room].rsplit(maxsplit=1)[0], True
