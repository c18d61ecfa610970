"""How often somebody may ask, and how much at once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from os import cpu_count
from weakref import WeakValueDictionary

from knowledge_pipeline.errors import StoreUnavailable, TooManyRequests
from knowledge_pipeline.store.shared_state import WINDOW_S, SharedState

_log = logging.getLogger(__name__)


class RequestLimiter:
    """Requests of the last minute, by who asked; of one process, or of all that share a state."""

    def __init__(self, state: SharedState | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._state, self._clock = state, clock
        self._asked_s: dict[str, deque[float]] = {}  # by key, the one who asked last at the end

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
        now_s = self._clock()
        asked_s = self._asked_s[key] = self._asked_s.pop(key, None) or deque[float]()
        while asked_s and asked_s[0] <= now_s - WINDOW_S:
            asked_s.popleft()
        if len(asked_s) >= per_minute:
            return asked_s[-per_minute] + WINDOW_S - now_s
        asked_s.append(now_s)
        self._forget(now_s - WINDOW_S)
        return None

    def _forget(self, before_s: float) -> None:
        """Forget who has not asked since then."""
        while (last := next(iter(self._asked_s.values()))) and last[-1] <= before_s:
            del self._asked_s[next(iter(self._asked_s))]


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
