"""Indexes of the code graph's tables: a question reads a few rows of many, found by one column.

Rows that an index does not hold yet are scanned beside it, so a stale one costs time and never
an answer.
"""

from __future__ import annotations

from typing import Any

from knowledge_pipeline.store.tables import Table

FROM_ROWS = 5_000  # below, a scan takes 2 ms
TAIL_ROWS = 1_000  # a longer unindexed tail is taken into the indexes: of 5,000 each read takes 2 ms more
_PAGE_ROWS = 1_024  # of a tree: each key that is asked for is looked for in all of its page

_TREES = {
    "symbols": ("node", "simple", "full_name", "path"),
    "edges": ("source_id", "source_name", "target_id", "target_name", "path", "target_path"),
}
_BITMAPS = ("source", "kind", "visibility", "tenant")
_LISTS = ("principals",)
"""So that a whole condition, the caller's access in it, is answered by indexes: a column without one is read
for every row that the others leave, which takes longer than all else."""


def maintain(table: Table) -> None:
    """Build missing indexes and take a long unindexed tail in."""
    built = _built(table)
    for column, kind in _wanted(table):
        if column not in built:
            _build(table, column, kind)
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
    for column, kind in wanted:
        _build(table, column, kind)


def _build(table: Table, column: str, kind: type[Any]) -> None:
    """A tree by Lance itself, because LanceDB's door does not let the size of a page be chosen."""
    from lance.indices import IndexConfig
    from lancedb.index import BTree

    if kind is not BTree:
        table.opened().create_index(column, config=kind())
        return
    config = IndexConfig(index_type="btree", parameters={"zone_size": _PAGE_ROWS})
    table.opened().to_lance().create_scalar_index(column, config, replace=True)
    table.opened().checkout_latest()


def _built(table: Table) -> dict[str, str]:
    return {index.columns[0]: index.name for index in table.opened().list_indices()}


def _tail(table: Table, built: dict[str, str]) -> int:
    stats = table.opened().index_stats(next(iter(built.values())))
    return stats.num_unindexed_rows if stats else 0


def _wanted(table: Table) -> list[tuple[str, type[Any]]]:
    from lancedb.index import Bitmap, BTree, LabelList

    if table.count() < FROM_ROWS:
        return []
    wanted: list[tuple[str, type[Any]]] = [(column, BTree) for column in _TREES[table.name]]
    wanted += [(column, Bitmap) for column in _BITMAPS]
    return wanted + [(column, LabelList) for column in _LISTS]
