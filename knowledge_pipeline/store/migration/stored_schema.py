"""Whether a stored table has this program's schema, and which columns change when it is opened.

Pure functions: `Table` commits what they plan. Columns that need values are a step of a migration instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store.schemas import VERSION


class ColumnChanges(NamedTuple):
    """What brings the columns of a stored table up to date, without rewriting rows."""

    altered: list[dict[str, Any]]  # as Lance's `alter_columns` takes them
    added: list[pa.Field[Any]]


def read_schema_version(schema: pa.Schema) -> str:
    """The version of the schema that wrote a table; "none" where it does not say."""
    return (schema.metadata or {}).get(b"knowledge_schema", b"none").decode()


def plan_column_changes(
    stored: pa.Schema, schema: pa.Schema, former_names: Mapping[str, str]
) -> ColumnChanges:
    """The columns to rename, to make nullable and to add; none in a table of another schema version.

    Args:
        stored: of the table as it is.
        schema: of the table as this program writes it.
        former_names: of columns, each with its name in `schema`.
    """
    if stored.equals(schema) or read_schema_version(stored) != VERSION:
        return ColumnChanges([], [])
    altered: list[dict[str, Any]] = [
        {"path": former, "name": name} for former, name in former_names.items() if former in stored.names
    ]
    stored_fields: list[pa.Field[Any]] = list(stored)
    required = {field.name for field in stored_fields if not field.nullable}
    fields: list[pa.Field[Any]] = list(schema)
    nullable = [field for field in fields if field.nullable]
    altered += [{"path": field.name, "nullable": True} for field in nullable if field.name in required]
    known = {*stored.names, *former_names.values()}
    return ColumnChanges(altered, [field for field in nullable if field.name not in known])


def require_schema(stored: pa.Schema, schema: pa.Schema, *, table: str) -> None:
    """Raise `StoreError` unless a table has this program's schema: another version wrote it."""
    written_by = read_schema_version(stored)
    if written_by == VERSION and (stored.equals(schema) or _sort_fields(stored).equals(_sort_fields(schema))):
        return
    raise StoreError(
        f"table {table} was written with schema version {written_by}, "
        f"and this program writes version {VERSION}: {_say_what_to_do(written_by)}"
    )


def _sort_fields(schema: pa.Schema) -> pa.Schema:
    """In the order of their names: columns that were added in place stand last."""
    fields: list[pa.Field[Any]] = list(schema)
    return pa.schema(sorted(fields, key=lambda field: field.name))


def _say_what_to_do(written_by: str) -> str:
    if not written_by.isdecimal() or written_by == VERSION:
        return "index into a new store folder, or use the program that wrote it"
    if int(written_by) < int(VERSION):
        return "run `knowledge migrate`, which brings the store up to date in place"
    return "use a newer knowledge_pipeline, which this store was written by"
