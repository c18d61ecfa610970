"""The options, the report and the actions of a maintenance."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import StorePath, compute_size
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.store.table_files import (
    count_versions_in_use,
    discard_path,
    has_unfinished_writes,
    last_write_time,
    may_need_compaction,
)
from knowledge_pipeline.store.tables import Table

Action = Literal["vectors", "compaction", "indexes", "releases", "versions", "logs", "leftovers"]
GRACE_S = 600.0
"""After so long, nobody reads an out-of-date version any more."""
UNFINISHED_GRACE_S = 6 * 3600.0
"""In an object store, after so long without a write no paused writer has files that no version names."""


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """What a maintenance does; by default everything."""

    collect_vectors: bool = True
    compact: bool = True
    indexes: bool = True
    versions: bool = True
    logs: bool = True
    leftovers: bool = True
    grace_s: float = GRACE_S  # how long a version stays after another one took its place
    dry_run: bool = False  # only report what would be done


@dataclass(slots=True)
class ActionResult:
    """What one action did."""

    action: Action
    touched: list[str] = field(default_factory=list[str])  # paths within the store, in order
    removed: int = 0  # vectors, log entries, releases or versions
    bytes_before: int = 0  # of the touched paths
    bytes_after: int = 0
    seconds: float = 0.0

    @property
    def touched_count(self) -> int:
        """How many tables, or other things, were touched."""
        return len(self.touched)

    def to_row(self) -> dict[str, Any]:
        """Plain values, without the paths."""
        sizes = {"bytes_before": self.bytes_before, "bytes_after": self.bytes_after}
        counts = {"action": self.action, "tables": self.touched_count, "removed": self.removed}
        return counts | sizes | {"seconds": round(self.seconds, 3)}


@dataclass(slots=True)
class MaintenanceReport:
    """What a maintenance did, or would do."""

    dry_run: bool = False
    sources: int = 0  # looked at
    actions: dict[Action, ActionResult] = field(default_factory=dict[Action, ActionResult])
    skipped: dict[str, str] = field(default_factory=dict[str, str])  # source or table -> reason
    release: Release | None = None  # of the same rows, because the index was rewritten
    seconds: float = 0.0

    @property
    def freed_bytes(self) -> int:
        """Bytes saved; negative while old versions of rewritten tables are kept."""
        return sum(done.bytes_before - done.bytes_after for done in self.actions.values())

    @property
    def has_changes(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.actions)

    def as_metadata(self) -> dict[str, Any]:
        """Plain values for logs, JSON and Dagster metadata."""
        return {
            "dry_run": self.dry_run,
            "sources": self.sources,
            "actions": [{**done.to_row(), "touched": done.touched} for done in self.actions.values()],
            "skipped": dict(self.skipped),
            "release": self.release.release if self.release else None,
            "freed": self.freed_bytes,
            "seconds": self.seconds,
        }


class MaintenanceRun:
    """Does, measures and records actions, or only records them in a dry run."""

    def __init__(self, lake: Lake, options: MaintenanceOptions) -> None:
        self.lake, self.options = lake, options
        self.report = MaintenanceReport(dry_run=options.dry_run)

    def run_action(
        self, action: Action, path: StorePath, run: Callable[[], object], *, removed_count: int = 0
    ) -> None:
        """Do one action on a table, folder or file of the store."""
        before, started = compute_size(path), time.perf_counter()
        if not self.options.dry_run:
            run()
        done = self.report.actions.setdefault(action, ActionResult(action))
        name = self.lake.relative_name(path)
        if self.options.dry_run and name in done.touched:
            return  # recorded by the first look
        done.touched.append(name)
        done.removed += removed_count
        done.bytes_before += before
        done.bytes_after += before if self.options.dry_run else compute_size(path)
        done.seconds += time.perf_counter() - started

    @contextmanager
    def skip_on_error(self, name: str) -> Generator[None]:
        """Record an error of one source or table, and go on with the rest."""
        try:
            yield
        except (KnowledgeError, OSError, RuntimeError) as error:  # Lance raises the last two
            message = str(error) or type(error).__name__
            self.record_skip(name, message.splitlines()[0][:500])

    def discard(self, path: StorePath) -> None:
        """Remove a whole table, folder or file."""
        self.run_action("leftovers", path, lambda: discard_path(self.lake, path))

    def merge(self, other: MaintenanceRun) -> None:
        """Take over what another one recorded."""
        for action, done in other.report.actions.items():
            mine = self.report.actions.setdefault(action, ActionResult(action))
            mine.touched += done.touched
            mine.removed += done.removed
            mine.bytes_before += done.bytes_before
            mine.bytes_after += done.bytes_after
            mine.seconds += done.seconds
        self.report.skipped.update(other.report.skipped)

    def record_skip(self, name: str, reason: object) -> None:
        """Record what was not done."""
        self.report.skipped[name] = str(reason)

    def compact_table(self, table: Table) -> None:
        """Merge the fragments of a table that needs it."""
        if self.options.compact and table.exists and may_need_compaction(table) and table.needs_compaction:
            self.run_action("compaction", table.path, table.merge_fragments)

    def forget_old_versions(self, table: Table) -> None:
        """Delete versions that nobody reads; where nobody writes the table meanwhile, unfinished ones too.

        A lease does not exclude a writer that was paused, as a lock on a file does: it may go on any time.
        """
        if not (self.options.versions and table.exists):
            return
        keep = count_versions_in_use(table, time.time() - self.options.grace_s)
        old = table.count_old_versions(keep=keep)
        is_idle = self.lake.is_local or last_write_time(table.path) < time.time() - UNFINISHED_GRACE_S
        unfinished = is_idle and has_unfinished_writes(table)
        if old or unfinished:
            forget = lambda: table.delete_old_versions(keep=keep, delete_unfinished=is_idle)  # noqa: E731
            self.run_action("versions", table.path, forget, removed_count=old)
