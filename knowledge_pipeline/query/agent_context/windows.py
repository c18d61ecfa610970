"""Chooses the runs of lines that are worth their price. Pure.

A budget of tokens is a knapsack, and lines beside each other share a heading. At a price for each token, the
best runs of lines of a document are found in one pass: a run is worth what its lines gain, less the price of
their tokens and of its heading. The budget decides the price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class LineRun:
    """Consecutive lines, by index, both ends included."""

    first: int
    last: int
    gain: float
    tokens: float  # with the heading

    def contains(self, other: LineRun) -> bool:
        """Whether all lines of another are its own."""
        return self.first <= other.first and other.last <= self.last

    @property
    def density(self) -> float:
        """Gain of a token."""
        return self.gain / self.tokens


def find_best_runs(
    gains: Sequence[float], tokens: Sequence[float], *, price: float, heading_tokens: float
) -> list[LineRun]:
    """The disjoint runs of some consecutive lines that are together worth the most, in order.

    Args:
        gains: of each line, not negative.
        tokens: of each line.
        price: in gain, of a token.
        heading_tokens: that each run has in addition.
    """
    inside, outside = _NEVER, 0.0  # the most that the lines so far are worth, if a run goes on, or may not
    extends: list[bool] = []  # whether the run in which a line is the last began before it
    best: list[float] = []  # the most that the lines so far are worth
    for gain, cost in zip(gains, tokens, strict=True):
        begun = outside - price * heading_tokens
        extends.append(inside >= begun)
        inside = max(inside, begun) + gain - price * cost
        outside = max(outside, inside)
        best.append(outside)
    runs: list[LineRun] = []
    last = len(best) - 1
    while last >= 0:
        if best[last] > (best[last - 1] if last else 0.0):
            first = last
            while extends[first]:
                first -= 1
            shown = slice(first, last + 1)
            runs.append(LineRun(first, last, sum(gains[shown]), heading_tokens + sum(tokens[shown])))
            last = first
        last -= 1
    return runs[::-1]
