"""The logs of queries, judgements, refusals and model calls, written in the background."""

from __future__ import annotations

import atexit
import hmac
import json
import logging
import secrets
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, get_args

from knowledge_pipeline.contract.filters import Judgement
from knowledge_pipeline.contract.responses import GraphResponse, RelationsResponse, SearchResponse
from knowledge_pipeline.errors import InvalidQuery, KnowledgeError, NotFound, StoreUnavailable
from knowledge_pipeline.llm.model_calls import ModelCall
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import replace_invalid_characters
from knowledge_pipeline.store.lake import Lake, lock_log
from knowledge_pipeline.store.local_state import SharedState

FLUSH_INTERVAL_S = 3.0
BATCH_ROWS = 100  # written without waiting for more
MAX_PENDING_ROWS = 10_000  # more are dropped, while the store is slower than the queries
CLOSE_S = 5.0  # how long `close` waits for the last write

_log = logging.getLogger(__name__)

LogRow = dict[str, Any]


class RowWriter:
    """Writes one log table of one store, for one process. Threads may share it.

    A thread writes the rows gathered every few seconds; a kill loses only those, and where they are durable
    none. A table that cannot be written is reported once until it can be again, and its rows are dropped,
    except the durable ones.
    """

    table: str  # one of `schemas.LOGS`
    subject: str  # what is not logged if the table cannot be written
    advice = ""  # ends that warning
    imports: Sequence[str] = ()  # modules that `finalize_row` needs, imported before the first row is due

    def __init__(
        self,
        lake: Lake,
        *,
        flush_interval_s: float = FLUSH_INTERVAL_S,
        durable: bool = False,
        required: bool = False,
    ) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            flush_interval_s: how long a row waits for others at most.
            durable: a row is finalized, and in the local state, before `add` returns: a little longer.
            required: that too, and `add` fails where the state takes no row.
        """
        self._lake = lake
        self._flush_interval_s = flush_interval_s
        self._required = required
        self._state = SharedState(lake.folder) if durable or required else None
        self._pending: list[LogRow] = []
        self._waiting = 0  # pending rows, and those in the state
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._failing = set[str]()  # of "state" and "table", what could not be written last

    def finalize_row(self, row: LogRow) -> LogRow:
        """Prepare a row for writing: in the background, unless it is durable."""
        return row

    def start(self) -> None:
        """Start the thread, once."""
        with self._changed:
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, name=f"log-{self.table}", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def add(self, row: LogRow) -> None:
        """Take one row; takes microseconds.

        Raises `StoreUnavailable`: the row is required, and the state cannot take it.
        """
        is_durable = False
        if self._state:
            row = self.finalize_row(row)
            is_durable = self._keep(self._state, row)
        with self._changed:
            if not is_durable:
                if len(self._pending) >= MAX_PENDING_ROWS:
                    return
                self._pending.append(row)
            self._waiting += 1
            if self._waiting == 1 or self._waiting >= BATCH_ROWS:  # else nobody waits for it
                self._changed.notify_all()

    @property
    def is_failing(self) -> bool:
        """Whether the last row could not be written."""
        return bool(self._failing)

    def _keep(self, state: SharedState, row: LogRow) -> bool:
        try:
            state.add_rows(self.table, [row])
        except StoreUnavailable as error:
            self._warn("state", error)
            if self._required:
                raise StoreUnavailable(
                    f"{self.subject} cannot be logged, and `logs.required` refuses what is not: "
                    "check the permissions and the space of the store"
                ) from error
            return False
        self._failing.discard("state")
        return True

    def close(self, *, wait_s: float = CLOSE_S) -> None:
        """Write what is left, if that takes no longer than `wait_s`; nothing is written after."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(wait_s)
            atexit.unregister(self.close)
        if self._state:
            self._state.close()

    def _run(self) -> None:
        with suppress(Exception):  # the same imports fail again below, with a warning
            for module in (*self.imports, "knowledge_pipeline.store.logs"):
                import_module(module)
        if self._state:
            self._write(())  # what processes that are gone have left
        is_last = False
        while not is_last:
            count, rows, is_last = self._wait_for_rows()
            if count:
                self._write(rows)

    def _wait_for_rows(self) -> tuple[int, Sequence[LogRow], bool]:
        """How many rows are to be written, those of them that are in no state, and whether they are the last.

        Waits for enough rows, or until the first has waited long enough.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            self._changed.wait_for(
                lambda: self._waiting >= BATCH_ROWS or self._is_closing, self._flush_interval_s
            )
            count, rows = self._waiting, self._pending
            self._waiting, self._pending = 0, []
            return count, rows, self._is_closing

    def _write(self, rows: Sequence[LogRow]) -> None:
        try:
            from knowledge_pipeline.store.logs import append_rows

            append_rows(
                self._lake, self.table, rows if self._state else [self.finalize_row(row) for row in rows]
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, queries are answered without a log
            self._warn("table", error)
        else:
            self._failing.discard("table")

    def _warn(self, target: str, error: Exception) -> None:
        is_known = bool(self._failing)
        self._failing.add(target)
        if not is_known:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            advice = f"check the permissions and the space of the store{self.advice}"
            _log.warning("%s are not logged (%s): %s", self.subject, reason, advice)


MAX_LOGGED_CHARS = 2_000  # of a query
_READ_CHARS = 12_000  # of a query, in which secrets are looked for: all of a task takes 50 ms
_MAX_SECRET_CHARS = 8_000
_LOOKED_UP = frozenset({"get", "trace"})  # by an id: such results have no score


class QueryLog(RowWriter):
    """The table `queries` of one store, for one process. Threads may share it."""

    table = subject = "queries"
    advice = ", or set logs.queries to false"
    imports = ("knowledge_pipeline.sanitizing.sanitize",)

    def finalize_row(self, row: LogRow) -> LogRow:
        """Without secrets in its text."""
        return {**row, "text": redact(row["text"])}

    def record(
        self, kind: str, text: str, access: Access, answer: SearchResponse | GraphResponse | RelationsResponse
    ) -> None:
        """Record one answered query; takes microseconds.

        Raises `StoreUnavailable`: the log is required, and cannot take it.
        """
        labels, scores, rankings = access.caller.labels, None, None
        if isinstance(answer, SearchResponse) and kind not in _LOOKED_UP:
            scores = [round(result.score, 4) for result in answer.results]
            rankings = [result.ranking for result in answer.results]
        row: LogRow = {
            "query_id": answer.query_id,
            "at": datetime.now(UTC),
            "type": kind,
            "text": text,
            "interface": access.caller.interface,
            "token": access.caller.token,
            "tenant": access.tenant,
            "principals": sorted(access.principals),
            "release": answer.release,
            "results": len(answer.results if isinstance(answer, SearchResponse) else answer.matches),
            "took_ms": answer.took_ms,
            "cached": isinstance(answer, SearchResponse) and answer.cached,
            "degraded": list(answer.degraded),
            "scores": scores,
            "session": labels.session,
            "project": labels.project,
            "on_behalf_of": labels.on_behalf_of,
            "vector_scores": rankings and [ranking and ranking.vector_score for ranking in rankings],
            "text_scores": rankings and [ranking and ranking.bm25_score for ranking in rankings],
        }
        self.add(row)


def redact(text: str, max_chars: int = MAX_LOGGED_CHARS) -> str:
    """The beginning of a text without secrets; they are redacted before the cut, so that none is split."""
    from knowledge_pipeline.config.sources import SanitizeSettings
    from knowledge_pipeline.sanitizing.sanitize import sanitize

    redacted = sanitize(replace_invalid_characters(text[:_READ_CHARS]), SanitizeSettings()).text
    if len(text) <= _READ_CHARS:
        return redacted[:max_chars]
    safe_chars = max(0, len(redacted) - _MAX_SECRET_CHARS)  # the end may have the beginning of a secret
    return redacted[: min(max_chars, safe_chars)]


_TAG_CHARS = 12  # of each digest, hexadecimal: only guesses over an interface can be tried
_NOTE = "query_id_key"  # on the table of feedback, which nobody else reads


@dataclass(slots=True)
class QueryIds:
    """Issues and verifies the query ids of one store. Threads may share it.

    An id says by itself that it was given, and to whom, so that no log has to be searched: it ends in two
    keyed digests, of what precedes them and the caller, and of all that. The key is the store's, so every
    process that answers from it can verify an id, long after, with queries logged or not.
    """

    lake: Lake
    _key: bytes | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def issue(self, id_: str, access: Access) -> str:
        """The id to give to a caller, for a unique one."""
        to_caller = self._tag(id_, _identify_caller(access))
        return f"{id_}-{to_caller}{self._tag(id_, to_caller)}"

    def is_issued_to(self, query_id: str, access: Access) -> bool:
        """Whether the id was given to this caller; for an operator, to anybody."""
        id_, _, tags = query_id.rpartition("-")
        to_caller, of_all = tags[:_TAG_CHARS], tags[_TAG_CHARS:]
        if not _is_equal(of_all, self._tag(id_, to_caller)):
            return False
        return access.everything or _is_equal(to_caller, self._tag(id_, _identify_caller(access)))

    def _tag(self, *parts: str) -> str:
        content = json.dumps(parts).encode()  # ASCII, whatever the parts hold
        return hmac.digest(self._load_key(), content, "sha256").hex()[:_TAG_CHARS]

    def _load_key(self) -> bytes:
        with self._lock:
            if self._key is None:
                self._key = _load_or_create_key(self.lake)
            return self._key


def _load_or_create_key(lake: Lake) -> bytes:
    """The key of the store; one for this process alone where the store cannot be written."""
    table = lake.log_table("feedback")
    try:
        if _NOTE not in table.read_notes():
            with lock_log(lake, "feedback"):
                if _NOTE not in table.read_notes():
                    table.write_notes(**{_NOTE: secrets.token_hex(32)})
        return bytes.fromhex(table.read_notes()[_NOTE])
    except (KnowledgeError, OSError, RuntimeError, ValueError) as error:
        message = "the store takes no key for query ids (%s): feedback is taken by the process that answered"
        _log.debug(message, type(error).__name__)
        return secrets.token_bytes(32)


def _identify_caller(access: Access) -> str:
    """By the token; without one, by what the caller may see and the interface."""
    caller = access.caller
    if caller.token is not None:
        return json.dumps([access.tenant, caller.token])
    return json.dumps([access.tenant, None, caller.interface, sorted(access.principals)])


def _is_equal(actual: str, expected: str) -> bool:
    return hmac.compare_digest(actual.encode("utf-8", "replace"), expected.encode())


_MAX_ID_CHARS = 500


class FeedbackLog(RowWriter):
    """What readers thought of results: the table `feedback` of one store, for one process.

    Threads may share it.

    A row is on disk before `record` returns, and in the table seconds later.
    """

    table = "feedback"
    subject = "judgements of results"

    def __init__(
        self, lake: Lake, query_ids: QueryIds, *, flush_interval_s: float = FLUSH_INTERVAL_S
    ) -> None:
        super().__init__(lake, flush_interval_s=flush_interval_s, required=True)
        self._query_ids = query_ids

    def record(self, access: Access, *, query_id: str, result_id: str, judgement: str) -> None:
        """Record one judgement of one result, by the caller who was given the query's id.

        Raises:
            InvalidQuery: there is no such judgement, or an id is empty or too long.
            NotFound: nobody was given such an id, or another caller was.
            StoreUnavailable: the judgement cannot be written.
        """
        if judgement not in get_args(Judgement):
            raise InvalidQuery(
                f"found the judgement {judgement!r}; allowed: {', '.join(get_args(Judgement))}"
            )
        for name, id_ in (("query", query_id), ("result", result_id)):
            if not 0 < len(id_) <= _MAX_ID_CHARS:
                raise InvalidQuery(f"the {name} id has {len(id_)} characters; allowed: 1 to {_MAX_ID_CHARS}")
        if not self._query_ids.is_issued_to(query_id, access):
            raise NotFound(f"there is no query {query_id!r}: give the query_id of a response")
        self.start()
        try:
            self.add(
                {
                    "at": datetime.now(UTC),
                    "query_id": query_id,
                    "result_id": replace_invalid_characters(result_id),
                    "judgement": judgement,
                    "tenant": access.tenant,
                }
            )
        except StoreUnavailable as error:
            advice = "check the permissions and the space of the store"
            raise StoreUnavailable(f"the feedback cannot be written: {advice}") from error


class RefusalLog(RowWriter):
    """Who was refused what, and why: the table `refusals` of one store, for one process.

    Threads may share it.

    A row is on disk before `record` returns. Those that say the same are summed up before they are written
    to the table, so that whoever is refused a thousand times a second does not fill the store.
    """

    table = "refusals"
    subject = "refused requests"
    advice = QueryLog.advice
    imports = QueryLog.imports

    def __init__(self, lake: Lake, *, flush_interval_s: float = FLUSH_INTERVAL_S) -> None:
        super().__init__(lake, flush_interval_s=flush_interval_s, durable=True)

    def finalize_row(self, row: LogRow) -> LogRow:
        """Without secrets in its reason."""
        return {**row, "reason": redact(row["reason"])}

    def record(self, outcome: str, reason: str, access: Access, address: str | None) -> None:
        """Record one refused request; never fails."""
        self.start()
        self.add(
            {
                "query_id": uuid.uuid4().hex,
                "at": datetime.now(UTC),
                "outcome": outcome,
                "reason": reason,
                "interface": access.caller.interface,
                "token": access.caller.token,
                "tenant": access.tenant,
                "principals": sorted(access.principals),
                "address": address,
                "requests": 1,
            }
        )


MAX_KEPT_CHARS = 8_000  # of a reported prompt, and of a response
_TEXTS = ("prompt", "response")


class ModelCallLog(RowWriter):
    """Calls of models and their cost, of one process in one store. Threads may share it."""

    table = "llm_calls"
    subject = "calls of models"

    def finalize_row(self, row: LogRow) -> LogRow:
        """With the beginnings of its texts, without secrets."""
        texts = (name for name in _TEXTS if row[name] is not None)
        return {**row, **{name: redact(row[name], MAX_KEPT_CHARS) for name in texts}}

    def record(self, call: ModelCall) -> None:
        """Record one call, as `LanguageModel(record=...)`; takes microseconds and never fails."""
        self.start()
        report = call.report
        self.add(
            {
                "at": call.ended_at,
                "kind": call.kind,
                "provider": report.provider if report else call.provider,
                "model": call.model,
                "session": call.account.session,
                "project": call.account.project,
                "calls": call.requests,
                "tokens": call.tokens,
                "cost": call.cost,
                "seconds": round(call.seconds, 4),
                "on_behalf_of": call.account.on_behalf_of,
                "tenant": call.account.tenant,
                "interface": report.interface if report else None,
                "token": report.token if report else call.account.token,
                "input_tokens": call.input_tokens,
                "output_tokens": call.output_tokens,
                "error": report.error if report else None,
                "prompt": report.prompt if report else None,
                "response": report.response if report else None,
            }
        )
