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

from knowledge_pipeline.config.settings import SourceType
from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query.filters import Filters
from knowledge_pipeline.query.search.profiles import MAX_RESULTS
from knowledge_pipeline.query.search.understand import MAX_CHARS, understand

MAX_WORDS = 50  # in one filter
MAX_NAME_CHARS = 500


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


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
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
