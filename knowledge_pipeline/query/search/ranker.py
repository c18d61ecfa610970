"""Ranks the hits of a question by a learned, linear model of their features. Pure.

    score = (fused + the sum of weight x feature) / (1 + the sum of the weights above 0), at least 0

So scores stay in [0, 1], and those of different questions compare as far as fused scores do. Then each
further chunk of a file counts for less, so that one file does not crowd out others. The weights are in
`ranker.json`, written by `python -m benchmarks.train_ranker`, unless a release has others that `knowledge
tune` learned from the corpus. (docs/decisions/0034-learned-ranking.md, 0048-tuning.md)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_pipeline.query.search.features import (
    FEATURES,
    compute_features,
    count_better_of_file,
    has_path,
)
from knowledge_pipeline.query.search.hits import Hits, order_best_first
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.store.index.outline_columns import Outlines

MODEL_PATH = Path(__file__).with_name("ranker.json")


@dataclass(frozen=True)
class RankingModel:
    """Weights of the features, against 1 of `fused`, and what each further chunk of a file counts."""

    weights: Mapping[str, float]  # feature -> weight; below 0 only for `role`
    repeat_factor: float  # in (0, 1]

    def to_json(self) -> str:
        """The model as a release keeps it: equal texts for equal models."""
        return json.dumps(
            {"weights": dict(self.weights), "repeat_factor": self.repeat_factor}, sort_keys=True
        )

    @cached_property
    def shares(self) -> np.ndarray:
        """The weights as shares of the highest possible score; shape (`FEATURES`,)."""
        weights = np.array([1.0, *(self.weights.get(name, 0.0) for name in FEATURES[1:])])
        return weights / weights.clip(min=0.0).sum()


@lru_cache(maxsize=16)
def load_model(text: str | None = None) -> RankingModel:
    """The model of a release, as `RankingModel.to_json` wrote it; None: the one of the package.

    A feature that a later version knows and the model does not counts nothing.
    """
    content: dict[str, Any] = json.loads(MODEL_PATH.read_text() if text is None else text)
    return RankingModel(content["weights"], content["repeat_factor"])


def rank_hits(
    hits: Hits,
    query: ParsedQuery,
    *,
    diverse: bool = True,
    explain: bool = True,
    model: RankingModel | None = None,
) -> Hits:
    """Fused hits, best first; equal scores are ordered by id. The order of the input does not matter.

    Args:
        diverse: each further chunk of a file counts for less.
        explain: `boosts` of the explanations say what each feature but `fused` adds to the score or takes
            from it.
    """
    found = hits.candidates if len(hits) == len(hits.candidates) else hits.candidates.take(hits.order)
    model, chunks = model or load_model(), found.chunks
    parts = compute_features(chunks, found.scores, query) * model.shares  # shape (hits, FEATURES)
    scores = parts.sum(axis=1).clip(min=0.0).clip(max=1.0)
    order = order_best_first(scores, chunks.by_id)
    losses = np.zeros(len(order))
    if diverse:
        losses = scores * _compute_shares_lost(chunks, order, model.repeat_factor)
        scores = scores - losses
        order = order_best_first(scores, chunks.by_id)
    boosts = _list_boosts(parts, losses) if explain else None
    return Hits(found, order, scores, boosts)


def _list_boosts(parts: np.ndarray, losses: np.ndarray) -> list[dict[str, float]]:
    """What features but `fused` add to the score of each hit, and what the better ones of its file take."""
    named = zip(parts[:, 1:].tolist(), (-losses).tolist(), strict=True)
    boosts = (dict(zip((*FEATURES[1:], "same_file"), (*row, loss), strict=True)) for row, loss in named)
    return [{name: boost for name, boost in each.items() if boost} for each in boosts]


def _compute_shares_lost(chunks: Outlines, order: np.ndarray, factor: float) -> np.ndarray:
    """What share of its score each hit loses, which is more with each better one of its file."""
    better = count_better_of_file(chunks.file_numbers, order) * chunks.mark_files(has_path)
    return np.array([1.0 - factor**count for count in range(better.max(initial=0) + 1)])[better]
