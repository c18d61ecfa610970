"""Refuses a query at once when those before it will take longer than it may wait.

Who waits for thirty seconds and then gets an error has held a place all the while, and tries again at once;
who is told when to come back has cost nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from knowledge_pipeline.errors import Overloaded

_WEIGHT = 0.05  # of the newest query in the mean: the last fifty or so count
_MIN_SAMPLES = 20  # before that nothing is refused: the first queries load models


class Admission:
    """The queries that wait for one of the slots of all callers, and how fast they go. For one event loop."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waiting = 0
        self._samples = 0
        self._mean_s = 0.0  # from the end of one query to that of the next, while others wait
        self._ended_s: float | None = None  # when the last one ended, if others waited then

    @contextmanager
    def wait(self) -> Generator[None]:
        """Count a query as waiting, inside. Raises `Overloaded` if its turn would come too late."""
        wait_s = self.estimate_wait_s()
        if wait_s > self._timeout_s:
            raise Overloaded(
                f"{self._waiting} queries wait already, for about {wait_s:.0f} s: try again later",
                retry_after_s=wait_s - self._timeout_s / 2,
            )
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def estimate_wait_s(self) -> float:
        """How long a query that comes now would wait, in seconds; 0 while little is known."""
        return self._waiting * self._mean_s if self._samples >= _MIN_SAMPLES else 0.0

    def note_ended(self, now_s: float) -> None:
        """A query was answered, at a time that only grows."""
        if self._ended_s is not None:
            self._samples += 1
            weight = max(_WEIGHT, 1 / self._samples)
            self._mean_s += weight * (now_s - self._ended_s - self._mean_s)
        self._ended_s = now_s if self._waiting else None
