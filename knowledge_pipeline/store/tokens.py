"""The table of tokens; one writer at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.locks import acquire_lock

_TIMEOUT_S = 30.0


def upsert_token(lake: Lake, row: dict[str, Any]) -> None:
    """Add a token's row, or replace the one of its id. Raises `Busy`: others held the table for 30 s."""
    table = lake.tokens()
    with acquire_lock(lake.root / "locks", "tokens", timeout_s=_TIMEOUT_S):
        table.upsert([pa.RecordBatch.from_pylist([row], schema=table.schema)])
        table.compact_if_due()


def list_tokens(lake: Lake) -> list[dict[str, Any]]:
    """Every token's row."""
    table = lake.tokens()
    return table.read_rows(table.schema.names).to_pylist() if table.exists else []
