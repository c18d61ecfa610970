"""Runs of lines that are worth their price."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.context.select import find_best_runs

numbers = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=9)


def worth(gains, tokens, chosen, price, heading) -> float:
    """Of some lines, where each run of them has a heading."""
    runs = sum(1 for at in chosen if at - 1 not in chosen)
    return sum(gains[at] - price * tokens[at] for at in chosen) - price * heading * runs


@given(numbers, st.sampled_from([0.1, 0.5, 1.0, 2.0]), st.integers(0, 6))
def test_no_other_choice_of_lines_is_worth_more(drawn, price, heading):
    gains, tokens = [gain for gain, _ in drawn], [cost for _, cost in drawn]
    runs = find_best_runs(gains, tokens, price=price, heading_tokens=heading)
    found = {at for run in runs for at in range(run.first, run.last + 1)}
    every = (set(some) for size in range(len(drawn) + 1) for some in combinations(range(len(drawn)), size))
    best = max(worth(gains, tokens, chosen, price, heading) for chosen in every)
    assert worth(gains, tokens, found, price, heading) == pytest.approx(best)
    assert sum(run.gain for run in runs) == sum(gains[at] for at in found)


def test_a_gap_that_costs_less_than_a_heading_is_bridged():
    gains = [5.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 5.0]
    (first, second) = find_best_runs(gains, [1.0] * 8, price=1.0, heading_tokens=3.0)
    assert ((first.first, first.last), (second.first, second.last)) == ((0, 2), (7, 7))
    assert first.tokens == 6.0 and first.density == pytest.approx(10 / 6)
