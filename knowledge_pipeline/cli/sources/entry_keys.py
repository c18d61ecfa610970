"""`--set KEY=VALUE` of `sources add`: every key that an entry of knowledge.yaml may have."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args, get_origin

from knowledge_pipeline.cli.session import WrongUsage
from knowledge_pipeline.config.model import SettingsModel
from knowledge_pipeline.config.sources.filters import FILTER_TYPES, AttachmentSettings
from knowledge_pipeline.json_values import is_list, is_object

_OPTIONS = {"id": "--id", "type": "TYPE", "connection.type": "--path or --url"}
"""Keys that have an option of their own, which decides other things as well."""

_SECTIONS = ("access", "chunking", "embedding", "metadata", "refresh", "sanitize")
_WIDTH = 78


def apply_assignments(entry: dict[str, Any], assignments: Sequence[str]) -> None:
    """Set keys such as `access.visibility=private` in an entry; what is wrong with them, its settings say.

    Of a list, a value has one or several, separated by commas, and repeating the key adds to it.

    Raises:
        WrongUsage: an assignment is not `KEY=VALUE`, or its key has an option of its own.
    """
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        *holders, key = name.strip().split(".")
        if not equals or not all((*holders, key)):
            raise WrongUsage(f"found --set {assignment}; allowed: a key of the source: labels=bug,urgent")
        if option := _OPTIONS.get(name.strip()):
            raise WrongUsage(f"--set cannot set {name.strip()}: {option} does")
        place: dict[str, Any] = entry
        for holder in holders:
            inner = place.setdefault(holder, {})
            if not is_object(inner):
                raise WrongUsage(f"--set {name}: {holder} holds a value, not keys")
            place = inner
        value = _read_value(text, _find_annotation(entry, (*holders, key)))
        known = place.get(key)
        place[key] = [*known, *value] if is_list(known) and is_list(value) else value


def describe_keys() -> str:
    """The keys of `--set` by type of source, as lines for the help."""
    lines = ["every type", *_wrap([*_list_common_keys()])]
    for source_type in dict.fromkeys(each for types in FILTER_TYPES.values() for each in types):
        own = [name for name, types in FILTER_TYPES.items() if source_type in types]
        lines += [source_type, *_wrap(own)]
    return "\n".join(lines)


def _wrap(names: Sequence[str]) -> list[str]:
    return textwrap.wrap(", ".join(names), _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _list_common_keys() -> Iterator[str]:
    """Keys of the sections that every source has; of a connection and an embedding there are many."""
    from knowledge_pipeline.config.problems import list_models
    from knowledge_pipeline.config.sources.source import SourceConfig

    yield from ("namespace", "content_type", "upstream")
    for section in _SECTIONS:
        (model,) = list_models(SourceConfig.model_fields[section].annotation)
        yield from (f"{section}.{name}" for name in model.model_fields)
    yield "connection.KEY"


def _find_annotation(entry: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The type of a key; None for an unknown one, which the settings refuse. `Any`: a type's own type."""
    from knowledge_pipeline.config.problems import list_models
    from knowledge_pipeline.config.sources.source import SourceConfig

    models: list[type[SettingsModel]] = [SourceConfig]
    annotation: Any = None
    for key in path:
        found = [model.model_fields[key] for model in models if key in model.model_fields]
        annotation = found[0].annotation if found else None
        models = list_models(annotation)
        if key == "connection":
            tag = entry["connection"].get("type")
            models = [each for each in models if tag in get_args(each.model_fields["type"].annotation)]
    return annotation


def _read_value(text: str, annotation: Any) -> Any:
    """A value as the file would have it: lists by commas or as JSON, numbers and switches, else the text."""
    parts = _list_types(annotation)
    if any(part in (tuple, list) for part in parts):
        return _parse_json(text) if text.startswith("[") else [each.strip() for each in text.split(",")]
    is_switch = text in ("true", "false") and AttachmentSettings in parts  # of a whole section
    is_plain = not parts.isdisjoint({bool, int, float}) or text.startswith("{") or is_switch
    return _parse_json(text) if is_plain else text


def _parse_json(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return text


def _list_types(annotation: Any) -> set[Any]:
    """The types in an annotation, and the generic ones: `tuple[str, ...] | None` has tuple and str."""
    found = {get_origin(annotation) or annotation}
    for part in get_args(annotation):
        found |= _list_types(part) if not isinstance(part, str) else set[Any]()
    return found
