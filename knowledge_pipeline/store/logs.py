"""Appends to the log tables: refreshes, model calls, queries, feedback, evaluations, events.

Subscribers are told events, which whichever process made them happen records. In a folder of this machine
that is a row of the local state, which the next reader moves into the table; on an object store it is a
commit. A release whose process was killed in between, or that maintenance published, is recorded by the next
reader.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from knowledge_pipeline.contract.filters import EventType
from knowledge_pipeline.errors import Busy, KnowledgeError, StoreUnavailable
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.filters import at_least, eq
from knowledge_pipeline.store.lake import Lake, lock_log
from knowledge_pipeline.store.lance_storage import VersionStamp, bound_cache
from knowledge_pipeline.store.local_state import (
    TAKEN_ROWS,
    SharedState,
    TakenRows,
    has_waiting_rows,
    leave_rows,
)
from knowledge_pipeline.store.release import Release, list_releases
from knowledge_pipeline.store.schemas import FORMER_COLUMN_NAMES
from knowledge_pipeline.store.tables import Table

QUIET = timedelta(hours=1)
"""A source that fails for the same reason again within this time is no new event."""

_COLUMNS = ("position", "id", "at", "type", "source", "content")


def number_new_events(table: Table, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that are new, with their positions; the caller holds the log's lock.

    A position is the time at which its row was committed, in microseconds, or one more than the position
    before, so that whoever knows the last one misses none. Numbers that only count would start anew where all
    rows are older than `logs.keep_days`.
    """
    now_us = time.time_ns() // 1000
    since_us = now_us - 2 * int(QUIET.total_seconds() * 1e6)
    recent: list[dict[str, Any]] = table.read_rows(_COLUMNS, at_least("position", since_us)).to_pylist()
    position = max([now_us, *(row["position"] + 1 for row in recent)])
    ids = {row["id"] for row in recent}
    latest: dict[str, dict[str, Any]] = {}  # of each source
    for row in sorted(recent, key=lambda row: row["position"]):
        latest[row["source"]] = row
    new: list[dict[str, Any]] = []
    for row in rows:
        if row["id"] in ids:
            continue
        if row["type"] == "source.failed" and (last := latest.get(row["source"])):
            is_same = all(row[name] == last[name] for name in ("type", "content"))
            if is_same and row["at"] - last["at"] < QUIET:
                continue
        ids.add(row["id"])
        latest[row["source"]] = row
        new.append({**row, "position": position})
        position += 1
    return new


_CACHE_BYTES = 4 << 20  # of what Lance reads of a log, and as much of its indexes
_IDENTITIES = {
    "queries": ("query_id",),
    "refusals": ("query_id",),
    "feedback": ("query_id", "result_id", "judgement", "at"),
    "refreshes": ("source", "stage", "at"),
    "llm_calls": ("source", "model", "at"),
    "events": ("id",),
}
"""Columns that tell whether a log has a row, of the logs for which rows wait."""


