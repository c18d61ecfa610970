"""What a language model may ask with: typed, bounded, and read leniently where the meaning is plain.

Models that call tools give `null` for what they do not need, one word where a list is asked for, or a
list as JSON in a string. All of that is taken; a name that is not known never is, since a filter that
is silently dropped answers another question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from knowledge_pipeline.config import SourceType
from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query.engine import MAX_EXAMPLE_CHARS
from knowledge_pipeline.query.filters import Filters
from knowledge_pipeline.query.graph import MAX_DEPTH, MAX_NODES
from knowledge_pipeline.query.graph_target import MAX_CHARS as MAX_TARGET_CHARS
from knowledge_pipeline.query.profiles import MAX_RESULTS
from knowledge_pipeline.query.task_context import MAX_BUDGET_TOKENS
from knowledge_pipeline.query.task_searches import MAX_TASK_CHARS, TaskKind
from knowledge_pipeline.query.understand import MAX_CHARS, understand

MAX_WORDS = 50  # in one filter
_MAX_NAME_CHARS = 500


def _listed(given: Any) -> Any:
    """One word, or a list that came as JSON in a string, as a list."""
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("["):
        try:
            return json.loads(given)
        except ValueError:
            pass
    return [given] if given.strip() else []


Name = Annotated[str, Field(min_length=1, max_length=_MAX_NAME_CHARS)]
Words = Annotated[tuple[Name, ...], Field(max_length=MAX_WORDS), BeforeValidator(_listed)]
Types = Annotated[tuple[SourceType, ...], Field(max_length=MAX_WORDS), BeforeValidator(_listed)]
When = Annotated[str, Field(min_length=1, max_length=40)]
Limit = Annotated[int, Field(ge=1, le=MAX_RESULTS, description="How many results at most.")]

_NARROWING = frozenset(Filters.__dataclass_fields__) - {"since", "until"}


class Arguments(BaseModel):
    """Base of what a tool takes; an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_means_default(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if value is not None}

    def filters(self) -> Filters:
        """The conditions among the arguments.

        Raises:
            QuestionRefused: too many values, or a date that is none.
        """
        known = {name: getattr(self, name) for name in type(self).model_fields}
        narrowed = {name: value for name, value in known.items() if name in _NARROWING}
        moments: dict[str, Any] = {
            name: _moment(name, known[name]) for name in ("since", "until") if known.get(name)
        }
        return Filters(**narrowed, **moments)


class Asked(Arguments):
    """A question in words."""

    query: str = Field(
        min_length=1,
        max_length=MAX_CHARS,
        description="A question in plain words, keywords, or exact names and error messages. Say what is "
        "meant, not only one word: both meaning and words are searched.",
        examples=["how are sessions signed", "retry with exponential backoff in the payment client"],
    )


class Dated(Asked):
    """A question that time narrows."""

    since: When | None = Field(
        default=None,
        description="Changed then or later: a date (2025-01-31, 2025-01, 2025), or a span back from now "
        "(7d, 4w, 6m, 1y).",
    )
    until: When | None = Field(default=None, description="Changed before that; written like `since`.")


class KnowledgeQuery(Dated):
    """A question to everything."""

    type: Literal["semantic", "code", "historical"] = Field(
        default="semantic",
        description="semantic: everything; code: source code alone, deeper; historical: commits and pull "
        "requests, the newer ones first where they fit as well.",
    )
    source_types: Types = Field(
        default=(), description="Only these types of sources; `markdown` and `files` are documents."
    )
    sources: Words = Field(default=(), description="Only these sources, by id, as results name them.")
    repos: Words = Field(default=(), description="Only these repositories: `flask` or `pallets/flask`.")
    languages: Words = Field(default=(), description="Only these programming languages: `python`, `go`.")
    paths: Words = Field(default=(), description="Only these paths: `src/auth`, or globs, `**/*.sql`.")
    authors: Words = Field(default=(), description="Only by these authors, by whole words of a name.")
    limit: Limit = 5


