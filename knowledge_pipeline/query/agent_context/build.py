"""An agent's task in, context out: what the searches of the task found, as a prompt within a budget."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from knowledge_pipeline.config.operation import ContextSettings
from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.excerpts import Excerpt
from knowledge_pipeline.query.agent_context.prompt_templates import Prompt, load
from knowledge_pipeline.query.agent_context.searches import Searched, SearchRun, Task, TaskKind, searched
from knowledge_pipeline.query.agent_context.select import (
    Candidate,
    CitedPassage,
    LeftOut,
    Selection,
    ranked,
    select,
)
from knowledge_pipeline.query.agent_context.tokens import Count, counter
from knowledge_pipeline.query.search.assemble import Citation, Result, plain
from knowledge_pipeline.query.search.engine import Engine
from knowledge_pipeline.query.stopwatch import Stopwatch

MAX_BUDGET_TOKENS = 1_000_000

_TOKENS_OF_A_RESULT = 200  # as a rule: how many results a budget asks for
_LEAST_RESULTS, _MOST_RESULTS = 10, 50
_FENCE_TOKENS = 12  # of a passage, beside the words of its heading


@dataclass(frozen=True, slots=True)
class Context:
    """What an agent gets for a task."""

    query_id: str
    took_ms: float
    release: int
    degraded: tuple[str, ...]  # "vector", "rerank"; a search with a problem; "task": only its beginning
    task: TaskKind
    text: str  # the prompt
    tokens: int  # of the prompt: at most `max_tokens`
    max_tokens: int
    tokenizer: str
    template: str
    passages: tuple[CitedPassage, ...]
    left_out: tuple[LeftOut, ...]  # for want of budget, best first
    searches: tuple[SearchRun, ...]
    results: tuple[Result, ...]  # the chunks that the passages are made of, best first

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; of the chunks only the passages' ids."""
        told = plain(asdict(replace(self, results=())))
        del told["results"]
        return told


async def get_context(
    engine: Engine,
    access: Access,
    task: Task,
    settings: ContextSettings,
    *,
    max_tokens: int | None = None,
    template: str | Path | None = None,
) -> Context:
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
        raise QuestionRefused(f"found max_tokens {budget}; allowed: 1 to {MAX_BUDGET_TOKENS}")
    fitting = await asyncio.to_thread(_Fitting.opened, task, budget, settings, template)
    limit = min(max(budget // _TOKENS_OF_A_RESULT, _LEAST_RESULTS), _MOST_RESULTS)
    given = await searched(engine, access, task, limit=limit)
    candidates = ranked(given.found)
    text, selection = await asyncio.to_thread(fitting.fitted, candidates)
    shown = {id_ for passage in selection.passages for id_ in passage.chunks}
    return Context(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=given.release,
        degraded=_degraded(given),
        task=task.kind,
        text=text,
        tokens=fitting.count(text),
        max_tokens=budget,
        tokenizer=settings.tokenizer,
        template=fitting.prompt.name,
        passages=selection.passages,
        left_out=selection.left_out,
        searches=tuple(_counted(given, shown)),
        results=tuple(each.result for each in candidates if each.result.id in shown),
    )


@dataclass(frozen=True, slots=True)
class _Fitting:
    """Fits passages and all that is around them into a budget."""

    task: Task
    budget: int
    prompt: Prompt
    count: Count

    @classmethod
    def opened(
        cls, task: Task, budget: int, settings: ContextSettings, template: str | Path | None
    ) -> _Fitting:
        prompt = load(template or task.kind, settings.templates)
        return cls(task, budget, prompt, counter(settings.tokenizer))

    def fitted(self, candidates: Sequence[Candidate]) -> tuple[str, Selection]:
        """The prompt and what it shows.

        What a passage costs is known beforehand only about, since a template may put anything
        around it: while the whole is too large, less is chosen.
        """
        costs: dict[str, int] = {}

        def chosen(allowance: int) -> Selection:
            return select(candidates, allowance=allowance, cost=lambda each: self._cost(each, costs))

        bare = self.count(self._rendered(chosen(0)))
        allowance = room = self.budget - bare
        if room < 0:
            raise QuestionRefused(
                f"the task and the template {self.prompt.name} alone have {bare} tokens, and max_tokens is "
                f"{self.budget}: shorten the task, or allow more"
            )
        while True:
            selection = chosen(allowance)
            text = self._rendered(selection)
            spent = self.count(text) - bare
            if spent <= room:
                return text, selection
            allowance = min(selection.tokens - 1, selection.tokens * room // spent)

    def _cost(self, excerpt: Excerpt, known: dict[str, int]) -> int:
        if excerpt.text not in known:
            heading = " ".join(map(str, asdict(excerpt.citation).values()))
            known[excerpt.text] = self.count(excerpt.text) + self.count(heading) + _FENCE_TOKENS
        return known[excerpt.text]

    def _rendered(self, selection: Selection) -> str:
        return self.prompt.render(
            {
                "task": self.task.text.strip(),
                "kind": self.task.kind,
                "file": self.task.file,
                "snippet": self.task.snippet,
                "passages": [_told(passage) for passage in selection.passages],
                "left_out": len(selection.left_out),
            }
        )


def _told(passage: CitedPassage) -> dict[str, Any]:
    """A passage as a template gets it: see docs/context.md."""
    known = passage.metadata
    return {
        "number": passage.number,
        "text": passage.text,
        **_place(passage.citation),
        "score": passage.score,
        "symbols": list(passage.symbols),
        "source_type": known.get("source_type"),
        "language": known.get("language"),
        "author": known.get("author"),
        "last_modified": known.get("last_modified"),
        "metadata": plain(dict(known)),
        "found_by": list(passage.found_by),
        "missing_lines": passage.missing_lines,
        "also": [_place(place) for place in passage.also],
    }


def _place(citation: Citation) -> dict[str, Any]:
    """With lines as a person says them: "lines 10-24"."""
    lines = citation.lines.replace("L", "")
    return {**asdict(citation), "lines": f"lines {lines}" if "-" in lines else f"line {lines}"}


def _counted(given: Searched, shown: set[str]) -> list[SearchRun]:
    found = {each.name: sum(result.id in shown for result in each.results) for each in given.found}
    return [replace(run, shown=found.get(run.name, 0)) for run in given.runs]


def _degraded(given: Searched) -> tuple[str, ...]:
    steps = [step for run in given.runs for step in run.degraded]
    failed = [run.name for run in given.runs if run.problem]
    return tuple(dict.fromkeys([*steps, *failed, *(["task"] if given.shortened else [])]))
