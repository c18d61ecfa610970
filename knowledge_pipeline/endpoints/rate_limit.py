"""How fast requests may follow each other."""

from __future__ import annotations

import threading
import time

import tenacity

from knowledge_pipeline.endpoints.responses import EndpointUnavailable

_BACKOFF = tenacity.wait_exponential_jitter(multiplier=0.5, max=30, jitter=0.5)  # seconds


class RateLimiter:
    """Spaces out requests of all threads so that a rate per minute is never exceeded.

    No burst is saved up: an idle minute is not made up for, so no window of a minute,
    however the endpoint counts it, sees more than the rate.
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
        """The seconds that a place taken now would have to wait; none is taken."""
        with self._lock:
            return max(0.0, self._free_at - time.monotonic())

    def pause(self, seconds: float) -> None:
        """Let nobody start for so long: the endpoint said that it is busy."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() + seconds)


def compute_retry_wait_s(state: tenacity.RetryCallState) -> float:
    """Seconds until the next try: as the endpoint asks, and longer with each failure."""
    return max(_BACKOFF(state), read_retry_after_s(state))


def read_retry_after_s(state: tenacity.RetryCallState) -> float:
    """Seconds that the endpoint asked to wait with its last answer; 0 where it did not."""
    error = state.outcome.exception() if state.outcome else None
    return error.retry_after_s if isinstance(error, EndpointUnavailable) else 0.0
