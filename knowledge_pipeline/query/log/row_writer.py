"""Rows of a log, written beside the answers and never in their way.

A background thread writes what has gathered every few seconds; a kill loses those at
most, and with a journal none. What cannot be written is said once, and given up.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from knowledge_pipeline.store.journal import Journal
from knowledge_pipeline.store.lake import Lake

FLUSH_INTERVAL_S = 3.0
BATCH_ROWS = 100  # that are written without waiting for more
MAX_PENDING_ROWS = 10_000  # rows beyond are dropped, while the store is slower than the questions
CLOSE_S = 5.0  # how long `close` waits for the last write

_log = logging.getLogger(__name__)

LogRow = dict[str, Any]


class RowWriter:
    """One log table of one store, for one process. Threads may share it."""

    def __init__(
        self,
        lake: Lake,
        table: str,
        *,
        subject: str,
        advice: str = "",
        finalize_row: Callable[[LogRow], LogRow] = dict,
        imports: Sequence[str] = (),
        flush_interval_s: float = FLUSH_INTERVAL_S,
        journal: Journal | None = None,
    ) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            lake: the store.
            table: one of `schemas.LOGS`.
            lost: what is not logged if the table cannot be written: "questions".
            advice: ends that warning: ", or set logs.queries to false".
            finish: makes a row fit to be written, in the background.
            imports: modules that `finish` needs, loaded before the first row is due.
            every_s: seconds that a row waits for others at most.
            journal: where a row is on disk before `add` returns; it is made fit for that there and then.
                What such a row is known by is its `query_id`.
        """
        self._lake, self._table = lake, table
        self._lost, self._advice = subject, advice
        self._finish, self._imports = finalize_row, imports
        self._every_s = flush_interval_s
        self._journal = journal
        self._all_waiting = True  # no row of the journal's portion is missing among those that wait
        self._waiting: list[LogRow] = []
        self._written: Sequence[LogRow] = ()  # being written now
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._warned = False

    def start(self) -> None:
        """Start the thread, once."""
        with self._changed:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name=f"log-{self._table}", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def add(self, row: LogRow) -> None:
        """Take one row; takes microseconds and never fails."""
        if self._journal:
            row = self._finish(row)
        with self._changed:
            if self._journal:
                self._write_to_journal(self._journal, row)
            if len(self._waiting) < MAX_PENDING_ROWS:
                self._waiting.append(row)
                self._changed.notify_all()
            else:
                self._all_waiting = False

    def list_unwritten(self) -> list[LogRow]:
        """Rows that may not be in the table yet."""
        with self._changed:
            return [*self._waiting, *self._written]

    def close(self, *, wait_s: float = CLOSE_S) -> None:
        """Write what is left, if that takes no longer than `wait_s`; nothing is written after."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(wait_s)
            atexit.unregister(self.close)
        with self._changed:
            if self._journal:
                self._journal.close()

    def _write_to_journal(self, journal: Journal, row: LogRow) -> None:
        try:
            journal.append(row)
        except OSError as error:
            self._warn(error)

    def _run(self) -> None:
        with suppress(Exception):  # a failure of the same imports below is told
            for module in (*self._imports, "knowledge_pipeline.store.logs"):
                import_module(module)
        if self._journal:
            self._recover_journals(self._journal)
        closing = False
        while not closing:
            rows, portion, closing = self._wait_for_rows()
            if rows and self._write(rows) and portion:
                portion.unlink(missing_ok=True)
            with self._changed:
                self._written = ()

    def _recover_journals(self, journal: Journal) -> None:
        """Write what processes that are gone have left in their journals, and the table has not."""
        try:
            for portion, rows in journal.iter_orphaned():
                known = self._find_written_ids(str(row["query_id"]) for row in rows)
                if self._write([row for row in rows if row["query_id"] not in known]):
                    portion.unlink()
        except Exception as error:  # noqa: BLE001 - they wait for another time; new rows are written
            self._warn(error)

    def _find_written_ids(self, ids: Iterable[str]) -> set[str]:
        table = self._lake.log_table(self._table)
        found = table.iter_rows_by_values("query_id", ids, ["query_id"]) if table.exists else ()
        return {id_ for rows in found for id_ in rows["query_id"].to_pylist()}

    def _wait_for_rows(self) -> tuple[Sequence[LogRow], Path | None, bool]:
        """Rows, once there are enough or the first has waited long enough; where the journal has them
        and nothing else; whether they are the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._changed.wait_for(lambda: len(self._waiting) >= BATCH_ROWS or self._closing, self._every_s)
            self._written, self._waiting = self._waiting, []
            portion = self._journal.end_segment() if self._journal else None
            whole, self._all_waiting = self._all_waiting, True
            return self._written, portion if whole else None, self._closing

    def _write(self, rows: Sequence[LogRow]) -> bool:
        try:
            from knowledge_pipeline.store.logs import append_rows

            append_rows(
                self._lake, self._table, rows if self._journal else [self._finish(row) for row in rows]
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, answers go on without a log
            self._warn(error)
            return False
        return True

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            why = " ".join(str(error).split())[:200] or type(error).__name__
            _log.warning(
                "%s are not logged (%s): check the permissions and the space of the store%s",
                self._lost,
                why,
                self._advice,
            )
