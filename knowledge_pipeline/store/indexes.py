"""Indexes of an index table: built when they pay, and never behind by much.

Rows that an index does not hold yet are searched all the same (LanceDB scans that
tail), so a stale index costs time and never an answer: 0.08 ms a row and question, for full
text splits the tail's words anew each time.
"""

from __future__ import annotations

from typing import Any

from knowledge_pipeline.store import index_segments
from knowledge_pipeline.store.tables import Table

SCALAR_INDEX_MIN_ROWS = 10_000  # below, a scan is as fast
VECTOR_INDEX_MIN_ROWS = (
    5_000  # brute force over 7,000 x 768 takes 21 ms on two cores, the index 7, exact cosines included
)
MAX_UNINDEXED_ROWS = 128  # a longer unindexed tail is taken into the indexes

_BITMAP_COLUMNS = ("source", "source_type", "language", "visibility", "tenant", "archived")
_BTREE_COLUMNS = ("text_key", "last_modified")
_LIST_COLUMNS = ("names", "mentions")


def maintain_indexes(table: Table) -> None:
    """Build missing indexes and take a long unindexed tail in, at a cost that follows the tail."""
    rows = table.count_rows()
    if not rows:
        return
    built = table.indexes
    for column in _required_columns(rows):
        if column not in built:
            table.open_lancedb().create_index(column, config=_index_config(column, rows))
    if "words" in built and _count_unindexed(table, built["words"]) > MAX_UNINDEXED_ROWS:
        table.extend_indexes()


def merge_segments(table: Table) -> None:
    """Do what `maintain` does, and make one of many graphs of vectors, at a cost that follows the table."""
    maintain_indexes(table)
    table.extend_indexes(merge_graphs=True)


def needs_maintenance(table: Table) -> bool:
    """Whether `unite` would write: an index is missing, has a long unindexed tail, or is in many pieces."""
    rows = table.count_rows()
    built = table.indexes
    missing = any(column not in built for column in _required_columns(rows))
    behind = "words" in built and _count_unindexed(table, built["words"]) > MAX_UNINDEXED_ROWS
    return missing or behind or (bool(built) and index_segments.has_many_graphs(table.open_newest()))


def rebuild_indexes(table: Table) -> None:
    """Build every index anew, so that none holds a word of a row that was erased."""
    rows = table.count_rows()
    for column in _required_columns(rows):
        table.open_lancedb().create_index(column, config=_index_config(column, rows), replace=True)


def count_unindexed_rows(table: Table) -> int:
    """Rows that full-text search finds by scanning."""
    built = table.indexes
    return _count_unindexed(table, built["words"]) if "words" in built else table.count_rows()


def _count_unindexed(table: Table, index: str) -> int:
    return table.index_stats(index)["num_unindexed_rows"]


def _required_columns(rows: int) -> list[str]:
    scalar = (*_BITMAP_COLUMNS, *_BTREE_COLUMNS, *_LIST_COLUMNS) if rows >= SCALAR_INDEX_MIN_ROWS else ()
    return [*(["words"] if rows else []), *scalar, *(["vector"] if rows >= VECTOR_INDEX_MIN_ROWS else [])]


def _index_config(column: str, rows: int) -> Any:
    from lancedb.index import FTS, Bitmap, BTree, HnswSq, LabelList

    if column == "words":
        return FTS(base_tokenizer="simple", stem=True, remove_stop_words=False, max_token_length=80)
    if column == "vector":
        return HnswSq(distance_type="cosine", num_partitions=max(1, rows // 1_000_000))
    return Bitmap() if column in _BITMAP_COLUMNS else BTree() if column in _BTREE_COLUMNS else LabelList()
