"""How long each step of a question took, and when it was."""

from __future__ import annotations

import time
from typing import Self

from knowledge_pipeline.contract.responses.base import Step


class Stopwatch:
    """Milliseconds by step, and since the start; of equal steps at once the longest counts.

    `steps` tells every step and its parts, in the order of their ends.
    """

    def __init__(self) -> None:
        self._start_s = time.perf_counter()
        self.timings_ms: dict[str, float] = {}
        self.steps: list[Step] = []

    def step(self, name: str) -> _RunningStep:
        """Time what happens inside, under a name."""
        return _RunningStep(self, name, is_whole=True)

    def substep(self, name: str) -> _RunningStep:
        """Tell when something within a step was done; the times by step are those of whole steps."""
        return _RunningStep(self, name, is_whole=False)

    @property
    def took_ms(self) -> float:
        """Since the start."""
        return round((time.perf_counter() - self._start_s) * 1000, 3)


class _RunningStep:
    """Tells a stopwatch of itself when it ends. A generator would take three times as long."""

    __slots__ = ("_is_whole", "_name", "_start_ms", "_watch")

    def __init__(self, watch: Stopwatch, name: str, *, is_whole: bool) -> None:
        self._watch, self._name, self._is_whole = watch, name, is_whole
        self._start_ms = 0.0

    def __enter__(self) -> Self:
        self._start_ms = self._watch.took_ms
        return self

    def __exit__(self, *_: object) -> None:
        watch, start_ms, end_ms = self._watch, self._start_ms, self._watch.took_ms
        watch.steps.append(Step(self._name, start_ms, end_ms))
        if self._is_whole:
            took_ms = round(end_ms - start_ms, 3)
            watch.timings_ms[self._name] = max(took_ms, watch.timings_ms.get(self._name, 0.0))
