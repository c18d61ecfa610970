"""An agent's task in, context out: what the searches of the task found, as a prompt within a budget."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from knowledge_pipeline.config.operation import ContextSettings
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.contract.responses import (
    Citation,
    ContextExcerpt,
    ContextResponse,
    SearchRun,
    to_json,
)
from knowledge_pipeline.contract.types import MAX_BUDGET_TOKENS
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.excerpts import Excerpt
from knowledge_pipeline.query.agent_context.prompt_templates import PromptTemplate, load_template
from knowledge_pipeline.query.agent_context.searches import TaskSearchResults, run_task_searches
from knowledge_pipeline.query.agent_context.select import (
    ContextCandidate,
    ContextSelection,
    rank_candidates,
    select_excerpts,
)
from knowledge_pipeline.query.agent_context.tokens import CountTokens, open_token_counter
from knowledge_pipeline.query.search.engine import Engine
from knowledge_pipeline.query.stopwatch import Stopwatch

_TOKENS_PER_RESULT = 200  # as a rule: how many results a budget asks for
_MIN_RESULTS, _MAX_RESULTS = 10, 50
_FENCE_TOKENS = 12  # of a passage, beside the words of its heading


async def get_context(
    engine: Engine,
    access: Access,
    task: Task,
    settings: ContextSettings,
    *,
    max_tokens: int | None = None,
    template: str | Path | None = None,
) -> ContextResponse:
    """The passages that help with a task, as a prompt of at most `max_tokens` tokens.

    Args:
        engine: what is asked.
        access: who asks; no search sees more.
        task: what is to be done.
        settings: the section `context` of `knowledge.yaml`.
        max_tokens: the budget in the reader's tokens; by default that of the settings.
        template: see `templating.load`; by default that of the task's kind.

    Raises:
        QuestionRefused: the task or the template is wrong, or they alone exceed the budget.
        ConfigError: the folder of templates does not exist.
        ModelMissing: the tokenizer cannot be loaded.
        NotFound: nothing is released yet.
    """
    watch = Stopwatch()
    budget = settings.max_tokens if max_tokens is None else max_tokens
    if not 1 <= budget <= MAX_BUDGET_TOKENS:
        raise InvalidQuery(f"found max_tokens {budget}; allowed: 1 to {MAX_BUDGET_TOKENS}")
    fitting = await asyncio.to_thread(_PromptFitter.load, task, budget, settings, template)
    limit = min(max(budget // _TOKENS_PER_RESULT, _MIN_RESULTS), _MAX_RESULTS)
    given = await run_task_searches(engine, access, task, limit=limit)
    candidates = rank_candidates(given.weighted_results)
    text, selection = await asyncio.to_thread(fitting.fit, candidates)
    shown = {id_ for passage in selection.excerpts for id_ in passage.chunks}
    return ContextResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=given.release,
        degraded=_list_degraded(given),
        kind=task.kind,
        text=text,
        tokens=fitting.count(text),
        max_tokens=budget,
        tokenizer=settings.tokenizer,
        template=fitting.prompt.name,
        excerpts=selection.excerpts,
        omitted=selection.omitted,
        searches=tuple(_count_shown(given, shown)),
        results=tuple(each.result for each in candidates if each.result.id in shown),
    )


@dataclass(frozen=True, slots=True)
class _PromptFitter:
    """Fits passages and all that is around them into a budget."""

    task: Task
    budget: int
    prompt: PromptTemplate
    count: CountTokens

    @classmethod
    def load(
        cls, task: Task, budget: int, settings: ContextSettings, template: str | Path | None
    ) -> _PromptFitter:
        prompt = load_template(template or task.kind, settings.templates)
        return cls(task, budget, prompt, open_token_counter(settings.tokenizer))

    def fit(self, candidates: Sequence[ContextCandidate]) -> tuple[str, ContextSelection]:
        """The prompt and what it shows.

        What a passage costs is known beforehand only about, since a template may put anything
        around it: while the whole is too large, less is chosen.
        """
        costs: dict[str, int] = {}

        def select_within(max_tokens: int) -> ContextSelection:
            return select_excerpts(
                candidates, max_tokens=max_tokens, cost=lambda each: self._compute_cost(each, costs)
            )

        bare = self.count(self._render(select_within(0)))
        allowance = room = self.budget - bare
        if room < 0:
            raise InvalidQuery(
                f"the task and the template {self.prompt.name} alone have {bare} tokens, and max_tokens is "
                f"{self.budget}: shorten the task, or allow more"
            )
        while True:
            selection = select_within(allowance)
            text = self._render(selection)
            spent = self.count(text) - bare
            if spent <= room:
                return text, selection
            allowance = min(selection.tokens - 1, selection.tokens * room // spent)

    def _compute_cost(self, excerpt: Excerpt, costs: dict[str, int]) -> int:
        if excerpt.text not in costs:
            heading = " ".join(map(str, asdict(excerpt.citation).values()))
            costs[excerpt.text] = self.count(excerpt.text) + self.count(heading) + _FENCE_TOKENS
        return costs[excerpt.text]

    def _render(self, selection: ContextSelection) -> str:
        return self.prompt.render(
            {
                "task": self.task.text.strip(),
                "kind": self.task.kind,
                "file": self.task.file,
                "snippet": self.task.snippet,
                "excerpts": [_to_template_values(excerpt) for excerpt in selection.excerpts],
                "omitted": len(selection.omitted),
            }
        )


def _to_template_values(passage: ContextExcerpt) -> dict[str, Any]:
    """A passage as a template gets it: see docs/context.md."""
    known = passage.metadata
    return {
        "number": passage.number,
        "text": passage.text,
        **_citation_to_values(passage.citation),
        "score": passage.score,
        "symbols": list(passage.symbols),
        "source_type": known.get("source_type"),
        "language": known.get("language"),
        "author": known.get("author"),
        "last_modified": known.get("last_modified"),
        "metadata": to_json(dict(known)),
        "found_by": list(passage.found_by),
        "missing_lines": passage.missing_lines,
        "near_duplicates": [_citation_to_values(place) for place in passage.near_duplicates],
    }


def _citation_to_values(citation: Citation) -> dict[str, Any]:
    """With lines as a person says them: "lines 10-24"."""
    lines = citation.lines.replace("L", "")
    return {**asdict(citation), "lines": f"lines {lines}" if "-" in lines else f"line {lines}"}


def _count_shown(searches: TaskSearchResults, shown_ids: set[str]) -> list[SearchRun]:
    found = {
        each.name: sum(result.id in shown_ids for result in each.results)
        for each in searches.weighted_results
    }
    return [replace(run, shown=found.get(run.name, 0)) for run in searches.runs]


def _list_degraded(searches: TaskSearchResults) -> tuple[str, ...]:
    steps = [step for run in searches.runs for step in run.degraded]
    failed = [run.name for run in searches.runs if run.problem]
    return tuple(dict.fromkeys([*steps, *failed, *(["task"] if searches.is_truncated else [])]))
