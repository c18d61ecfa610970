"""A program that stays open and answers requests one after the other."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress


class ChildProcess:
    """Starts a program at the first request and ends it with `close`. Safe across threads.

    A subclass holds `_lock` from its call of `_ensure_started` until it has read the response.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, own_session: bool, bufsize: int = -1
    ) -> None:
        self._command = command
        self._environment = environment
        self._own_session = own_session
        self._bufsize = bufsize
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the program; a later request starts it again."""
        with self._lock:
            self._stop()

    def _ensure_started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(  # noqa: S603 - a list, no shell
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=self._own_session,
                bufsize=self._bufsize,
            )
        return self._child

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            with suppress(BrokenPipeError):
                self._child.communicate()
            self._child = None
