"""Positions of events: numbers that grow with every row, so that whoever knows the last one misses none.

A position is the time at which its row was committed, in microseconds, or one more than the position before.
Numbers that only count would start anew where all rows are older than `logs.keep_days`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from knowledge_pipeline.store.filters import at_least
from knowledge_pipeline.store.tables import Table

QUIET = timedelta(hours=1)
"""A source that fails for the same reason again within this time is no new event."""

_COLUMNS = ("position", "id", "at", "type", "source", "content")


def number_new_events(table: Table, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that are new, with their positions; the caller holds the log's lock."""
    now_us = time.time_ns() // 1000
    recent: list[dict[str, Any]] = []
    if table.exists:
        since_us = now_us - 2 * int(QUIET.total_seconds() * 1e6)
        recent = table.read_rows(_COLUMNS, at_least("position", since_us)).to_pylist()
    position = max([now_us, *(row["position"] + 1 for row in recent)])
    known = {row["id"] for row in recent}
    latest: dict[str, dict[str, Any]] = {}  # of each source
    for row in sorted(recent, key=lambda row: row["position"]):
        latest[row["source"]] = row
    new: list[dict[str, Any]] = []
    for row in rows:
        if row["id"] in known or _is_repeated(row, latest.get(row["source"])):
            continue
        known.add(row["id"])
        latest[row["source"]] = row
        new.append({**row, "position": position})
        position += 1
    return new


def _is_repeated(row: dict[str, Any], last: dict[str, Any] | None) -> bool:
    if last is None or row["type"] != "source.failed" or last["type"] != row["type"]:
        return False
    return last["content"] == row["content"] and row["at"] - last["at"] < QUIET
