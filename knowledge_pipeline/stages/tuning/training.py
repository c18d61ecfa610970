"""Trains the ranker's weights on examples, by coordinate ascent. Pure, and deterministic.

Each weight in turn takes the value of a grid that is best, until none changes (Metzler & Croft 2007,
https://doi.org/10.1007/s10791-006-9019-z). `tune_weights` starts from the shipped weights and pays for each
step away from them, so that few pairs change little. It leaves alone what the form of mined pairs decides,
whatever the corpus is: no answer is a test, a docstring has one chunk, which never is a further one of its
file, and a question stands in the text that answers it. (docs/decisions/ranking.md)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knowledge_pipeline.query.search.features import FEATURES
from knowledge_pipeline.query.search.ranker import LinearModel
from knowledge_pipeline.query.search.text_features import TEXT_FEATURES
from knowledge_pipeline.stages.tuning.examples import Example

ALL_FEATURES = (*FEATURES, *TEXT_FEATURES)

TUNED = ("coherence", "symbol", "file_name")
"""What a corpus may change."""

GRID = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0)
PRIOR_PAIRS = 6.0  # answered at rank 1 instead of not at all: what a change of a weight by 1 has to bring

Weights = Mapping[str, float]
Values = Mapping[str, np.ndarray]
"""Measure -> its value for each question; NaN where it does not apply."""


class ExampleBatch:
    """All questions as flat arrays: one pass judges a model on all of them."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.groups = np.array([each.group for each in examples])
        self.sets = np.array([each.set for each in examples])
        self._features = np.concatenate([each.features for each in examples])
        sizes = [len(each.features) for each in examples]
        self._question = np.repeat(np.arange(len(examples)), sizes)
        starts = np.cumsum([0, *(each.files.max(initial=-1) + 1 for each in examples)])
        self._file = np.concatenate(
            [each.files + start for each, start in zip(examples, starts, strict=False)]
        )
        self._views = {
            name: _FlatView(name, examples, sizes)
            for name in sorted({view.name for each in examples for view in each.views})
        }

    def judge(self, weights: Weights, further_chunk: float) -> Values:
        """nDCG@10 of each question, over places and as the results are returned."""
        scores = self._features @ np.array([weights.get(name, 0.0) for name in ALL_FEATURES])
        scores -= further_chunk * _rank_within(self._file, scores)
        ranks = _rank_within(self._question, scores)
        return {
            measure: values for view in self._views.values() for measure, values in view.judge(ranks).items()
        }


class _FlatView:
    """One view of all questions that have it."""

    def __init__(self, name: str, examples: Sequence[Example], sizes: Sequence[int]) -> None:
        self._name = name
        found = [next((view for view in each.views if view.name == name), None) for each in examples]
        starts = np.cumsum([0, *(len(view.gains) if view else 0 for view in found)])
        places = [
            view.places + start if view else np.full(size, -1)
            for view, size, start in zip(found, sizes, starts, strict=False)
        ]
        place = np.concatenate(places)
        judged = np.flatnonzero(place >= 0)
        self._order = judged[np.argsort(place[judged], kind="stable")]
        self._starts = np.flatnonzero(np.diff(place[self._order], prepend=-1))
        self._gains = np.concatenate([view.gains for view in found if view])
        self._question = np.repeat(np.arange(len(found)), [len(view.gains) if view else 0 for view in found])
        self._ideal = np.array([view.ideal if view else np.nan for view in found])

    def judge(self, ranks: np.ndarray) -> Values:
        """Places are ranked by their first hit; `as returned` other hits take up ranks as well."""
        first = np.minimum.reduceat(ranks[self._order], self._starts)
        over = _rank_within(self._question, -first / (1.0 + first.max(initial=0.0)))
        return {self._name: self._discount(over), f"{self._name}, as returned": self._discount(first)}

    def _discount(self, ranks: np.ndarray) -> np.ndarray:
        gains = np.where(ranks < 10, self._gains / np.log2(ranks + 2), 0.0)
        found = np.bincount(self._question, gains, minlength=len(self._ideal))
        return np.minimum(found / self._ideal, 1.0)


def _rank_within(keys: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The rank of each score among those of its key, from 0."""
    order = np.lexsort((-scores, keys))
    positions = np.arange(len(keys))
    is_start = np.diff(keys[order], prepend=-1) != 0
    ranks = np.empty(len(keys))
    ranks[order] = positions - np.maximum.accumulate(np.where(is_start, positions, 0))
    return ranks


@dataclass(frozen=True)
class TrainingStep:
    """The weights after one pass over all of them."""

    model: LinearModel
    learned: float  # mean nDCG@10 of the examples that it learns from


def tune_weights(batch: ExampleBatch, shipped: LinearModel) -> list[TrainingStep]:
    """Weights near the shipped ones that are better on the batch: the first, then those after each pass."""
    count = len(batch.groups)
    steps: list[TrainingStep] = []

    def evaluate(weights: Weights) -> float:
        away = sum(abs(weights[name] - shipped.weights.get(name, 0.0)) for name in TUNED)
        gain = judge_places(batch, replace(shipped, weights=weights)).mean()
        return float(gain) - PRIOR_PAIRS * away / count

    def record(weights: Weights) -> None:
        model = replace(shipped, weights=weights)
        steps.append(TrainingStep(model, float(judge_places(batch, model).mean())))

    record(shipped.weights)
    _ascend(evaluate, shipped.weights, after_pass=record)
    return steps


def judge_places(batch: ExampleBatch, model: LinearModel) -> np.ndarray:
    """nDCG@10 of each question by place: by definition where its answers name one, else by file."""
    values = batch.judge(model.weights, model.further_chunk)
    by_file = values.get("file", np.full(len(batch.groups), np.nan))
    by_symbol = values.get("symbol, as returned", np.full(len(batch.groups), np.nan))
    return np.where(np.isnan(by_symbol), by_file, by_symbol)


def _ascend(
    evaluate: Callable[[Weights], float], weights: Weights, *, after_pass: Callable[[Weights], None]
) -> None:
    """Find the weights that no change of one of them makes better."""
    best, before = evaluate(weights), float("-inf")
    while best > before:
        before = best
        for name in TUNED:
            for value in GRID:
                changed = _complete({**weights, name: value})
                if (gained := evaluate(changed)) > best + 1e-9:
                    best, weights = gained, changed
        if best > before:
            after_pass(weights)


def _complete(weights: Weights) -> Weights:
    """Few questions name a file, so `path` gets the weight of `symbol`."""
    return {**weights, "path": weights.get("symbol", 0.0)}
