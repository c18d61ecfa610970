"""Locks between processes: one writer of an index table, one refresh of a source.

Processes of one machine use files, which the operating system releases when a process dies, so that a
kill leaves nothing to clean up. Those that share an object store use leases, which expire.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.lance_storage import StorePath
from knowledge_pipeline.store.object_store import ObjectPath

WARN_AFTER_S = 2.0
"""Most locks are held for less: a longer wait is logged as a warning."""

_log = logging.getLogger(__name__)


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
    path, description = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.lock", description or repr(name)
    with (
        _hold_lease(path, timeout_s, description)
        if isinstance(path, ObjectPath)
        else _hold_file_lock(path, timeout_s, description)
    ):
        yield


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
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the error inside is the one to report
            lease.release()
        raise
    lease.release()


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
