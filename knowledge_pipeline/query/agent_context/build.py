"""Builds the context for an agent's task: what its searches found, as a prompt within a budget."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_pipeline.config.context_sections import SectionSettings
from knowledge_pipeline.config.operation import ContextSettings
from knowledge_pipeline.contract.responses.context import ContextResponse, ContextSection
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.prompt_fitter import FittedPrompt, PromptFitter
from knowledge_pipeline.query.agent_context.searches import TaskSearchResults, run_task_searches
from knowledge_pipeline.query.agent_context.section_budget import (
    SectionedSelector,
    SectionSelector,
    leave_out_shown,
)
from knowledge_pipeline.query.agent_context.sections import SectionResults, require_release, run_sections
from knowledge_pipeline.query.agent_context.select import (
    ContextCandidate,
    ExcerptSelector,
    SearchChances,
    rank_candidates,
)
from knowledge_pipeline.query.agent_context.task_text import build_query, find_nearby_text
from knowledge_pipeline.query.blame import Blame
from knowledge_pipeline.query.search.engine import Engine
from knowledge_pipeline.query.stopwatch import Stopwatch

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task

_RESULTS = 100  # of each search
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
        ConfigError: the folder of templates does not exist, or a section is wrong.
        ModelError: the tokenizer cannot be loaded.
        NotFound: nothing is released yet.
    """
    watch = Stopwatch()
    budget = settings.max_tokens if max_tokens is None else max_tokens
    if budget < 1:
        raise InvalidQuery(f"found max_tokens {budget}; allowed: 1 or more")
    fitter = await asyncio.to_thread(PromptFitter.load, task, budget, settings, template)
    found = await _run_searches(engine, access, task, fitter.sections)
    own = rank_candidates(found.searches.searches)
    if blame:
        best = [each.result for each in own[:_BLAMED_RESULTS]]
        marked, _ = await blame.mark_results(best, access)
        fitter = replace(fitter, blame={each.id: each.blame for each in marked if each.blame})
    fitted, candidates = await asyncio.to_thread(_select_and_fit, fitter, own, found)
    excerpts = fitted.selection.excerpts
    shown_ids = {id_ for excerpt in excerpts for id_ in excerpt.chunks}
    searches = found.searches
    shown_counts = {
        search.name: sum(result.id in shown_ids for result in search.results) for search in searches.searches
    }
    runs = [*searches.runs, *(each.section for each in found.sections)]
    steps = [step for run in runs for step in run.degraded]
    failed = [run.name for run in runs if run.problem]
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
        excerpts=excerpts,
        omitted=fitted.selection.omitted,
        searches=tuple(replace(run, shown=shown_counts.get(run.name, 0)) for run in searches.runs),
        results=tuple(each.result for each in candidates if each.result.id in shown_ids),
        sections=tuple(_complete_section(each, fitted) for each in found.sections) or None,
        messages=fitted.messages,
        dropped_turns=fitted.dropped_turns,
    )


@dataclass(frozen=True, slots=True)
class _FoundResults:
    """What the task's own searches found, and those of the sections."""

    searches: TaskSearchResults
    sections: Sequence[SectionResults] = ()


async def _run_searches(
    engine: Engine, access: Access, task: Task, sections: Sequence[SectionSettings]
) -> _FoundResults:
    """The task's own searches, unless the sections leave them nothing of the budget, and the sections'."""
    if not sections:
        return _FoundResults(await run_task_searches(engine, access, task, limit=_RESULTS))
    if _find_own_share(sections):
        searches = await run_task_searches(engine, access, task, limit=_RESULTS)
        found = await run_sections(engine, access, task, sections, code=searches.code)
        return _FoundResults(searches, require_release(found, searches.release))
    found = await run_sections(engine, access, task, sections, code=())
    releases = [each.release for each in found if each.release is not None]
    if not releases:
        raise found[0].error or NotFound("no section of the context could be searched")
    searches = TaskSearchResults(max(releases), (), (), is_truncated=build_query(task)[1])
    return _FoundResults(searches, require_release(found, searches.release))


def _find_own_share(sections: Sequence[SectionSettings]) -> float:
    """What the sections leave to the task's own searches."""
    return max(0.0, round(1 - sum(each.share for each in sections), 6))


def _select_and_fit(
    fitter: PromptFitter, own: Sequence[ContextCandidate], found: _FoundResults
) -> tuple[FittedPrompt, list[ContextCandidate]]:
    """The prompt, and all candidates. What a section has found is its own, and no other's.

    What is nearby says what the question is about as well: see `find_nearby_text`.
    """
    question = "\n".join(filter(None, (fitter.task.text, find_nearby_text(fitter.task))))

    def build_selector(candidates: Sequence[ContextCandidate], words: str) -> ExcerptSelector:
        return ExcerptSelector(
            candidates,
            words,
            count=fitter.count,
            heading_cost=fitter.estimate_heading,
            heading_share=fitter.heading_share,
        )

    if not fitter.sections:
        return fitter.fit(build_selector(own, question)), list(own)
    taken: list[ContextCandidate] = []
    selectors: list[SectionSelector] = []
    for each in found.sections:
        section = each.section
        ranked = rank_candidates([SearchChances.by_rank(section.name, each.results)])
        kept = leave_out_shown(ranked, (held.result for held in taken))
        taken += kept
        selector = build_selector(kept, f"{section.query}\n{question}")
        selectors.append(SectionSelector(section.name, section.share, selector))
    rest = leave_out_shown(own, (held.result for held in taken))
    if own_share := _find_own_share(fitter.sections):
        selectors.insert(0, SectionSelector(None, own_share, build_selector(rest, question)))
    return fitter.fit(SectionedSelector(selectors)), [*rest, *taken]


def _complete_section(found: SectionResults, fitted: FittedPrompt) -> ContextSection:
    numbers = fitted.selection.sections.get(found.section.name, ())
    excerpts = [fitted.selection.excerpts[number - 1] for number in numbers]
    return replace(
        found.section,
        shown=sum(len(each.chunks) for each in excerpts),
        tokens=sum(each.tokens for each in excerpts),
        excerpts=numbers,
    )
