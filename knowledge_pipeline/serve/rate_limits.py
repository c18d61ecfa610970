"""How often somebody may ask, and how much at once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from os import cpu_count
from weakref import WeakValueDictionary

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from knowledge_pipeline.errors import StoreUnavailable, TooManyRequests
from knowledge_pipeline.store.shared_state import SharedState

_log = logging.getLogger(__name__)


class RequestLimiter:
    """Requests of the last minute, by who asked; of one process, or of all that share a state."""

    def __init__(self, state: SharedState | None = None) -> None:
        self._state = state
        self._window = MovingWindowRateLimiter(MemoryStorage())

    def acquire(self, key: str, *, per_minute: int) -> None:
        """Count one request.

        Raises:
            TooManyRequests: there were `per_minute` within the last minute.
        """
        wait_s = self._count(key, per_minute)
        if wait_s is not None:
            raise TooManyRequests(
                f"more than {per_minute} requests within a minute: try again in {wait_s:.0f} s", wait_s
            )

    def _count(self, key: str, per_minute: int) -> float | None:
        """Count a request; where it is one too many, the seconds until it is not."""
        if self._state:
            try:
                return self._state.count_request(key, per_minute=per_minute)
            except StoreUnavailable as error:  # a limit for each process, instead of none
                _log.warning("rates are limited by each worker alone: %s", error)
        limit = RateLimitItemPerMinute(per_minute)
        if self._window.hit(limit, key):
            return None
        return max(0.0, self._window.get_window_stats(limit, key).reset_time - time.time())


class CallerShares:
    """How many requests of one caller run at once: more of the same caller wait, and nobody else for them.

    What a caller asks holds processors, not only time, so a rate alone lets one caller take all of them.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most or max(2, (cpu_count() or 1) // 2)
        self._slots = WeakValueDictionary[str, asyncio.Semaphore]()  # of the callers that ask now

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncGenerator[None]:
        """Wait for one of a caller's slots, and hold it."""
        slots = self._slots.get(key)
        if slots is None:
            slots = self._slots[key] = asyncio.Semaphore(self._most)
        async with slots:
            yield


class RecentCallers:
    """Who has asked lately: whether one caller's queries may keep another one waiting."""

    def __init__(self, window_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._window_s, self._clock = window_s, clock
        self._asked_s: dict[str, float] = {}

    def note(self, key: str) -> None:
        """Somebody asks."""
        now_s = self._clock()
        self._asked_s.pop(key, None)
        self._asked_s[key] = now_s  # the last one, so that the first is the one who asked longest ago
        while now_s - next(iter(self._asked_s.values())) > self._window_s:
            del self._asked_s[next(iter(self._asked_s))]

    @property
    def are_several(self) -> bool:
        """Whether more than one has asked within the window."""
        now_s = self._clock()
        return sum(now_s - asked_s <= self._window_s for asked_s in self._asked_s.values()) > 1
