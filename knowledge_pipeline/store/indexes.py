"""Indexes of an index table: built when they pay, and never behind by much.

Rows that an index does not hold yet are searched all the same (LanceDB scans that
tail), so a stale index costs time and never an answer: 0.08 ms a row and question, for full
text splits the tail's words anew each time.
"""

from __future__ import annotations

from typing import Any

from knowledge_pipeline.store import index_segments
from knowledge_pipeline.store.tables import Table

SCALAR_FROM_ROWS = 10_000  # below, a scan is as fast
VECTOR_FROM_ROWS = (
    5_000  # brute force over 7,000 x 768 takes 21 ms on two cores, the index 7, exact cosines included
)
TAIL_ROWS = 128  # a longer unindexed tail is taken into the indexes

_BITMAPS = ("source", "source_type", "language", "visibility", "tenant", "archived")
_TREES = ("text_key", "last_modified")
_LISTS = ("names", "mentions")


def maintain(table: Table) -> None:
    """Build missing indexes and take a long unindexed tail in, at a cost that follows the tail."""
    rows = table.count()
    if not rows:
        return
    built = table.indexes
    for column in _wanted(rows):
        if column not in built:
            table.opened().create_index(column, config=_config(column, rows))
    if "words" in built and _tail(table, built["words"]) > TAIL_ROWS:
        table.extend_indexes()


def unite(table: Table) -> None:
    """Do what `maintain` does, and make one of many graphs of vectors, at a cost that follows the table."""
    maintain(table)
    table.extend_indexes(thorough=True)


def wanting(table: Table) -> bool:
    """Whether `unite` would write: an index is missing, has a long unindexed tail, or is in many pieces."""
    rows = table.count()
    built = table.indexes
    missing = any(column not in built for column in _wanted(rows))
    behind = "words" in built and _tail(table, built["words"]) > TAIL_ROWS
    return missing or behind or (bool(built) and index_segments.many_graphs(table.newest()))


def rebuild(table: Table) -> None:
    """Build every index anew, so that none holds a word of a row that was erased."""
    rows = table.count()
    for column in _wanted(rows):
        table.opened().create_index(column, config=_config(column, rows), replace=True)


def unindexed_rows(table: Table) -> int:
    """Rows that full-text search finds by scanning."""
    built = table.indexes
    return _tail(table, built["words"]) if "words" in built else table.count()


def _tail(table: Table, index: str) -> int:
    return table.index_stats(index)["num_unindexed_rows"]


def _wanted(rows: int) -> list[str]:
    scalar = (*_BITMAPS, *_TREES, *_LISTS) if rows >= SCALAR_FROM_ROWS else ()
    return [*(["words"] if rows else []), *scalar, *(["vector"] if rows >= VECTOR_FROM_ROWS else [])]


def _config(column: str, rows: int) -> Any:
    from lancedb.index import FTS, Bitmap, BTree, HnswSq, LabelList

    if column == "words":
        return FTS(base_tokenizer="simple", stem=True, remove_stop_words=False, max_token_length=80)
    if column == "vector":
        return HnswSq(distance_type="cosine", num_partitions=max(1, rows // 1_000_000))
    return Bitmap() if column in _BITMAPS else BTree() if column in _TREES else LabelList()
