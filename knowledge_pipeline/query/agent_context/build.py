"""Builds the context for an agent's task: what its searches found, as a prompt within a budget."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from knowledge_pipeline.config.operation import ContextSettings
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.contract.responses import ContextResponse
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.prompt_fitter import FittedPrompt, PromptFitter
from knowledge_pipeline.query.agent_context.searches import run_task_searches
from knowledge_pipeline.query.agent_context.select import ContextCandidate, ExcerptSelector, rank_candidates
from knowledge_pipeline.query.agent_context.task_text import find_nearby_text
from knowledge_pipeline.query.blame import Blame
from knowledge_pipeline.query.search.engine import Engine
from knowledge_pipeline.query.stopwatch import Stopwatch

_RESULTS = 50  # of each search
_BLAMED_RESULTS = 10  # of the best; git is run for each


async def get_context(
    engine: Engine,
    access: Access,
    task: Task,
    settings: ContextSettings,
    *,
    max_tokens: int | None = None,
    template: str | Path | None = None,
    blame: Blame | None = None,
) -> ContextResponse:
    """The excerpts that help with a task, as a prompt of at most `max_tokens` tokens.

    No search sees more than the access allows. `blame` says of the best results who changed their lines.
    By default the budget is that of the settings, the section `context` of `knowledge.yaml`, and the template
    (see `load_template`) that of the task's kind.

    Raises:
        InvalidQuery: the task or the template is wrong, or they alone exceed the budget.
        ConfigError: the folder of templates does not exist.
        ModelError: the tokenizer cannot be loaded.
        NotFound: nothing is released yet.
    """
    watch = Stopwatch()
    budget = settings.max_tokens if max_tokens is None else max_tokens
    if budget < 1:
        raise InvalidQuery(f"found max_tokens {budget}; allowed: 1 or more")
    fitter = await asyncio.to_thread(PromptFitter.load, task, budget, settings, template)
    searches = await run_task_searches(engine, access, task, limit=_RESULTS)
    weighted = searches.weighted_results
    candidates = rank_candidates(weighted)
    if blame:
        best = [each.result for each in candidates[:_BLAMED_RESULTS]]
        marked, _ = await blame.mark_results(best, access)
        fitter = replace(fitter, blame={each.id: each.blame for each in marked if each.blame})
    fitted = await asyncio.to_thread(_select_and_fit, fitter, candidates)
    shown_ids = {id_ for excerpt in fitted.selection.excerpts for id_ in excerpt.chunks}
    shown_counts = {run.name: sum(each.id in shown_ids for each in run.results) for run in weighted}
    steps = [step for run in searches.runs for step in run.degraded]
    failed = [run.name for run in searches.runs if run.problem]
    cut = [*(["task"] if searches.is_truncated else []), *(["history"] if fitted.dropped_turns else [])]
    return ContextResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=searches.release,
        degraded=tuple(dict.fromkeys([*steps, *failed, *cut, *fitter.cut])),
        kind=task.kind,
        text=fitted.text,
        tokens=fitted.tokens,
        max_tokens=budget,
        tokenizer=settings.tokenizer,
        template=fitter.prompt.name,
        excerpts=fitted.selection.excerpts,
        omitted=fitted.selection.omitted,
        searches=tuple(replace(run, shown=shown_counts.get(run.name, 0)) for run in searches.runs),
        results=tuple(each.result for each in candidates if each.result.id in shown_ids),
        messages=fitted.messages,
        dropped_turns=fitted.dropped_turns,
    )


def _select_and_fit(fitter: PromptFitter, candidates: Sequence[ContextCandidate]) -> FittedPrompt:
    """What is nearby says what the question is about as well: see `find_nearby_text`."""
    question = "\n".join(filter(None, (fitter.task.text, find_nearby_text(fitter.task))))
    selector = ExcerptSelector(candidates, question, count=fitter.count, heading_cost=fitter.estimate_heading)
    return fitter.fit(selector)
