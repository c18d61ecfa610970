"""Fits excerpts, the prompt around them, and the messages of a chat into a budget.

Prompts are rendered by Jinja2 in a sandbox. Quoted content is only ever a value, never a template. A template
can run forever, so a service takes only names from its callers.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from knowledge_pipeline.config.operation import ContextSettings, SectionSettings
from knowledge_pipeline.context.select import ContextSelection, Excerpt, summarize
from knowledge_pipeline.context.task_text import describe_task, fit_code_around_cursor
from knowledge_pipeline.context.tokens import CountTokens, open_token_counter
from knowledge_pipeline.contract.base import to_json
from knowledge_pipeline.contract.describe import describe_blame
from knowledge_pipeline.contract.requests import ChatMessage, ChatTurn
from knowledge_pipeline.contract.responses import BlamedLines, Citation, ContextExcerpt
from knowledge_pipeline.errors import ConfigError, InvalidQuery

if TYPE_CHECKING:
    from jinja2 import Environment, Template

    from knowledge_pipeline.contract.requests import Task


SUFFIX = ".j2"
MAX_PIECES = 1_000_000  # of text that a template may produce, so that its loops end

_PACKAGE_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"\w[\w.-]*")
_FENCE = re.compile(r"`{3,}")
_LANGUAGE = re.compile(r"[\w+#-]{1,20}")


def load_template(template: str | Path, folder: Path | None) -> PromptTemplate:
    """Load a template by name, with or without `.j2`, or by path; the folder is `context.templates`.

    Raises:
        InvalidQuery: there is no such template, or it is wrong.
        ConfigError: the folder does not exist.
    """
    from jinja2 import TemplateError, TemplateNotFound

    if folder is not None and not folder.is_dir():
        raise ConfigError(f"the folder {folder} does not exist: correct context.templates")
    folders = tuple(filter(None, (folder, _PACKAGE_TEMPLATES)))
    if isinstance(template, Path):
        name, folders = template.name, (template.expanduser().absolute().parent, *folders)
    else:
        name = template if template.endswith(SUFFIX) else f"{template}{SUFFIX}"
    if not isinstance(template, Path) and not _NAME.fullmatch(name):
        raise InvalidQuery(f"found the template {template!r}; allowed: {', '.join(_list_names(folders))}")
    try:
        return PromptTemplate(name, _build_environment(*map(str, folders)).get_template(name))
    except TemplateNotFound as error:
        if error.name != name:
            raise InvalidQuery(_describe_error(name, error)) from error
        names = ", ".join(_list_names(folders))
        problem = "no such file" if isinstance(template, Path) else f"known are {names}"
        raise InvalidQuery(f"there is no template {str(template)!r}: {problem}") from error
    except (TemplateError, OSError, UnicodeDecodeError) as error:
        raise InvalidQuery(_describe_error(name, error)) from error


def render_query(text: str, origin: str, values: Mapping[str, Any]) -> str:
    """Render a template that is written in `knowledge.yaml`; `origin` says where, for its errors.

    Raises `ConfigError`: the template is wrong.
    """
    from jinja2 import TemplateError

    try:
        template = _build_environment(str(_PACKAGE_TEMPLATES)).from_string(text)
        return " ".join(PromptTemplate(origin, template).render(values).split())
    except (TemplateError, InvalidQuery) as error:
        raise ConfigError(f"{origin} is wrong: {to_one_line(error)}") from error


class PromptTemplate:
    """A loaded template."""

    def __init__(self, name: str, template: Template) -> None:
        self.name = name
        self._template = template
        self.is_built_in = Path(template.filename or "").parent == _PACKAGE_TEMPLATES
        """Whether it is of this package: another says itself what a small budget shows."""

    def render(self, values: Mapping[str, Any]) -> str:
        """Render the template with some values.

        Raises `InvalidQuery`: the template is wrong: it uses an unknown name, or produces too much text.
        """
        pieces: list[str] = []
        try:
            for piece in self._template.generate(**values):
                pieces.append(piece)
                if len(pieces) > MAX_PIECES:
                    raise OverflowError(f"it makes more than {MAX_PIECES:,} pieces of text")
        except Exception as error:  # a template can raise anything: it divides, indexes, calls
            raise InvalidQuery(_describe_error(self.name, error)) from error
        return "".join(pieces)


@lru_cache(maxsize=16)
def _build_environment(*folders: str) -> Environment:
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(folders),
        autoescape=False,  # a prompt is text, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"fenced": fence_text, "one_line": to_one_line}
    return environment


def fence_text(text: str, language: str | None = None) -> str:
    """The text as a Markdown code block, with a fence longer than any in the text."""
    longest = max(map(len, _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    info = language if language and _LANGUAGE.fullmatch(language) else ""
    return f"{fence}{info}\n{text}\n{fence}"


def to_one_line(text: Any) -> str:
    """The text on one line, without control characters: a title or path cannot open a section of its own."""
    return " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())


def _list_names(folders: Iterable[Path | None]) -> list[str]:
    names = {path.stem for folder in folders if folder for path in folder.glob(f"*{SUFFIX}")}
    return sorted(names - {"base", "passages"})


def _describe_error(name: str, error: Exception) -> str:
    """One sentence: `the template my.j2, line 3, is wrong: 'tsk' is undefined`."""
    line = getattr(error, "lineno", None)
    if line is None:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if Path(frame.filename).name == name), None)
    where = f", line {line}," if line else ""
    reason = getattr(error, "message", None) or str(error) or type(error).__name__
    return f"the template {name}{where} is wrong: {to_one_line(reason).rstrip('.')}"


_MESSAGE_TOKENS = 4  # of a message, in addition to its content: its role, its begin and end


def _count_messages(turns: Iterable[ChatTurn], count: CountTokens) -> int:
    return sum(count(turn.content) + _MESSAGE_TOKENS for turn in turns)


def keep_newest(history: Sequence[ChatTurn], max_tokens: int, count: CountTokens) -> tuple[ChatTurn, ...]:
    """The newest messages that fit; an answer whose question is dropped is dropped as well."""
    first = len(history)
    for at in reversed(range(len(history))):
        max_tokens -= _count_messages(history[at : at + 1], count)
        if max_tokens < 0:
            break
        first = at
    while 0 < first < len(history) and history[first].role == "assistant":
        first += 1
    return tuple(history[first:])


_BLAMED_COMMITS = 3  # of an excerpt, the newest
_BRIEF_TOKENS = 2_000  # a smaller budget is for the excerpts: no instructions, and short headings
_FENCE_TOKENS = 8  # of an excerpt, in addition to the words of its heading
_LEAST_HEADING_SHARE = 0.5  # with which lines are chosen: below it, many excerpts are a single line
_MAX_ATTEMPTS = 8  # to fill the budget
_WASTED_TOKENS = 30  # of a budget may stay unused
_METADATA_VALUES = ("source_type", "language", "author", "last_modified")


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
    locate: Callable[[ContextExcerpt], ContextExcerpt] = lambda excerpt: excerpt  # by its lines of now

    @classmethod
    def load(cls, task: Task, budget: int, settings: ContextSettings, template: str | Path | None) -> Self:
        """With the template, by default that of the task's kind; raises as `load_template`."""
        prompt = load_template(template or task.kind, settings.templates)
        count = open_token_counter(settings.tokenizer)
        sections = _find_sections(settings, prompt.name.removesuffix(SUFFIX), task.kind)
        if task.kind != "complete_code":
            return cls(task, budget, prompt, count, sections)
        whole = {"snippet": task.snippet or "", "suffix": task.suffix or ""}
        before, after = fit_code_around_cursor(*whole.values(), max_tokens=budget // 2, count=count)
        kept = {"snippet": before, "suffix": after}
        cut = tuple(name for name in whole if kept[name] != whole[name])
        return cls(replace(task, **kept), budget, prompt, count, sections, cut)

    @property
    def is_brief(self) -> bool:
        """Whether the prompt is only the task and the excerpts."""
        return self.budget < _BRIEF_TOKENS and self.prompt.is_built_in

    def fit(self, select: Callable[[int], ContextSelection]) -> FittedPrompt:
        """The prompt with what is selected.

        The history of a chat gets half of what the question and the instructions leave, and what the
        excerpts do not need.
        """
        nothing = select(0)
        bare = self._render(nothing)
        bare_tokens, history = self.count(bare), self.task.history
        is_chat = self.task.kind == "chat"
        question = self.task.text.strip()
        question_tokens = self.count(question) + self.count("") + 2 * _MESSAGE_TOKENS  # and the instructions'
        room = self.budget - bare_tokens - (question_tokens if is_chat else 0)
        if room < 0:
            raise InvalidQuery(
                f"the task and the template {self.prompt.name} alone have {self.budget - room} tokens, and "
                f"max_tokens is {self.budget}: shorten the task, or allow more"
            )
        turns = keep_newest(history, room // 2, self.count)
        room -= _count_messages(turns, self.count)
        text, selection = self._fill(select, (bare, nothing), room)
        tokens = self.count(text)
        if not is_chat:
            return FittedPrompt(text, selection, tokens)
        left = room - (tokens - bare_tokens) + _count_messages(turns, self.count)
        turns = keep_newest(history, left, self.count)
        tokens += question_tokens + _count_messages(turns, self.count)
        shown_turns = (ChatMessage(turn.role, turn.content) for turn in turns)
        messages = (ChatMessage("system", text), *shown_turns, ChatMessage("user", question))
        return FittedPrompt(text, selection, tokens, messages, len(history) - len(turns))

    def _fill(
        self, select: Callable[[int], ContextSelection], bare: tuple[str, ContextSelection], room: int
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
            selection = select(allowance)
            selection = replace(selection, excerpts=tuple(map(self.locate, selection.excerpts)))
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
        excerpts: list[dict[str, Any]] = []
        for excerpt in selection.excerpts:
            blame = [lines for id_ in excerpt.chunks for lines in self.blame.get(id_, ())]
            excerpts.append(_to_template_values(excerpt, blame))
        in_sections = {number for numbers in selection.sections.values() for number in numbers}
        return self.prompt.render(
            {
                **describe_task(task),
                "excerpts": excerpts,
                "sections": [
                    {
                        "name": section.name,
                        "heading": section.heading or section.name,
                        "format": section.format,
                        "excerpts": [excerpts[n - 1] for n in selection.sections.get(section.name, ())],
                    }
                    for section in self.sections
                ],
                "own_excerpts": [excerpt for excerpt in excerpts if excerpt["number"] not in in_sections],
                "omitted": len(selection.omitted),
                "brief": self.is_brief,
            }
        )


def _find_sections(settings: ContextSettings, *names: str) -> tuple[SectionSettings, ...]:
    """Those of the template, else of the task's kind. Raises `ConfigError`: some are of no template."""
    existing = _list_names((settings.templates, _PACKAGE_TEMPLATES)) if settings.sections else []
    if unknown := sorted(settings.sections.keys() - set(existing)):
        raise ConfigError(
            f"context.sections has {', '.join(unknown)}, which no template is called: "
            f"use {', '.join(existing)}"
        )
    return next((settings.sections[name] for name in names if name in settings.sections), ())


def _to_template_values(excerpt: ContextExcerpt, blame: Sequence[BlamedLines]) -> dict[str, Any]:
    """An excerpt as templates get it: see docs/context.md."""
    return {
        "number": excerpt.number,
        "text": excerpt.text,
        "summary": summarize(excerpt.text, excerpt.citation.title),
        **_citation_to_values(excerpt.citation),
        "score": excerpt.score,
        "symbols": list(excerpt.symbols),
        **{name: excerpt.metadata.get(name) for name in _METADATA_VALUES},
        "metadata": to_json(dict(excerpt.metadata)),
        "found_by": list(excerpt.found_by),
        "missing_lines": excerpt.missing_lines,
        "within": excerpt.within,
        "blame": list(describe_blame(blame, max_named=_BLAMED_COMMITS)),
        "near_duplicates": [_citation_to_values(citation) for citation in excerpt.near_duplicates],
    }


def _citation_to_values(citation: Citation) -> dict[str, Any]:
    """With lines as people write them: "lines 10-24"."""
    lines = citation.lines.replace("L", "")
    return {**asdict(citation), "lines": f"lines {lines}" if "-" in lines else f"line {lines}"}
