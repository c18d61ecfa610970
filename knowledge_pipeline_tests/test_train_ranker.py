"""The ranker's weights are learned from what answers, and judged as lists are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.mixed_measure import Place, Question, Target
from benchmarks.train_ranker import NAMES, Example, calibrate, judge, rank, train


def example(
    fused: Sequence[float], named: Sequence[float], *, answer: int, documents: Sequence[int] | None = None
) -> Example:
    """A question that one candidate answers; the columns are `fused` and `symbol`."""
    features = np.zeros((len(fused), len(NAMES)), np.float32)
    features[:, NAMES.index("fused")], features[:, NAMES.index("symbol")] = fused, named
    numbers = list(range(len(fused))) if documents is None else list(documents)
    places = [Place(f"{number}.py", 10 * at + 1, 10 * at + 9) for at, number in enumerate(numbers)]
    question = Question("q", "code", "question", (Target(places[answer], 2),))
    hashes = [str(at) for at in range(len(fused))]
    return Example("mixed-dev", "a/b", question, features, np.array(numbers), hashes, places)


def test_a_further_chunk_of_a_document_loses() -> None:
    one = example([0.9, 0.8, 0.7], [0, 0, 0], answer=2, documents=[0, 0, 1])
    assert judge(one, {"fused": 1.0}, 0.0)[0] == pytest.approx(1 / np.log2(4))
    assert judge(one, {"fused": 1.0}, 0.2)[0] == pytest.approx(1 / np.log2(3))
    assert judge(one, {"fused": 1.0}, 0.0)[1] == pytest.approx(1 / np.log2(3)), "over documents"


def test_of_equal_contents_the_first_is_ranked() -> None:
    one = example([0.9, 0.8], [0, 0], answer=1)
    equal = Example(one.set, one.group, one.question, one.features, one.documents, ["x", "x"], one.places)
    assert [at for at, _ in rank(equal, {"fused": 1.0}, 0.0)] == [0]


def test_training_finds_the_weight_of_a_feature_that_answers_follow_and_of_no_other() -> None:
    examples = [example([0.6, 0.5], [0, 1], answer=1), example([0.6, 0.4], [0.2, 0], answer=0)]
    weights = train(examples, {"mixed-dev": 1.0})
    assert weights["symbol"] > 0.1
    assert weights["path"] == weights["symbol"], "they are tied"
    assert weights["coherence"] == weights["test"] == 0
    assert all(judge(one, weights, 0.0)[0] == 1.0 for one in examples)
    assert train(examples, {"mixed-dev": 1.0}) == weights, "it is deterministic"


def test_a_family_that_was_not_compared_counts_as_it_does_at_the_mean() -> None:
    one = example([0.6, 0.5], [0, 0], answer=1)
    columns = [NAMES.index(name) for name in ("family_nearness", "code")]
    one.features[:, columns] = [[0.2, 1.0], [0.1, 1.0]]
    weights = train([one], {"mixed-dev": 1.0})
    assert weights["family_nearness"] < 0
    assert weights["uncompared_code"] == pytest.approx(0.15 * weights["family_nearness"], abs=0.01)
    assert weights["uncompared_history"] == 0


def test_calibrated_scores_are_the_share_of_what_hits() -> None:
    examples = [example([1.0, 0.0], [0, 0], answer=at) for at in (0, 0, 0, 1)]
    scale, base = calibrate(examples, {"fused": 1.0})
    probabilities = [1 / (1 + np.exp(-(scale * value + base))) for value in (1.0, 0.0)]
    assert probabilities == pytest.approx([0.75, 0.25], abs=1e-3)
