"""Finds what is like the files and the snippet of a task, in other files."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from knowledge_pipeline.contract.responses.search import SearchResponse, SearchResult
from knowledge_pipeline.errors import KnowledgeError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.task_text import get_example
from knowledge_pipeline.query.search.engine import Engine

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task


async def find_similar(engine: Engine, access: Access, task: Task, limit: int) -> SearchResponse:
    """At most `limit` results; of several files, the best of each in turn, and none of theirs.

    A file that is not in the index is a skipped step, unless a snippet says what to look for.

    Raises:
        KnowledgeError: nothing could be searched for; the first error.
    """
    text, paths = get_example(task), task.paths
    search = partial(engine.similar, access, text=text, filters=task.filters, limit=limit, explain=True)
    if len(paths) > 1 and text is None:
        outcomes = await asyncio.gather(
            *(search(path=path, source=task.source) for path in paths), return_exceptions=True
        )
        response = _merge_responses(outcomes)
    else:
        path = paths[0] if paths else None
        try:
            response = await search(path=path, source=task.source)
        except NotFound:  # the file must be in the index unless there is a snippet
            if path is None or text is None:
                raise
            response = await search()
    if len(paths) < 2:
        return response
    return replace(response, results=tuple(_leave_out(response.results, paths, task.source)[:limit]))


def _merge_responses(outcomes: Sequence[SearchResponse | BaseException]) -> SearchResponse:
    problems = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if unexpected := [each for each in problems if not isinstance(each, KnowledgeError)]:
        raise unexpected[0]
    found = [outcome for outcome in outcomes if isinstance(outcome, SearchResponse)]
    if not found:
        raise problems[0]
    oldest = min(found, key=lambda each: each.release)  # another release than the others' is tried again
    in_turn = chain.from_iterable(zip_longest(*(each.results for each in found)))
    results = {each.id: each for each in in_turn if each is not None}
    steps = tuple(dict.fromkeys(step for each in found for step in each.degraded))
    reasons = {step: why for each in found for step, why in (each.explain or {}).get("degraded", {}).items()}
    if problems:
        steps, reasons = (*steps, "similar"), {**reasons, "similar": "; ".join(map(str, problems))}
    explain = {**(oldest.explain or {}), "degraded": reasons}
    took_ms = max(each.took_ms for each in found)
    return replace(oldest, results=tuple(results.values()), degraded=steps, explain=explain, took_ms=took_ms)


def _leave_out(
    results: Sequence[SearchResult], paths: Collection[str], source: str | None
) -> list[SearchResult]:
    """The results that are not of the task's own files."""
    return [
        each
        for each in results
        if each.citation.path not in paths or source not in (None, each.citation.source)
    ]
