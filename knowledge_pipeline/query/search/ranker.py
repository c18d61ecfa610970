"""Ranks the hits of a question by a learned, linear model of their features. Pure.

    log-odds that a chunk answers = base + sum of weight x feature - what a further chunk of a document loses

and the score is that probability. All candidates are ranked by what is known without their texts; the best
are read, and ranked again with what their texts say (text_features.py). The weights are in `ranker.json`,
written by `python -m benchmarks.train_ranker`, unless a release has others that `knowledge tune` learned
from the corpus. (docs/decisions/ranking.md)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_pipeline.query.search.features import FEATURES, compute_features, count_better_of_file
from knowledge_pipeline.query.search.hits import Hits, order_best_first
from knowledge_pipeline.query.search.text_features import TEXT_FEATURES
from knowledge_pipeline.query.search.understand import ParsedQuery

MODEL_PATH = Path(__file__).with_name("ranker.json")
FORM = 2  # of stored models: others knew other features, and are not used
MIN_READ = 30  # candidates whose texts are read: with 40 or 60 nothing is gained

_BASE, _FURTHER_CHUNK = "base", "further_chunk"
_PARTS = (*FEATURES, *TEXT_FEATURES, "same_document", "unread")


@dataclass(frozen=True)
class RankingModel:
    """Weights of the features in log-odds, and what else makes a score of them."""

    weights: Mapping[str, float]  # feature -> weight; one that is not named counts nothing
    further_chunk: float  # what each better chunk of its document takes from a chunk; at least 0
    base: float = 0.0  # log-odds of a chunk whose features are 0

    def to_json(self) -> str:
        """The model as a release keeps it: equal texts for equal models."""
        content = {"form": FORM, "weights": dict(self.weights)}
        return json.dumps(content | {_BASE: self.base, _FURTHER_CHUNK: self.further_chunk}, sort_keys=True)

    @cached_property
    def candidate_weights(self) -> np.ndarray:
        """Shape (`FEATURES`,)."""
        return np.array([self.weights.get(name, 0.0) for name in FEATURES])

    @cached_property
    def text_weights(self) -> np.ndarray:
        """Shape (`TEXT_FEATURES`,)."""
        return np.array([self.weights.get(name, 0.0) for name in TEXT_FEATURES])


@lru_cache(maxsize=16)
def load_model(text: str | None = None) -> RankingModel:
    """The model of a release, as `RankingModel.to_json` wrote it; None: the one of the package.

    The package's as well for a model of an earlier version, whose features were others.
    """
    content: dict[str, Any] = json.loads(MODEL_PATH.read_text() if text is None else text)
    if content.get("form") != FORM:
        return load_model()
    return RankingModel(content["weights"], content[_FURTHER_CHUNK], content[_BASE])


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates ranked by what is known without their texts."""

    hits: Hits  # best first
    parts: np.ndarray  # what each feature adds to the log-odds; shape (candidates, `FEATURES`)
    model: RankingModel

    @classmethod
    def build(cls, hits: Hits, query: ParsedQuery, model: RankingModel | None = None) -> Ranking:
        """Rank fused hits. The order of the input does not matter; equal scores are ordered by id."""
        candidates = (
            hits.candidates if len(hits) == len(hits.candidates) else hits.candidates.take(hits.order)
        )
        model = model or load_model()
        similarities = np.array(candidates.similarities, np.float64)
        features = compute_features(candidates.chunks, candidates.scores, similarities, query)
        parts = features * model.candidate_weights
        totals = parts.sum(axis=1) + model.base
        order = order_best_first(totals, candidates.chunks.by_id)
        return cls(Hits(candidates, order, _to_probabilities(totals)), parts, model)

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


def _to_probabilities(log_odds: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-log_odds))


def _list_boosts(base: float, parts: np.ndarray) -> Sequence[Mapping[str, float]]:
    """What the base and each part add to each candidate's log-odds; shape of parts (candidates, `_PARTS`)."""
    return [
        {_BASE: base} | {name: part for name, part in zip(_PARTS, row, strict=True) if part}
        for row in parts.tolist()
    ]
