"""What became of refreshes: those promised, those that ended, and the last event of each source."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from knowledge_pipeline.contract.operation import Refresh
from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.store.journal import Journal, Row
from knowledge_pipeline.store.local_state import SharedState
from knowledge_pipeline.store.locks import is_locked

if TYPE_CHECKING:
    from knowledge_pipeline.serve.refresh_process import ProcessOutcome

_log = logging.getLogger(__name__)


class UnfinishedRefreshes:
    """The refreshes that one server has promised, each in a file of its own until it is done. For one thread.

    The next server that starts takes over those of servers that are gone, stopped or killed. One that was
    running then is done again, which costs nothing that it had finished.
    """

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder)
        self._files: dict[str, list[Path]] = {}  # by id; more than one where documents were added
        self.owner = self._journal.owner  # see `is_served`

    def keep(self, refresh: Refresh) -> None:
        """Have a refresh on disk; a disk that does not take it is logged, and the refresh is done anyway."""
        row = {"id": refresh.id, "sources": refresh.sources, "reason": refresh.reason}
        row |= {"documents": refresh.documents, "relist": refresh.relist}
        try:
            self._journal.append({**row, "at": refresh.requested_at})
        except OSError as error:
            reason = error.strerror or type(error).__name__
            _log.warning("a refresh is lost if the server stops before it, as its disk fails: %s", reason)
        if path := self._journal.end_segment():
            self._files.setdefault(refresh.id, []).append(path)

    def forget(self, refresh: Refresh) -> None:
        """It is done."""
        for path in self._files.pop(refresh.id, ()):
            path.unlink(missing_ok=True)

    def take_over(self) -> list[Refresh]:
        """What servers that have ended did not finish, oldest first; it is this server's from now on."""
        refreshes: dict[str, Refresh] = {}
        try:
            # Twice: who lists refreshes holds a lock for an instant; see `is_served`.
            for path, rows in chain(self._journal.iter_orphaned(), self._journal.iter_orphaned()):
                for refresh in map(_parse_row, rows):
                    self.keep(refresh)
                    former = refreshes.get(refresh.id, refresh)  # documents were added, or it was kept twice
                    refreshes[refresh.id] = add_documents(former, refresh.documents)
                path.unlink()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            _log.warning("refreshes that waited when a server stopped cannot be read: %s", reason)
        return sorted(refreshes.values(), key=lambda refresh: refresh.requested_at)

    def close(self) -> None:
        """Leave the rest to the next server."""
        self._journal.close()


def add_documents(refresh: Refresh, documents: Iterable[str]) -> Refresh:
    """The refresh, which reads these documents too."""
    refresh.documents = tuple(dict.fromkeys((*refresh.documents, *documents)))
    sources = (document.partition("/")[0] for document in refresh.documents)
    refresh.sources = tuple(dict.fromkeys((*refresh.sources, *sources)))
    return refresh


def _parse_row(row: Row) -> Refresh:
    refresh = Refresh(row["id"], tuple(row["sources"]), row["reason"], "queued", row["at"])
    refresh.documents, refresh.relist = tuple(row.get("documents", ())), bool(row.get("relist"))
    return refresh


def is_served(folder: Path, owner: str) -> bool:
    """Whether the server that has promised refreshes under this name still runs."""
    return is_locked(folder / f"{owner}.lock")


EVENT = "event"
"""The kind of the entries of last events; the keys are sources."""


def list_last_events(refreshes: Path) -> list[dict[str, Any]]:
    """The last event of each source that servers of this machine kept: the source, and fields of `LastEvent`.

    Args:
        refreshes: the folder of the refreshes that servers have accepted.

    Raises:
        StoreUnavailable: they cannot be read.
    """
    folder = refreshes / "history"
    if not folder.exists():
        return []
    state = SharedState(folder)
    try:
        events = [json.loads(value) for value in state.list_values(EVENT)]
    finally:
        state.close()
    names = ("source", "service", "kind", "at", "state", "error")
    return sorted(
        ({name: event[name] for name in names} for event in events), key=lambda event: event["source"]
    )