class CodeSearch(Asked):
    """A question to source code."""

    languages: Words = Field(default=(), description="Only these programming languages: `python`, `go`.")
    repos: Words = Field(default=(), description="Only these repositories: `flask` or `pallets/flask`.")
    paths: Words = Field(default=(), description="Only these paths: `src/auth`, or globs, `**/*_test.go`.")
    sources: Words = Field(default=(), description="Only these sources, by id, as results name them.")
    limit: Limit = 10


class SearchCode(Arguments):
    """Code that others shall be like."""

    query: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_EXAMPLE_CHARS,
        description="A piece of code, taken as it is.",
        examples=["for attempt in range(times):\n    try:\n        return send()\n    except TimeoutError:"],
    )
    file: str | None = Field(
        default=None,
        min_length=1,
        max_length=_MAX_NAME_CHARS,
        description="The path of an indexed file: alone, files like it are found; with `query`, where the "
        "piece is from. Its own passages are left out.",
    )
    languages: Words = Field(default=(), description="Only these programming languages.")
    repos: Words = Field(default=(), description="Only these repositories.")
    paths: Words = Field(default=(), description="Only these paths, or globs.")
    source: Name | None = Field(
        default=None, description="The source of `file`, where several have such a path."
    )
    limit: Limit = 5

    @model_validator(mode="after")
    def _one_of_both(self) -> SearchCode:
        if self.query is None and self.file is None:
            raise ValueError("give `query`, a piece of code, or `file`, a path")
        return self


class SearchTickets(Dated):
    """A question to Jira."""

    projects: Words = Field(default=(), description="Only these projects, by key: `PAY`.")
    statuses: Words = Field(default=(), description="Only in these states: `In Progress`, `Done`.")
    labels: Words = Field(default=(), description="Only with one of these labels.")
    limit: Limit = 5


class SearchPages(Dated):
    """A question to Confluence."""

    spaces: Words = Field(default=(), description="Only these spaces, by key: `OPS`.")
    labels: Words = Field(default=(), description="Only with one of these labels.")
    authors: Words = Field(default=(), description="Only by these authors, by whole words of a name.")
    limit: Limit = 5


class Targeted(Arguments):
    """A question about a piece of code."""

    target: str = Field(
        min_length=1,
        max_length=MAX_TARGET_CHARS,
        description="What it is about: a name (`Store.get`, or its full name as an import writes it), "
        "`path:name`, `path:line` (the definition around the line), a file, or a folder.",
        examples=["Store.get", "src/store.py:Store.get", "src/store.py:120", "src/store.py"],
    )
    sources: Words = Field(default=(), description="Look for the target in these sources alone, by id.")
    repos: Words = Field(default=(), description="Look for the target in these repositories alone.")
    languages: Words = Field(default=(), description="Look for the target in these languages alone.")
    paths: Words = Field(default=(), description="Look for the target in these paths alone, or globs.")
    limit: int = Field(
        default=50, ge=1, le=MAX_NODES, description="How many definitions beside the target at most."
    )


class Related(Targeted):
    """Definitions that have most to do with one."""

    limit: int = Field(default=20, ge=1, le=MAX_NODES, description="How many definitions at most.")


class Stepped(Targeted):
    """A walk of one step, unless more are asked for."""

    depth: int = Field(default=1, ge=1, le=MAX_DEPTH, description="How many steps away from the target.")


class Deep(Stepped):
    """A walk that goes on."""

    depth: int = Field(default=3, ge=1, le=MAX_DEPTH, description="How many steps away from the target.")


class Hierarchy(Stepped):
    """A walk along inheritance."""

    depth: int = Field(default=5, ge=1, le=MAX_DEPTH, description="How many levels up and down.")


class Calls(Stepped):
    """A walk along calls."""

    direction: Literal["callers", "callees", "both"] = Field(
        default="both", description="callers: what calls the target; callees: what it calls."
    )


