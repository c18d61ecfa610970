"""Ranks the hits of a question by a learned, linear model of their features. Pure.

    score = (fused + the sum of weight x feature) / (1 + the sum of the weights above 0), at least 0

So scores stay in [0, 1], and those of different questions compare as far as fused scores do. Then each
further chunk of a file counts for less, so that one file does not crowd out others. The weights are in
`ranker.json`, written by `python -m benchmarks.train_ranker`, unless a release has others that `knowledge
tune` learned from the corpus. (docs/decisions/0034-learned-ranking.md, 0048-tuning.md)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_pipeline.contract.responses import ScoreExplanation
from knowledge_pipeline.query.search.features import FEATURES, compute_features, get_file, has_path
from knowledge_pipeline.query.search.hits import AnyChunkT, Hit, RankedChunk
from knowledge_pipeline.query.search.understand import ParsedQuery

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
    hits: Sequence[Hit[AnyChunkT]],
    query: ParsedQuery,
    *,
    diverse: bool = True,
    explain: bool = True,
    model: RankingModel | None = None,
) -> list[Hit[AnyChunkT]]:
    """Fused hits, best first; equal scores are ordered by id. The order of the input does not matter.

    Args:
        diverse: each further chunk of a file counts for less.
        explain: `boosts` of the explanations say what each feature but `fused` adds to the score or takes
            from it; a quarter of the time.
    """
    model = model or load_model()
    parts = compute_features(hits, query) * model.shares  # shape (hits, FEATURES)
    scores = parts.sum(axis=1).clip(min=0.0)
    scored = sorted(
        zip(scores.clip(max=1.0).tolist(), hits, parts.tolist(), strict=True),
        key=lambda each: (-each[0], each[1].chunk.id),
    )
    seen: Counter[tuple[str, str]] = Counter()
    ranked: list[tuple[float, str, Hit[AnyChunkT]]] = []
    for score, hit, parts_of_score in scored:
        loss = 0.0
        if diverse and has_path(hit.chunk):
            file = get_file(hit.chunk)
            loss = score * (1.0 - model.repeat_factor ** seen[file])
            seen[file] += 1
        explanation = _explain(hit, parts_of_score, loss) if explain else hit.explanation
        placed = Hit(hit.chunk, score - loss, explanation, hit.row)
        ranked.append((loss - score, hit.chunk.id, placed))
    ranked.sort(key=itemgetter(0, 1))
    return [hit for _, _, hit in ranked]


def _explain(hit: Hit[RankedChunk], parts: Sequence[float], loss: float) -> ScoreExplanation:
    boosts = {name: part for name, part in zip(FEATURES[1:], parts[1:], strict=True) if part}
    repeated = {"same_file": -loss} if loss else {}
    return replace(hit.explanation, boosts={**hit.explanation.boosts, **boosts, **repeated})
