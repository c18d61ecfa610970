"""Fuses the candidates of all searches and spaces into one list, best first. Pure.

Scores of different searches do not compare, so each is first brought into [0, 1]. BM25
becomes a share of the best score of all spaces (its own zero means "no word matches"); a
candidate that full text did not find counts as zero there. One without a similarity is not embedded
yet: it gets one after its words. Three methods:

- `following`: cosine similarities, from what the model gives unrelated texts (0) to the same text
  (1), and a weight of the words that follows the question. It is high where the nearest chunk is
  far away, which is what the model says of a text that it does not understand, and where few
  chunks match far better than the rest, as those that hold a rare name do. Scores of different
  questions compare. (docs/decisions/retrieval.md)
- `weighted`: one weight for all questions, similarities between the worst and the best
  candidate of their space.
- `reciprocal_rank`: ranks alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Literal, NamedTuple

import numpy as np

from knowledge_pipeline.query.search.hits import FusedCandidates, Hits, SpaceCandidates, order_best_first
from knowledge_pipeline.store.index.outline_columns import Outlines, order_by_id

FusionMethod = Literal["following", "weighted", "reciprocal_rank"]

KEYWORD_WEIGHT = 2.0  # of the best BM25 score, against a similarity of 1, where words are trusted most
_CLARITY_RANK = 10  # the best match by words is compared to the match of this rank
_RANK_OFFSET = 60  # Cormack et al. 2009, https://doi.org/10.1145/1571941.1572114


def fuse(candidates: Sequence[SpaceCandidates], *, method: FusionMethod, vector_weight: float) -> Hits:
    """One list of hits, best first; equal scores are ordered by id.

    The order of the input does not matter. A chunk that several spaces hold, or several stores, counts
    once, by its best score there.
    """
    spaces = sorted(candidates, key=lambda each: each.space)
    chunks = Outlines.join([each.chunks for each in spaces])
    numbers, by_id = _number_ids(chunks)
    words = _Ranking.build(numbers, by_id, _join([each.word_scores for each in spaces]))
    vectors, scores, start = list[_Ranking](), list[np.ndarray](), 0
    for each, scale in zip(spaces, _compute_scales(spaces), strict=True):
        own = slice(start, start := start + len(each.rows))
        vectors.append(_Ranking.build(numbers[own], by_id, each.similarities))
        scores.append(_fuse_space(each, vectors[-1], words.take(own), scale, method, vector_weight))
    found = FusedCandidates(
        chunks,
        rows=[row for each in spaces for row in each.rows.tolist()],
        spaces=[each.space for each in spaces for _ in range(len(each.rows))],
        vector_ranks=[rank for each in vectors for rank in each.ranks.tolist()],
        similarities=[score for each in vectors for score in each.scores.tolist()],
        word_ranks=words.ranks.tolist(),
        word_scores=words.scores.tolist(),
        scores=_join(scores),
    )
    order = order_best_first(found.scores, chunks.by_id)
    if len(by_id) < len(order):
        first = dict[str, int]()
        positions: list[int] = order.tolist()
        for at in positions:
            first.setdefault(chunks.ids[at], at)
        order = np.array(list(first.values()))
    return Hits(found, order, found.scores)


def measure_similarity(candidates: Sequence[SpaceCandidates]) -> float | None:
    """How near the nearest row of each space is to the question, at the mean: in [0, 1].

    0 is what the space's model gives unrelated texts. None: no row was compared by its vector.
    """
    compared = [space for space in candidates if np.isfinite(space.similarities).any()]
    return fsum(map(_measure_nearest, compared)) / len(compared) if compared else None


def _number_ids(chunks: Outlines) -> tuple[np.ndarray, np.ndarray]:
    """The number of each chunk's id, and the numbers in the order of the ids."""
    distinct = list(dict.fromkeys(chunks.ids))
    if len(distinct) == len(chunks):
        return np.arange(len(chunks)), chunks.by_id
    numbers = {id_: number for number, id_ in enumerate(distinct)}
    return np.array([numbers[id_] for id_ in chunks.ids]), order_by_id(distinct)


def _join(columns: Sequence[np.ndarray]) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.concatenate([np.empty(0), *columns])


class _Ranking(NamedTuple):
    """What one kind of search found. A score that is no number is not found."""

    ranks: np.ndarray  # int64: of each row, from 1; 0: not found
    scores: np.ndarray  # float64: of each row, as the search gave it; -inf: not found
    best_first: np.ndarray  # float64: scores of all that was found, each chunk once

    @classmethod
    def build(cls, numbers: np.ndarray, by_id: np.ndarray, scores: np.ndarray) -> _Ranking:
        """Each chunk once, by its best score; `numbers` and `by_id` are those of `_number_ids`."""
        finite = np.isfinite(scores)
        best = np.full(len(by_id), -np.inf)
        np.maximum.at(best, numbers[finite], scores[finite])
        order = order_best_first(best, by_id[best[by_id] > -np.inf])
        ranks = np.zeros(len(by_id), np.int64)
        ranks[order] = np.arange(1, len(order) + 1)
        return cls(ranks[numbers], best[numbers], best[order])

    def take(self, own: slice) -> _Ranking:
        """The same of some rows."""
        return self._replace(ranks=self.ranks[own], scores=self.scores[own])


