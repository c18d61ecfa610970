"""Notes what is asked about other files while a file is resolved, so that each use knows what it asked.

What was asked is a bit each, and a set of it a whole number: answers that are remembered hand on what was
asked for them at the cost of one addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

Asked = str | tuple[str, int]
"""A question (see `traced_view.Trace`), or a look-up in another file: its path, and the hash of the key.

With `CYCLES` as the path, a question of an `EvaluationCache` that depends on itself, or on one that does: its
answer depends on what was asked before.
"""

WHOLE_FILE = 0
"""The hash of what every look-up in a file depends on."""

CYCLES = ""

_MAX_HASH = 0xFFFFFF

Result = TypeVar("Result")


class LookupLog:
    """What was asked since `mask` was last set to 0."""

    def __init__(self) -> None:
        self.mask = 0
        self.is_cut_short = False  # whether a limit of depth or work was met: then the order of uses counts
        self.asked: list[Asked] = []  # by the place of their bit
        self._bits: dict[Asked, int] = {}
        self.cycle_bit = self.get_bit((CYCLES, WHOLE_FILE))  # of any cycle

    def get_bit(self, asked: Asked) -> int:
        """The bit that stands for something that can be asked."""
        bit = self._bits.get(asked)
        if bit is None:
            bit = self._bits[asked] = 1 << len(self.asked)
            self.asked.append(asked)
        return bit

    def note_cycle(self, question: tuple[str, ...]) -> None:
        """Note a question that depends on itself, or on one that does."""
        number = 1 + crc32("\t".join(question).encode(errors="replace")) % _MAX_HASH
        self.mask |= self.cycle_bit | self.get_bit((CYCLES, number))

    def record(self, compute: Callable[[], Result]) -> tuple[Result, int]:
        """What is computed, and what was asked for it."""
        around, self.mask = self.mask, 0
        result = compute()
        asked = self.mask
        self.mask |= around
        return result, asked
