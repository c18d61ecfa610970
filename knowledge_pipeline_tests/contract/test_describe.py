"""How what is shown is described."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.contract.describe import round_to_sum

addends = st.lists(st.floats(-50, 50), max_size=25)


@given(addends)
def test_rounded_addends_sum_to_the_rounded_sum(values):
    rounded = [Fraction(str(value)) for value in round_to_sum(values, 2)]
    exact = list(map(Fraction, values))
    assert abs(sum(rounded) - sum(exact)) <= Fraction("0.00500001")
    assert all(
        abs(after - before) < Fraction("0.0100001") for after, before in zip(rounded, exact, strict=True)
    )


def test_what_rounds_away_one_by_one_is_not_lost():
    assert round_to_sum([0.004] * 5, 2) == pytest.approx([0.01, 0.01, 0.0, 0.0, 0.0])
    assert round_to_sum([], 2) == []