class GetDocument(Arguments):
    """A document, or one chunk of it."""

    id: str = Field(
        min_length=1,
        max_length=4_000,
        description="An `id` of a result (that passage alone), or `source:uri` of a document, as results "
        "tell it under `document` (all of it).",
    )
    offset: int = Field(default=0, ge=0, description="How many passages to skip: for long documents.")
    limit: int = Field(default=40, ge=1, le=500, description="How many passages at most.")


class BuildContext(Arguments):
    """A task that is to be done."""

    task: str = Field(
        min_length=1,
        max_length=MAX_TASK_CHARS,
        description="What is to be done, in a sentence or a whole ticket.",
        examples=["add retries to the payment client"],
    )
    kind: TaskKind = Field(default="code_generation", description="Which searches suit it.")
    file: Name | None = Field(default=None, description="The path of the file that the task is about.")
    source: Name | None = Field(
        default=None, description="The source of `file`, where several have such a path."
    )
    snippet: str | None = Field(
        default=None,
        max_length=MAX_EXAMPLE_CHARS,
        description="Code that the task is about: a selection, a diff, a conflict.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=100,
        le=MAX_BUDGET_TOKENS,
        description="What the whole text may cost; by default as the operator says, as a rule 4,000.",
    )
    sources: Words = Field(default=(), description="Only these sources, by id.")
    repos: Words = Field(default=(), description="Only these repositories.")
    languages: Words = Field(default=(), description="Only these programming languages.")


_Read = TypeVar("_Read", bound=Arguments)


def read(model: type[_Read], given: object) -> _Read:
    """The arguments of a call.

    Raises:
        QuestionRefused: one sentence with every name that is wrong, and why.
    """
    if given is not None and not isinstance(given, Mapping):
        raise QuestionRefused(f"the arguments are no object: give one, with {', '.join(model.model_fields)}")
    try:
        return model.model_validate(given or {})
    except ValidationError as error:
        raise QuestionRefused(_sentence(error, model)) from None


def schema_of(model: type[BaseModel], *, output: bool = False) -> dict[str, Any]:
    """The JSON schema of a model, without what only costs a reader: titles, and `null` beside a type."""
    made = model.model_json_schema(mode="serialization" if output else "validation")
    return _without_titles(made if output else _without_null(made))


def _sentence(error: ValidationError, model: type[Arguments]) -> str:
    wrong = error.errors(include_url=False, include_input=False)
    said = "; ".join(dict.fromkeys(_said(each["loc"], each["msg"], each["type"]) for each in wrong))
    if any(each["type"] == "extra_forbidden" for each in wrong):
        return f"{said}; allowed: {', '.join(model.model_fields)}"
    return said


def _said(place: tuple[int | str, ...], message: str, kind: str) -> str:
    named = ".".join(str(part) for part in place if not str(part).startswith("function-"))
    if kind == "extra_forbidden":
        return f"there is no argument {named!r}"
    if kind == "missing":
        return f"{named} is missing"
    told = message.removeprefix("Value error, ")
    return f"{named}: {told[:1].lower()}{told[1:]}" if named else told


def _moment(name: str, value: str) -> datetime | None:
    """A date or span, as it is understood inside a question too."""
    understood = understand(f'changed {name}:"{value}"').filters
    moment = understood.since if name == "since" else understood.until
    if moment is None:
        raise QuestionRefused(f"found {name} {value!r}; allowed: a date such as 2024-01-31, or a span: 30d")
    return moment


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_titles(value)
        for name, value in schema.items()
        if not (name == "title" and isinstance(value, str))
    }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """An argument that is not needed is left out: that `null` and `[]` are taken as well need not be told."""
    return {**schema, "properties": {name: _needed(each) for name, each in schema["properties"].items()}}


def _needed(argument: dict[str, Any]) -> dict[str, Any]:
    if argument.get("type") == "array":
        return {name: each for name, each in argument.items() if name != "default"}
    some = [each for each in argument.get("anyOf", ()) if each != {"type": "null"}]
    if len(some) != 1 or argument.get("default", ...) is not None:
        return argument
    return {**some[0], **{name: each for name, each in argument.items() if name not in ("anyOf", "default")}}
