"""Builds the context for an agent's task: what its searches found, as a prompt within a budget."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from knowledge_pipeline.config.operation import ContextSettings
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.contract.responses import (
    BlamedLines,
    Citation,
    ContextExcerpt,
    ContextResponse,
    to_json,
)
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.excerpts import Excerpt
from knowledge_pipeline.query.agent_context.prompt_templates import PromptTemplate, load_template
from knowledge_pipeline.query.agent_context.searches import run_task_searches
from knowledge_pipeline.query.agent_context.select import (
    ContextCandidate,
    ContextSelection,
    ExcerptSelector,
    rank_candidates,
)
from knowledge_pipeline.query.agent_context.tokens import CountTokens, open_token_counter
from knowledge_pipeline.query.blame import Blame
from knowledge_pipeline.query.describe import describe_blame
from knowledge_pipeline.query.search.engine import Engine
from knowledge_pipeline.query.stopwatch import Stopwatch

_RESULTS = 50  # of each search
_BLAMED_RESULTS = 10  # of the best; git is run for each
_BLAMED_COMMITS = 3  # of an excerpt, the newest
_FENCE_TOKENS = 8  # of an excerpt, in addition to the words of its heading
_MAX_ATTEMPTS = 8  # to fill the budget
_WASTED_TOKENS = 30  # of a budget may stay unused
_METADATA_VALUES = ("source_type", "language", "author", "last_modified")


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
    fitter = await asyncio.to_thread(_PromptFitter.load, task, budget, settings, template)
    searches = await run_task_searches(engine, access, task, limit=_RESULTS)
    weighted = searches.weighted_results
    candidates = rank_candidates(weighted)
    if blame:
        best = [each.result for each in candidates[:_BLAMED_RESULTS]]
        marked, _ = await blame.mark_results(best, access)
        fitter = replace(fitter, blame={each.id: each.blame for each in marked if each.blame})
    text, selection = await asyncio.to_thread(fitter.fit, candidates)
    shown_ids = {id_ for excerpt in selection.excerpts for id_ in excerpt.chunks}
    shown_counts = {run.name: sum(each.id in shown_ids for each in run.results) for run in weighted}
    steps = [step for run in searches.runs for step in run.degraded]
    failed = [run.name for run in searches.runs if run.problem]
    return ContextResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=searches.release,
        degraded=tuple(dict.fromkeys([*steps, *failed, *(["task"] if searches.is_truncated else [])])),
        kind=task.kind,
        text=text,
        tokens=fitter.count(text),
        max_tokens=budget,
        tokenizer=settings.tokenizer,
        template=fitter.prompt.name,
        excerpts=selection.excerpts,
        omitted=selection.omitted,
        searches=tuple(replace(run, shown=shown_counts.get(run.name, 0)) for run in searches.runs),
        results=tuple(each.result for each in candidates if each.result.id in shown_ids),
    )


@dataclass(frozen=True, slots=True)
class _PromptFitter:
    """Fits excerpts and the prompt around them into a budget."""

    task: Task
    budget: int
    prompt: PromptTemplate
    count: CountTokens
    blame: Mapping[str, tuple[BlamedLines, ...]] = field(default_factory=dict[str, tuple[BlamedLines, ...]])

    @classmethod
    def load(cls, task: Task, budget: int, settings: ContextSettings, template: str | Path | None) -> Self:
        prompt = load_template(template or task.kind, settings.templates)
        return cls(task, budget, prompt, open_token_counter(settings.tokenizer))

    def fit(self, candidates: Sequence[ContextCandidate]) -> tuple[str, ContextSelection]:
        """The prompt and what it shows.

        What an excerpt costs is only estimated, because a template may put anything around it: while the
        whole is too large, fewer are selected, and more while there is room for more.
        """
        selector = ExcerptSelector(
            candidates, self.task.text, count=self.count, heading_cost=self._estimate_heading
        )
        bare_tokens = self.count(self._render(ContextSelection(omitted=selector.select(0).omitted)))
        allowance = room = self.budget - bare_tokens
        if room < 0:
            raise InvalidQuery(
                f"the task and the template {self.prompt.name} alone have {bare_tokens} tokens, and "
                f"max_tokens is {self.budget}: shorten the task, or allow more"
            )
        low, best = 0, (self._render(selector.select(0)), selector.select(0))
        high: int | None = None  # allowances that are known to fit, and not to
        step = _WASTED_TOKENS // 2  # down after a failure, then twice as far: less may select the same lines
        for _ in range(_MAX_ATTEMPTS):
            selection = selector.select(allowance)
            text = self._render(selection)
            spent = self.count(text) - bare_tokens
            if spent <= room:
                low, best = allowance, (text, selection)
                if room - spent <= _WASTED_TOKENS or not selection.is_cut:
                    break
                allowance += room - spent
            else:
                high = allowance
                allowance = min(allowance - step, allowance * room // spent)
                step *= 2
            if high is not None and not low < allowance < high:
                allowance = (low + high) // 2
            if allowance <= low:
                break
        return best

    def _estimate_heading(self, excerpt: Excerpt) -> int:
        citation = excerpt.citation
        heading = " ".join(filter(None, (citation.path, citation.lines, citation.title, citation.url)))
        return self.count(heading) + _FENCE_TOKENS

    def _render(self, selection: ContextSelection) -> str:
        return self.prompt.render(
            {
                "task": self.task.text.strip(),
                "kind": self.task.kind,
                "file": self.task.file,
                "snippet": self.task.snippet,
                "excerpts": [
                    _to_template_values(each, self._find_blame(each)) for each in selection.excerpts
                ],
                "omitted": len(selection.omitted),
            }
        )

    def _find_blame(self, excerpt: ContextExcerpt) -> list[BlamedLines]:
        return [lines for id_ in excerpt.chunks for lines in self.blame.get(id_, ())]


def _to_template_values(excerpt: ContextExcerpt, blame: Sequence[BlamedLines]) -> dict[str, Any]:
    """An excerpt as templates get it: see docs/context.md."""
    return {
        "number": excerpt.number,
        "text": excerpt.text,
        **_citation_to_values(excerpt.citation),
        "score": excerpt.score,
        "symbols": list(excerpt.symbols),
        **{name: excerpt.metadata.get(name) for name in _METADATA_VALUES},
        "metadata": to_json(dict(excerpt.metadata)),
        "found_by": list(excerpt.found_by),
        "missing_lines": excerpt.missing_lines,
        "within": excerpt.within,
        "blame": list(describe_blame(blame, max_named=_BLAMED_COMMITS)),
        "near_duplicates": [_citation_to_values(place) for place in excerpt.near_duplicates],
    }


def _citation_to_values(citation: Citation) -> dict[str, Any]:
    """With lines as people write them: "lines 10-24"."""
    lines = citation.lines.replace("L", "")
    return {**asdict(citation), "lines": f"lines {lines}" if "-" in lines else f"line {lines}"}
