"""Indexes of the code graph's tables: a query reads a few rows of many, found by one column.

Rows that an index does not hold yet are scanned, so a stale index costs time and never an answer.
"""

from __future__ import annotations

from knowledge_pipeline.store.tables import Table

INDEX_MIN_ROWS = 5_000  # below, a scan takes 2 ms
MAX_UNINDEXED_ROWS = 1_000  # a longer unindexed tail is indexed: one of 5,000 rows adds 2 ms to each read
_BTREE_PAGE_ROWS = 1_024  # of a tree: each key that is asked for is looked for in all of its page

_BTREE_COLUMNS = {
    "symbols": ("node", "simple", "full_name", "path"),
    "edges": ("source_id", "source_name", "target_id", "target_name", "path", "target_path"),
}
_BITMAP_COLUMNS = ("source", "kind", "visibility", "tenant")
_LIST_COLUMNS = ("principals",)
"""So that a whole condition, the caller's access in it, is answered by indexes: a column without one is read
for every row that the others leave, which takes longer than all else."""


def maintain_indexes(table: Table) -> None:
    """Build missing indexes and take a long unindexed tail in."""
    built = table.indexes
    for column, kind in _required_indexes(table).items():
        if column not in built:
            _build_index(table, column, kind)
    if built and _count_unindexed(table, built) > MAX_UNINDEXED_ROWS:
        table.extend_indexes()


def needs_maintenance(table: Table) -> bool:
    """Whether `maintain_indexes` would write: an index is missing, or the unindexed tail is long."""
    built = table.indexes
    return not _required_indexes(table).keys() <= built.keys() or (
        bool(built) and _count_unindexed(table, built) > MAX_UNINDEXED_ROWS
    )


def rebuild_indexes(table: Table) -> None:
    """Build every index anew, so that none holds a name of a row that was erased."""
    built, wanted = table.indexes, _required_indexes(table)
    for column in built.keys() - wanted.keys():
        table.open_newest().drop_index(built[column])
    for column, kind in wanted.items():
        _build_index(table, column, kind)


def _build_index(table: Table, column: str, kind: str) -> None:
    """Uses Lance directly, because LanceDB does not let callers choose the size of a tree's page."""
    from lance.indices import IndexConfig

    tree = IndexConfig(index_type="btree", parameters={"zone_size": _BTREE_PAGE_ROWS})
    table.open_newest().create_scalar_index(column, tree if kind == "BTREE" else kind, replace=True)


def _count_unindexed(table: Table, built: dict[str, str]) -> int:
    return table.index_stats(next(iter(built.values())))["num_unindexed_rows"]


def _required_indexes(table: Table) -> dict[str, str]:
    """Columns, each with its kind of index, as Lance calls it."""
    if table.count_rows() < INDEX_MIN_ROWS:
        return {}
    return {
        **dict.fromkeys(_BTREE_COLUMNS[table.name], "BTREE"),
        **dict.fromkeys(_BITMAP_COLUMNS, "BITMAP"),
        **dict.fromkeys(_LIST_COLUMNS, "LABEL_LIST"),
    }
