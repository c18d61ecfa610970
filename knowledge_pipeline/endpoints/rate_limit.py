"""How fast requests may follow each other."""

from __future__ import annotations

import threading
import time


class RateLimiter:
    """Spaces out the requests of all threads so that a rate per minute is never exceeded.

    An idle minute earns no burst, so no window of a minute sees more than the rate, however
    the endpoint counts it.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._seconds_each = 60.0 / per_minute if per_minute else 0.0
        self._free_at = 0.0
        self._lock = threading.Lock()

    def reserve(self, amount: int = 1) -> float:
        """Take a place in the queue for `amount` units; the seconds to wait until it is due."""
        with self._lock:
            now = time.monotonic()
            due = max(now, self._free_at)
            self._free_at = due + amount * self._seconds_each
            return due - now

    def estimate_wait_s(self) -> float:
        """The seconds that a place in the queue would have to wait; none is taken."""
        with self._lock:
            return max(0.0, self._free_at - time.monotonic())

    def pause(self, seconds: float) -> None:
        """Let no request start for so long."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() + seconds)
