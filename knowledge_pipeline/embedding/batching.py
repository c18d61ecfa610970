"""Requests that fit an endpoint: how many texts go together, and how fast requests may follow."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence


def batches(sizes: Sequence[int], *, max_texts: int, max_tokens: int) -> Iterator[range]:
    """Cut consecutive texts into batches of at most `max_texts` texts and `max_tokens` tokens.

    Only a text larger than `max_tokens` by itself, alone in its batch, exceeds the limit.

    Args:
        sizes: tokens of each text, in order.

    Yields:
        Ranges of positions in `sizes`, in order, none empty, none left out.
    """
    start, tokens = 0, 0
    for position, size in enumerate(sizes):
        full = position - start == max_texts or tokens + size > max_tokens
        if full and position > start:
            yield range(start, position)
            start, tokens = position, 0
        tokens += size
    if start < len(sizes):
        yield range(start, len(sizes))


class Pace:
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

    def hold(self, seconds: float) -> None:
        """Let nobody start for so long: the endpoint said that it is busy."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() + seconds)
