"""Fits excerpts, the prompt around them, and the messages of a chat into a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from knowledge_pipeline.config.context_sections import SectionSettings
from knowledge_pipeline.config.operation import ContextSettings
from knowledge_pipeline.contract.chat import ChatMessage
from knowledge_pipeline.contract.responses.base import to_json
from knowledge_pipeline.contract.responses.context import ContextExcerpt
from knowledge_pipeline.contract.responses.search import BlamedLines, Citation
from knowledge_pipeline.errors import ConfigError, InvalidQuery
from knowledge_pipeline.query.agent_context.chat import (
    build_messages,
    count_message,
    count_messages,
    keep_newest,
)
from knowledge_pipeline.query.agent_context.cursor_code import fit_code_around_cursor
from knowledge_pipeline.query.agent_context.excerpts import Excerpt
from knowledge_pipeline.query.agent_context.prompt_templates import (
    SUFFIX,
    PromptTemplate,
    list_template_names,
    load_template,
)
from knowledge_pipeline.query.agent_context.select import ContextSelection
from knowledge_pipeline.query.agent_context.task_text import describe_task
from knowledge_pipeline.query.agent_context.tokens import CountTokens, open_token_counter
from knowledge_pipeline.query.describe import describe_blame

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task

_BLAMED_COMMITS = 3  # of an excerpt, the newest
_BRIEF_TOKENS = 2_000  # a smaller budget is for the excerpts: no instructions, and short headings
_FENCE_TOKENS = 8  # of an excerpt, in addition to the words of its heading
_LEAST_HEADING_SHARE = 0.5  # with which lines are chosen: below it, many excerpts are a single line
_MAX_ATTEMPTS = 8  # to fill the budget
_WASTED_TOKENS = 30  # of a budget may stay unused
_METADATA_VALUES = ("source_type", "language", "author", "last_modified")


class Selector(Protocol):
    """Selects what to show within any budget."""

    def select(self, max_tokens: int) -> ContextSelection:
        """See `ExcerptSelector.select`."""
        ...


@dataclass(frozen=True, slots=True)
class FittedPrompt:
    """A prompt within its budget, and what it shows."""

    text: str
    selection: ContextSelection
    tokens: int  # of the text; of a chat, of all its messages
    messages: tuple[ChatMessage, ...] | None = None  # of a chat
    dropped_turns: int | None = None  # of the history of a chat


@dataclass(frozen=True, slots=True)
class PromptFitter:
    """Fits excerpts and the prompt around them into a budget."""

    task: Task  # with as much of the code around its cursor as there is room for
    budget: int
    prompt: PromptTemplate
    count: CountTokens
    sections: tuple[SectionSettings, ...] = ()  # in addition to what the searches of the task find
    cut: tuple[str, ...] = ()  # fields of the task that are not shown whole
    blame: Mapping[str, tuple[BlamedLines, ...]] = field(default_factory=dict[str, tuple[BlamedLines, ...]])

    @classmethod
    def load(cls, task: Task, budget: int, settings: ContextSettings, template: str | Path | None) -> Self:
        """With the template, by default that of the task's kind; raises as `load_template`."""
        prompt = load_template(template or task.kind, settings.templates)
        count = open_token_counter(settings.tokenizer)
        sections = _find_sections(settings, prompt.name.removesuffix(SUFFIX), task.kind)
        if task.kind != "complete_code":
            return cls(task, budget, prompt, count, sections)
        given = {"snippet": task.snippet or "", "suffix": task.suffix or ""}
        before, after = fit_code_around_cursor(*given.values(), max_tokens=budget // 2, count=count)
        kept = {"snippet": before, "suffix": after}
        cut = tuple(name for name in given if kept[name] != given[name])
        return cls(replace(task, **kept), budget, prompt, count, sections, cut)

    @property
    def is_brief(self) -> bool:
        """Whether the prompt is only the task and the excerpts."""
        return self.budget < _BRIEF_TOKENS and self.prompt.is_built_in

    def fit(self, selector: Selector) -> FittedPrompt:
        """The prompt with what is selected.

        The history of a chat gets half of what the question and the instructions leave, and what the
        excerpts do not need.
        """
        nothing = selector.select(0)
        bare = self._render(nothing)
        bare_tokens, history = self.count(bare), self.task.history
        is_chat = self.task.kind == "chat"
        question_tokens = count_message(self.task.text.strip(), self.count) + count_message("", self.count)
        room = self.budget - bare_tokens - (question_tokens if is_chat else 0)
        if room < 0:
            raise InvalidQuery(
                f"the task and the template {self.prompt.name} alone have {self.budget - room} tokens, and "
                f"max_tokens is {self.budget}: shorten the task, or allow more"
            )
        turns = keep_newest(history, room // 2, self.count)
        room -= count_messages(turns, self.count)
        text, selection = self._fill(selector, (bare, nothing), room)
        tokens = self.count(text)
        if not is_chat:
            return FittedPrompt(text, selection, tokens)
        left = room - (tokens - bare_tokens) + count_messages(turns, self.count)
        turns = keep_newest(history, left, self.count)
        return FittedPrompt(
            text,
            selection,
            tokens + question_tokens + count_messages(turns, self.count),
            build_messages(text, turns, self.task.text.strip()),
            len(history) - len(turns),
        )

    def _fill(
        self, selector: Selector, bare: tuple[str, ContextSelection], room: int
    ) -> tuple[str, ContextSelection]:
        """The prompt and what it shows, of at most `room` tokens more than the `bare` one.

        What an excerpt costs is only estimated, because a template may put anything around it: while the
        whole is too large, fewer are selected, and more while there is room for more.
        """
        allowance, bare_tokens = room, self.count(bare[0])
        low, best = 0, bare
        high: int | None = None  # allowances that are known to fit, and not to
        step = _WASTED_TOKENS // 2  # down after a failure, then twice as far: less may select the same lines
        for _ in range(_MAX_ATTEMPTS):
            selection = selector.select(allowance)
            text = self._render(selection)
            spent = self.count(text) - bare_tokens
            if spent <= room:
                low, best = allowance, (text, selection)
                is_filled = bool(selection.excerpts) and room - spent <= _WASTED_TOKENS
                if is_filled or not selection.is_cut:
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

    def estimate_heading(self, excerpt: Excerpt) -> int:
        """About the tokens of what stands around an excerpt."""
        citation = excerpt.citation
        url = None if self.is_brief else citation.url
        heading = " ".join(filter(None, (citation.path, citation.lines, citation.title, url)))
        return self.count(heading) + _FENCE_TOKENS

    @property
    def heading_share(self) -> float:
        """See `ExcerptSelector`; of a small budget in proportion to it (docs/decisions/contexts.md)."""
        return max(_LEAST_HEADING_SHARE, self.budget / _BRIEF_TOKENS) if self.is_brief else 1.0

    def _render(self, selection: ContextSelection) -> str:
        task = self.task
        excerpts = [_to_template_values(each, self._find_blame(each)) for each in selection.excerpts]
        in_sections = {number for numbers in selection.sections.values() for number in numbers}
        return self.prompt.render(
            {
                **describe_task(task),
                "excerpts": excerpts,
                "sections": [
                    {
                        "name": each.name,
                        "heading": each.heading or each.name,
                        "excerpts": [excerpts[n - 1] for n in selection.sections.get(each.name, ())],
                    }
                    for each in self.sections
                ],
                "own_excerpts": [each for each in excerpts if each["number"] not in in_sections],
                "omitted": len(selection.omitted),
                "brief": self.is_brief,
            }
        )

    def _find_blame(self, excerpt: ContextExcerpt) -> list[BlamedLines]:
        return [lines for id_ in excerpt.chunks for lines in self.blame.get(id_, ())]


def _find_sections(settings: ContextSettings, *names: str) -> tuple[SectionSettings, ...]:
    """Those of the template, else of the task's kind. Raises `ConfigError`: some are of no template."""
    known = list_template_names(settings.templates) if settings.sections else []
    if unknown := sorted(settings.sections.keys() - set(known)):
        raise ConfigError(
            f"context.sections has {', '.join(unknown)}, which no template is called: use {', '.join(known)}"
        )
    return next((settings.sections[name] for name in names if name in settings.sections), ())


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