KEPT_S = 30 * 86_400.0
MAX_BYTES = 1_000_000  # of all entries, a few hundred; beyond it the older half is forgotten

_KIND = "refresh"
_UNFINISHED = ("queued", "running")
_REFRESH = TypeAdapter(Refresh)


class RefreshHistory:
    """What became of the refreshes that a store's servers accepted, and of each source's last event.

    One SQLite file in the folder of unfinished refreshes; each worker writes its own and lists all. It is not
    synchronised to disk: a kill loses nothing, a power failure may lose the last entries. What is promised is
    kept by `UnfinishedRefreshes`, not here. For one thread; nothing is opened before it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state: SharedState | None = None
        self._is_broken = False

    def record(self, refresh: Refresh, owner: str) -> None:
        """Keep a refresh as it is now; `owner` is the server that does it, see `is_served`."""
        entry = {"owner": owner, "refresh": _REFRESH.dump_python(refresh, mode="json")}
        if state := self._open_state():
            try:
                state.put(_KIND, refresh.id, json.dumps(entry).encode(), ttl_s=KEPT_S)
                if refresh.ended_at:
                    state.keep_newest(_KIND, beginning="", max_bytes=MAX_BYTES)
            except StoreUnavailable as error:  # it is done all the same
                _log.warning("a refresh is not kept in the list: %s", error)

    def list_all(self) -> list[Refresh]:
        """All that are kept, in no order; what a server that has ended left undone is interrupted."""
        served: dict[str, bool] = {}
        refreshes: list[Refresh] = []
        for entry in self._list(_KIND):
            refresh, owner = _REFRESH.validate_python(entry["refresh"]), entry["owner"]
            if refresh.status in _UNFINISHED:
                if owner not in served:
                    served[owner] = is_served(self._folder, owner)
                refresh.status = refresh.status if served[owner] else "interrupted"
            refreshes.append(refresh)
        return refreshes

    def record_event(self, refresh: Refresh, sources: Iterable[str], service: str, kind: str) -> None:
        """Keep that an event of a service came, which a refresh takes in for some of its sources."""
        event = {"service": service, "kind": kind, "at": datetime.now(UTC).isoformat(), "refresh": refresh.id}
        self._put_events({"source": source, **event, "state": "waiting", "error": None} for source in sources)

    def end_events(self, refresh: Refresh, outcome: ProcessOutcome, again: Refresh | None) -> None:
        """Keep what became of the events of a refresh; `again` tries to take in those that may work later."""
        ended: list[dict[str, Any]] = []
        for event in self._list(EVENT):
            if event["refresh"] != refresh.id:
                continue
            if (failure := outcome.find_failure(event["source"])) is None:
                ended.append({**event, "state": "done", "error": None})
            elif again and failure.is_temporary:
                ended.append({**event, "refresh": again.id, "error": failure.error})
            else:
                left = " (left to the next listing)" if failure.is_temporary else ""
                ended.append({**event, "state": "failed", "error": f"{failure.error}{left}"})
        self._put_events(ended)

    def close(self) -> None:
        """Use it no more."""
        if self._state:
            self._state.close()
            self._state = None
        self._is_broken = True

    def _list(self, kind: str) -> list[dict[str, Any]]:
        if not self._folder.exists() or not (state := self._open_state()):
            return []
        try:
            return [json.loads(value) for value in state.list_values(kind)]
        except StoreUnavailable as error:
            _log.warning("former refreshes are not listed: %s", error)
            return []

    def _put_events(self, events: Iterable[dict[str, Any]]) -> None:
        if state := self._open_state():
            try:
                for event in events:
                    state.put(EVENT, event["source"], json.dumps(event).encode(), ttl_s=KEPT_S)
            except StoreUnavailable as error:
                _log.warning("the last event of a source is not kept: %s", error)

    def _open_state(self) -> SharedState | None:
        if self._state is None and not self._is_broken:
            try:
                self._state = SharedState(self._folder / "history")
            except StoreUnavailable as error:
                self._is_broken = True
                _log.warning("refreshes are not listed after a restart: %s", error)
        return self._state
