"""Locks between processes: one writer of an index table, one refresh of a source.

Released by the operating system when a process dies, so a kill leaves nothing to clean.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from knowledge_pipeline.errors import Busy

TOLD_AFTER_S = 2.0
"""Most locks are held for less: a wait that is longer is told, as a warning of this module's logger."""

_log = logging.getLogger(__name__)


@contextmanager
def lock(folder: Path, name: str, *, timeout_s: float, about: str = "") -> Iterator[None]:
    """Hold the lock `name`, waiting at most `timeout_s` seconds for it.

    Args:
        folder: where the lock files lie.
        name: of the lock.
        timeout_s: 0 tries once.
        about: what is locked, in words: "source 'docs'"; by default the name in quotes.

    Raises:
        Busy: another process held it all that time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.lock"
    held = filelock.FileLock(path)
    _acquire(held, timeout_s, about or repr(name))
    try:
        yield
    finally:
        held.release()


def _acquire(held: filelock.BaseFileLock, timeout_s: float, about: str) -> None:
    with suppress(filelock.Timeout):
        held.acquire(timeout=min(timeout_s, TOLD_AFTER_S))
        return
    rest_s = timeout_s - TOLD_AFTER_S
    if rest_s > 0:
        _log.warning("another process is working on %s: waiting for it, at most %g s", about, rest_s)
        with suppress(filelock.Timeout):
            held.acquire(timeout=rest_s)
            return
    raise Busy(
        f"another process is working on {about} and did not finish within {timeout_s:g} s: "
        "try again when it is done"
    )
