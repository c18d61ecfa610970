"""How long each step of a question took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Milliseconds by step, and since the start; of equal steps at once the longest counts."""

    def __init__(self) -> None:
        self._start_s = time.perf_counter()
        self.timings_ms: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what happens inside, under a name."""
        start_s = time.perf_counter()
        try:
            yield
        finally:
            self.timings_ms[name] = max(_ms_since(start_s), self.timings_ms.get(name, 0.0))

    @property
    def took_ms(self) -> float:
        """Since the start."""
        return _ms_since(self._start_s)


def _ms_since(start_s: float) -> float:
    return round((time.perf_counter() - start_s) * 1000, 3)
