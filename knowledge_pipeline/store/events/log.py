"""Events: what subscribers of a store are told, recorded by whichever process made it happen.

The process that refreshes a source or publishes a release records it. In a folder of this machine that is a
line in a file, which the next reader moves into the table; on an object store it is a commit. A release
whose process was killed in between, or that maintenance published, is recorded by the next reader.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from knowledge_pipeline.contract.types import EventType
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.filters import at_least, eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import VersionStamp
from knowledge_pipeline.store.logs import append_rows, open_log
from knowledge_pipeline.store.pending_rows import add_pending_rows, has_pending_rows
from knowledge_pipeline.store.release import Release, list_releases

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
        if not (lake.is_local and add_pending_rows(lake, EVENTS, [row])):
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
    table = open_log(lake, EVENTS)
    recorded: set[int] = set()
    if table.exists:
        rows: list[dict[str, Any]] = table.read_rows(["release"], eq("type", "release.published")).to_pylist()
        recorded = {row["release"] for row in rows}
    first = min(recorded, default=releases[-1].release if releases else 0)
    for release in releases:
        if release.release >= first and release.release not in recorded:
            record_release(lake, release)


def read_events(lake: Lake, *, after: int) -> list[Event]:
    """The events after a position, in order."""
    table = open_log(lake, EVENTS)
    if not table.exists:
        return []
    rows = table.read_rows(table.schema.names, at_least("position", after + 1)).to_pylist()
    events = (
        Event(
            row["position"],
            row["id"],
            row["type"],
            row["at"].astimezone(UTC),
            row["source"],
            row["release"],
            json.loads(row["content"]),
        )
        for row in rows
    )
    return sorted(events, key=lambda event: event.position)


def find_newest_position(lake: Lake) -> int:
    """The position of the newest event; 0 where there is none."""
    table = open_log(lake, EVENTS)
    if not table.exists:
        return 0
    rows: list[dict[str, Any]] = table.read_rows(["position"]).to_pylist()
    return max((row["position"] for row in rows), default=0)


def read_event_stamp(lake: Lake) -> tuple[bool, VersionStamp, VersionStamp]:
    """Equal as long as no event was recorded, and nothing released: a few file names, or two listings."""
    pending = has_pending_rows(lake, EVENTS)
    return pending, lake.log_table(EVENTS).version_stamp, lake.releases().version_stamp
