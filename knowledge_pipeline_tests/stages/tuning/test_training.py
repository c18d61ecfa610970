"""Weights move where pairs say so, and as far as there are pairs to say it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from knowledge_pipeline.extensions.tuning import ALL_FEATURES, GRID, ExampleBatch, judge_places, tune_weights
from knowledge_pipeline.extensions.tuning_examples import Example, View
from knowledge_pipeline.query.features import FEATURES
from knowledge_pipeline.query.rank import load_model

_ONE_FAMILY = load_model().one_family
SHIPPED = replace(_ONE_FAMILY, weights={**_ONE_FAMILY.weights, "fused": 1.0, "file_name": 0.8})


def example(name: str = "file", *, fused: float = 0.2) -> Example:
    """A question whose answer is found second, because the first file's name says the question's words."""
    features = np.zeros((2, len(ALL_FEATURES)))
    features[:, 0] = fused, 0.45
    features[0, FEATURES.index("file_name")] = 1.0
    view = View(name, np.array([0, 1]), np.array([0.0, 1.0]), 1.0)
    return Example("pairs", "pairs", "question", features, np.array([0, 1]), (view,))


def test_many_pairs_take_a_weight_away_that_leads_them_astray() -> None:
    batch = ExampleBatch([example()] * 200)
    steps = tune_weights(batch, SHIPPED)
    first, last = steps[0], steps[-1]
    assert first.model == SHIPPED
    assert last.learned == 1.0 > first.learned == pytest.approx(1 / np.log2(3))
    assert last.model.weights["file_name"] == max(value for value in GRID if value < 0.25), "no further"
    assert {**last.model.weights, "file_name": 0.8} == SHIPPED.weights
    assert [each.model for each in tune_weights(batch, SHIPPED)] == [each.model for each in steps]


def test_few_pairs_change_nothing() -> None:
    (only,) = tune_weights(ExampleBatch([example()] * 3), SHIPPED)
    assert only.model == SHIPPED


def test_a_question_is_judged_by_definition_where_its_answers_name_one() -> None:
    batch = ExampleBatch([example("file"), example("symbol", fused=-0.5)])
    assert judge_places(batch, SHIPPED).tolist() == pytest.approx([1 / np.log2(3), 1.0])
