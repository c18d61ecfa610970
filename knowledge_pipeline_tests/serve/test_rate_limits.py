"""How many requests a caller may send within a minute."""

from __future__ import annotations

import pytest

from knowledge_pipeline.errors import TooManyRequests
from knowledge_pipeline.serve.service import RequestLimiter


class Clock:
    """A clock that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        """The time that was set last."""
        return self.now_s


def test_a_place_is_free_a_minute_after_it_was_taken() -> None:
    clock = Clock()
    limiter = RequestLimiter(clock=clock)
    for clock.now_s in (0.0, 10.0):
        limiter.acquire("ann", per_minute=2)
    for clock.now_s, wait_s in ((20.0, 40.0), (59.0, 1.0)):
        with pytest.raises(TooManyRequests) as refused:
            limiter.acquire("ann", per_minute=2)
        assert refused.value.retry_after_s == wait_s
    limiter.acquire("bob", per_minute=2)  # who has places of their own
    clock.now_s = 60.0
    limiter.acquire("ann", per_minute=2)  # what was refused has taken none
    with pytest.raises(TooManyRequests):
        limiter.acquire("ann", per_minute=2)


def test_who_asks_no_more_is_forgotten() -> None:
    clock = Clock()
    limiter = RequestLimiter(clock=clock)
    for number in range(500):
        clock.now_s = float(number)
        limiter.acquire(f"address {number}", per_minute=1)
    assert len(limiter._asked_s) == 60
