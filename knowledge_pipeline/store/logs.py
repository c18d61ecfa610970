"""Appends to the log tables: refreshes, model calls, queries, feedback, evaluations."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.schemas import FORMER_COLUMN_NAMES

_TIMEOUT_S = 30.0


def append_rows(lake: Lake, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows to one of `schemas.LOGS` in one commit. Raises `Busy`: others held the log for 30 s."""
    if not rows:
        return
    table = lake.log_table(name)
    names = FORMER_COLUMN_NAMES.get(name, {})  # in rows that an earlier version left in its journal
    rows = [{names.get(column, column): value for column, value in row.items()} for row in rows]
    with lock_log(lake, name):
        table.append([pa.RecordBatch.from_pylist(rows, schema=table.schema)])
        table.compact_if_due()


@contextmanager
def lock_log(lake: Lake, name: str) -> Generator[None]:
    """A log has one writer at a time. Raises `Busy`."""
    with acquire_lock(lake.root / "locks", f"log-{name}", timeout_s=_TIMEOUT_S):
        yield
