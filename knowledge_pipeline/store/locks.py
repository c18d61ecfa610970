"""Locks between processes: one writer of an index table, one refresh of a source.

Between those of one machine by files, released by the operating system when a process dies, so a kill
leaves nothing to clean; between those that share an object store by leases, which expire.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.lance_storage import Place
from knowledge_pipeline.store.object_store import Remote

TOLD_AFTER_S = 2.0
"""Most locks are held for less: a wait that is longer is told, as a warning of this module's logger."""

_log = logging.getLogger(__name__)


@contextmanager
def lock(folder: Place, name: str, *, timeout_s: float, about: str = "") -> Iterator[None]:
    """Hold the lock `name`, waiting at most `timeout_s` seconds for it.

    Args:
        folder: where the locks lie.
        name: of the lock.
        timeout_s: 0 tries once.
        about: what is locked, in words: "source 'docs'"; by default the name in quotes.

    Raises:
        Busy: another process held it all that time; or, on an object store, the hold was lost.
    """
    place, about = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.lock", about or repr(name)
    with _leased(place, timeout_s, about) if isinstance(place, Remote) else _locked(place, timeout_s, about):
        yield


@contextmanager
def _locked(path: Path, timeout_s: float, about: str) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    held = filelock.FileLock(path)

    def taken(wait_s: float) -> bool:
        with suppress(filelock.Timeout):
            held.acquire(timeout=wait_s)
            return True
        return False

    _acquire(taken, timeout_s, about)
    try:
        yield
    finally:
        held.release()


@contextmanager
def _leased(place: Remote, timeout_s: float, about: str) -> Iterator[None]:
    from knowledge_pipeline.store.leases import Lease

    held = Lease(place, about)
    _acquire(held.acquire, timeout_s, about)
    try:
        yield
    except BaseException:
        with suppress(Exception):  # what went wrong inside is what is told
            held.release()
        raise
    held.release()


def _acquire(taken: Callable[[float], bool], timeout_s: float, about: str) -> None:
    if taken(min(timeout_s, TOLD_AFTER_S)):
        return
    rest_s = timeout_s - TOLD_AFTER_S
    if rest_s > 0:
        _log.warning("another process is working on %s: waiting for it, at most %g s", about, rest_s)
        if taken(rest_s):
            return
    raise Busy(
        f"another process is working on {about} and did not finish within {timeout_s:g} s: "
        "try again when it is done"
    )
