"""Locks between processes: one writer of an index table, one refresh of a source.

Released by the operating system when a process dies, so a kill leaves nothing to clean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from knowledge_pipeline.errors import Busy


@contextmanager
def lock(folder: Path, name: str, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock `name`, waiting at most `timeout_s` seconds for it.

    Raises:
        Busy: another process held it all that time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.lock"
    try:
        with filelock.FileLock(path, timeout=timeout_s):
            yield
    except filelock.Timeout as error:
        raise Busy(
            f"another process is working on {name!r} and did not finish within {timeout_s:g} s: "
            "try again when it is done"
        ) from error
