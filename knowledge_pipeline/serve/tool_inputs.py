"""What a language model may ask with: typed, bounded, and read leniently where the meaning is plain.

Models that call tools give `null` for what they do not need, one word where a list is asked for, or a
list as JSON in a string. All of that is taken; a name that is not known never is, since a filter that
is silently dropped answers another question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.types import MAX_QUERY_CHARS, MAX_RESULTS, SourceType
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.times import parse_query_time

MAX_FILTER_VALUES = 50  # in one filter
MAX_NAME_CHARS = 500


def _to_list(value: Any) -> Any:
    """One word, or a list that came as JSON in a string, as a list."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            pass
    return [value] if value.strip() else []


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
FilterValues = Annotated[tuple[Name, ...], Field(max_length=MAX_FILTER_VALUES), BeforeValidator(_to_list)]
SourceTypes = Annotated[
    tuple[SourceType, ...], Field(max_length=MAX_FILTER_VALUES), BeforeValidator(_to_list)
]
DateText = Annotated[str, Field(min_length=1, max_length=40)]
Limit = Annotated[int, Field(ge=1, le=MAX_RESULTS, description="How many results at most.")]

_VALUE_FILTERS = frozenset(Filters.__dataclass_fields__) - {"since", "until"}


class ToolInput(BaseModel):
    """Base of what a tool takes; an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {name: value for name, value in data.items() if value is not None}

    def to_filters(self) -> Filters:
        """The conditions among the arguments.

        Raises:
            QuestionRefused: too many values, or a date that is none.
        """
        known = {name: getattr(self, name) for name in type(self).model_fields}
        narrowed = {name: value for name, value in known.items() if name in _VALUE_FILTERS}
        moments: dict[str, Any] = {
            name: parse_query_time(name, known[name]) for name in ("since", "until") if known.get(name)
        }
        return Filters(**narrowed, **moments)


class QueryInput(ToolInput):
    """A question in words."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="A question in plain words, keywords, or exact names and error messages. Say what is "
        "meant, not only one word: both meaning and words are searched.",
        examples=["how are sessions signed", "retry with exponential backoff in the payment client"],
    )


class DatedQueryInput(QueryInput):
    """A question that time narrows."""

    since: DateText | None = Field(
        default=None,
        description="Changed then or later: a date (2025-01-31, 2025-01, 2025), or a span back from now "
        "(7d, 4w, 6m, 1y).",
    )
    until: DateText | None = Field(default=None, description="Changed before that; written like `since`.")


class KnowledgeQueryInput(DatedQueryInput):
    """A question to everything."""

    type: Literal["semantic", "code", "historical"] = Field(
        default="semantic",
        description="semantic: everything; code: source code alone, deeper; historical: commits and pull "
        "requests, the newer ones first where they fit as well.",
    )
    source_types: SourceTypes = Field(
        default=(), description="Only these types of sources; `markdown` and `files` are documents."
    )
    sources: FilterValues = Field(default=(), description="Only these sources, by id, as results name them.")
    repos: FilterValues = Field(
        default=(), description="Only these repositories: `flask` or `pallets/flask`."
    )
    languages: FilterValues = Field(
        default=(), description="Only these programming languages: `python`, `go`."
    )
    paths: FilterValues = Field(default=(), description="Only these paths: `src/auth`, or globs, `**/*.sql`.")
    authors: FilterValues = Field(default=(), description="Only by these authors, by whole words of a name.")
    limit: Limit = 5


_InputT = TypeVar("_InputT", bound=ToolInput)


def parse_input(model: type[_InputT], arguments: object) -> _InputT:
    """The arguments of a call.

    Raises:
        QuestionRefused: one sentence with every name that is wrong, and why.
    """
    if arguments is not None and not isinstance(arguments, Mapping):
        raise InvalidQuery(f"the arguments are no object: give one, with {', '.join(model.model_fields)}")
    try:
        return model.model_validate(arguments or {})
    except ValidationError as error:
        raise InvalidQuery(_format_validation_error(error, model)) from None


def schema_of(model: type[BaseModel], *, output: bool = False) -> dict[str, Any]:
    """The JSON schema of a model, without what only costs a reader: titles, and `null` beside a type."""
    made = model.model_json_schema(mode="serialization" if output else "validation")
    return _strip_titles(made if output else _strip_nulls(made))


def _format_validation_error(error: ValidationError, model: type[ToolInput]) -> str:
    wrong = error.errors(include_url=False, include_input=False)
    said = "; ".join(
        dict.fromkeys(_format_field_error(each["loc"], each["msg"], each["type"]) for each in wrong)
    )
    if any(each["type"] == "extra_forbidden" for each in wrong):
        return f"{said}; allowed: {', '.join(model.model_fields)}"
    return said


def _format_field_error(location: tuple[int | str, ...], message: str, error_type: str) -> str:
    named = ".".join(str(part) for part in location if not str(part).startswith("function-"))
    if error_type == "extra_forbidden":
        return f"there is no argument {named!r}"
    if error_type == "missing":
        return f"{named} is missing"
    told = message.removeprefix("Value error, ")
    return f"{named}: {told[:1].lower()}{told[1:]}" if named else told


def _strip_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strip_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _strip_titles(value)
        for name, value in schema.items()
        if not (name == "title" and isinstance(value, str))
    }


def _strip_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """An argument that is not needed is left out: that `null` and `[]` are taken as well need not be told."""
    return {
        **schema,
        "properties": {name: _simplify_property(each) for name, each in schema["properties"].items()},
    }


def _simplify_property(property_schema: dict[str, Any]) -> dict[str, Any]:
    if property_schema.get("type") == "array":
        return {name: each for name, each in property_schema.items() if name != "default"}
    some = [each for each in property_schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(some) != 1 or property_schema.get("default", ...) is not None:
        return property_schema
    return {
        **some[0],
        **{name: each for name, each in property_schema.items() if name not in ("anyOf", "default")},
    }
