"""The candidates of all searches and spaces become one list, best first. Pure.

Scores of different searches do not compare, so each is first brought into [0, 1]. BM25
becomes a share of the best score of all spaces (its own zero means "no word matches"); a
candidate that one search did not find counts as zero there. Three methods:

- `following`: cosine similarities, from what the model gives unrelated texts (0) to the same text
  (1), and a weight of the words that follows the question. It is high where the nearest passage is
  far away, which is what the model says of a text that it does not understand, and where few
  passages match far better than the rest, as those that hold a rare name do. Scores of different
  questions compare. (docs/decisions/0011-retrieval.md)
- `weighted`: one weight for all questions, similarities between the worst and the best
  candidate of their space.
- `reciprocal_rank`: ranks alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from knowledge_pipeline.contract.responses import ScoreExplanation
from knowledge_pipeline.query.search.hits import Hit, ScoredChunk, SpaceCandidates
from knowledge_pipeline.query.search.understand import ParsedQuery

FusionMethod = Literal["following", "weighted", "reciprocal_rank"]

SYMBOL_BOOST = 0.1  # for a passage whose symbol the question names, beside a fused score of at most 1
PATH_BOOST = 0.1  # for a passage of a file that it names
VERBATIM_BOOST = 0.3  # for a passage that holds the whole question, word for word
VERBATIM_MIN_WORDS = 4  # shorter ones are no sentence, and stand in many passages
KEYWORD_WEIGHT = 2.0  # of the best BM25 score, against a similarity of 1, where words are trusted most
_CLARITY_RANK = 10  # a rank: what the best match by words is held against
_RANK_OFFSET = 60  # Cormack et al. 2009, https://doi.org/10.1145/1571941.1572114

_SEPARATOR = re.compile(r"::|#|->|/")

RankedChunks = Mapping[str, tuple[int, ScoredChunk]]
"""Passage id -> rank from 1 and what was found."""


def fuse(
    candidates: Sequence[SpaceCandidates], query: ParsedQuery, *, method: FusionMethod, vector_weight: float
) -> list[Hit]:
    """One list of hits, best first; equal scores are ordered by id.

    The order of the input does not matter. A passage that several spaces hold counts once, by
    its best score there.
    """
    words = _rank_by_score(found for each in candidates for found in each.keyword_matches or ())
    hits: dict[str, Hit] = {}
    for each, scale in zip(candidates, _compute_scales(candidates), strict=True):
        for hit in _fuse_space(each, words, scale, method=method, vector_weight=vector_weight):
            known = hits.get(hit.chunk.id)
            if known is None or _sort_key(hit) < _sort_key(known):
                hits[hit.chunk.id] = hit
    sentence = _normalize_sentence(query.text) if vector_weight < 1 else ""
    return sorted(_apply_boosts(hits.values(), query, sentence), key=_sort_key)


def _sort_key(hit: Hit) -> tuple[float, str, str]:
    return -hit.score, hit.chunk.id, hit.explanation.space


def _rank_by_score(scored: Iterable[ScoredChunk]) -> dict[str, tuple[int, ScoredChunk]]:
    finite = [each for each in scored if math.isfinite(each.score)]
    ordered = sorted(finite, key=lambda each: (-each.score, each.chunk.id))
    best: dict[str, ScoredChunk] = {}
    for each in ordered:
        best.setdefault(each.chunk.id, each)
    return {key: (rank, each) for rank, (key, each) in enumerate(best.items(), start=1)}


def _fuse_space(
    candidates: SpaceCandidates,
    keywords: RankedChunks,
    scale: float,
    *,
    method: FusionMethod,
    vector_weight: float,
) -> list[Hit]:
    vectors = _rank_by_score(candidates.nearest or ())
    own = {
        each.chunk.id: each.chunk for each in candidates.keyword_matches or () if each.chunk.id in keywords
    }
    own |= {key: found.chunk for key, (_, found) in vectors.items()}
    likeness = {
        key: _normalize_similarity(found.score, candidates.unrelated_similarity)
        for key, (_, found) in vectors.items()
    }
    vector_parts = _normalize_vector_scores(vectors, likeness, scale, method)
    word_parts = _normalize_keyword_scores(keywords, method)
    weight = _compute_vector_weight(likeness, keywords, method, vector_weight)
    hits: list[Hit] = []
    for key, passage in own.items():
        fused = weight * vector_parts.get(key, 0.0) + (1 - weight) * word_parts.get(key, 0.0)
        explanation = ScoreExplanation(
            space=candidates.space,
            vector_rank=_rank_of(vectors, key),
            vector_score=_score_of(vectors, key),
            bm25_rank=_rank_of(keywords, key),
            bm25_score=_score_of(keywords, key),
            boosts={},
            fused=fused,
        )
        hits.append(Hit(passage, fused, explanation))
    return hits


def _compute_vector_weight(
    similarities: Mapping[str, float], keywords: RankedChunks, method: FusionMethod, configured: float
) -> float:
    """A search that found nothing, or could not be made, leaves all the weight to the other."""
    if not similarities:
        return 0.0
    if not keywords:
        return 1.0
    if method == "reciprocal_rank":
        return 0.5
    if method == "weighted":
        return configured
    strangeness = 1.0 - max(similarities.values())  # 0 for the same text, 1 for nothing in common
    return _adapt_weight(configured, KEYWORD_WEIGHT * strangeness**2 * _compute_clarity(keywords))


def _adapt_weight(configured: float, trust: float) -> float:
    """The share of the vectors, `configured` being 0.5 for no leaning to either side."""
    told = configured + (1 - configured) * trust
    return configured / told if told > 0 else 0.0


def _compute_clarity(keywords: RankedChunks) -> float:
    """How much the best match by words stands out: 0 where ten are equally good."""
    by_rank = {rank: found.score for rank, found in keywords.values()}
    return 1.0 - by_rank.get(_CLARITY_RANK, 0.0) / by_rank[1] if by_rank[1] > 0 else 0.0


def _normalize_similarity(similarity: float, unrelated: float) -> float:
    """A cosine as a share of the way from what unrelated texts have to what the same text has."""
    return min(1.0, max(0.0, (similarity - unrelated) / (1.0 - unrelated)))


def _compute_scales(candidates: Sequence[SpaceCandidates]) -> list[float]:
    """Similarities by different models do not compare: each model's best counts as good as the others'."""
    best = [
        max(
            (
                _normalize_similarity(found.score, each.unrelated_similarity)
                for found in each.nearest or ()
                if math.isfinite(found.score)
            ),
            default=0.0,
        )
        for each in candidates
    ]
    found = [one for one in best if one > 0]
    mean = math.fsum(found) / max(len(found), 1)  # whatever their order
    return [mean / one if one > 0 else 1.0 for one in best]


def _normalize_vector_scores(
    vectors: RankedChunks, similarities: Mapping[str, float], scale: float, method: FusionMethod
) -> dict[str, float]:
    if method == "reciprocal_rank":
        return _compute_reciprocal_ranks(vectors)
    if method == "weighted":
        return _normalize_min_max(vectors)
    return {key: min(1.0, alike * scale) for key, alike in similarities.items()}


def _normalize_keyword_scores(keywords: RankedChunks, method: FusionMethod) -> dict[str, float]:
    if method == "reciprocal_rank":
        return _compute_reciprocal_ranks(keywords)
    best = max((found.score for _, found in keywords.values()), default=0.0)
    return {key: found.score / best if best > 0 else 0.0 for key, (_, found) in keywords.items()}


def _compute_reciprocal_ranks(ranked: RankedChunks) -> dict[str, float]:
    """Reciprocal ranks, scaled so that the first has 1."""
    return {key: (_RANK_OFFSET + 1) / (_RANK_OFFSET + rank) for key, (rank, _) in ranked.items()}


def _normalize_min_max(ranked: RankedChunks) -> dict[str, float]:
    scores = {key: found.score for key, (_, found) in ranked.items()}
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    if low == high:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}


def _rank_of(ranked: RankedChunks, key: str) -> int | None:
    return ranked[key][0] if key in ranked else None


def _score_of(ranked: RankedChunks, key: str) -> float | None:
    return ranked[key][1].score if key in ranked else None


def _apply_boosts(hits: Iterable[Hit], query: ParsedQuery, sentence: str) -> list[Hit]:
    """Fused scores with their boosts, over the most that the hits' boosts come to: [0, 1] again."""
    boosted = [(hit, _compute_boosts(hit, query, sentence)) for hit in hits]
    most = max((sum(boosts.values()) for _, boosts in boosted), default=0.0)
    return [
        Hit(
            chunk=hit.chunk,
            score=(hit.score + sum(boosts.values())) / (1 + most),
            explanation=replace(hit.explanation, boosts=boosts) if boosts else hit.explanation,
        )
        for hit, boosts in boosted
    ]


