"""How often somebody may ask."""

from __future__ import annotations

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
