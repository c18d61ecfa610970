"""Finds which sources changed in a shared table since a kept version of it.

An edit in a million rows costs what the edit costs. Where fragments were merged, all their rows are compared.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store.changes.held_columns import ADDRESS
from knowledge_pipeline.store.changes.row_changes import RowChanges, find_changed_rows
from knowledge_pipeline.store.lance_storage import StorePath, VersionStamp
from knowledge_pipeline.store.tables import Table

TypedSource = tuple[str, str]
"""Type and id of a source."""

_COMPARED_COLUMNS = ("id", "source_type", "source", "archived")


def find_changed_sources(
    table: Table, version: int | None, since: datetime | None, *, time_column: str
) -> frozenset[TypedSource]:
    """Sources whose rows differ from those of a kept version, in number or by a later time of writing.

    Args:
        version: the kept one; None: all rows are new.
        since: rows that the kept version lacks are this old, or newer; None: of any age.
        time_column: when a row was written.
    """
    return _find_changed_sources(
        table.path, str(table.path), table.schema, table.version_stamp, version, since, time_column
    )


@lru_cache(maxsize=16)
def _find_changed_sources(
    path: StorePath,
    name: str,
    schema: pa.Schema,
    stamp: VersionStamp,
    version: int | None,
    since: datetime | None,
    time_column: str,
) -> frozenset[TypedSource]:
    """Cached: every check of a release needs the sources of each type."""
    table, columns = Table(path, schema), ["source_type", "source", time_column]
    changes = _diff_rows(path, name, schema, stamp, version, time_column)
    former, rows = (each.select(columns) for each in changes)
    now, before = _count_rows_by_source(rows), _count_rows_by_source(former)
    arrow: Any = pc  # whose stubs leave types out
    recent = rows.filter(arrow.greater_equal(rows[time_column], since)) if since else table.read_rows(columns)
    differing = {source for source in now.keys() | before.keys() if now.get(source) != before.get(source)}
    return frozenset(differing | _count_rows_by_source(recent).keys())


def find_new_ids(table: Table, version: int | None) -> frozenset[str]:
    """Ids of rows that a kept version lacks, or has elsewhere; of an index table."""
    ids: list[Any] = _diff_index_rows(table, version).after["id"].to_pylist()
    return frozenset(ids)


def find_new_rows(table: Table, version: int, since: datetime, **values: str) -> pa.Table:
    """`id`, `archived` and `ADDRESS` of index rows that a kept version lacks and that are this old, or newer.

    Args:
        values: of columns; rows with others are left out.
    """
    rows, arrow = _diff_index_rows(table, version).after, cast("Any", pc)  # whose stubs leave types out
    rows = rows.filter(arrow.greater_equal(rows["updated_at"], since))
    for column, value in values.items():
        rows = rows.filter(arrow.equal(rows[column], value))
    return rows.select(["id", "archived", ADDRESS])


def _diff_index_rows(table: Table, version: int | None) -> RowChanges:
    return _diff_rows(table.path, str(table.path), table.schema, table.version_stamp, version, "updated_at")


def find_differing_sources(then: Any, now: Any) -> frozenset[str] | None:
    """Ids of the sources whose rows may differ between two versions of a shared table.

    Args:
        then: Lance's dataset at a version.
        now: the same at another one.

    Returns:
        None where that is not known: files of the earlier version are gone.
    """
    try:
        changes = find_changed_rows(then, now, ["source"])
    except (OSError, ValueError):
        return None
    assert changes is not None  # without a limit
    ids: list[Any] = pa.concat_tables(changes)["source"].unique().to_pylist()
    return frozenset(ids)


@lru_cache(maxsize=4)
def _diff_rows(
    path: StorePath,
    name: str,
    schema: pa.Schema,
    stamp: VersionStamp,
    version: int | None,
    time_column: str,
) -> RowChanges:
    """Cached: each check of a release looks at the same rows."""
    del name, stamp  # paths in different buckets are equal
    columns = [name for name in (*_COMPARED_COLUMNS, time_column) if name in schema.names]
    return Table(path, schema).diff_rows([*columns, ADDRESS], version)


def _count_rows_by_source(rows: pa.Table) -> dict[TypedSource, int]:
    """How many rows each source has."""
    counted = rows.group_by(["source_type", "source"], use_threads=False).aggregate([([], "count_all")])
    return {(row["source_type"], row["source"]): row["count_all"] for row in counted.to_pylist()}
