"""How often somebody may ask, and how much at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from os import cpu_count
from weakref import WeakValueDictionary

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from knowledge_pipeline.errors import TooManyRequests


class RequestLimiter:
    """Requests of the last minute, by who asked; of one process."""

    def __init__(self) -> None:
        self._window = MovingWindowRateLimiter(MemoryStorage())

    def acquire(self, key: str, *, per_minute: int) -> None:
        """Count one request.

        Raises:
            TooManyRequests: there were `per_minute` within the last minute.
        """
        import time

        limit = RateLimitItemPerMinute(per_minute)
        if not self._window.hit(limit, key):
            wait_s = max(0.0, self._window.get_window_stats(limit, key).reset_time - time.time())
            raise TooManyRequests(
                f"more than {per_minute} requests within a minute: try again in {wait_s:.0f} s", wait_s
            )


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
