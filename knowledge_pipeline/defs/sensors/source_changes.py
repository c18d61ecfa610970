"""What to do so that partitions, and what is stored, follow the configured sources.

Dagster applies changes of partitions before it keeps the cursor and the runs of a tick, and
may die between the two. So whether a new source was requested is told by the cursor and
the store, not by its partition, and a partition is removed one look after its purge was
requested.

Nothing is wiped on uncertainty: a source is purged when two looks in a row at a file that
loads and has sources did not find it.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field

ADDITIONS_PER_LOOK = 300
DELETIONS_PER_LOOK = 50
"""A tick waits while Dagster looks for partitions one by one, and removes each in a transaction of its own;
what is beyond these numbers follows at the next looks."""

SourceKey = str
"""A source with its type: "code/shop". One whose type changed is a new and a removed one."""


@dataclass(frozen=True, slots=True)
class Additions:
    """What is new."""

    add: list[SourceKey]
    """Partitions to add."""
    refresh: list[SourceKey]
    """Sources to refresh."""
    requested: list[SourceKey]
    """For the next look: sources that a refresh was requested for, and of which nothing is stored yet."""

    def to_cursor(self) -> str:
        """What the next look has to know, as JSON."""
        return _to_json({"requested": self.requested})


@dataclass(frozen=True, slots=True)
class RemovalCursor:
    """What is remembered of removed sources until they are to be seen nowhere."""

    missing: list[SourceKey] = field(default_factory=list[SourceKey])
    """Those with a partition that the last look did not find in the file."""
    purging: list[SourceKey] = field(default_factory=list[SourceKey])
    """Those that a purge was requested for."""

    def to_json(self) -> str:
        """As JSON."""
        return _to_json(asdict(self))


@dataclass(frozen=True, slots=True)
class Removals:
    """What is gone."""

    purge: list[SourceKey]
    """Sources to erase."""
    delete: list[SourceKey]
    """Partitions to remove."""
    pending: list[SourceKey]
    """Sources that are missing for the first time: purged if the next look does not find them either."""
    retained: list[SourceKey]
    """Sources that are not purged because the file has none at all."""
    orphaned: list[SourceKey]
    """What is stored, but neither configured nor a partition: nobody but a person decides."""
    cursor: RemovalCursor


def plan_additions(
    configured: Iterable[SourceKey],
    existing: Collection[SourceKey],
    stored: Collection[SourceKey],
    requested: Collection[SourceKey],
) -> Additions:
    """Find the sources that have no partition, or of which nothing is stored, though nobody asked for it.

    Args:
        configured: the file's sources.
        held: the partitions that exist.
        stored: the sources that have a snapshot.
        requested: as the last look gave it.
    """
    wanted, partitions, holding, asked = list(configured), set(existing), set(stored), set(requested)
    add = [key for key in wanted if key not in partitions][:ADDITIONS_PER_LOOK]
    new = set(add) | {key for key in wanted if key in partitions and key not in holding}
    refresh = [key for key in wanted if key in new and key not in asked]
    awaited = asked | set(refresh)
    return Additions(add, refresh, [key for key in wanted if key in awaited and key not in holding])


def plan_removals(
    configured: Iterable[SourceKey],
    existing: Collection[SourceKey],
    stored: Collection[SourceKey],
    cursor: RemovalCursor,
) -> Removals:
    """Find the partitions whose source is no longer configured.

    Args:
        configured: the file's sources. Without any, nothing is purged.
        held: the partitions that exist.
        stored: the sources that have a snapshot.
        cursor: of the last look.
    """
    known, partitions, holding = set(configured), set(existing), set(stored)
    missing, purging = set(cursor.missing), set(cursor.purging)
    removed = sorted(partitions - known)
    new = [key for key in removed if key not in purging]
    purge = [key for key in new if known and key in missing]
    under_way = (purging | set(purge)) - known
    # Where no source is left, a partition goes only if nothing is stored of it.
    delete = [key for key in removed if key in purging or (not known and key not in holding)]
    ids = {id_of(key) for key in known}
    return Removals(
        purge=purge,
        delete=delete[:DELETIONS_PER_LOOK],
        pending=[key for key in new if known and key not in missing],
        retained=[key for key in new if not known and key in holding],
        orphaned=sorted(key for key in holding - partitions - under_way if id_of(key) not in ids),
        cursor=RemovalCursor(
            missing=removed if known else [],
            purging=sorted(under_way & (partitions | holding)),
        ),
    )


def id_of(key: SourceKey) -> str:
    """The id without the type."""
    return key.partition("/")[2]


def parse_requested(text: str | None) -> list[SourceKey]:
    """`Additions.requested` from a sensor's cursor; none where it cannot be read."""
    return _parse_lists(text, ["requested"])[0]


def parse_removal_cursor(text: str | None) -> RemovalCursor:
    """The cursor of the last look at what is gone; an empty one where it cannot be read."""
    return RemovalCursor(*_parse_lists(text, ["missing", "purging"]))


def _to_json(lists: dict[str, list[SourceKey]]) -> str:
    return json.dumps(lists, separators=(",", ":"))


def _parse_lists(text: str | None, names: list[str]) -> list[list[SourceKey]]:
    try:
        held = json.loads(text or "{}")
        return [[str(key) for key in held.get(name, [])] for name in names]
    except (ValueError, TypeError, AttributeError):
        return [[] for _ in names]
