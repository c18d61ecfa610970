"""What a line is expected to tell, by the words of a question."""

from __future__ import annotations

import pytest

from knowledge_pipeline.context.select import WordWeights

TEXTS = ["def pay(order):\n    amount = order.total\n    return amount", "def ship(order): ...", "import os"]


def test_a_line_that_has_every_word_gains_a_whole_chunk_more_than_one_far_from_all() -> None:
    gains = WordWeights("pay the amount", TEXTS).estimate_gains(["pay amount", *["x = 1"] * 20, "", "}"])
    assert gains[0] - gains[-3] == pytest.approx(1.0)
    assert gains[-3] > 0 and gains[-2:] == [0.0, 0.0]


def test_a_rare_word_gains_more_than_a_common_one() -> None:
    rare, *_, common = WordWeights("ship an order", TEXTS).estimate_gains(["ship", *["x = 1"] * 20, "order"])
    assert rare > common
