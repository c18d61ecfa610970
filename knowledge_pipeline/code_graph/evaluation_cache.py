"""Caches evaluations that depend on each other, and bounds how deep and how long they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from knowledge_pipeline.code_graph.entities import Meanings
from knowledge_pipeline.code_graph.traces import LookupLog

_MAX_DEPTH = 40  # questions within questions
_MAX_WORK = 30_000  # for one use; a question costs ten, one that is answered already costs one
_MAX_WORK_PER_FILE = 1_000_000
_MISS_COST = 9  # of finding an answer
_NO_CYCLE = 1_000_000

EvaluationKey = tuple[str, str, str]
Result = TypeVar("Result")


class EvaluationCache:
    """Answers that are known, and those that are being worked out."""

    def __init__(self, log: LookupLog) -> None:
        self._log = log
        self._memo: dict[EvaluationKey, tuple[Meanings, int]] = {}  # with what was asked for it
        self._active: dict[EvaluationKey, int] = {}
        self._assumed: dict[EvaluationKey, Meanings] = {}
        self._lowest_cycle_depth = _NO_CYCLE
        self._work_left = _MAX_WORK
        self._file_work_left = _MAX_WORK_PER_FILE

    @property
    def work_done(self) -> int:
        """For all uses together."""
        return _MAX_WORK_PER_FILE - self._file_work_left + _MAX_WORK - self._work_left

    def reset_budget(self) -> None:
        """Allow all the work of one use, as far as the file has some left."""
        self._file_work_left -= _MAX_WORK - self._work_left
        self._work_left = min(_MAX_WORK, self._file_work_left)

    def get(self, key: EvaluationKey) -> Meanings | None:
        """An answer that is remembered."""
        cached = self._memo.get(key)
        if cached is None:
            return None
        self._log.mask |= cached[1]
        return cached[0]

    def compute_with_completeness(self, compute: Callable[[], Result]) -> tuple[Result, bool]:
        """What is computed, and whether it depends on no unfinished question."""
        around, self._lowest_cycle_depth = self._lowest_cycle_depth, _NO_CYCLE
        result = compute()
        is_whole = self._lowest_cycle_depth == _NO_CYCLE
        self._lowest_cycle_depth = min(around, self._lowest_cycle_depth)
        return result, is_whole

    def get_or_compute(self, key: EvaluationKey, compute: Callable[[], Meanings]) -> Meanings:
        """The answer of a question; asked within itself, what is known of it so far.

        An answer is remembered unless it was found within an unfinished question that it
        depends on.
        """
        cached = self.recall(key)
        if cached is not None:
            return cached
        return self.compute(key, compute)

    def recall(self, key: EvaluationKey) -> Meanings | None:
        """An answer that is remembered, asked for as a question: it counts as work."""
        self._work_left -= 1
        return self.get(key)

    def compute(self, key: EvaluationKey, compute: Callable[[], Meanings]) -> Meanings:
        """The same as `get_or_compute`, after `recall` had no answer."""
        if key in self._active:
            self._lowest_cycle_depth = min(self._lowest_cycle_depth, self._active[key])
            self._log.note_cycle(key)
            return self._assumed.get(key, {})
        depth = len(self._active)
        if depth >= _MAX_DEPTH or self._work_left <= 0:
            self._lowest_cycle_depth = -1
            self._log.is_cut_short = True
            return {}
        self._work_left -= _MISS_COST
        self._active[key] = depth
        around, self._lowest_cycle_depth = self._lowest_cycle_depth, _NO_CYCLE
        asked_around, self._log.mask = self._log.mask, 0
        answer = compute()
        if self._lowest_cycle_depth == depth and answer:
            self._assumed[key] = answer
            answer = compute()
        if self._log.mask & self._log.cycle_bit:
            self._log.note_cycle(key)
        del self._active[key]
        self._assumed.pop(key, None)
        if self._lowest_cycle_depth >= depth or not depth:
            self._memo[key] = answer, self._log.mask
            self._lowest_cycle_depth = around
        else:
            self._lowest_cycle_depth = min(around, self._lowest_cycle_depth)
        self._log.mask |= asked_around
        return answer
