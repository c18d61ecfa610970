"""Fuses what the searches found into one list, and ranks it by a learned, linear model of features. Pure.

    log-odds that a chunk answers = base + sum of weight x feature - what a further chunk loses

and the score is that probability. All candidates are ranked by what is known without their texts; the best
are read, and ranked again with what their texts say. (docs/decisions/ranking.md)
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from math import fsum
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from knowledge_pipeline.query.features import (
    FEATURES,
    TEXT_FEATURES,
    compute_features,
    count_better_of_file,
    has_several_families,
)
from knowledge_pipeline.query.hits import (
    AnyChunkT,
    Hit,
    Hits,
    IndexedChunk,
    SpaceCandidates,
    order_best_first,
    sort_best_first,
)
from knowledge_pipeline.query.plan import ParsedQuery
from knowledge_pipeline.store.fragments import Outlines, order_by_id
from knowledge_pipeline.times import parse_time

HALF_LIFE_DAYS = 180.0  # a chunk that is so much older than the newest gets half the boost


def boost_recent(hits: Sequence[Hit[IndexedChunk]], max_boost: float) -> list[Hit[IndexedChunk]]:
    """Hits with a boost by their age, best first; scores stay in [0, 1].

    Ages count from the newest of the hits, not from today, so that a project that rests
    has an order too, and the same question gets the same answer tomorrow. The log-odds of
    the newest rise by `max_boost`; a hit without `last_modified` gets none.
    """
    dates = [hit.chunk.metadata.get("last_modified") for hit in hits]
    moments = [parse_time(date) if isinstance(date, str) else None for date in dates]
    newest = max((moment for moment in moments if moment), default=None)
    if newest is None:
        return list(hits)
    boosted: list[Hit[IndexedChunk]] = []
    for hit, moment in zip(hits, moments, strict=True):
        age_days = (newest - moment).total_seconds() / 86400 if moment else None
        boost = max_boost * (0.5 ** (age_days / HALF_LIFE_DAYS) if age_days is not None else 0.0)
        if boost:
            boosts = {**hit.explanation.boosts, "recency": round(boost, 6)}
            raised = hit.score * math.exp(boost)
            score = raised / (1 - hit.score + raised)
            hit = hit._replace(score=score, explanation=replace(hit.explanation, boosts=boosts))
        boosted.append(hit)
    return sort_best_first(boosted)


def merge_hits(hit_lists: Iterable[Sequence[Hit[AnyChunkT]]]) -> Sequence[Hit[AnyChunkT]]:
    """Several ranked lists as one, best first; a chunk of several counts once, by its best score."""
    first, *others = hit_lists
    if not others:
        return first
    best: dict[str, Hit[AnyChunkT]] = {}
    for hits in (first, *others):
        for hit in hits:
            best_hit = best.get(hit.chunk.id)
            if best_hit is None or hit.score > best_hit.score:
                best[hit.chunk.id] = hit
    return sort_best_first(best.values())


FusionMethod = Literal["following", "weighted", "reciprocal_rank"]
"""How scores of different searches are brought into [0, 1], as they do not compare.

- `following`: cosine similarities, from what the model gives unrelated texts (0) to the same text (1), and a
  weight of the words that follows the question. It is high where the nearest chunk is far away, which is
  what the model says of a text that it does not understand, and where few chunks match far better than the
  rest, as those that hold a rare name do. Scores of different questions compare.
- `weighted`: one weight for all questions, similarities between the worst and the best candidate of a space.
- `reciprocal_rank`: ranks alone.

