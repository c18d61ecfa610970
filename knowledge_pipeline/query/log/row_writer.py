"""Writes the rows of a log in the background, without delaying responses.

A thread writes the rows gathered every few seconds; a kill loses only those, and with a journal none. A
table that cannot be written is reported once until it can be again, and its rows are dropped, except from
the journal. Where rows are required, one that the journal cannot take is an error.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.store.journal import Journal
from knowledge_pipeline.store.lake import Lake

FLUSH_INTERVAL_S = 3.0
BATCH_ROWS = 100  # written without waiting for more
MAX_PENDING_ROWS = 10_000  # more are dropped, while the store is slower than the queries
CLOSE_S = 5.0  # how long `close` waits for the last write

_log = logging.getLogger(__name__)

LogRow = dict[str, Any]


class RowWriter:
    """Writes one log table of one store, for one process. Threads may share it."""

    def __init__(
        self,
        lake: Lake,
        table: str,
        *,
        subject: str,
        advice: str = "",
        finalize_row: Callable[[LogRow], LogRow] = dict,
        sum_up: Callable[[Sequence[LogRow]], Sequence[LogRow]] = tuple,
        imports: Sequence[str] = (),
        flush_interval_s: float = FLUSH_INTERVAL_S,
        journal: Journal | None = None,
        identity: Sequence[str] = ("query_id",),
        required: bool = False,
    ) -> None:
        """Prepare a table, one of `schemas.LOGS`; nothing runs before `start`.

        Args:
            subject: what is not logged if the table cannot be written: "queries".
            advice: ends that warning: ", or set logs.queries to false".
            finalize_row: prepares a row for writing, in the background.
            sum_up: makes fewer rows of those that are written together.
            imports: modules that `finalize_row` needs, imported before the first row is due.
            flush_interval_s: how long a row waits for others at most.
            journal: holds a row on disk before `add` returns, finalized then.
            identity: columns that tell whether the table has a row of the journal, `query_id` the first.
            required: `add` fails where the journal does.
        """
        self._lake, self._table = lake, table
        self._subject, self._advice = subject, advice
        self._finalize_row, self._sum_up, self._imports = finalize_row, sum_up, imports
        self._flush_interval_s = flush_interval_s
        self._journal, self._identity, self._required = journal, identity, required
        self._pending: list[LogRow] = []
        self._has_dropped = False  # whether the journal's segment has rows that are not pending
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._failing = set[str]()  # of "journal" and "table", what could not be written last

    def start(self) -> None:
        """Start the thread, once."""
        with self._changed:
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, name=f"log-{self._table}", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def add(self, row: LogRow) -> None:
        """Take one row; takes microseconds.

        Raises:
            StoreUnavailable: the row is required, and the journal cannot take it.
        """
        if self._journal:
            row = self._finalize_row(row)
        with self._changed:
            if self._journal:
                self._append_to_journal(self._journal, row)
            if len(self._pending) < MAX_PENDING_ROWS:
                self._pending.append(row)
                if len(self._pending) == 1 or len(self._pending) >= BATCH_ROWS:  # else nobody waits for it
                    self._changed.notify_all()
            else:
                self._has_dropped = True

    @property
    def is_failing(self) -> bool:
        """Whether the last row could not be written."""
        return bool(self._failing)

    def _append_to_journal(self, journal: Journal, row: LogRow) -> None:
        try:
            journal.append(row)
        except OSError as error:
            self._warn("journal", error)
            if self._required:
                raise StoreUnavailable(
                    f"{self._subject} cannot be logged, and `logs.required` refuses what is not: "
                    "check the permissions and the space of the store"
                ) from error
        else:
            self._failing.discard("journal")

    def close(self, *, wait_s: float = CLOSE_S) -> None:
        """Write what is left, if that takes no longer than `wait_s`; nothing is written after."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(wait_s)
            atexit.unregister(self.close)
        with self._changed:
            if self._journal:
                self._journal.close()

    def _run(self) -> None:
        with suppress(Exception):  # the same imports fail again below, with a warning
            for module in (*self._imports, "knowledge_pipeline.store.logs"):
                import_module(module)
        if self._journal:
            self._recover_journals(self._journal)
        is_last = False
        while not is_last:
            rows, segment, is_last = self._wait_for_rows()
            if rows and self._write(rows) and segment:
                segment.unlink(missing_ok=True)

    def _recover_journals(self, journal: Journal) -> None:
        """Write the rows that processes which are gone have left in their journals."""
        try:
            table: Any = self._lake.log_table(self._table)  # gives tables of pyarrow, which has no types
            for segment, rows in journal.iter_orphaned():
                ids = (str(row["query_id"]) for row in rows)
                written = table.iter_rows_by_values("query_id", ids, self._identity) if table.exists else ()
                known = {self._identify(row) for found in written for row in found.to_pylist()}
                if self._write([row for row in rows if self._identify(row) not in known]):
                    segment.unlink()
        except Exception as error:  # noqa: BLE001 - the next process tries again; new rows are written
            self._warn("table", error)

    def _identify(self, row: LogRow) -> tuple[object, ...]:
        return tuple(row[name] for name in self._identity)

    def _wait_for_rows(self) -> tuple[Sequence[LogRow], Path | None, bool]:
        """The rows to write next; the segment of the journal that has just these; whether they are the last.

        Waits for enough rows, or until the first has waited long enough.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._is_closing)
            self._changed.wait_for(
                lambda: len(self._pending) >= BATCH_ROWS or self._is_closing, self._flush_interval_s
            )
            rows, self._pending = self._pending, []
            segment = self._journal.end_segment() if self._journal else None
            has_dropped, self._has_dropped = self._has_dropped, False
            return rows, None if has_dropped else segment, self._is_closing

    def _write(self, rows: Sequence[LogRow]) -> bool:
        try:
            from knowledge_pipeline.store.logs import append_rows

            finalized = rows if self._journal else [self._finalize_row(row) for row in rows]
            append_rows(self._lake, self._table, self._sum_up(finalized))
        except Exception as error:  # noqa: BLE001 - whatever it is, queries are answered without a log
            self._warn("table", error)
            return False
        self._failing.discard("table")
        return True

    def _warn(self, place: str, error: Exception) -> None:
        is_known = bool(self._failing)
        self._failing.add(place)
        if not is_known:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            advice = f"check the permissions and the space of the store{self._advice}"
            _log.warning("%s are not logged (%s): %s", self._subject, reason, advice)
