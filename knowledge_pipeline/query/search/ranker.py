"""Ranks the hits of a question by a learned, linear model of their features. Pure.

    log-odds that a chunk answers = base + sum of weight x feature - what a further chunk of a document loses

and the score is that probability. All candidates are ranked by what is known without their texts; the best
are read, and ranked again with what their texts say (text_features.py). What tells code that answers from
other code is not what tells code from documentation, so there are weights for candidates of one family of
sources and weights for several. They are in `ranker.json`, written by `python -m benchmarks.train_ranker`,
unless a release has others that `knowledge tune` learned from the corpus. Whether anything answers at all is
estimated from two signals by a second such model, which holds for all releases.
(docs/decisions/ranking.md)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from knowledge_pipeline.query.search.features import (
    FEATURES,
    compute_features,
    count_better_of_file,
    has_several_families,
)
from knowledge_pipeline.query.search.hits import Hits, order_best_first
from knowledge_pipeline.query.search.text_features import TEXT_FEATURES
from knowledge_pipeline.query.search.understand import ParsedQuery

MODEL_PATH = Path(__file__).with_name("ranker.json")
FORM = 3  # of stored models: others knew other features, and are not used
MIN_READ = 20  # candidates whose texts are read: with 30, 40 or 60 nothing is gained

CONFIDENT_RESULTS = 3  # the first ones: see `ConfidenceSignals`

_PARTS = (*FEATURES, *TEXT_FEATURES, "same_document", "unread")


@dataclass(frozen=True)
class LinearModel:
    """Weights of the features in log-odds, and what else makes a score of them."""

    weights: Mapping[str, float]  # feature -> weight; one that is not named counts nothing
    further_chunk: float  # what each better chunk of its document takes from a chunk; at least 0
    base: float = 0.0  # log-odds of a chunk whose features are 0

    @cached_property
    def candidate_weights(self) -> np.ndarray:
        """Shape (`FEATURES`,)."""
        return np.array([self.weights.get(name, 0.0) for name in FEATURES])

    @cached_property
    def text_weights(self) -> np.ndarray:
        """Shape (`TEXT_FEATURES`,)."""
        return np.array([self.weights.get(name, 0.0) for name in TEXT_FEATURES])


class ConfidenceSignals(NamedTuple):
    """What tells a question that something answers from one that nothing does, each in [0, 1]."""

    similarity: float  # of the nearest chunk of each space, at the mean; see `fuse.measure_similarity`
    nearest_words: float  # the best of that feature among the first results


@dataclass(frozen=True)
class RankingModel:
    """How candidates are ranked, by whether they are of one family of sources or of several."""

    one_family: LinearModel
    several_families: LinearModel

    def to_json(self) -> str:
        """The model as a release keeps it: equal texts for equal models."""
        return json.dumps({"form": FORM} | asdict(self), sort_keys=True)


@lru_cache(maxsize=16)
def load_model(text: str | None = None) -> RankingModel:
    """The model of a release, as `RankingModel.to_json` wrote it; None: the one of the package.

    The package's as well for a model of an earlier version, whose features were others.
    """
    content: dict[str, Any] = json.loads(MODEL_PATH.read_text() if text is None else text)
    if content.get("form") != FORM:
        return load_model()
    return RankingModel(LinearModel(**content["one_family"]), LinearModel(**content["several_families"]))


def estimate_confidence(signals: ConfidenceSignals) -> float:
    """How likely a result answers, where as many questions have an answer as have none: in [0, 1]."""
    weights = _load_confidence_weights()
    log_odds = weights["base"] + sum(weights[name] * value for name, value in signals._asdict().items())
    return 1.0 / (1.0 + math.exp(-log_odds))


@lru_cache(maxsize=1)
def _load_confidence_weights() -> Mapping[str, float]:
    return json.loads(MODEL_PATH.read_text())["confidence"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates ranked by what is known without their texts."""

    hits: Hits  # best first
    parts: np.ndarray  # what each feature adds to the log-odds; shape (candidates, `FEATURES`)
    model: LinearModel

    @classmethod
    def build(cls, hits: Hits, query: ParsedQuery, model: RankingModel | None = None) -> Ranking:
        """Rank fused hits. The order of the input does not matter; equal scores are ordered by id."""
        candidates = (
            hits.candidates if len(hits) == len(hits.candidates) else hits.candidates.take(hits.order)
        )
        models = model or load_model()
        is_mixed = has_several_families(candidates.chunks)
        chosen = models.several_families if is_mixed else models.one_family
        similarities = np.array(candidates.similarities, np.float64)
        features = compute_features(candidates.chunks, candidates.scores, similarities, query)
        parts = features * chosen.candidate_weights
        totals = parts.sum(axis=1) + chosen.base
        order = order_best_first(totals, candidates.chunks.by_id)
        return cls(Hits(candidates, order, _to_probabilities(totals)), parts, chosen)

    def finish(self, text_features: np.ndarray, *, diverse: bool = True, explain: bool = True) -> Hits:
        """All hits, best first; those whose texts were read before all others.

        Args:
            text_features: of the best candidates, in the order of `hits`; shape (read, `TEXT_FEATURES`).
            diverse: each further chunk of a document counts for less.
            explain: `boosts` say what the base, each feature and the better chunks of its document add to
                the log-odds of each score.
        """
        candidates, model, order = self.hits.candidates, self.model, self.hits.order
        read, unread = order[: len(text_features)], order[len(text_features) :]
        text_parts = np.zeros((len(order), len(TEXT_FEATURES)))
        text_parts[read] = text_features * model.text_weights
        totals = self.parts.sum(axis=1) + text_parts.sum(axis=1) + model.base
        losses = np.zeros((len(order), 2))  # by better chunks of its document, and for not being read
        if diverse:
            by_total = order_best_first(totals, candidates.chunks.by_id)
            better = count_better_of_file(candidates.chunks.file_numbers, by_total)
            losses[:, 0] = model.further_chunk * better
        totals -= losses[:, 0]
        if len(read) and len(unread):
            losses[unread, 1] = max(0.0, totals[unread].max() - totals[read].min())
            totals -= losses[:, 1]
        boosts = _list_boosts(model.base, np.hstack([self.parts, text_parts, -losses])) if explain else None
        order = order_best_first(totals, candidates.chunks.by_id)
        return Hits(candidates, order, _to_probabilities(totals), boosts)

    def list_read(self, ranked: Hits, count: int) -> np.ndarray:
        """Where the first `count` of `hits`, whose texts were read, stand among them, in a ranked order."""
        places = np.full(len(self.hits.candidates), -1)
        places[self.hits.order[:count]] = np.arange(count)
        in_order = places[ranked.order]
        return in_order[in_order >= 0]


def _to_probabilities(log_odds: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-log_odds))


def _list_boosts(base: float, parts: np.ndarray) -> Sequence[Mapping[str, float]]:
    """What the base and each part add to each candidate's log-odds; shape of parts (candidates, `_PARTS`)."""
    return [
        {"base": base} | {name: part for name, part in zip(_PARTS, row, strict=True) if part}
        for row in parts.tolist()
    ]
