"""Searches for an agent's task, and reports what each search found or why it failed.

One search ranks all types of sources together; what is like the task's files or its snippet is searched for
beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

from knowledge_pipeline.contract.responses.context import SearchRun
from knowledge_pipeline.contract.responses.search import SearchResponse, SearchResult
from knowledge_pipeline.contract.types import DocumentType, SearchName, TaskKind
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.linked_code import follow_links
from knowledge_pipeline.query.agent_context.select import SearchChances
from knowledge_pipeline.query.agent_context.similar_files import find_similar
from knowledge_pipeline.query.agent_context.task_text import build_query, get_example, name_files
from knowledge_pipeline.query.search.engine import Engine

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task

_CODE, _DOCUMENTS = ("code",), get_args(DocumentType)
_HISTORY = ("git_history", "github_pr")
_TICKETS = ("github_issues", "discussions", "jira", "slack")
_WEIGHTS: Mapping[TaskKind, Mapping[tuple[str, ...], float]] = {
    "code_generation": {_CODE: 1.0, _DOCUMENTS: 0.7, _HISTORY: 0.4, _TICKETS: 0.4},
    "code_review": {_CODE: 1.0, _DOCUMENTS: 0.6, _HISTORY: 0.6, _TICKETS: 0.4},
    "merge_resolution": {_CODE: 1.0, _DOCUMENTS: 0.4, _HISTORY: 1.0, _TICKETS: 0.5},
    "issue_resolution": {_CODE: 1.0, _DOCUMENTS: 0.7, _HISTORY: 0.7, _TICKETS: 0.8},
    "complete_code": {_CODE: 1.0, _DOCUMENTS: 0.3, _HISTORY: 0.0, _TICKETS: 0.0},
}
"""Of the chance that a result answers, by the type of its source; of questions and other types 1."""

_SIMILAR_WEIGHTS: Mapping[TaskKind, float] = {
    "code_generation": 0.9,
    "code_review": 1.0,
    "merge_resolution": 0.6,
    "issue_resolution": 0.6,
    "complete_code": 1.0,
    "question": 0.5,
    "chat": 0.5,
}
"""Of the chance of the best result, that the first similar one has."""

_MAX_ATTEMPTS = 3  # to search one release with all


@dataclass(frozen=True, slots=True)
class TaskSearchResults:
    """What all searches of a task found."""

    release: int
    runs: tuple[SearchRun, ...]
    searches: tuple[SearchChances, ...]  # those that did not fail
    is_truncated: bool  # whether only the beginning of the task's text was searched for

    @property
    def code(self) -> list[SearchResult]:
        """The code that the search for the task's text found, best first."""
        results = next((search.results for search in self.searches if search.name == "semantic"), ())
        return [result for result in results if result.metadata["source_type"] == "code"]


async def run_task_searches(engine: Engine, access: Access, task: Task, *, limit: int) -> TaskSearchResults:
    """Run the searches of a task, at most `limit` results each, all of one release.

    The run of a search that fails has a problem; the others go on.

    Raises:
        KnowledgeError: none could be run; the first one's error.
    """
    query, is_truncated = build_query(task)
    runs = list(_plan_runs(task, query))
    outcomes: list[SearchResponse | KnowledgeError] = []
    for _ in range(_MAX_ATTEMPTS):
        outcomes = await asyncio.gather(*(_run_search(engine, access, task, run, limit) for run in runs))
        if len({outcome.release for outcome in outcomes if isinstance(outcome, SearchResponse)}) <= 1:
            break
    responses = [outcome for outcome in outcomes if isinstance(outcome, SearchResponse)]
    if not responses:
        raise next(outcome for outcome in outcomes if isinstance(outcome, KnowledgeError))
    release = max(response.release for response in responses)
    found: dict[SearchName, Sequence[SearchResult]] = {
        run.name: outcome.results
        for run, outcome in zip(runs, outcomes, strict=True)
        if isinstance(outcome, SearchResponse) and outcome.release == release
    }
    searches = [
        await follow_links(engine, access, task.filters, search, release)
        for search in _estimate_chances(task.kind, found)
    ]
    return TaskSearchResults(
        release=release,
        runs=tuple(_complete_run(run, outcome, release) for run, outcome in zip(runs, outcomes, strict=True)),
        searches=tuple(searches),
        is_truncated=is_truncated,
    )


def _estimate_chances(
    kind: TaskKind, found: Mapping[SearchName, Sequence[SearchResult]]
) -> Iterator[SearchChances]:
    """The scores of the search of all are chances; what is similar counts by rank, relative to the best."""
    best = 1.0
    if "semantic" in found:
        weights = {result.id: _find_weight(kind, result) for result in found["semantic"]}
        results = [result for result in found["semantic"] if weights[result.id] > 0]
        chances = [result.score * weights[result.id] for result in results]
        yield SearchChances("semantic", results, chances)
        best = max(chances, default=best)
    if "similar" in found:
        yield SearchChances.by_rank("similar", found["similar"], best * _SIMILAR_WEIGHTS[kind])


def _find_weight(kind: TaskKind, result: SearchResult) -> float:
    weights = _WEIGHTS.get(kind, {})
    source_type = result.metadata["source_type"]
    return next((weight for types, weight in weights.items() if source_type in types), 1.0)


def _plan_runs(task: Task, query: str) -> Iterator[SearchRun]:
    """A search of all that the task's filters allow, and one by its files and its snippet, if it has any."""
    yield SearchRun("semantic", "semantic", " ".join((query, *name_files(task))), task.filters.source_types)
    if task.paths or get_example(task):
        yield SearchRun("similar", "similar", ", ".join(task.paths) or "the snippet")


async def _run_search(
    engine: Engine, access: Access, task: Task, run: SearchRun, limit: int
) -> SearchResponse | KnowledgeError:
    try:
        if run.name == "similar":
            return await find_similar(engine, access, task, limit)
        return await engine.search(
            run.query, access, filters=task.filters, limit=limit, explain=True, diverse=False
        )
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
