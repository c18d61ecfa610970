"""What became of the refreshes that a store's servers were asked for, and of the last event of each source.

One SQLite file in the folder of unfinished refreshes; each worker writes its own and lists all. It is not
synchronised to disk: a kill loses nothing, a power failure may lose the last entries. What is promised is
kept by `UnfinishedRefreshes`, not here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from knowledge_pipeline.contract.responses.refreshes import Refresh
from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.serve.last_events import EVENT
from knowledge_pipeline.serve.refresh_process import ProcessOutcome
from knowledge_pipeline.serve.unfinished_refreshes import is_served
from knowledge_pipeline.store.shared_state import SharedState

KEPT_S = 30 * 86_400.0
MAX_BYTES = 1_000_000  # of all entries, a few hundred; beyond it the older half is forgotten

_KIND = "refresh"
_UNFINISHED = ("queued", "running")
_REFRESH = TypeAdapter(Refresh)

_log = logging.getLogger(__name__)


class RefreshHistory:
    """The refreshes of one folder. For one thread; nothing is opened before it is needed."""

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
        """All that are kept, in no order; what a server that is gone left undone is interrupted."""
        served: dict[str, bool] = {}
        found: list[Refresh] = []
        for entry in self._list(_KIND):
            refresh, owner = _REFRESH.validate_python(entry["refresh"]), entry["owner"]
            if refresh.status in _UNFINISHED:
                if owner not in served:
                    served[owner] = is_served(self._folder, owner)
                refresh.status = refresh.status if served[owner] else "interrupted"
            found.append(refresh)
        return found

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
