"""How far the refreshes of a store are, as the processes that do them say it, for who watches from another.

Each process holds one lock as long as it lives, and has a small file for each source that it refreshes right
now, in the store's local folder: it is replaced twice a second at most, and removed with the last stage. What
a killed process left is not read, and removed by the next one. Nothing here raises: a disk that fails ends
no refresh. Processes on other machines are not seen.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import filelock

from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.locks import is_locked

INTERVAL_S = 0.5  # between two writes of one file

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


class Owner:
    """The name of this process in one folder, and the lock that says that it lives."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_orphans(folder)
        self.name = uuid.uuid4().hex
        self._lock = filelock.FileLock(folder / f"{self.name}.lock", timeout=1.0, thread_local=False)
        self._lock.acquire()


class ProgressFile:
    """The file of one source. For one thread."""

    def __init__(self, folder: Path, source: str) -> None:
        """Nothing is written yet; `folder` is the store's local one."""
        self._folder = folder / "refreshing"
        self._progress = RefreshProgress(source, time.time())
        self._path: Path | None = None
        self._written_s = float("-inf")

    def show(self) -> None:
        """Say that the refresh goes on, with the last that was reported."""
        with suppress(OSError, filelock.Timeout):
            key = os.getpid(), self._folder
            with _lock:
                if key not in _owners:
                    _owners[key] = Owner(self._folder)
            name = hash_strings(self._progress.source)[:32]
            self._path = self._folder / f"{_owners[key].name}.{name}.json"
            self._write()

    def report(self, stage: str, done: int, total: int | None, rate: float, left_s: float | None) -> None:
        """Say how far a stage is, unless something was said of it just now."""
        is_new = stage != self._progress.stage
        if self._path is None or not (is_new or time.monotonic() >= self._written_s + INTERVAL_S):
            return
        self._progress = replace(
            self._progress, stage=stage, done=done, total=total, rate=rate, left_s=left_s
        )
        with suppress(OSError):
            self._write()

    def hide(self) -> None:
        """The source is done, or waits for others."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._path = None

    def _write(self) -> None:
        assert self._path is not None
        self._written_s = time.monotonic()
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self._progress)))
        new.replace(self._path)


def list_running_refreshes(folder: Path) -> list[RefreshProgress]:
    """The sources that are being refreshed, longest first, by the store's local folder."""
    living: dict[str, bool] = {}
    refreshes: list[RefreshProgress] = []
    for path in (folder / "refreshing").glob("*.json"):
        owner = path.name.partition(".")[0]
        if owner not in living:
            living[owner] = is_locked(path.with_name(f"{owner}.lock"))
        if living[owner]:
            with suppress(OSError, ValueError, TypeError):  # removed just now, or of another version
                refreshes.append(RefreshProgress(**json.loads(path.read_bytes())))
    return sorted(refreshes, key=lambda progress: (progress.since, progress.source))


def _remove_orphans(folder: Path) -> None:
    for lock in folder.glob("*.lock"):
        if not is_locked(lock):
            for path in folder.glob(f"{lock.stem}.*"):
                path.unlink(missing_ok=True)