def _fuse_space(
    candidates: SpaceCandidates,
    vectors: _Ranking,
    words: _Ranking,
    scale: float,
    method: FusionMethod,
    configured: float,
) -> np.ndarray:
    """The score of each row of a space: float64, in [0, 1]; `scale` is of its similarities."""
    similarities = _normalize_similarities(vectors.scores, candidates.unrelated_similarity)
    by_vector = _normalize_vector_scores(vectors, similarities * scale, method)
    by_words = _normalize_word_scores(words, method)
    is_unembedded = np.isnan(candidates.similarities) & (vectors.ranks == 0)
    if is_unembedded.any():
        estimated = _estimate_vector_scores(vectors, by_vector, words, by_words)
        by_vector = np.where(is_unembedded, estimated, by_vector)
    weight = _compute_vector_weight(vectors, similarities, words, method, configured)
    return weight * by_vector + (1 - weight) * by_words


def _compute_vector_weight(
    vectors: _Ranking, similarities: np.ndarray, words: _Ranking, method: FusionMethod, configured: float
) -> float:
    """A search that found nothing, or could not be made, leaves all the weight to the other."""
    if not len(vectors.best_first):
        return 0.0
    if not len(words.best_first):
        return 1.0
    if method == "reciprocal_rank":
        return 0.5
    if method == "weighted":
        return configured
    strangeness = 1.0 - float(similarities.max())  # 0 for the same text, 1 for nothing in common
    best_first = words.best_first[:_CLARITY_RANK].tolist()
    tenth = best_first[-1] if len(best_first) == _CLARITY_RANK else 0.0
    # how much the best match by words stands out: 0 where ten are equally good
    clarity = 1.0 - tenth / best_first[0] if best_first[0] > 0 else 0.0
    trust_in_words = KEYWORD_WEIGHT * strangeness**2 * clarity
    total = configured + (1 - configured) * trust_in_words
    return configured / total if total > 0 else 0.0


def _normalize_similarities(similarities: np.ndarray, unrelated: float) -> np.ndarray:
    """Cosines as a share of the way from what unrelated texts have to what the same text has."""
    return ((similarities - unrelated) / (1.0 - unrelated)).clip(0.0, 1.0)


def _compute_scales(candidates: Sequence[SpaceCandidates]) -> list[float]:
    """Similarities by different models do not compare: each model's best counts as good as the others'."""
    if len(candidates) == 1:
        return [1.0]
    best = list(map(_measure_nearest, candidates))
    positive = [similarity for similarity in best if similarity > 0]
    mean = fsum(positive) / max(len(positive), 1)  # whatever their order
    return [mean / similarity if similarity > 0 else 1.0 for similarity in best]


def _measure_nearest(space: SpaceCandidates) -> float:
    """The normalized similarity of the nearest row; 0 without any."""
    finite = space.similarities[np.isfinite(space.similarities)]
    return float(_normalize_similarities(finite, space.unrelated_similarity).max(initial=0.0))


def _normalize_vector_scores(vectors: _Ranking, similarities: np.ndarray, method: FusionMethod) -> np.ndarray:
    """Those of rows that are not found are 0."""
    if method == "reciprocal_rank":
        return _compute_reciprocal_ranks(vectors)
    if method == "following":
        return np.where(vectors.ranks, similarities.clip(max=1.0), 0.0)
    if not len(vectors.best_first):
        return np.zeros(len(similarities))
    high, low = vectors.best_first[0], vectors.best_first[-1]
    scores = (vectors.scores - low) / (high - low) if low < high else 1.0
    return np.where(vectors.ranks, scores, 0.0)


def _normalize_word_scores(words: _Ranking, method: FusionMethod) -> np.ndarray:
    if method == "reciprocal_rank":
        return _compute_reciprocal_ranks(words)
    best = words.best_first[0] if len(words.best_first) else 0.0
    return np.where(words.ranks, words.scores / best, 0.0) if best > 0 else np.zeros(len(words.ranks))


def _estimate_vector_scores(
    vectors: _Ranking, by_vector: np.ndarray, words: _Ranking, by_words: np.ndarray
) -> np.ndarray:
    """What chunks without a vector would score, between what an embedded match by words has and the best.

    Measured by nDCG@10 on codebase-dev and cranfield-dev: with 10 % of the vectors .761 and .531 (zero
    instead: .562, .134), with half of them .772 and .529 (.597, .381), without any .755 and .525.
    """
    of_matches = by_vector[(vectors.ranks > 0) & (words.ranks > 0)].tolist()
    mean = fsum(of_matches) / max(len(of_matches), 1)
    best = float(by_vector.max(initial=0.0))
    return mean + (best - mean) * by_words


def _compute_reciprocal_ranks(ranking: _Ranking) -> np.ndarray:
    """Reciprocal ranks, scaled so that the first has 1."""
    return np.where(ranking.ranks, (_RANK_OFFSET + 1) / (_RANK_OFFSET + ranking.ranks), 0.0)
