"""What the watchers of a store say of themselves, so that another process can tell whether they are well.

A watcher renews a small file in the store's local folder, and holds a lock as long as it lives: the system
frees the lock of one that was killed. It removes both when it ends; what a killed one left, the next removes.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import filelock

from knowledge_pipeline.store.locks import is_locked

RENEWED_S = 5.0  # at most between two writes, while nothing changes
MAX_SILENT_S = 60.0  # of a watcher that waits for changes: it looks several times a second
MAX_SILENT_REFRESH_S = 1_800.0  # of one that refreshes: without any progress
MIN_POLL_GRACE_S = 300.0  # for remote repositories that are slow to answer


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


class HeartbeatFile:
    """The file of one watcher. Threads may share it; no failure of the disk ends a watch."""

    def __init__(self, folder: Path, heartbeat: WatchHeartbeat) -> None:
        """Write it, and remove what killed watchers have left; `folder` is the store's local one."""
        self.heartbeat = heartbeat
        self._written_s = float("-inf")
        name = uuid.uuid4().hex
        self._path = folder / "watch" / f"{name}.json"
        self._lock = filelock.FileLock(self._path.with_suffix(".lock"), timeout=0, thread_local=False)
        with suppress(OSError, filelock.Timeout):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for path in self._path.parent.glob("*.json"):
                if not is_locked(path.with_suffix(".lock")):
                    _remove(path)
            self._lock.acquire()
        self.write()

    def renew(self) -> None:
        """The watcher is alive; it is written when that is due."""
        self.heartbeat.looked_at = time.time()
        if time.monotonic() >= self._written_s + RENEWED_S:
            self.write()

    def write(self) -> None:
        """Replace the file in one step, at once."""
        self._written_s = time.monotonic()
        new = self._path.with_suffix(".new")
        with suppress(OSError):
            new.write_text(json.dumps(asdict(self.heartbeat)))
            new.replace(self._path)

    def remove(self) -> None:
        """The watch ends as it was told to."""
        with suppress(OSError):
            self._lock.release()
        _remove(self._path)


def list_watchers(folder: Path) -> list[WatcherReport]:
    """The watchers of a store, by its local folder, oldest first; those that were killed are there too."""
    found = sorted(_iter_heartbeats(folder / "watch"), key=lambda each: each[1].started_at)
    now = time.time()
    return [WatcherReport(heartbeat, _find_problem(path, heartbeat, now)) for path, heartbeat in found]


def _iter_heartbeats(folder: Path) -> Iterator[tuple[Path, WatchHeartbeat]]:
    for path in folder.glob("*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError):  # removed just now, or of another version
            values: dict[str, Any] = json.loads(path.read_bytes())
            values |= {name: tuple(values[name]) for name in ("refreshing", "behind")}  # JSON has lists
            yield path, WatchHeartbeat(**values)


def _find_problem(path: Path, heartbeat: WatchHeartbeat, now: float) -> str | None:
    if not is_locked(path.with_suffix(".lock")):
        return "it was killed: start `knowledge watch` again"
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


def _remove(path: Path) -> None:
    for suffix in (".json", ".new", ".lock"):
        path.with_suffix(suffix).unlink(missing_ok=True)


def create_heartbeat() -> WatchHeartbeat:
    """That of this process, which starts to watch now."""
    return WatchHeartbeat(os.getpid(), time.time(), time.time())
