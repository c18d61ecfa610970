"""What pydantic refuses, said for the person who writes `knowledge.yaml`.

One problem per refusal: where, what was found, what is allowed, what was probably meant.
Values are shown as written in the file, before `${NAME}` is replaced, secrets never.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from pydantic import SecretStr
from pydantic_core import ErrorDetails

from knowledge_pipeline.config.settings import Frozen, Settings
from knowledge_pipeline.config.yaml_lines import Parsed, Place, Problem

_SHOWN_CHARS = 60

_ALLOWED_AT = {
    "id": "a-z, 0-9, - and _, at most 64, a letter or digit first",
    "custom": "package.module:function",
}
_BOUNDS = {
    "greater_than": "a number above",
    "greater_than_equal": "a number of at least",
    "less_than": "a number below",
    "less_than_equal": "a number of at most",
}
_ALLOWED_BY_KIND = {
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "tuple_type": "a list",
    "path_type": "a path",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "dict_type": "a mapping of keys to values",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "float_parsing": "a number",
}


def _leaves(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of: `tuple[X, ...] | None` gives X and None."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for part in inner:
        yield from _leaves(part)


def _settings(model: type[Frozen]) -> Iterator[type[Frozen]]:
    """All settings that are made of a model."""
    for made in model.__subclasses__():
        yield made
        yield from _settings(made)


SECRET_KEYS = frozenset(
    name
    for model in _settings(Frozen)
    for name, field in model.model_fields.items()
    if SecretStr in _leaves(field.annotation)
)


def models_of(annotation: Any) -> list[type[Frozen]]:
    """The settings that a field holds: none for a plain value, several for a tagged union."""
    return [leaf for leaf in _leaves(annotation) if isinstance(leaf, type) and issubclass(leaf, Frozen)]


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place in the file, the settings that hold its last key, and those it may open."""

    place: Place
    holder: type[Frozen] | None
    models: list[type[Frozen]]


def problem_of(error: ErrorDetails, parsed: Parsed, model: type[Frozen] = Settings) -> Problem:
    """Translate one of pydantic's errors about a file that `model` describes."""
    spot = _spot(error["loc"], model)
    place = (*spot.place, "type") if error["type"].startswith("union_tag") else spot.place
    return Problem(parsed.line(place), place, _sentence(error, spot, place, parsed))


def _sentence(error: ErrorDetails, spot: _Spot, place: Place, parsed: Parsed) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        keys = sorted(spot.holder.model_fields) if spot.holder else []
        return f"found an unknown key; allowed: {', '.join(keys)}{_meant(place[-1], keys)}"
    if kind == "union_tag_not_found":
        return f"found nothing; required: one of {', '.join(tag for m in spot.models for tag in _tags(m))}"
    if kind == "missing":
        return "found nothing; required: add the key"
    found = _found(place, parsed)
    if kind in ("literal_error", "union_tag_invalid"):
        choices = _choices(str(context.get("expected") or context.get("expected_tags")))
        return f"found {found}; allowed: {', '.join(choices)}{_meant(parsed.at(place), choices)}"
    return f"found {found}; allowed: {_allowed(error, place)}"


def _spot(loc: tuple[int | str, ...], model: type[Frozen]) -> _Spot:
    """Follow pydantic's location through the settings; it names the tag of a union, the file does not."""
    spot = _Spot((), None, [model])
    for part in loc:
        if isinstance(part, int):
            spot = replace(spot, place=(*spot.place, part))
        elif len(spot.models) > 1:
            spot = replace(spot, models=[model for model in spot.models if part in _tags(model)])
        else:
            spot = _inside(spot, part)
    return spot


def _inside(spot: _Spot, key: str) -> _Spot:
    holder = spot.models[0] if spot.models else None
    field = holder.model_fields.get(key) if holder else None
    return _Spot((*spot.place, key), holder, models_of(field.annotation) if field else [])


def _tags(model: type[Frozen]) -> tuple[str, ...]:
    return get_args(model.model_fields["type"].annotation)


def _choices(expected: str) -> list[str]:
    """The values in pydantic's "'a', 'b' or 'c'"."""
    return re.findall(r"'([^']*)'", expected) or [expected]


def _meant(found: object, choices: Sequence[str]) -> str:
    if not isinstance(found, str):
        return ""
    close = difflib.get_close_matches(found.lower(), choices, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _found(place: Place, parsed: Parsed) -> str:
    value = parsed.at(place)
    if value is None:
        return "nothing"
    if not isinstance(value, str):
        return "a list" if isinstance(value, list) else "a mapping"
    if SECRET_KEYS.intersection(place) or "@" in value or "://" in value:
        return "text"
    return ascii(value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "...")


def _allowed(error: ErrorDetails, place: Place) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "string_pattern_mismatch":
        key = next((part for part in reversed(place) if isinstance(part, str)), "")
        return _ALLOWED_AT.get(key) or f"text like {context['pattern']}"
    if kind.startswith("int_"):
        return "a whole number"
    if kind in _BOUNDS:
        return f"{_BOUNDS[kind]} {next(iter(context.values()))}"
    return _ALLOWED_BY_KIND.get(kind) or error["msg"].removeprefix("Input should be ")
