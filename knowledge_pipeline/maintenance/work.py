"""What a maintenance is asked to do, what it did, and the one way in which it does a thing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import Place, size
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.store.table_files import (
    discard,
    has_unfinished_writes,
    may_be_scattered,
    versions_in_use,
)
from knowledge_pipeline.store.tables import Table

Action = Literal["vectors", "compaction", "indexes", "releases", "versions", "logs", "leftovers"]
GRACE_S = 600.0
"""A version that is out of date for so long is read by nobody any more."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What a maintenance does; by default everything."""

    collect_vectors: bool = True
    compact: bool = True
    indexes: bool = True
    versions: bool = True
    logs: bool = True
    leftovers: bool = True
    grace_s: float = GRACE_S  # how long a version stays after another one took its place
    dry_run: bool = False  # only tell what would be done


@dataclass(slots=True)
class Done:
    """What one action did."""

    action: Action
    touched: list[str] = field(default_factory=list[str])  # paths within the store, in order
    removed: int = 0  # vectors, log entries, releases or versions
    bytes_before: int = 0  # of what was touched
    bytes_after: int = 0
    seconds: float = 0.0

    @property
    def tables(self) -> int:
        """How many tables, or other things, were touched."""
        return len(self.touched)

    def as_row(self) -> dict[str, Any]:
        """Plain values, without the paths."""
        return {
            "action": self.action,
            "tables": self.tables,
            "removed": self.removed,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "seconds": round(self.seconds, 3),
        }


@dataclass(slots=True)
class Maintained:
    """What a maintenance did, or would do."""

    dry_run: bool = False
    sources: int = 0  # looked at
    done: dict[Action, Done] = field(default_factory=dict[Action, Done])
    skipped: dict[str, str] = field(default_factory=dict[str, str])  # source, or what else, and why
    release: Release | None = None  # made because the index was rewritten, with the same rows
    seconds: float = 0.0

    @property
    def freed(self) -> int:
        """Bytes less than before; below 0 while old versions of what was rewritten are still kept."""
        return sum(done.bytes_before - done.bytes_after for done in self.done.values())

    @property
    def touched(self) -> bool:
        """Whether anything was done."""
        return bool(self.done)

    def as_metadata(self) -> dict[str, Any]:
        """Plain values for logs, JSON and Dagster metadata."""
        return {
            "dry_run": self.dry_run,
            "sources": self.sources,
            "actions": [{**done.as_row(), "touched": done.touched} for done in self.done.values()],
            "skipped": dict(self.skipped),
            "release": self.release.release if self.release else None,
            "freed": self.freed,
            "seconds": self.seconds,
        }


class Work:
    """Does, measures and records one thing after the other, or only records what would be done."""

    def __init__(self, lake: Lake, asked: Upkeep) -> None:
        self.lake, self.asked = lake, asked
        self.maintained = Maintained(dry_run=asked.dry_run)

    def do(self, action: Action, path: Place, run: Callable[[], object], *, removes: int = 0) -> None:
        """Do one thing to a table, folder or file of the store."""
        before, started = size(path), time.perf_counter()
        if not self.asked.dry_run:
            run()
        done = self.maintained.done.setdefault(action, Done(action))
        name = self.lake.name_of(path)
        if self.asked.dry_run and name in done.touched:
            return  # a second look found what the first one did
        done.touched.append(name)
        done.removed += removes
        done.bytes_before += before
        done.bytes_after += before if self.asked.dry_run else size(path)
        done.seconds += time.perf_counter() - started

    @contextmanager
    def sparing(self, what: str) -> Iterator[None]:
        """Let what goes wrong with one source, or another thing, be noted, and not stop the rest."""
        try:
            yield
        except (KnowledgeError, OSError, RuntimeError) as error:  # the last two: what Lance raises
            told = str(error) or type(error).__name__
            self.skip(what, told.splitlines()[0][:500])

    def discard(self, path: Place) -> None:
        """Remove a whole table, folder or file."""
        self.do("leftovers", path, lambda: discard(self.lake, path))

    def take(self, other: Work) -> None:
        """Take over what another one recorded."""
        for action, done in other.maintained.done.items():
            mine = self.maintained.done.setdefault(action, Done(action))
            mine.touched += done.touched
            mine.removed += done.removed
            mine.bytes_before += done.bytes_before
            mine.bytes_after += done.bytes_after
            mine.seconds += done.seconds
        self.maintained.skipped.update(other.maintained.skipped)

    def skip(self, what: str, why: object) -> None:
        """Note what was not done."""
        self.maintained.skipped[what] = str(why)

    def compact(self, table: Table) -> None:
        """Merge the fragments of a table that is scattered."""
        if self.asked.compact and table.exists and may_be_scattered(table) and table.scattered:
            self.do("compaction", table.path, table.merge_fragments)

    def forget(self, table: Table, *, alone: bool = True) -> None:
        """Drop versions that nobody reads, and what killed writers left.

        Args:
            table: whose.
            alone: no other process writes it meanwhile.
        """
        if not (self.asked.versions and table.exists):
            return
        keep = versions_in_use(table, time.time() - self.asked.grace_s)
        old = table.superseded(keep=keep)
        unfinished = alone and has_unfinished_writes(table)
        if old or unfinished:
            forget = lambda: table.forget_versions(keep=keep, unfinished=alone)  # noqa: E731
            self.do("versions", table.path, forget, removes=old)
