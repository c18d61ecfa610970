"""Locks between processes: one writer of an index table, one refresh of a source.

Processes of one machine use files, which the operating system releases when a process dies, so that a
kill leaves nothing to clean up. Those that share an object store use leases, which expire: `confirm_lock`
says before each commit whether the lock is still held.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import filelock

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.lance_storage import StorePath
from knowledge_pipeline.store.object_store import ObjectPath

WARN_AFTER_S = 2.0
"""Most locks are held for less: a longer wait is logged as a warning."""

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from knowledge_pipeline.store.leases import Lease

_SOURCE_STAGES = ("snapshot", "chunks", "embeddings", "facts")
_INDEX_STAGES = ("index", "graph", "releases.lance")
_held_leases: dict[str, Lease] = {}  # of this process, by the lock's address


@contextmanager
def acquire_lock(folder: StorePath, name: str, *, timeout_s: float, description: str = "") -> Generator[None]:
    """Hold the lock `name`, waiting at most `timeout_s` seconds for it.

    Args:
        folder: of the locks.
        name: of the lock.
        timeout_s: 0 tries once.
        description: what is locked, in words: "source 'docs'"; by default the name in quotes.

    Raises:
        Busy: another process held it all that time; or, on an object store, the lease was lost.
    """
    path, description = _lock_path(folder, name), description or repr(name)
    with (
        _hold_lease(path, timeout_s, description)
        if isinstance(path, ObjectPath)
        else _hold_file_lock(path, timeout_s, description)
    ):
        yield


def confirm_lock(table: StorePath) -> None:
    """Make sure that this process still has the lock under which it writes a table, if it took one.

    Costs a request where the table is in an object store, and nothing elsewhere: a paused process keeps the
    lock on a file.

    Raises:
        Busy: the lock was lost, and another process may have written.
    """
    if not isinstance(table, ObjectPath) or (name := _table_lock(table.key)) is None:
        return
    lock = _lock_path(ObjectPath("locks", table.store), name)
    if lease := _held_leases.get(str(lock)):
        lease.confirm()


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock on a file, which it does until it ends, however that comes."""
    if not path.exists():
        return False
    with suppress(filelock.Timeout), filelock.FileLock(path, timeout=0):
        return False
    return True


def _table_lock(key: str) -> str | None:
    """The name of the lock of a table: of its source, of the index, or of the log."""
    stage, stem = key.partition("/")[0], PurePosixPath(key).stem
    if stage in _SOURCE_STAGES:
        return f"source-{stem}"
    if stage in _INDEX_STAGES:
        return "index"
    return f"log-{stem}" if stage == "logs" else None


def _lock_path(folder: StorePath, name: str) -> StorePath:
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.lock"


@contextmanager
def _hold_file_lock(path: Path, timeout_s: float, description: str) -> Generator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    held = filelock.FileLock(path)

    def try_acquire(wait_s: float) -> bool:
        with suppress(filelock.Timeout):
            held.acquire(timeout=wait_s)
            return True
        return False

    _acquire_or_raise(try_acquire, timeout_s, description)
    try:
        yield
    finally:
        held.release()


@contextmanager
def _hold_lease(path: ObjectPath, timeout_s: float, description: str) -> Generator[None]:
    from knowledge_pipeline.store.leases import Lease

    lease = Lease(path, description)
    _acquire_or_raise(lease.acquire, timeout_s, description)
    _held_leases[str(path)] = lease
    try:
        yield
    except BaseException as error:
        with suppress(Exception):  # the error inside is the one to report
            lease.release()
        if lease.is_lost and isinstance(error, (OSError, RuntimeError, ValueError)):
            lease.confirm()  # files that others removed meanwhile: Lance's error would not say so
        raise
    else:
        lease.release()
    finally:
        del _held_leases[str(path)]


def _acquire_or_raise(try_acquire: Callable[[float], bool], timeout_s: float, description: str) -> None:
    if try_acquire(min(timeout_s, WARN_AFTER_S)):
        return
    rest_s = timeout_s - WARN_AFTER_S
    if rest_s > 0:
        _log.warning("another process is working on %s: waiting for it, at most %g s", description, rest_s)
        if try_acquire(rest_s):
            return
    raise Busy(
        f"another process is working on {description} and did not finish within {timeout_s:g} s: "
        "try again when it is done"
    )
