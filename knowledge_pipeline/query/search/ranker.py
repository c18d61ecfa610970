"""Ranks the hits of a question by a learned, linear model of their features. Pure.

    score = (fused + the sum of weight x feature) / (1 + the sum of the weights above 0), at least 0

So scores stay in [0, 1], and those of different questions compare as far as fused scores do. Then each
further chunk of a file counts for less, so that one file does not crowd out others. The weights are in
`ranker.json`, written by `python -m benchmarks.train_ranker`, unless a release has others that `knowledge
tune` learned from the corpus. (docs/decisions/0034-learned-ranking.md, 0048-tuning.md)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_pipeline.query.search.features import FEATURES, PATH_TYPES, FileKey, compute_features
from knowledge_pipeline.query.search.hits import AnyChunkT, Hit, ScoreParts, sort_best_first
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
    scores = parts.sum(axis=1).clip(min=0.0).clip(max=1.0)
    explanations = [hit.explanation for hit in hits]
    if explain:
        explanations = list(map(_add_boosts, explanations, parts.tolist()))
    ranked = sort_best_first(
        Hit(hit.chunk, score, explanation, hit.row)
        for hit, score, explanation in zip(hits, scores.tolist(), explanations, strict=True)
    )
    return sort_best_first(_discount_repeats(ranked, model.repeat_factor, explain)) if diverse else ranked


def _discount_repeats(
    ranked: Iterable[Hit[AnyChunkT]], factor: float, explain: bool
) -> Iterator[Hit[AnyChunkT]]:
    """The hits, best first, each further one of a file with a lower score."""
    seen: dict[FileKey, int] = {}
    for hit in ranked:
        chunk = hit.chunk
        before = 0
        if chunk.source_type in PATH_TYPES:
            file = (chunk.source, chunk.path)
            before = seen.get(file, 0)
            seen[file] = before + 1
        loss = hit.score * (1.0 - factor**before) if before else 0.0
        if not loss:
            yield hit
            continue
        explanation = hit.explanation
        if explain:
            explanation = explanation._replace(boosts={**explanation.boosts, "same_file": -loss})
        yield Hit(chunk, hit.score - loss, explanation, hit.row)


def _add_boosts(explanation: ScoreParts, parts: Sequence[float]) -> ScoreParts:
    boosts = {name: part for name, part in zip(FEATURES[1:], parts[1:], strict=True) if part}
    return explanation._replace(boosts={**explanation.boosts, **boosts})
