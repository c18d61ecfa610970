"""Indexes of the code graph's tables: a question reads a few rows of many, found by one column.

Rows that an index does not hold yet are scanned beside it, so a stale one costs time and never
an answer.
"""

from __future__ import annotations

from typing import Any

from knowledge_pipeline.store.tables import Table

FROM_ROWS = 5_000  # below, a scan takes 2 ms
TAIL_ROWS = 5_000  # a longer unindexed tail is taken into the indexes

_TREES = {
    "symbols": ("node", "simple", "full_name", "path"),
    "edges": ("source_id", "target_id", "target_name", "path", "target_path"),
}
_BITMAPS = {"symbols": ("source", "kind"), "edges": ("source",)}


def maintain(table: Table) -> None:
    """Build missing indexes and take a long unindexed tail in."""
    built = _built(table)
    for column, config in _wanted(table):
        if column not in built:
            table.opened().create_index(column, config=config)
    if built and _tail(table, built) > TAIL_ROWS:
        table.extend_indexes()


def wanting(table: Table) -> bool:
    """Whether `maintain` would write: an index is missing, or the unindexed tail is long."""
    built = _built(table)
    missing = any(column not in built for column, _ in _wanted(table))
    return missing or (bool(built) and _tail(table, built) > TAIL_ROWS)


def rebuild(table: Table) -> None:
    """Build every index anew, so that none holds a name of a row that was erased."""
    built = _built(table)
    wanted = _wanted(table)
    for column in built.keys() - {column for column, _ in wanted}:
        table.opened().drop_index(built[column])
    for column, config in wanted:
        table.opened().create_index(column, config=config, replace=True)


def _built(table: Table) -> dict[str, str]:
    return {index.columns[0]: index.name for index in table.opened().list_indices()}


def _tail(table: Table, built: dict[str, str]) -> int:
    stats = table.opened().index_stats(next(iter(built.values())))
    return stats.num_unindexed_rows if stats else 0


def _wanted(table: Table) -> list[tuple[str, Any]]:
    from lancedb.index import Bitmap, BTree

    if table.count() < FROM_ROWS:
        return []
    trees: list[tuple[str, Any]] = [(column, BTree()) for column in _TREES[table.name]]
    return trees + [(column, Bitmap()) for column in _BITMAPS[table.name]]
