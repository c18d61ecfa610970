"""Rows as tables of the UI: one line to a cell, types in words."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import dagster as dg
import pyarrow as pa

MAX_CELL_CHARS = 80

_TYPES: Mapping[type[object], str] = {bool: "bool", int: "int", float: "float"}

_MAX_LISTED, _MAX_NAMES = 200, 10


def build_table(
    rows: Sequence[Mapping[str, object]], types: Sequence[str] = (), *, max_chars: int = MAX_CELL_CHARS
) -> dg.TableMetadataValue:
    """A table of at least one row, all with the keys of the first one, which also gives missing types."""
    types = types or [_TYPES.get(type(value), "string") for value in rows[0].values()]
    columns = [dg.TableColumn(name, type_) for name, type_ in zip(rows[0], types, strict=True)]

    def to_cell(value: Any) -> str | int | float | bool | None:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float) and isfinite(value):  # JSON has no other numbers
            return round(value, 6)
        return truncate(str(value), max_chars)

    records = [dg.TableRecord({name: to_cell(value) for name, value in row.items()}) for row in rows]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))


def build_arrow_table(rows: pa.Table, *, max_chars: int = MAX_CELL_CHARS) -> dg.TableMetadataValue:
    """The same of at least one Arrow row, typed by its schema."""
    types = [_describe_type(type_) for type_ in rows.schema.types]
    return build_table(rows.to_pylist(), types, max_chars=max_chars)


def build_list(lines: Sequence[str]) -> dg.MarkdownMetadataValue:
    """A Markdown list that ends with the number of lines left out."""
    rest = [f"and {len(lines) - _MAX_LISTED} more"] if len(lines) > _MAX_LISTED else []
    return dg.MetadataValue.md("\n".join(f"- {line}" for line in [*lines[:_MAX_LISTED], *rest]))


def truncate(text: str, max_chars: int = MAX_CELL_CHARS) -> str:
    """Text on one line, cut where it is longer."""
    text = " ".join(text.split())
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def list_names(names: Iterable[str]) -> str:
    """`a, b, c and 4 more`."""
    names = list(names)
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _describe_type(type_: pa.DataType) -> str:
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_integer(type_):
        return "int"
    return "float" if pa.types.is_floating(type_) else "string"
