"""What is written in a table that sources share, and was not at a kept version of it.

Files of a table never change: only fragments that are not the same in both versions are read, so that an
edit in a million rows costs what the edit costs. Where fragments were merged, all their rows are compared.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store.lance_storage import Mark, Place
from knowledge_pipeline.store.tables import Table

TypedSource = tuple[str, str]
"""Type and id of a source."""


def written_sources(
    table: Table, version: int | None, since: datetime | None, *, told_by: str
) -> frozenset[TypedSource]:
    """Sources whose rows are not those of a kept version: other numbers, or rows written since.

    Args:
        version: the kept one; None: all rows are written since.
        since: rows that the kept version lacks are as old, or newer; None: nobody knows, so that any may be.
        told_by: the column with the time at which a row was written.
    """
    return _written(table.path, str(table.path), table.schema, table.mark, version, since, told_by)


@lru_cache(maxsize=16)
def _written(
    place: Place,
    name: str,
    schema: pa.Schema,
    mark: Mark,
    version: int | None,
    since: datetime | None,
    told_by: str,
) -> frozenset[TypedSource]:
    """Looked for once: every check of a release asks for the sources of each type."""
    del name, mark  # places in different buckets are equal
    table, columns = Table(place, schema), ["source_type", "source", told_by]
    rows, former = table.differing(columns, version)
    now, before = _numbers(rows), _numbers(former)
    recent = rows.filter(pc.field(told_by) >= since) if since else table.rows(columns)
    differing = {source for source in now.keys() | before.keys() if now.get(source) != before.get(source)}
    return frozenset(differing | _numbers(recent).keys())


def _numbers(rows: pa.Table) -> dict[TypedSource, int]:
    """How many rows each source has."""
    columns = ["source_type", "source"]
    counted = rows.group_by(columns).aggregate([([], "count_all")])
    types, sources, numbers = (counted[column].to_pylist() for column in (*columns, "count_all"))
    return dict(zip(zip(types, sources, strict=True), numbers, strict=True))
