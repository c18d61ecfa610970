"""What became of refreshes: those promised, those that ended, and the last event of each source."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from knowledge_pipeline.contract.operation import LastEvent, Refresh
from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.store.local_state import Owner, SharedState, is_alive

if TYPE_CHECKING:
    from knowledge_pipeline.query.access import Access
    from knowledge_pipeline.serve.refresh_process import ProcessOutcome

_log = logging.getLogger(__name__)

KEPT_S = 30 * 86_400.0
MAX_BYTES = 1_000_000  # of all entries, a few hundred; beyond it the older half is forgotten

_NO_ERROR = {"error": None, "about": (), "others_read": None}
_REFRESH, _EVENT = "refresh", "event"  # kinds; the keys are ids, and sources
_ENDED = ("succeeded", "failed")
_TIMES = ("requested_at", "started_at", "ended_at")


class RefreshHistory:
    """The refreshes that a store's servers accepted, until long after, and each source's last event.

    A server takes over what servers that are gone, stopped or killed, had not done. One that was running then
    is done again, which costs nothing that it had finished. In the local state; for one thread.
    """

    def __init__(self, folder: Path) -> None:
        """Prepare; `folder` is the store's local one."""
        self._folder = folder
        self._owner: Owner | None = None  # of what this server has accepted

    def record(self, refresh: Refresh) -> None:
        """Keep a refresh as it is now; where that fails it is logged, and the refresh is done anyway."""
        has_ended = refresh.status in _ENDED
        try:
            with SharedState(self._folder) as state:
                ttl_s = KEPT_S if has_ended else math.inf  # what is promised is never over
                state.put(_REFRESH, refresh.id, self._pack(refresh), ttl_s=ttl_s)
                if has_ended:
                    state.keep_newest(_REFRESH, beginning="", max_bytes=MAX_BYTES)
        except (StoreUnavailable, OSError, filelock.Timeout) as error:
            problem = "not kept in the list" if has_ended else "lost if the server stops before it"
            _log.warning("a refresh is %s, as its disk fails: %s", problem, error)

    def list_all(self) -> list[Refresh]:
        """All that are kept, in no order; what a server that has ended left undone is interrupted."""
        return list(self._list_entries().values())

    def take_over(self) -> list[Refresh]:
        """What servers that have ended did not finish, oldest first; it is this server's from now on."""
        refreshes: list[Refresh] = []
        for entry, refresh in self._list_entries().items():
            if refresh.status == "interrupted":
                waiting = Refresh(refresh.id, refresh.sources, refresh.reason, "queued", refresh.requested_at)
                waiting.documents, waiting.relist = refresh.documents, refresh.relist
                try:
                    with SharedState(self._folder) as state:
                        if state.replace(_REFRESH, refresh.id, entry, self._pack(waiting)):
                            refreshes.append(waiting)
                except (StoreUnavailable, OSError, filelock.Timeout) as error:
                    _log.warning("refreshes that waited when a server stopped cannot be read: %s", error)
        return sorted(refreshes, key=lambda refresh: refresh.requested_at)

    def record_event(self, refresh: Refresh, sources: Iterable[str], service: str, kind: str) -> None:
        """Keep that an event of a service came, which a refresh takes in for some of its sources."""
        event = {"service": service, "kind": kind, "at": datetime.now(UTC).isoformat(), "refresh": refresh.id}
        event |= {"state": "waiting", **_NO_ERROR}
        self._put_events({"source": source, **event} for source in sources)

    def end_events(self, refresh: Refresh, outcome: ProcessOutcome, again: Refresh | None) -> None:
        """Keep what became of the events of a refresh; `again` tries to take in those that may work later."""
        ended: list[dict[str, Any]] = []
        for event in map(json.loads, self._list(_EVENT)):
            if event["refresh"] != refresh.id:
                continue
            if (failure := outcome.find_failure(event["source"])) is None:
                ended.append({**event, "state": "done", **_NO_ERROR})
                continue
            is_retried = bool(again and failure.is_temporary)
            left = " (left to the next listing)" if failure.is_temporary and not is_retried else ""
            change = {"refresh": again.id} if again and is_retried else {"state": "failed"}
            change |= {"error": f"{failure.error}{left}", "others_read": f"{failure.others_read}{left}"}
            ended.append({**event, **change, "about": failure.about})
        self._put_events(ended)

    def close(self) -> None:
        """Leave what is not done to the next server."""
        if self._owner:
            self._owner.release()
            self._owner = None

    def _pack(self, refresh: Refresh) -> bytes:
        self._owner = self._owner or Owner(self._folder)
        values = {name: value for name, value in asdict(refresh).items() if name != "progress"}
        return json.dumps({"owner": self._owner.name, "refresh": values}, default=str).encode()

    def _list_entries(self) -> dict[bytes, Refresh]:
        """The refreshes as they are now, by what the state has of them."""
        living: dict[str, bool] = {}
        refreshes: dict[bytes, Refresh] = {}
        for entry in self._list(_REFRESH):
            owner, values = (json.loads(entry)[name] for name in ("owner", "refresh"))
            noted = [name for name in _TIMES if values.get(name)]
            times: dict[str, Any] = {name: datetime.fromisoformat(values[name]) for name in noted}
            names = ("sources", "documents")
            parts: dict[str, Any] = {name: tuple(dict.fromkeys(values.get(name, ()))) for name in names}
            refresh = Refresh(**{**values, **times, **parts, **_read_audience(values)})
            if refresh.status not in _ENDED:
                if owner not in living:
                    living[owner] = is_alive(self._folder, owner)
                refresh.status = refresh.status if living[owner] else "interrupted"
            refreshes[entry] = refresh
        return refreshes

    def _list(self, kind: str) -> list[bytes]:
        try:
            with SharedState(self._folder) as state:
                return state.list_values(kind)
        except StoreUnavailable as error:
            _log.warning("former refreshes are not listed: %s", error)
            return []

    def _put_events(self, events: Iterable[dict[str, Any]]) -> None:
        try:
            with SharedState(self._folder) as state:
                for event in events:
                    state.put(_EVENT, event["source"], json.dumps(event).encode(), ttl_s=KEPT_S)
        except StoreUnavailable as error:
            _log.warning("the last event of a source is not kept: %s", error)


