"""Plans how partitions, and what is stored, follow the configured sources.

Dagster applies changes of partitions before it stores the cursor and the runs of a tick, and may die
between the two. So the cursor and the store say whether a new source was requested, not its partition, and
a partition is removed one tick after the purge was requested.

A source is purged only when two ticks in a row did not find it in a file that loads and has sources.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field

ADDITIONS_PER_TICK = 300
DELETIONS_PER_TICK = 50
"""Dagster looks up partitions one by one during a tick, and removes each in its own transaction; later ticks
do what exceeds these numbers."""

SourceKey = str
"""A source with its type: "code/shop". One whose type changed is a new and a removed one."""


@dataclass(frozen=True, slots=True)
class Additions:
    """What is new."""

    add: list[SourceKey]  # partitions
    refresh: list[SourceKey]
    requested: list[SourceKey]  # for the next tick: requested so far, and nothing stored yet

    def to_cursor(self) -> str:
        """What the next tick has to know, as JSON."""
        return json.dumps({"requested": self.requested}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RemovalCursor:
    """What the sensor remembers of removed sources until nothing is left of them."""

    missing: list[SourceKey] = field(default_factory=list[SourceKey])
    """With a partition, but not in the file at the last tick."""
    purging: list[SourceKey] = field(default_factory=list[SourceKey])
    """With a requested purge."""

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Removals:
    """What is gone."""

    purge: list[SourceKey]
    delete: list[SourceKey]  # partitions
    pending: list[SourceKey]  # missing for the first time: purged if the next tick does not find them either
    retained: list[SourceKey]  # not purged, because the file has no sources at all
    orphaned: list[SourceKey]  # stored, but neither configured nor a partition: only a person decides
    cursor: RemovalCursor


def plan_additions(
    configured: Iterable[SourceKey],
    existing: Collection[SourceKey],  # partitions
    stored: Collection[SourceKey],  # with a snapshot
    requested: Collection[SourceKey],  # by the last tick
) -> Additions:
    """Find the sources without a partition, and those with no snapshot stored and no request yet."""
    configured, existing, stored, requested = list(configured), set(existing), set(stored), set(requested)
    add = [key for key in configured if key not in existing][:ADDITIONS_PER_TICK]
    new = set(add) | {key for key in configured if key in existing and key not in stored}
    refresh = [key for key in configured if key in new and key not in requested]
    awaited = requested | set(refresh)
    return Additions(add, refresh, [key for key in configured if key in awaited and key not in stored])


def plan_removals(
    configured: Iterable[SourceKey],
    existing: Collection[SourceKey],
    stored: Collection[SourceKey],
    cursor: RemovalCursor,
) -> Removals:
    """Find the partitions whose source is no longer configured; without any source, nothing is purged."""
    configured, existing, stored = set(configured), set(existing), set(stored)
    missing, purging = set(cursor.missing), set(cursor.purging)
    removed = sorted(existing - configured)
    new = [key for key in removed if key not in purging]
    purge = [key for key in new if configured and key in missing]
    unfinished = (purging | set(purge)) - configured
    # Where no source is left, only partitions of which nothing is stored are removed.
    delete = [key for key in removed if key in purging or (not configured and key not in stored)]
    ids = {id_of(key) for key in configured}
    return Removals(
        purge=purge,
        delete=delete[:DELETIONS_PER_TICK],
        pending=[key for key in new if configured and key not in missing],
        retained=[key for key in new if not configured and key in stored],
        orphaned=sorted(key for key in stored - existing - unfinished if id_of(key) not in ids),
        cursor=RemovalCursor(removed if configured else [], sorted(unfinished & (existing | stored))),
    )


def id_of(key: SourceKey) -> str:
    """The id without the type."""
    return key.partition("/")[2]


def parse_requested(text: str | None) -> list[SourceKey]:
    """`Additions.requested` from a sensor's cursor; empty where it cannot be read."""
    return _parse_lists(text, ["requested"])[0]


def parse_removal_cursor(text: str | None) -> RemovalCursor:
    """The cursor of the last tick; an empty one where it cannot be read."""
    return RemovalCursor(*_parse_lists(text, ["missing", "purging"]))


def _parse_lists(text: str | None, names: list[str]) -> list[list[SourceKey]]:
    try:
        stored = json.loads(text or "{}")
        return [[str(key) for key in stored.get(name, [])] for name in names]
    except (ValueError, TypeError, AttributeError):
        return [[] for _ in names]
