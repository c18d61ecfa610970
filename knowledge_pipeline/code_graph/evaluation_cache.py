"""Questions that lead to questions: each is answered once, none without end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from knowledge_pipeline.code_graph.entities import Found

_MAX_DEPTH = 40  # questions within questions
_MAX_WORK = 30_000  # for one use; a question costs ten, one that is answered already costs one
_MAX_WORK_OF_FILE = 1_000_000
_COST = 9  # of finding an answer
_NEVER = 1_000_000

Key = tuple[str, str, str]
Result = TypeVar("Result")


class Questions:
    """Answers that are known, and those that are being worked out."""

    def __init__(self) -> None:
        self._memo: dict[Key, Found] = {}
        self._active: dict[Key, int] = {}
        self._assumed: dict[Key, Found] = {}
        self._lowest_cut = _NEVER
        self._work_left = _MAX_WORK
        self._work_left_of_file = _MAX_WORK_OF_FILE

    def allow(self) -> None:
        """Allow all the work of one use, as far as the file has some left."""
        self._work_left_of_file -= _MAX_WORK - self._work_left
        self._work_left = min(_MAX_WORK, self._work_left_of_file)

    def known(self, key: Key) -> Found | None:
        """An answer that is remembered."""
        return self._memo.get(key)

    def whole(self, compute: Callable[[], Result]) -> tuple[Result, bool]:
        """What is computed, and whether it depends on no unfinished question."""
        around, self._lowest_cut = self._lowest_cut, _NEVER
        result = compute()
        is_whole = self._lowest_cut == _NEVER
        self._lowest_cut = min(around, self._lowest_cut)
        return result, is_whole

    def ask(self, key: Key, compute: Callable[[], Found]) -> Found:
        """The answer of a question; asked within itself, what is known of it so far.

        An answer is remembered unless it was found within an unfinished question that it
        depends on.
        """
        self._work_left -= 1
        if key in self._memo:
            return self._memo[key]
        if key in self._active:
            self._lowest_cut = min(self._lowest_cut, self._active[key])
            return self._assumed.get(key, {})
        depth = len(self._active)
        if depth >= _MAX_DEPTH or self._work_left <= 0:
            self._lowest_cut = -1
            return {}
        self._work_left -= _COST
        self._active[key] = depth
        around, self._lowest_cut = self._lowest_cut, _NEVER
        found = compute()
        if self._lowest_cut == depth and found:
            self._assumed[key] = found
            found = compute()
        del self._active[key]
        self._assumed.pop(key, None)
        if self._lowest_cut >= depth or not depth:
            self._memo[key] = found
            self._lowest_cut = around
        else:
            self._lowest_cut = min(around, self._lowest_cut)
        return found
