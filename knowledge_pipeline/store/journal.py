"""A crash-safe log: rows are on disk before they are in their table.

A process writes to a file of its own, one line a row, and moves the lines into the table in segments; a
segment's file is removed when the table has its rows. The next process takes in what a killed one left.
`append` hands a line to the operating system: a kill cannot lose it, a power failure may.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import filelock

Row = dict[str, Any]


class Journal:
    """The lines of one process, for one thread at a time."""

    def __init__(self, folder: Path) -> None:
        """Nothing is written before the first line."""
        self._folder = folder
        self._owner = uuid.uuid4().hex
        self._lock: filelock.FileLock | None = None
        self._file: int | None = None
        self._path: Path | None = None
        self._segments = 0

    @property
    def owner(self) -> str:
        """The name that the files of this process begin with."""
        return self._owner

    def append(self, row: Row) -> None:
        """Write one row of a log: JSON values, and the time `at`. Raises `OSError`."""
        if self._file is None:
            if self._lock is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._lock = filelock.FileLock(self._folder / f"{self._owner}.lock", timeout=0)
                self._lock.acquire()
            self._segments += 1
            self._path = self._folder / f"{self._owner}.{self._segments:06}.jsonl"
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        line = json.dumps({**row, "at": row["at"].isoformat()}, separators=(",", ":"))
        _write_whole(self._file, line.encode() + b"\n")

    def end_segment(self) -> Path | None:
        """End the current segment; its file, or None where it has no line."""
        if self._file is None:
            return None
        os.close(self._file)
        ended, self._file, self._path = self._path, None, None
        return ended

    def iter_orphaned(self) -> Iterator[tuple[Path, list[Row]]]:
        """Segments of processes that died, each with its rows; one process at a time gets each.

        A line that the kill cut off is left out: nobody was told that it is written.
        """
        for path in sorted(self._folder.glob("*.jsonl")):
            owner = path.name.split(".")[0]
            if owner == self._owner:
                continue
            lock = filelock.FileLock(self._folder / f"{owner}.lock", timeout=0)
            with suppress(filelock.Timeout), lock:
                if path.exists():
                    yield path, list(_read_rows(path))
                if not any(self._folder.glob(f"{owner}.*.jsonl")):
                    (self._folder / f"{owner}.lock").unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the rest to other processes."""
        self.end_segment()
        if self._lock:
            self._lock.release()
            if not any(self._folder.glob(f"{self._owner}.*.jsonl")):
                Path(self._lock.lock_file).unlink(missing_ok=True)


def _write_whole(file: int, line: bytes) -> None:
    """Write all of a line or, with an error, none of it: a full disk takes a part before it refuses."""
    size, rest = os.fstat(file).st_size, memoryview(line)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError:
        os.ftruncate(file, size)
        raise


def _read_rows(path: Path) -> Iterator[Row]:
    for line in path.read_bytes().splitlines():
        with suppress(ValueError, KeyError):
            row = json.loads(line)
            yield {**row, "at": datetime.fromisoformat(row["at"])}
