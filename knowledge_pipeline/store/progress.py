"""What processes that refresh, or watch, show of their work to others of this machine, in the local state.

A process takes a name, which is alive until it ends; see `local_state.Owner`. What a killed one left is not
shown as living, and removed by the next one. A state that fails ends no refresh and no watch. Processes on
other machines are not seen.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.store.local_state import Owner, SharedState, is_alive

INTERVAL_S = 0.5  # between two writes of the progress of one source
RENEWED_S = 5.0  # at most between two writes of a heartbeat, while nothing changes
MAX_SILENT_S = 60.0  # of a watcher that waits for changes: it looks several times a second
MAX_SILENT_REFRESH_S = 1_800.0  # of one that refreshes: without any progress
MIN_POLL_GRACE_S = 300.0  # for remote repositories that are slow to answer

_PROGRESS, _HEARTBEAT = "progress", "heartbeat"  # kinds; a key begins with the owner's name

_lock = threading.Lock()
_owners: dict[tuple[int, Path], Owner] = {}  # of this process, by its id, as a fork has none of them


@dataclass(frozen=True, slots=True)
class RefreshProgress:
    """One source that is being refreshed; times are Unix times in seconds."""

    source: str
    since: float
    stage: str = ""  # "": it has begun, and no stage has reported yet
    done: int = 0
    total: int | None = None  # None: unknown
    rate: float = 0.0  # a second
    left_s: float | None = None  # until the stage is done; None: unknown


class SourceProgress:
    """The progress of one source, as others see it. For one thread."""

    def __init__(self, folder: Path, source: str) -> None:
        """Nothing is written yet; `folder` is the store's local one."""
        self._folder, self._state = folder, SharedState(folder)  # open while it is shown
        self._progress = RefreshProgress(source, time.time())
        self._key: str | None = None
        self._written_s = float("-inf")

    def show(self) -> None:
        """Say that the refresh goes on, with the last that was reported."""
        with suppress(StoreUnavailable, OSError):
            process = os.getpid(), self._folder
            with _lock:
                if process not in _owners:
                    _owners[process] = Owner(self._folder)
                    _remove_orphans(self._folder, _PROGRESS)
            self._key = f"{_owners[process].name}.{self._progress.source}"
            self._write(self._key)

    def report(self, stage: str, done: int, total: int | None, rate: float, left_s: float | None) -> None:
        """Say how far a stage is, unless something was said of it just now."""
        is_new = stage != self._progress.stage
        if self._key is None or not (is_new or time.monotonic() >= self._written_s + INTERVAL_S):
            return
        progress = self._progress
        self._progress = replace(progress, stage=stage, done=done, total=total, rate=rate, left_s=left_s)
        with suppress(StoreUnavailable):
            self._write(self._key)

    def hide(self) -> None:
        """The source is done, or waits for others."""
        if self._key is not None:
            with suppress(StoreUnavailable), self._state:
                self._state.remove(_PROGRESS, self._key)
            self._key = None

    def _write(self, key: str) -> None:
        self._written_s = time.monotonic()
        self._state.put(_PROGRESS, key, json.dumps(asdict(self._progress)).encode())


def list_running_refreshes(folder: Path) -> list[RefreshProgress]:
    """The sources that are being refreshed, longest first, by the store's local folder."""
    refreshes: list[RefreshProgress] = []
    for _, value, is_living in _iter_shown(folder, _PROGRESS):
        if is_living:
            with suppress(ValueError, TypeError):  # of another version
                refreshes.append(RefreshProgress(**json.loads(value)))
    return sorted(refreshes, key=lambda progress: (progress.since, progress.source))


@dataclass(slots=True)
class WatchHeartbeat:
    """One watcher; times are Unix times in seconds."""

    pid: int
    started_at: float
    looked_at: float  # when it last came round, or a refresh made progress
    state: Literal["starting", "waiting", "refreshing"] = "starting"
    waits_for: str = ""  # in words: "changes of 2 folders and 1 repository"
    sources: int = 0
    refreshing: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()  # sources whose last refresh failed, or is not done
    last_error: str | None = None  # one sentence, with the source that it is of
    last_error_at: float | None = None
    poll_s: float | None = None  # how often it checks remote repositories; None: it watches none
    polled_at: float | None = None


