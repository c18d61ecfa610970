"""Indexes of an index table: built when they pay, and never behind by much.

Rows that an index does not hold yet are searched all the same (LanceDB scans that
tail), so a stale index costs time and never an answer: 0.08 ms a row and question, for full
text splits the tail's words anew each time.
"""

from __future__ import annotations

from typing import Any

from knowledge_pipeline.store import segments
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
    built = {index.columns[0]: index.name for index in table.opened().list_indices()}
    for column, config in _wanted(rows):
        if column not in built:
            table.opened().create_index(column, config=config)
    if "words" in built and _tail(table, built["words"]) > TAIL_ROWS:
        table.extend_indexes()


def unite(table: Table) -> None:
    """Do what `maintain` does, and make one of many graphs of vectors, at a cost that follows the table."""
    maintain(table)
    table.extend_indexes(thorough=True)


def wanting(table: Table) -> bool:
    """Whether `unite` would write: an index is missing, has a long unindexed tail, or is in many pieces."""
    rows = table.count()
    built = {index.columns[0]: index.name for index in table.opened().list_indices()} if rows else {}
    missing = any(column not in built for column, _ in _wanted(rows))
    behind = "words" in built and _tail(table, built["words"]) > TAIL_ROWS
    return missing or behind or (bool(built) and segments.many_graphs(table.newest()))


def rebuild(table: Table) -> None:
    """Build every index anew, so that none holds a word of a row that was erased."""
    for column, config in _wanted(table.count()):
        table.opened().create_index(column, config=config, replace=True)


def unindexed_rows(table: Table) -> int:
    """Rows that full-text search finds by scanning."""
    built = {index.columns[0]: index.name for index in table.opened().list_indices()} if table.exists else {}
    return _tail(table, built["words"]) if "words" in built else table.count()


def _tail(table: Table, index: str) -> int:
    stats = table.opened().index_stats(index)
    return stats.num_unindexed_rows if stats else 0


def _wanted(rows: int) -> list[tuple[str, Any]]:
    from lancedb.index import FTS, Bitmap, BTree, HnswSq, LabelList

    wanted: list[tuple[str, Any]] = []
    if rows:
        words = FTS(base_tokenizer="simple", stem=True, remove_stop_words=False, max_token_length=80)
        wanted.append(("words", words))
    if rows >= SCALAR_FROM_ROWS:
        wanted += [(column, Bitmap()) for column in _BITMAPS] + [(column, BTree()) for column in _TREES]
        wanted += [(column, LabelList()) for column in _LISTS]
    if rows >= VECTOR_FROM_ROWS:
        wanted.append(("vector", HnswSq(distance_type="cosine", num_partitions=max(1, rows // 1_000_000))))
    return wanted
