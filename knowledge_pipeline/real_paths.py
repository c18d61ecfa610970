"""Paths with their links resolved, the same on every Python."""

from __future__ import annotations

import errno
from pathlib import Path


def resolve_links(path: Path) -> Path:
    """As `Path.resolve`; the path need not exist. Raises `OSError` for a loop of links.

    `Path.resolve` raises `RuntimeError` for a loop before Python 3.13, and nothing since.
    """
    try:
        resolved = path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, "a loop of symbolic links", str(path)) from error
    try:
        resolved.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return resolved