@dataclass(frozen=True, slots=True)
class WatcherReport:
    """A watcher, and what is wrong with it; None: it is well."""

    heartbeat: WatchHeartbeat
    problem: str | None


class PublishedHeartbeat:
    """The heartbeat of one watcher, as others see it. Threads may share it."""

    def __init__(self, folder: Path, heartbeat: WatchHeartbeat) -> None:
        """Write it, and remove what killed watchers have left; `folder` is the store's local one."""
        self.heartbeat = heartbeat
        self._folder = folder
        self._written_s = float("-inf")
        self._owner: Owner | None = None
        with suppress(StoreUnavailable, OSError):
            self._owner = Owner(folder)
            _remove_orphans(folder, _HEARTBEAT)
        self.write()

    def renew(self) -> None:
        """The watcher is alive; it is written when that is due."""
        self.heartbeat.looked_at = time.time()
        if time.monotonic() >= self._written_s + RENEWED_S:
            self.write()

    def write(self) -> None:
        """Write it at once."""
        self._written_s = time.monotonic()
        if self._owner:
            with suppress(StoreUnavailable), SharedState(self._folder) as state:
                state.put(_HEARTBEAT, self._owner.name, json.dumps(asdict(self.heartbeat)).encode())

    def remove(self) -> None:
        """The watch ends as it was told to."""
        if self._owner:
            with suppress(StoreUnavailable), SharedState(self._folder) as state:
                state.remove(_HEARTBEAT, self._owner.name)
            self._owner.release()


def list_watchers(folder: Path) -> list[WatcherReport]:
    """The watchers of a store, by its local folder, oldest first; those that were killed are there too."""
    reports: list[WatcherReport] = []
    for _, value, is_living in _iter_shown(folder, _HEARTBEAT):
        with suppress(ValueError, TypeError, KeyError):  # of another version
            values: dict[str, Any] = json.loads(value)
            values |= {name: tuple(values[name]) for name in ("refreshing", "behind")}  # JSON has lists
            heartbeat = WatchHeartbeat(**values)
            killed = "it was killed: start `knowledge watch` again"
            problem = _find_problem(heartbeat, time.time()) if is_living else killed
            reports.append(WatcherReport(heartbeat, problem))
    return sorted(reports, key=lambda report: report.heartbeat.started_at)


def create_heartbeat() -> WatchHeartbeat:
    """That of this process, which starts to watch now."""
    return WatchHeartbeat(os.getpid(), time.time(), time.time())


def _find_problem(heartbeat: WatchHeartbeat, now: float) -> str | None:
    silent_s = now - heartbeat.looked_at
    is_waiting = heartbeat.state == "waiting"
    if silent_s > (MAX_SILENT_S if is_waiting else MAX_SILENT_REFRESH_S):
        doing = "looked for changes" if is_waiting else "made progress"
        return f"it hangs, and has not {doing} for {silent_s:.0f} s: end it, and start it again"
    if heartbeat.poll_s is not None and heartbeat.polled_at is not None:
        since_s = now - heartbeat.polled_at
        if since_s > max(MIN_POLL_GRACE_S, 10 * heartbeat.poll_s):
            return f"it has not checked remote repositories for {since_s:.0f} s: end it, and start it again"
    return None


def _iter_shown(folder: Path, kind: str) -> Iterator[tuple[str, bytes, bool]]:
    """The keys and values of a kind, each with whether its owner is alive."""
    items: list[tuple[str, bytes]] = []
    with suppress(StoreUnavailable), SharedState(folder) as state:
        items = state.list_items(kind)
    owners = {key.partition(".")[0] for key, _ in items}
    living = {owner for owner in owners if is_alive(folder, owner)}
    return ((key, value, key.partition(".")[0] in living) for key, value in items)


def _remove_orphans(folder: Path, kind: str) -> None:
    if orphans := [key for key, _, is_living in _iter_shown(folder, kind) if not is_living]:
        with SharedState(folder) as state:
            state.remove(kind, *orphans)