BM25 becomes a share of the best score of all spaces, as its own zero means "no word matches".
(docs/decisions/retrieval.md)
"""

KEYWORD_WEIGHT = 2.0  # of the best BM25 score, against a similarity of 1, where words are trusted most
_CLARITY_RANK = 10  # the best match by words is compared to the match of this rank
_RANK_OFFSET = 60  # Cormack et al. 2009, https://doi.org/10.1145/1571941.1572114


def fuse(candidates: Sequence[SpaceCandidates], *, method: FusionMethod, vector_weight: float) -> Hits:
    """One list of hits, best first; equal scores are ordered by id.

    The order of the input does not matter. A chunk that several spaces hold, or several stores, counts
    once, by its best score there.
    """
    spaces = sorted(candidates, key=lambda space: space.space)
    chunks = Outlines.join([space.chunks for space in spaces])
    numbers, by_id = _number_ids(chunks)
    words = _SearchRanks.build(numbers, by_id, _join([space.word_scores for space in spaces]))
    vectors, scores, start = list[_SearchRanks](), list[np.ndarray](), 0
    for of_space, scale in zip(spaces, _compute_scales(spaces), strict=True):
        own = slice(start, start := start + len(of_space.rows))
        vectors.append(_SearchRanks.build(numbers[own], by_id, of_space.similarities))
        scores.append(_fuse_space(of_space, vectors[-1], words.take(own), scale, method, vector_weight))
    fused = _join(scores)
    order = order_best_first(fused, chunks.by_id)
    if len(by_id) < len(order):
        first = dict[str, int]()
        positions: list[int] = order.tolist()
        for at in positions:
            first.setdefault(chunks.ids[at], at)
        order = np.array(list(first.values()))
    return Hits(
        chunks,
        rows=[row for space in spaces for row in space.rows.tolist()],
        spaces=[space.space for space in spaces for _ in range(len(space.rows))],
        vector_ranks=[rank for vector in vectors for rank in vector.ranks.tolist()],
        similarities=[score for vector in vectors for score in vector.scores.tolist()],
        word_ranks=words.ranks.tolist(),
        word_scores=words.scores.tolist(),
        fused=fused,
        scores=fused,
        order=order,
    )


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


class _SearchRanks(NamedTuple):
    """What one kind of search found. A score that is no number is not found."""

    ranks: np.ndarray  # int64: of each row, from 1; 0: not found
    scores: np.ndarray  # float64: of each row, as the search gave it; -inf: not found
    best_first: np.ndarray  # float64: scores of all that was found, each chunk once

    @classmethod
    def build(cls, numbers: np.ndarray, by_id: np.ndarray, scores: np.ndarray) -> _SearchRanks:
        """Each chunk once, by its best score; `numbers` and `by_id` are those of `_number_ids`."""
        finite = np.isfinite(scores)
        best = np.full(len(by_id), -np.inf)
        np.maximum.at(best, numbers[finite], scores[finite])
        order = order_best_first(best, by_id[best[by_id] > -np.inf])
        ranks = np.zeros(len(by_id), np.int64)
        ranks[order] = np.arange(1, len(order) + 1)
        return cls(ranks[numbers], best[numbers], best[order])

    def take(self, own: slice) -> _SearchRanks:
        """The same of some rows."""
        return self._replace(ranks=self.ranks[own], scores=self.scores[own])


def _fuse_space(
    candidates: SpaceCandidates,
    vectors: _SearchRanks,
    words: _SearchRanks,
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
    vectors: _SearchRanks,
    similarities: np.ndarray,
    words: _SearchRanks,
    method: FusionMethod,
    configured: float,
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


def _normalize_vector_scores(
    vectors: _SearchRanks, similarities: np.ndarray, method: FusionMethod
) -> np.ndarray:
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


def _normalize_word_scores(words: _SearchRanks, method: FusionMethod) -> np.ndarray:
    if method == "reciprocal_rank":
        return _compute_reciprocal_ranks(words)
    best = words.best_first[0] if len(words.best_first) else 0.0
    return np.where(words.ranks, words.scores / best, 0.0) if best > 0 else np.zeros(len(words.ranks))


def _estimate_vector_scores(
    vectors: _SearchRanks, by_vector: np.ndarray, words: _SearchRanks, by_words: np.ndarray
) -> np.ndarray:
    """What chunks without a vector would score, between what an embedded match by words has and the best.

    Measured by nDCG@10 on codebase-dev and cranfield-dev: with 10 % of the vectors .761 and .531 (zero
    instead: .562, .134), with half of them .772 and .529 (.597, .381), without any .755 and .525.
    """
    of_matches = by_vector[(vectors.ranks > 0) & (words.ranks > 0)].tolist()
    mean = fsum(of_matches) / max(len(of_matches), 1)
    best = float(by_vector.max(initial=0.0))
    return mean + (best - mean) * by_words


def _compute_reciprocal_ranks(ranking: _SearchRanks) -> np.ndarray:
    """Reciprocal ranks, scaled so that the first has 1."""
    return np.where(ranking.ranks, (_RANK_OFFSET + 1) / (_RANK_OFFSET + ranking.ranks), 0.0)


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
    """How candidates are ranked, by whether they are of one family of sources or of several.

    What tells code that answers from other code is not what tells code from documentation. The weights are
    in `ranker.json`, written by `python -m benchmarks.train_ranker`, unless a release has others that
    `knowledge tune` learned from the corpus.
    """

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
        hits = hits.drop_other_candidates()
        models = model or load_model()
        chosen = models.several_families if has_several_families(hits.chunks) else models.one_family
        similarities = np.array(hits.similarities, np.float64)
        features = compute_features(hits.chunks, hits.fused, similarities, query)
        parts = features * chosen.candidate_weights
        totals = parts.sum(axis=1) + chosen.base
        order = order_best_first(totals, hits.chunks.by_id)
        return cls(replace(hits, order=order, scores=_to_probabilities(totals)), parts, chosen)

    def finish(self, text_features: np.ndarray, *, diverse: bool = True, explain: bool = True) -> Hits:
        """All hits, best first; those whose texts were read before all others.

        Args:
            text_features: of the best candidates, in the order of `hits`; shape (read, `TEXT_FEATURES`).
            diverse: each further chunk of a document counts for less.
            explain: `boosts` say what the base, each feature and the better chunks of its document add to
                the log-odds of each score.
        """
        chunks, model, order = self.hits.chunks, self.model, self.hits.order
        read, unread = order[: len(text_features)], order[len(text_features) :]
        text_parts = np.zeros((len(order), len(TEXT_FEATURES)))
        text_parts[read] = text_features * model.text_weights
        totals = self.parts.sum(axis=1) + text_parts.sum(axis=1) + model.base
        losses = np.zeros((len(order), 2))  # by better chunks of its document, and for not being read
        if diverse:
            by_total = order_best_first(totals, chunks.by_id)
            better = count_better_of_file(chunks.file_numbers, by_total)
            losses[:, 0] = model.further_chunk * better
        totals -= losses[:, 0]
        if len(read) and len(unread):
            losses[unread, 1] = max(0.0, totals[unread].max() - totals[read].min())
            totals -= losses[:, 1]
        boosts = _list_boosts(model.base, np.hstack([self.parts, text_parts, -losses])) if explain else None
        order = order_best_first(totals, chunks.by_id)
        return replace(self.hits, order=order, scores=_to_probabilities(totals), boosts=boosts)

    def list_read(self, ranked: Hits, count: int) -> np.ndarray:
        """Where the first `count` of `hits`, whose texts were read, stand among them, in a ranked order."""
        places = np.full(len(self.hits.rows), -1)
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
