"""Fuses the candidates of all searches and spaces into one list, best first. Pure.

Scores of different searches do not compare, so each is first brought into [0, 1]. BM25
becomes a share of the best score of all spaces (its own zero means "no word matches"); a
candidate that full text did not find counts as zero there. One without a similarity is not embedded
yet: it gets one after its words. Three methods:

- `following`: cosine similarities, from what the model gives unrelated texts (0) to the same text
  (1), and a weight of the words that follows the question. It is high where the nearest chunk is
  far away, which is what the model says of a text that it does not understand, and where few
  chunks match far better than the rest, as those that hold a rare name do. Scores of different
  questions compare. (docs/decisions/0011-retrieval.md)
- `weighted`: one weight for all questions, similarities between the worst and the best
  candidate of their space.
- `reciprocal_rank`: ranks alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, repeat
from math import fsum, isfinite
from typing import Literal

import numpy as np

from knowledge_pipeline.query.search.hits import (
    Hit,
    RankedChunk,
    ScoredChunk,
    ScoreParts,
    SpaceCandidates,
    sort_best_first,
)

FusionMethod = Literal["following", "weighted", "reciprocal_rank"]

KEYWORD_WEIGHT = 2.0  # of the best BM25 score, against a similarity of 1, where words are trusted most
_CLARITY_RANK = 10  # the best match by words is compared to the match of this rank
_NO_BOOSTS: Mapping[str, float] = {}
_RANK_OFFSET = 60  # Cormack et al. 2009, https://doi.org/10.1145/1571941.1572114


def fuse(
    candidates: Sequence[SpaceCandidates], *, method: FusionMethod, vector_weight: float
) -> list[Hit[RankedChunk]]:
    """One list of hits, best first; equal scores are ordered by id.

    The order of the input does not matter. A chunk that several spaces hold counts once, by
    its best score there.
    """
    keywords = _Ranking.build(found for space in candidates for found in space.keyword_matches or ())
    by_space = [
        _fuse_space(space, keywords, scale, method=method, vector_weight=vector_weight)
        for space, scale in zip(candidates, _compute_scales(candidates), strict=True)
    ]
    return sort_best_first(by_space[0] if len(by_space) == 1 else _keep_best(by_space))


def _keep_best(by_space: Iterable[Iterable[Hit[RankedChunk]]]) -> Iterable[Hit[RankedChunk]]:
    """Of the hits of several spaces the best of each chunk."""
    best: dict[str, Hit[RankedChunk]] = {}
    for hit in chain.from_iterable(by_space):
        known = best.get(hit.chunk.id)
        if known is None or (-hit.score, hit.explanation.space) < (-known.score, known.explanation.space):
            best[hit.chunk.id] = hit
    return best.values()


@dataclass(frozen=True, slots=True)
class _Ranking:
    """What one kind of search found, by chunk id, the best first."""

    found: Mapping[str, ScoredChunk]
    ranks: Mapping[str, int]  # from 1
    scores: Mapping[str, float]  # as the search gave them

    @classmethod
    def build(cls, scored: Iterable[ScoredChunk]) -> _Ranking:
        """Each chunk once, by its best score; a score that is no number is left out."""
        best_first = sort_best_first([found for found in scored if isfinite(found.score)])
        found: dict[str, ScoredChunk] = {}
        for each in best_first:  # of equal ids the first is kept
            found.setdefault(each.chunk.id, each)
        ranks = dict(zip(found, count(1), strict=False))
        return cls(found, ranks, {key: each.score for key, each in found.items()})


def _fuse_space(
    candidates: SpaceCandidates,
    keywords: _Ranking,
    scale: float,
    *,
    method: FusionMethod,
    vector_weight: float,
) -> list[Hit[RankedChunk]]:
    vectors = _Ranking.build(candidates.nearest or ())
    matches = candidates.keyword_matches or ()
    by_words = {found.chunk.id: found for found in matches if found.chunk.id in keywords.found}
    candidates_by_id = {**by_words, **vectors.found}
    unrelated = candidates.unrelated_similarity
    normalized = _normalize_similarities(list(vectors.scores.values()), unrelated)
    similarities = dict(zip(vectors.scores, normalized, strict=True))
    vector_scores = _normalize_vector_scores(vectors, similarities, scale, method)
    keyword_scores = _normalize_keyword_scores(keywords, method)
    weight = _compute_vector_weight(similarities, keywords, method, vector_weight)
    compared = {found.chunk.id for found in candidates.nearest or ()}
    if unembedded := candidates_by_id.keys() - compared:
        vector_scores |= _estimate_vector_scores(vector_scores, keyword_scores, unembedded)
    ids = list(candidates_by_id)
    fused = [
        weight * vector_scores.get(id_, 0.0) + (1 - weight) * keyword_scores.get(id_, 0.0) for id_ in ids
    ]
    parts = map(
        ScoreParts,
        repeat(candidates.space),
        map(vectors.ranks.get, ids),
        map(vectors.scores.get, ids),
        map(keywords.ranks.get, ids),
        map(keywords.scores.get, ids),
        repeat(_NO_BOOSTS),
        fused,
    )
    found = candidates_by_id.values()
    return [
        Hit(each.chunk, score, explanation, each.row)
        for each, score, explanation in zip(found, fused, parts, strict=True)
    ]


def _compute_vector_weight(
    similarities: Mapping[str, float], keywords: _Ranking, method: FusionMethod, configured: float
) -> float:
    """A search that found nothing, or could not be made, leaves all the weight to the other."""
    if not similarities:
        return 0.0
    if not keywords.found:
        return 1.0
    if method == "reciprocal_rank":
        return 0.5
    if method == "weighted":
        return configured
    strangeness = 1.0 - max(similarities.values())  # 0 for the same text, 1 for nothing in common
    scores = list(keywords.scores.values())
    tenth = scores[_CLARITY_RANK - 1] if len(scores) >= _CLARITY_RANK else 0.0
    # how much the best match by words stands out: 0 where ten are equally good
    clarity = 1.0 - tenth / scores[0] if scores[0] > 0 else 0.0
    trust_in_words = KEYWORD_WEIGHT * strangeness**2 * clarity
    total = configured + (1 - configured) * trust_in_words
    return configured / total if total > 0 else 0.0


def _normalize_similarities(similarities: Sequence[float], unrelated: float) -> list[float]:
    """Cosines as a share of the way from what unrelated texts have to what the same text has."""
    return ((np.array(similarities) - unrelated) / (1.0 - unrelated)).clip(0.0, 1.0).tolist()


def _compute_scales(candidates: Sequence[SpaceCandidates]) -> list[float]:
    """Similarities by different models do not compare: each model's best counts as good as the others'."""
    if len(candidates) == 1:
        return [1.0]
    best: list[float] = []
    for space in candidates:
        finite = [found.score for found in space.nearest or () if isfinite(found.score)]
        best += _normalize_similarities([max(finite)], space.unrelated_similarity) if finite else [0.0]
    positive = [similarity for similarity in best if similarity > 0]
    mean = fsum(positive) / max(len(positive), 1)  # whatever their order
    return [mean / similarity if similarity > 0 else 1.0 for similarity in best]


def _normalize_vector_scores(
    vectors: _Ranking, similarities: Mapping[str, float], scale: float, method: FusionMethod
) -> dict[str, float]:
    if method == "reciprocal_rank":
        return _compute_reciprocal_ranks(vectors)
    if method == "following":
        return {key: min(1.0, similarity * scale) for key, similarity in similarities.items()}
    scores = vectors.scores
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    if low == high:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}


def _normalize_keyword_scores(keywords: _Ranking, method: FusionMethod) -> dict[str, float]:
    if method == "reciprocal_rank":
        return _compute_reciprocal_ranks(keywords)
    best = max(keywords.scores.values(), default=0.0)
    return {key: score / best if best > 0 else 0.0 for key, score in keywords.scores.items()}


def _estimate_vector_scores(
    vector_scores: Mapping[str, float], keyword_scores: Mapping[str, float], unembedded: Iterable[str]
) -> dict[str, float]:
    """What chunks without a vector would score, between what an embedded match by words has and the best.

    Measured by nDCG@10 on codebase-dev and cranfield-dev: with 10 % of the vectors .761 and .531 (zero
    instead: .562, .134), with half of them .772 and .529 (.597, .381), without any .755 and .525.
    """
    of_matches = [vector_scores[key] for key in keyword_scores if key in vector_scores]
    mean = fsum(of_matches) / max(len(of_matches), 1)
    best = max(vector_scores.values(), default=0.0)
    return {key: mean + (best - mean) * keyword_scores.get(key, 0.0) for key in unembedded}


def _compute_reciprocal_ranks(ranking: _Ranking) -> dict[str, float]:
    """Reciprocal ranks, scaled so that the first has 1."""
    return {key: (_RANK_OFFSET + 1) / (_RANK_OFFSET + rank) for key, rank in ranking.ranks.items()}
