"""What was asked, one row a question, written beside the answers and never in their way.

A background thread writes what has gathered every few seconds; a kill loses those at
most. What cannot be written is said once, and given up.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.assemble import Answer
from knowledge_pipeline.query.filters import clean
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake

EVERY_S = 3.0
ROWS = 100  # that are written without waiting for more
MAX_WAITING = 10_000  # rows beyond are dropped, while the store is slower than the questions
MAX_CHARS = 2_000  # kept of a question
CLOSE_S = 5.0  # how long `close` waits for the last write

_log = logging.getLogger(__name__)

Row = dict[str, Any]


class QueryLog:
    """The table `queries` of one store, for one process. Threads may share it."""

    def __init__(self, lake: Lake, *, every_s: float = EVERY_S) -> None:
        self._lake = lake
        self._every_s = every_s
        self._waiting: list[Row] = []
        self._written: Sequence[Row] = ()  # being written now
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._warned = False

    def start(self) -> None:
        """Start the thread, which gets ready while the first question is answered."""
        with self._changed:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="query-log", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def note(self, kind: str, text: str, access: Access, answer: Answer) -> None:
        """Take one answered question; takes microseconds and never fails."""
        row = {
            "query_id": answer.query_id,
            "at": datetime.now(UTC),
            "type": kind,
            "text": text,
            "tenant": access.tenant,
            "principals": sorted(access.principals),
            "release": answer.release,
            "results": len(answer.results),
            "took_ms": answer.took_ms,
            "cached": False,
            "degraded": list(answer.degraded),
        }
        with self._changed:
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append(row)
                self._changed.notify_all()

    def asked(self, query_id: str) -> Mapping[str, Any] | None:
        """The row of an answered question, written or not yet; None where it is unknown."""
        with self._changed:
            rows = [*self._waiting, *self._written]
        unwritten = next((row for row in rows if row["query_id"] == query_id), None)
        if unwritten:
            return unwritten
        table = self._lake.log("queries")
        found = table.rows(["query_id", "tenant"], eq("query_id", query_id)).to_pylist()
        return found[0] if found else None

    def close(self, *, wait_s: float = CLOSE_S) -> None:
        """Write what is left, if that takes no longer than `wait_s`; nothing is written after."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(wait_s)
            atexit.unregister(self.close)

    def _run(self) -> None:
        with suppress(Exception):  # a failure of the same import below is told
            import knowledge_pipeline.sanitizing.sanitize
            import knowledge_pipeline.store.logs  # noqa: F401
        closing = False
        while not closing:
            rows, closing = self._gathered()
            if rows:
                self._write(rows)
            with self._changed:
                self._written = ()

    def _gathered(self) -> tuple[Sequence[Row], bool]:
        """Rows, once there are enough or the first has waited long enough; whether they are the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._changed.wait_for(lambda: len(self._waiting) >= ROWS or self._closing, self._every_s)
            self._written, self._waiting = self._waiting, []
            return self._written, self._closing

    def _write(self, rows: Sequence[Row]) -> None:
        try:
            from knowledge_pipeline.store.logs import append

            append(self._lake, "queries", [{**row, "text": _told(row["text"])} for row in rows])
        except Exception as error:  # noqa: BLE001 - whatever it is, answers go on without a log
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            why = " ".join(str(error).split())[:200] or type(error).__name__
            _log.warning(
                "questions are not logged (%s): check the permissions and the space of the store, "
                "or set logs.queries to false",
                why,
            )


def _told(text: str) -> str:
    """The beginning of a question, secrets redacted: whole first, so that none is cut in two."""
    from knowledge_pipeline.config import Sanitize
    from knowledge_pipeline.sanitizing.sanitize import sanitize

    return sanitize(clean(text), Sanitize()).text[:MAX_CHARS]