def _compute_boosts(hit: Hit, query: ParsedQuery, sentence: str) -> dict[str, float]:
    passage, boosts = hit.chunk, dict[str, float]()
    if sentence and hit.explanation.bm25_rank is not None and sentence in _fold_text(passage.text):
        boosts["verbatim"] = VERBATIM_BOOST
    if any(_ends_with(symbol, name) for symbol in passage.symbols for name in query.identifiers):
        boosts["symbol"] = SYMBOL_BOOST
    if any(_ends_with(passage.path, path) for path in query.paths):
        boosts["path"] = PATH_BOOST
    return boosts


def _normalize_sentence(text: str) -> str:
    """A question to be looked for word for word, as what an error message says; "" for a short one."""
    folded = _fold_text(text).strip(" .?!\"'`")
    return folded if folded.count(" ") + 1 >= VERBATIM_MIN_WORDS else ""


def _fold_text(text: str) -> str:
    """Letter case and white space, line breaks among it, do not matter."""
    return " ".join(text.casefold().split())


def _ends_with(name: str, suffix: str) -> bool:
    """`get` and `Store.get` both name `app.Store.get`; letter case does not matter."""
    name, suffix = (_SEPARATOR.sub(".", text).casefold() for text in (name, suffix))
    return name == suffix or name.endswith(f".{suffix}")
