"""What is written in a table that sources share, and was not at a kept version of it.

Files of a table never change: only fragments that are not the same in both versions are read, so that an
edit in a million rows costs what the edit costs. Where fragments were merged, all their rows are compared.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store.lance_storage import StorePath, VersionStamp
from knowledge_pipeline.store.tables import Table

TypedSource = tuple[str, str]
"""Type and id of a source."""


def find_changed_sources(
    table: Table, version: int | None, since: datetime | None, *, time_column: str
) -> frozenset[TypedSource]:
    """Sources whose rows are not those of a kept version: other numbers, or rows written since.

    Args:
        version: the kept one; None: all rows are written since.
        since: rows that the kept version lacks are as old, or newer; None: nobody knows, so that any may be.
        told_by: the column with the time at which a row was written.
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
    """Looked for once: every check of a release asks for the sources of each type."""
    del name, stamp  # places in different buckets are equal
    table, columns = Table(path, schema), ["source_type", "source", time_column]
    rows, former = table.diff_fragments(columns, version)
    now, before = _count_rows_by_source(rows), _count_rows_by_source(former)
    recent = rows.filter(pc.field(time_column) >= since) if since else table.read_rows(columns)
    differing = {source for source in now.keys() | before.keys() if now.get(source) != before.get(source)}
    return frozenset(differing | _count_rows_by_source(recent).keys())


def _count_rows_by_source(rows: pa.Table) -> dict[TypedSource, int]:
    """How many rows each source has."""
    columns = ["source_type", "source"]
    counted = rows.group_by(columns).aggregate([([], "count_all")])
    types, sources, numbers = (counted[column].to_pylist() for column in (*columns, "count_all"))
    return dict(zip(zip(types, sources, strict=True), numbers, strict=True))