def append_rows(lake: Lake, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows to one of `schemas.LOGS`, and those that wait for it. Raises `Busy`: others held it."""
    if rows or has_waiting_rows(lake.folder, name):
        with lock_log(lake, name):
            _append_rows(lake, name, rows)


def open_log(lake: Lake, name: str) -> Table:
    """One of `schemas.LOGS` to be read, with the rows that waited for it.

    They go on waiting where the store cannot be written, or another process is writing the log.
    """
    if has_waiting_rows(lake.folder, name):
        with suppress(Busy, OSError), lock_log(lake, name):
            _append_rows(lake, name, ())
    return lake.log_table(name)


def _append_rows(lake: Lake, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """The caller holds the lock."""
    table = lake.log_table(name)
    names = FORMER_COLUMN_NAMES.get(name, {})  # in rows that an earlier version left
    with SharedState(lake.folder) as state:
        waiting = _take_rows(state, name)
        unwritten = _drop_written(table, _IDENTITIES.get(name, ("at",)), waiting.rows[: waiting.repeated])
        rows = [*unwritten, *waiting.rows[waiting.repeated :], *rows]
        rows = [{names.get(column, column): value for column, value in row.items()} for row in rows]
        if name == "events":
            rows = number_new_events(table, rows)
        elif name == "refusals":
            rows = sum_up_refusals(rows)
        if rows:
            # No version is read again, and a busy server writes one every few seconds.
            bound_cache(lake.files, table.path, index_bytes=_CACHE_BYTES, metadata_bytes=_CACHE_BYTES)
            table.append([pa.RecordBatch.from_pylist(rows, schema=table.schema)])
            table.compact_if_due()
        if waiting.rows:
            with suppress(StoreUnavailable):  # they are told from others the next time
                state.remove_taken(name, waiting)
    if len(waiting.rows) == TAKEN_ROWS:
        _append_rows(lake, name, ())


def _take_rows(state: SharedState, name: str) -> TakenRows:
    try:
        return state.take_rows(name)
    except StoreUnavailable as error:  # they wait on, and the other rows are written
        _log.debug("rows that wait for the log %s cannot be read: %s", name, error)
        return TakenRows()


def _drop_written(
    table: Table, identity: Sequence[str], rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows that the table has not, of those that a killed process was writing."""
    if not rows:
        return []
    since = at_least("at", min(row["at"] for row in rows))
    written: list[dict[str, Any]] = table.read_rows([*identity], since).to_pylist()
    keys = {tuple(row[name] for name in identity) for row in written}
    return [row for row in rows if tuple(row.get(name) for name in identity) not in keys]


def sum_up_refusals(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for those of one caller, outcome and reason; the reason of a limit names seconds that vary."""
    sums: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in rows:
        reason = "" if row["outcome"] == "rate_limited" else row["reason"]
        caller = row["interface"], row["token"], row["tenant"], tuple(row["principals"]), row["address"]
        first = sums.setdefault((row["outcome"], reason, *caller), {**row, "requests": 0})
        first["requests"] += row["requests"]
    return list(sums.values())


EVENTS = "events"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a store."""

    position: int  # greater than that of every event recorded before
    id: str  # the same for all who are told of it
    type: EventType
    at: datetime
    source: str | None  # None: it concerns the whole store
    release: int | None
    content: Mapping[str, Any]  # JSON values

    def as_json(self, content: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What subscribers are sent; the names are those of Standard Webhooks."""
        data = dict(self.content if content is None else content)
        return {"id": self.id, "type": self.type, "timestamp": self.at.isoformat(), "data": data}


def record_event(
    lake: Lake,
    type: EventType,
    content: Mapping[str, Any],
    *,
    at: datetime,
    source: str | None = None,
    release: int | None = None,
) -> None:
    """Record an event. It never raises: nothing that happened is undone because nobody is told of it."""
    id_ = "evt_" + hash_strings(type, source or "", str(release or ""), at.isoformat())[:32]
    row = {
        **{"id": id_, "at": at, "type": type, "source": source, "release": release},
        "content": json.dumps(content, sort_keys=True),
    }
    try:
        if not (lake.is_local and leave_rows(lake.folder, EVENTS, [row])):
            append_rows(lake, EVENTS, [row])
    except (KnowledgeError, OSError, RuntimeError) as error:
        _log.warning("subscribers are not told of %s: %s", type, error)


def record_release(lake: Lake, release: Release) -> None:
    """Record that a release is live."""
    content = {
        **{"release": release.release, "spaces": sorted(release.tables), "rows": release.rows},
        **{"embedded_share": round(release.embedded_share, 4), "restores": release.restores},
    }
    number = release.release
    record_event(lake, "release.published", content, at=release.created_at, release=number)


def record_missing_releases(lake: Lake) -> None:
    """Record the releases that nobody has recorded; of a store without any event, the live one."""
    releases = list_releases(lake)
    published = open_log(lake, EVENTS).read_rows(["release"], eq("type", "release.published"))
    recorded: set[int] = {row["release"] for row in published.to_pylist()}
    first = min(recorded, default=releases[-1].release if releases else 0)
    for release in releases:
        if release.release >= first and release.release not in recorded:
            record_release(lake, release)


def read_events(lake: Lake, *, after: int) -> list[Event]:
    """The events after a position, in order."""
    table = open_log(lake, EVENTS)
    rows = table.read_rows(table.schema.names, at_least("position", after + 1)).to_pylist()
    for row in rows:
        row |= {"at": row["at"].astimezone(UTC), "content": json.loads(row["content"])}
    return sorted((Event(**row) for row in rows), key=lambda event: event.position)


def find_newest_position(lake: Lake) -> int:
    """The position of the newest event; 0 where there is none."""
    rows: list[dict[str, Any]] = open_log(lake, EVENTS).read_rows(["position"]).to_pylist()
    return max((row["position"] for row in rows), default=0)


def read_event_stamp(lake: Lake) -> tuple[bool, VersionStamp, VersionStamp]:
    """Equal as long as no event was recorded, and nothing released: a few file names, or two listings."""
    pending = has_waiting_rows(lake.folder, EVENTS)
    return pending, lake.log_table(EVENTS).version_stamp, lake.releases().version_stamp
