"""How long each step of a question took, and when it was."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from knowledge_pipeline.contract.responses.base import Step


class Stopwatch:
    """Milliseconds by step, and since the start; of equal steps at once the longest counts.

    `steps` tells every step and its parts, in the order of their ends.
    """

    def __init__(self) -> None:
        self._start_s = time.perf_counter()
        self.timings_ms: dict[str, float] = {}
        self.steps: list[Step] = []

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """Time what happens inside, under a name."""
        start_ms = self.took_ms
        try:
            yield
        finally:
            end_ms = self.took_ms
            self.steps.append(Step(name, start_ms, end_ms))
            self.timings_ms[name] = max(round(end_ms - start_ms, 3), self.timings_ms.get(name, 0.0))

    @contextmanager
    def substep(self, name: str) -> Generator[None]:
        """Tell when something within a step was done; the times by step are those of whole steps."""
        start_ms = self.took_ms
        try:
            yield
        finally:
            self.steps.append(Step(name, start_ms, self.took_ms))

    @property
    def took_ms(self) -> float:
        """Since the start."""
        return round((time.perf_counter() - self._start_s) * 1000, 3)
