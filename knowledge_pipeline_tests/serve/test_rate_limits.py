"""How many requests a caller may send within a minute."""

from __future__ import annotations

import time

import pytest

from knowledge_pipeline.errors import TooManyRequests
from knowledge_pipeline.serve.service import RequestLimiter
from knowledge_pipeline.store.local_state import SharedState


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


def test_a_clock_that_is_changed_opens_no_rate(tmp_path, monkeypatch) -> None:
    """Of workers that share a state: neither forward, backward, nor after a start of the machine."""
    with SharedState(tmp_path, server="one") as state:
        limiter = RequestLimiter(state)
        limiter.acquire("ann", per_minute=1)
        real = time.time
        for jump_s in (3_600.0, -3_600.0, 700 * 86_400.0):
            monkeypatch.setattr(time, "time", lambda jump_s=jump_s: real() + jump_s)
            with pytest.raises(TooManyRequests) as refused:
                limiter.acquire("ann", per_minute=1)
            assert refused.value.retry_after_s <= 60
        monkeypatch.setattr(time, "monotonic", lambda: 1.0)  # rows of before are later than now
        limiter.acquire("ann", per_minute=1)


def test_who_asks_no_more_is_forgotten() -> None:
    clock = Clock()
    limiter = RequestLimiter(clock=clock)
    for number in range(500):
        clock.now_s = float(number)
        limiter.acquire(f"address {number}", per_minute=1)
    assert len(limiter._asked_s) == 60
