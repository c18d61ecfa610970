"""Facts as a compact JSON text, and back: every string is written once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from knowledge_pipeline.code_graph.facts import Binding, Definition, FileFacts, Import, Use

_VERSION = 1
_RECORD_TYPES = (Definition, Import, Binding, Use)
_FIELD_GETTERS = tuple(attrgetter(*(field.name for field in fields(part))) for part in _RECORD_TYPES)


def to_json(facts: FileFacts) -> str:
    """A text that `from_json` turns into equal facts."""
    strings: dict[str, int] = {}

    def row(values: Sequence[Any]) -> list[int]:
        """Strings as their place in the list of all, numbers as they are."""
        return [
            strings.setdefault(value, len(strings)) if isinstance(value, str) else int(value)
            for value in values
        ]

    parts = (facts.definitions, facts.imports, facts.bindings, facts.uses)
    columns = [
        [cell for each in part for cell in row(values(each))]
        for part, values in zip(parts, _FIELD_GETTERS, strict=True)
    ]
    return json.dumps(
        [_VERSION, facts.path, facts.language, facts.module, facts.settings, list(strings), *columns],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def from_json(text: str) -> FileFacts:
    """The facts that `to_json` wrote.

    Raises:
        ValueError: it is not such a text, or one of another version.
    """
    version, path, language, module, settings, strings, *columns = json.loads(text)
    if version != _VERSION:
        raise ValueError(f"facts of version {version}, expected {_VERSION}: extract them again")
    parts = [
        tuple(_decode_rows(part, cells, strings)) for part, cells in zip(_RECORD_TYPES, columns, strict=True)
    ]
    definitions, imports, bindings, uses = parts
    return FileFacts(path, language, module, definitions, imports, bindings, uses, settings)


def _decode_rows(record_type: type[Any], cells: list[int], strings: list[str]) -> Any:
    types = [str(field.type) for field in fields(record_type)]
    width = len(types)
    by_type: dict[str, Callable[[int], Any]] = {"bool": bool, "int": int}
    readers = [by_type.get(kind, strings.__getitem__) for kind in types]
    for start in range(0, len(cells), width):
        row = cells[start : start + width]
        yield record_type(*(read(cell) for read, cell in zip(readers, row, strict=True)))
