"""Facts as a compact JSON text, and back: every string is written once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, get_type_hints

from knowledge_pipeline.code_graph.facts import Binding, Definition, FileFacts, Import, Use

_VERSION = 1
_RECORD_TYPES: tuple[Any, ...] = (Definition, Import, Binding, Use)
_FIELD_TYPES = {part: tuple(get_type_hints(part).values()) for part in _RECORD_TYPES}


def to_json(facts: FileFacts) -> str:
    """A text that `from_json` turns into equal facts."""
    strings: defaultdict[str, int] = defaultdict()  # each with its place in the list of all
    strings.default_factory = strings.__len__
    parts: tuple[Iterable[tuple[str | int, ...]], ...] = (
        *(facts.definitions, facts.imports, facts.bindings),
        facts.uses,
    )
    columns = [
        [strings[value] if isinstance(value, str) else int(value) for record in part for value in record]
        for part in parts
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
        _decode_records(part, cells, strings) for part, cells in zip(_RECORD_TYPES, columns, strict=True)
    ]
    definitions, imports, bindings, uses = parts
    return FileFacts(path, language, module, definitions, imports, bindings, uses, settings)


def _decode_records(record_type: Any, cells: list[int], strings: list[str]) -> tuple[Any, ...]:
    """Records of one type; by columns, because that is faster than each by itself."""
    types = _FIELD_TYPES[record_type]
    columns = (
        map(each if each in (bool, int) else strings.__getitem__, cells[place :: len(types)])
        for place, each in enumerate(types)
    )
    return tuple(map(record_type._make, zip(*columns, strict=True)))