def list_last_events(folder: Path) -> list[dict[str, Any]]:
    """The last event of each source that servers of this machine kept: the source, and fields of `LastEvent`.

    Args:
        folder: the store's local one.

    Raises:
        StoreUnavailable: they cannot be read.
    """
    with SharedState(folder) as state:
        events = [json.loads(value) for value in state.list_values(_EVENT)]
    names = ("source", "service", "kind", "at", "state", "error")
    shown = ({name: event[name] for name in names} | _read_audience(event) for event in events)
    return sorted(shown, key=lambda event: event["source"])


def _read_audience(values: Mapping[str, Any]) -> dict[str, Any]:
    """Whom an error is for; of one that an earlier server kept, nobody but who sees everything."""
    others_read = values.get("others_read", "it failed" if values.get("error") else None)
    return {"about": tuple(values.get("about", ())), "others_read": others_read}


def choose_error(kept: Refresh | LastEvent, access: Access, may_see: Callable[[str], bool]) -> str | None:
    """The error that a caller reads: without names and counts, unless they may see all that it is about."""
    if access.everything or (kept.about and all(map(may_see, kept.about))):
        return kept.error
    return kept.others_read


def add_documents(refresh: Refresh, documents: Iterable[str]) -> Refresh:
    """The refresh, which reads these documents too."""
    refresh.documents = tuple(dict.fromkeys((*refresh.documents, *documents)))
    sources = (document.partition("/")[0] for document in refresh.documents)
    refresh.sources = tuple(dict.fromkeys((*refresh.sources, *sources)))
    return refresh
