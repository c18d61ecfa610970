"""Weights move where pairs say so, and as far as there are pairs to say it."""

from __future__ import annotations

import numpy as np
import pytest

from knowledge_pipeline.query.search.features import FEATURES
from knowledge_pipeline.query.search.ranker import RankingModel, load_model
from knowledge_pipeline.stages.tuning.examples import Example, View
from knowledge_pipeline.stages.tuning.training import ExampleBatch, judge_places, tune_weights


def example(name: str = "file", *, fused: float = 0.6) -> Example:
    """A question whose answer is found second, because the first file's name says the question's words."""
    features = np.zeros((2, len(FEATURES)))
    features[:, 0] = fused, 0.65
    features[0, FEATURES.index("file_name")] = 1.0
    view = View(name, np.array([0, 1]), np.array([0.0, 1.0]), 1.0)
    return Example("pairs", "pairs", "question", features, np.array([0, 1]), (view,))


def test_many_pairs_take_a_weight_away_that_leads_them_astray() -> None:
    batch, shipped = ExampleBatch([example()] * 200), load_model()
    steps = tune_weights(batch, shipped)
    first, last = steps[0], steps[-1]
    assert first.model == RankingModel({**shipped.weights}, shipped.repeat_factor)
    assert last.learned == 1.0 > first.learned == pytest.approx(1 / np.log2(3))
    assert last.model.weights["file_name"] == 0.03, "as far as needed, and no further"
    assert {**last.model.weights, "file_name": 0.16} == {**shipped.weights, "file_name": 0.16}
    assert [each.model for each in tune_weights(batch, shipped)] == [each.model for each in steps]


def test_few_pairs_change_nothing() -> None:
    (only,) = tune_weights(ExampleBatch([example()] * 5), load_model())
    assert only.model.to_json() == load_model().to_json()


def test_a_question_is_judged_by_definition_where_its_answers_name_one() -> None:
    batch = ExampleBatch([example("file"), example("symbol", fused=0.1)])
    assert judge_places(batch, load_model()).tolist() == pytest.approx([1 / np.log2(3), 1.0])
