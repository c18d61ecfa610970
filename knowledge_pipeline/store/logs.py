"""Appends to the log tables: refreshes, model calls, queries, feedback, evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.events.positions import number_new_events
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import bound_cache
from knowledge_pipeline.store.pending_rows import (
    has_pending_rows,
    lock_log,
    read_pending_rows,
    remove_pending_rows,
)
from knowledge_pipeline.store.schemas import FORMER_COLUMN_NAMES
from knowledge_pipeline.store.tables import Table

_CACHE_BYTES = 4 << 20  # of what Lance reads of a log, and as much of its indexes


def append_rows(lake: Lake, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows to one of `schemas.LOGS` in one commit. Raises `Busy`: others held the log for 30 s."""
    if not rows:
        return
    with lock_log(lake, name):
        _append_rows(lake, name, [*read_pending_rows(lake, name), *rows])


def open_log(lake: Lake, name: str) -> Table:
    """One of `schemas.LOGS` to be read, with the rows that waited for it.

    They go on waiting where the store cannot be written, or another process is writing the log.
    """
    if has_pending_rows(lake, name):
        with suppress(Busy, OSError), lock_log(lake, name):
            _append_rows(lake, name, read_pending_rows(lake, name))
    return lake.log_table(name)


def _append_rows(lake: Lake, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Also forgets those that waited; the caller holds the lock."""
    if rows:
        table = lake.log_table(name)
        names = FORMER_COLUMN_NAMES.get(name, {})  # in rows that an earlier version left in its journal
        rows = [{names.get(column, column): value for column, value in row.items()} for row in rows]
        if name == "events":
            rows = number_new_events(table, rows)
        if rows:
            # No version is read again, and a busy server writes one every few seconds.
            bound_cache(table.path, index_bytes=_CACHE_BYTES, metadata_bytes=_CACHE_BYTES)
            table.append([pa.RecordBatch.from_pylist(rows, schema=table.schema)])
            table.compact_if_due()
    remove_pending_rows(lake, name)
