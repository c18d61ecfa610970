"""Pydantic's errors, translated for the person who writes `knowledge.yaml`.

One problem per error: where, what was found, what is allowed, what was probably meant.
Values are shown as written in the file, before `${NAME}` is replaced; secrets never are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from pydantic import SecretStr
from pydantic_core import ErrorDetails

from knowledge_pipeline.config.model import SettingsModel
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.yaml_lines import ConfigPath, ConfigProblem, ParsedConfig
from knowledge_pipeline.contract.filters import FILTER_NAMES

_ALLOWED_BY_KEY = {
    "id": "a-z, 0-9, - and _, at most 64, a letter or digit first",
    "custom": "package.module:function",
    "account": "a-z and 0-9, 3 to 24 characters",
    "container": "a-z, 0-9 and -, 3 to 63 characters, a letter or digit first and last",
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
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "a mapping of keys to values"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
}


def _list_leaf_types(annotation: Any) -> Iterator[Any]:
    """The types in an annotation: `tuple[X, ...] | None` gives X and None."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for part in inner:
        yield from _list_leaf_types(part)


def _list_settings_models(model: type[SettingsModel]) -> Iterator[type[SettingsModel]]:
    """All settings that derive from a model."""
    for subclass in model.__subclasses__():
        yield subclass
        yield from _list_settings_models(subclass)


SECRET_KEYS = frozenset(
    name
    for model in _list_settings_models(SettingsModel)
    for name, field in model.model_fields.items()
    if SecretStr in _list_leaf_types(field.annotation)
)


def list_models(annotation: Any) -> list[type[SettingsModel]]:
    """The settings that a field holds: none for a plain value, several for a tagged union."""
    leaves = _list_leaf_types(annotation)
    return [leaf for leaf in leaves if isinstance(leaf, type) and issubclass(leaf, SettingsModel)]


@dataclass(frozen=True, slots=True)
class _ErrorLocation:
    """A path in the file, the settings that hold its last key, and the settings that it may open."""

    key_path: ConfigPath
    parent_model: type[SettingsModel] | None
    models: list[type[SettingsModel]]


def to_problem(
    error: ErrorDetails, parsed: ParsedConfig, model: type[SettingsModel] = Settings
) -> ConfigProblem:
    """Translate one of pydantic's errors about a file that `model` describes."""
    location = _locate_error(error["loc"], model)
    key_path = (*location.key_path, "type") if error["type"].startswith("union_tag") else location.key_path
    text = _describe_error(error, location, key_path, parsed)
    return ConfigProblem(parsed.line_of(key_path), key_path, text)


def _describe_error(
    error: ErrorDetails, location: _ErrorLocation, key_path: ConfigPath, parsed: ParsedConfig
) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        keys = sorted(location.parent_model.model_fields) if location.parent_model else []
        return f"found an unknown key; allowed: {', '.join(keys)}{_suggest_choice(key_path[-1], keys)}"
    if kind == "unexpected_keyword_argument":
        suggestion = _suggest_choice(key_path[-1], FILTER_NAMES)  # the one dataclass among the settings
        return f"found an unknown key; allowed: {', '.join(FILTER_NAMES)}{suggestion}"
    if kind == "union_tag_not_found":
        tags = ", ".join(tag for model in location.models for tag in _list_type_tags(model))
        return f"found nothing; required: one of {tags}"
    if kind == "missing":
        return "found nothing; required: add the key"
    value = parsed.value_at(key_path)
    if kind in ("literal_error", "union_tag_invalid"):
        expected = str(context.get("expected") or context.get("expected_tags"))
        choices = re.findall(r"'([^']*)'", expected) or [expected]  # from "'a', 'b' or 'c'"
        allowed = f"{', '.join(choices)}{_suggest_choice(value, choices)}"
    else:
        allowed = _describe_allowed(error, key_path)
    return f"found {_describe_found(key_path, value)}; allowed: {allowed}"


def _locate_error(loc: tuple[int | str, ...], model: type[SettingsModel]) -> _ErrorLocation:
    """Follow pydantic's location through the settings; it names the tag of a union, the file does not."""
    found = _ErrorLocation((), None, [model])
    for part in loc:
        if isinstance(part, int):
            found = replace(found, key_path=(*found.key_path, part))
        elif len(found.models) > 1:
            found = replace(found, models=[each for each in found.models if part in _list_type_tags(each)])
        else:
            parent = found.models[0] if found.models else None
            field = parent.model_fields.get(part) if parent else None
            models = list_models(field.annotation) if field else []
            found = _ErrorLocation((*found.key_path, part), parent, models)
    return found


def _list_type_tags(model: type[SettingsModel]) -> tuple[str, ...]:
    return get_args(model.model_fields["type"].annotation)


def _suggest_choice(written: object, choices: Sequence[str]) -> str:
    close = difflib.get_close_matches(written.lower(), choices, n=1) if isinstance(written, str) else []
    return f"; did you mean '{close[0]}'?" if close else ""


def _describe_found(key_path: ConfigPath, value: Any) -> str:
    if value is None:
        return "nothing"
    if not isinstance(value, str):
        return "a list" if isinstance(value, list) else "a mapping"
    if SECRET_KEYS.intersection(key_path) or "@" in value or "://" in value:
        return "text"
    return ascii(value if len(value) <= 60 else f"{value[:60]}...")


def _describe_allowed(error: ErrorDetails, key_path: ConfigPath) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "string_pattern_mismatch":
        key = next((part for part in reversed(key_path) if isinstance(part, str)), "")
        return _ALLOWED_BY_KEY.get(key) or f"text like {context['pattern']}"
    if kind.startswith("int_"):
        return "a whole number"
    if kind in _BOUNDS:
        return f"{_BOUNDS[kind]} {next(iter(context.values()))}"
    return _ALLOWED_BY_KIND.get(kind) or error["msg"].removeprefix("Input should be ")
