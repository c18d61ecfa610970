"""What each version of the schema added, as pure functions from a row to the new columns of that row.

`STEPS` has an entry for every version before the present one; a version without entries changed the meaning
of no row. Columns that may be null are no step: `Table` adds them when it opens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from knowledge_pipeline.store.code_graph import symbol_payload
from knowledge_pipeline.store.index import payload as index_payload

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """Columns that a version added to a table, and how a row that has none gets them."""

    columns: tuple[str, ...]
    reads: tuple[str, ...]  # columns of the row that `build` is given
    build: Callable[[Row], dict[str, Any]]


def _read_names(row: Row) -> dict[str, Any]:
    """What a document is called, and what it mentions, where its metadata say so."""
    metadata: dict[str, Any] = json.loads(row["metadata"] or "{}")
    names: list[str] = metadata.get("names", []) if metadata.get("leads") else []
    return {"names": names, "mentions": sorted({each["name"] for each in metadata.get("mentions", ())})}


def _build_symbol_payload(row: Row) -> dict[str, Any]:
    return {"shown": symbol_payload.build_payload(row)}


def _build_index_payload(row: Row) -> dict[str, Any]:
    return {"shown": index_payload.build_payload(row)}


def _name_no_interface(row: Row) -> dict[str, Any]:
    del row
    return {"interface": "unknown"}


STEPS: dict[str, dict[str, ColumnStep]] = {
    "1": {"index": ColumnStep(("names", "mentions"), ("metadata",), _read_names)},
    "2": {
        "graph/symbols": ColumnStep(("shown",), symbol_payload.PAYLOAD_COLUMNS, _build_symbol_payload),
        "logs/queries": ColumnStep(("interface",), (), _name_no_interface),
    },
    "3": {"index": ColumnStep(("shown",), index_payload.PAYLOAD_COLUMNS, _build_index_payload)},
}
"""Version -> table -> what the next version added to it. The tables of one stage are one: "index"."""


def select_steps(kind: str, version: str) -> list[ColumnStep]:
    """The steps that bring a table of a kind from a version to the present one, in their order."""
    found = [step for number, steps in STEPS.items() if number >= version for step in (steps.get(kind),)]
    return [step for step in found if step]
