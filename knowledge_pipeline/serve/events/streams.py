"""How many streams of events are open, and when they end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from knowledge_pipeline.errors import TooManyRequests
from knowledge_pipeline.serve.events.follower import EventFollower

MAX_STREAMS = 100  # of one process, all callers together
MAX_STREAMS_PER_CALLER = 10


class EventStreams:
    """The streams of one application, which end with it."""

    def __init__(self, follower: EventFollower) -> None:
        self.follower = follower
        self.is_ending: Callable[[], bool] = lambda: False
        self._open: dict[str, int] = {}  # how many, by caller

    def require_room(self, caller: str) -> None:
        """Raise `TooManyRequests` where a caller has as many as they may, or all together have."""
        if self._open.get(caller, 0) >= MAX_STREAMS_PER_CALLER or sum(self._open.values()) >= MAX_STREAMS:
            raise TooManyRequests("too many streams of events are open: close some, or try later", 30.0)

    @contextmanager
    def hold(self, caller: str) -> Generator[None]:
        """Count one more, for as long as it is open."""
        self._open[caller] = self._open.get(caller, 0) + 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
