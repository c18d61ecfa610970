"""Rows of a log that wait in a file beside its table, because the process that adds them opens no table.

Who appends to the table next, or reads it, moves them there. A kill between the two may write them twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.locks import acquire_lock

MAX_PENDING_BYTES = 256 * 1024  # more are worth a commit
LOG_TIMEOUT_S = 30.0


def add_pending_rows(lake: Lake, name: str, rows: Sequence[dict[str, Any]]) -> bool:
    """Leave rows of JSON values, and the time `at`, for the next writer of a log; False where many wait.

    Only in a folder of this machine. Raises `Busy`: others held the log for 30 s.
    """
    path = _pending_path(lake, name)
    with lock_log(lake, name):
        if path.exists() and path.stat().st_size > MAX_PENDING_BYTES:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        # The break comes first: what a kill has cut off before does not spoil what follows.
        lines = ("\n" + json.dumps({**row, "at": row["at"].isoformat()}) for row in rows)
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(lines))
    return True


def read_pending_rows(lake: Lake, name: str) -> list[dict[str, Any]]:
    """The rows that wait; the caller holds the log's lock. A line that a kill cut off is left out."""
    path = _pending_path(lake, name)
    if not lake.is_local or not path.exists():
        return []
    rows: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError, KeyError):
            row = json.loads(line)
            rows.append({**row, "at": datetime.fromisoformat(row["at"])})
    return rows


def remove_pending_rows(lake: Lake, name: str) -> None:
    """Forget the rows that wait: they are in the table. The caller holds the log's lock."""
    _pending_path(lake, name).unlink(missing_ok=True)


def has_pending_rows(lake: Lake, name: str) -> bool:
    """Whether any wait."""
    return lake.is_local and _pending_path(lake, name).exists()


def lock_log(lake: Lake, name: str) -> AbstractContextManager[None]:
    """A log has one writer at a time. Raises `Busy`."""
    return acquire_lock(lake.root / "locks", f"log-{name}", timeout_s=LOG_TIMEOUT_S)


def _pending_path(lake: Lake, name: str) -> Path:
    return lake.folder / "logs" / f"{name}.pending.jsonl"
