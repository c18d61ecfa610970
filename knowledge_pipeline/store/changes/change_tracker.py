"""Which rows need another look: those that changed since all were found in order, where that is known.

A stage compares keys and fingerprints of all rows that it reads and writes, and so does a check. A process
that goes on running remembers at which versions of the tables nothing was left to do; rows that are the same
since then need no second comparison. A version never changes, so what follows from it is exact; a new
process, or one with other settings, compares everything.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from knowledge_pipeline.store.changes.held_columns import read_matching
from knowledge_pipeline.store.changes.row_changes import find_changed_rows
from knowledge_pipeline.store.filters import Filter, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.tables import KEYS_PER_FILTER, Table

MAX_REMEMBERED = 1024  # pairs of a source and a stage or check; each keeps lists of files of some tables
MAX_MOVED_ROWS = 20_000  # by a compaction: of more, it is simpler to compare all
_COMPARED_COLUMNS = ("id", "uri", "path", "text_key", "node", "target_id", "source")
"""Whose values are asked for: read together, as one stage after the other asks for the same rows."""

_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Complete:
    """The versions at which nothing was left to do."""

    digest: str
    versions: tuple[Any, ...]  # Lance's datasets
    count: int  # see `count_values`


_complete: LRUCache[tuple[str, str, str], _Complete] = LRUCache(MAX_REMEMBERED)
_changes: LRUCache[tuple[int, int], tuple[Any, Any, pa.Table | None]] = LRUCache(16)
"""Rows that differ between two of Lance's datasets, by their identities: they are kept, so that it stays."""


class ChangeTracker:
    """The tables that are compared for one source, as they are now. Needs its lock, or the index's."""

    def __init__(
        self,
        lake: Lake,
        source: str,
        name: str,
        digest: str,
        tables: Sequence[Table],
        *,
        forget: bool = False,
    ) -> None:
        """Take note of the tables, before any is read.

        Args:
            lake: that has the tables.
            source: whose rows are compared.
            name: of the stage or check.
            digest: of everything besides the tables that decides what is left to do.
            tables: those that are compared, and last the one that is written, if any is.
            forget: whether all rows count as changed.
        """
        self._key, self._source, self._digest = (str(lake.root), source, name), source, digest
        self._tables = tables
        self._versions = tuple(table.open_version() for table in tables)
        with _lock:
            self._known = None if forget else _complete.get(self._key)
        self._count: int | None = None

    def find_changed_values(self, *columns: str) -> set[str] | None:
        """Values in the changed rows of each table; None where any row may have changed, or many did.

        Args:
            columns: whose values are meant, one for each table.
        """
        known = self._known
        if known is None or known.digest != self._digest or None in (*known.versions, *self._versions):
            return None
        found = set[str]()
        for column, table, then, now in zip(
            columns, self._tables, known.versions, self._versions, strict=True
        ):
            values = self._find_values(table, column, then, now)
            if values is None:
                return None
            found |= values
        return found if len(found) <= KEYS_PER_FILTER else None

    def _find_values(self, table: Table, column: str, then: Any, now: Any) -> set[str] | None:
        if then.version == now.version and then is now:
            return set()
        rows = _load_changes(table, then, now)
        if rows is None:
            return None
        if "source" in rows.schema.names:
            arrow: Any = pc  # whose stubs leave types out
            rows = rows.filter(arrow.equal(rows["source"], self._source))
        values: list[Any] = rows[column].unique().to_pylist()
        return {value for value in values if value is not None}

    def count_values(self, column: str, where: Filter, changed: Collection[str] | None) -> int:
        """How many values a column of the first table has in the rows that match.

        Args:
            column: that is counted.
            where: which rows.
            changed: its values in changed rows; the others are as many as when they were remembered. None:
                all are counted.
        """
        self._count = self._count_again(column, where, changed)
        if self._count is None:
            self._count = _count_values(self._versions[0], column, where)
        return self._count

    def _count_again(self, column: str, where: Filter, changed: Collection[str] | None) -> int | None:
        if self._known is None or changed is None:
            return None
        among, versions = (
            where & one_of(column, sorted(changed)),
            (self._known.versions[0], self._versions[0]),
        )
        try:
            then, now = (_count_values(each, column, among) for each in versions) if changed else (0, 0)
        except (OSError, ValueError):  # a compaction has dropped the files of the earlier version
            return None
        return self._known.count - then + now

    def remember(self, *, has_written: bool = False) -> None:
        """Nothing is left to do, with the tables as they were noted.

        Args:
            has_written: the last one was written since; its lock is still held.
        """
        versions = self._versions
        if has_written:
            versions = (*versions[:-1], self._tables[-1].open_version())
        with _lock:
            _complete[self._key] = _Complete(self._digest, versions, self._count or 0)


def carry_over(before: Any, after: Any) -> None:
    """What was in order at a version is in order at a later one that has the same rows in other files.

    Needs the lock of the table since before the first of the two, and nothing but a compaction between them.
    """
    with _lock:
        for key, known in list(_complete.items()):
            if any(each is before for each in known.versions):
                moved = tuple(after if each is before else each for each in known.versions)
                _complete[key] = replace(known, versions=moved)


def _count_values(dataset: Any, column: str, where: Filter) -> int:
    if dataset is None:
        return 0
    rows: Any = read_matching(dataset, [column], where)
    if rows is None:
        rows = dataset.to_table(columns=[column], filter=where.sql)
    return len(rows[column].unique())


def _load_changes(table: Table, then: Any, now: Any) -> pa.Table | None:
    """The rows that one of two versions has and the other lacks; None where those are many, or not known."""
    key = id(then), id(now)
    with _lock:
        known = _changes.get(key)
    if known is None:
        names = [name for name in _COMPARED_COLUMNS if name in table.schema.names]
        try:
            found = find_changed_rows(then, now, names, max_rows=MAX_MOVED_ROWS)
        except (OSError, ValueError):  # a compaction has dropped the files of the earlier version
            found = None
        known = then, now, None if found is None else pa.concat_tables(found)
        with _lock:
            _changes[key] = known
    return known[2]
