"""The ranker's weights are learned from what answers, and judged as lists are."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.train_ranker import estimate_change, train
from knowledge_pipeline.query.search.features import FEATURES
from knowledge_pipeline.stages.tuning.examples import Example, View
from knowledge_pipeline.stages.tuning.training import ExampleBatch


def example(fused: list[float], named: list[float], files: list[int], *, answer: int, group: str) -> Example:
    """A question that one file answers; the columns are `fused` and `file_name`."""
    features = np.zeros((len(fused), len(FEATURES)))
    features[:, 0], features[:, FEATURES.index("file_name")] = fused, named
    gains = np.zeros(max(files) + 1)
    gains[answer] = 1.0
    view = View("file", np.array(files), gains, 1.0)
    return Example("set", group, "question", features, np.array(files), (view,))


def test_a_file_counts_where_its_first_chunk_is_and_over_files_once() -> None:
    batch = ExampleBatch([example([0.9, 0.8, 0.7], [0, 0, 0], [0, 0, 1], answer=1, group="a/b")])
    judged = batch.judge({}, 1.0)
    assert judged["file"] == pytest.approx(1 / np.log2(3))
    assert judged["file, as returned"] == pytest.approx(1 / np.log2(4))
    assert batch.judge({}, 0.8)["file, as returned"] == pytest.approx(1 / np.log2(3))


def test_training_finds_the_weight_of_a_feature_that_answers_follow_and_of_no_other() -> None:
    examples = [
        example([0.6, 0.5], [0, 1], [0, 1], answer=1, group="a/b"),
        example([0.6, 0.4], [0.2, 0], [0, 1], answer=0, group="c/d"),
    ]
    batch = ExampleBatch(examples)
    weights, factor = train(batch, ["a/b", "c/d"])
    assert batch.judge(weights, factor)["file"].tolist() == [1.0, 1.0]
    assert weights["file_name"] > 0.1
    assert weights["coherence"] == weights["symbol"] == weights["role"] == 0
    assert train(batch, ["a/b", "c/d"]) == (weights, factor), "it is deterministic"


def test_a_question_that_a_measure_does_not_fit_changes_no_estimate() -> None:
    before, after = np.array([0.5, np.nan, 0.5]), np.array([0.6, np.nan, 0.6])
    assert estimate_change(before, after) == "+10.0 (+10.0 to +10.0)"
