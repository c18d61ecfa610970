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

from knowledge_pipeline.query.search.hits import Candidates, Explanation, Found, Hit
from knowledge_pipeline.query.search.understand import Question

Method = Literal["following", "weighted", "reciprocal_rank"]

SYMBOL_BOOST = 0.1  # for a passage whose symbol the question names, beside a fused score of at most 1
PATH_BOOST = 0.1  # for a passage of a file that it names
VERBATIM_BOOST = 0.3  # for a passage that holds the whole question, word for word
VERBATIM_FROM_WORDS = 4  # shorter ones are no sentence, and stand in many passages
WORDS_WEIGHT = 2.0  # of the best BM25 score, against a similarity of 1, where words are trusted most
_STANDING_OUT = 10  # a rank: what the best match by words is held against
_RANK_OFFSET = 60  # Cormack et al. 2009, https://doi.org/10.1145/1571941.1572114

_SEPARATOR = re.compile(r"::|#|->|/")

Ranked = Mapping[str, tuple[int, Found]]
"""Passage id -> rank from 1 and what was found."""


def fuse(
    candidates: Sequence[Candidates], question: Question, *, method: Method, vector_weight: float
) -> list[Hit]:
    """One list of hits, best first; equal scores are ordered by id.

    The order of the input does not matter. A passage that several spaces hold counts once, by
    its best score there.
    """
    words = _ranked(found for each in candidates for found in each.matching or ())
    hits: dict[str, Hit] = {}
    for each, scale in zip(candidates, _scales(candidates), strict=True):
        for hit in _of_space(each, words, scale, method=method, vector_weight=vector_weight):
            known = hits.get(hit.passage.id)
            if known is None or _order(hit) < _order(known):
                hits[hit.passage.id] = hit
    sentence = _sentence(question.text) if vector_weight < 1 else ""
    return sorted(_boosted(hits.values(), question, sentence), key=_order)


def _order(hit: Hit) -> tuple[float, str, str]:
    return -hit.score, hit.passage.id, hit.explanation.space


def _ranked(found: Iterable[Found]) -> dict[str, tuple[int, Found]]:
    finite = [each for each in found if math.isfinite(each.score)]
    ordered = sorted(finite, key=lambda each: (-each.score, each.passage.id))
    best: dict[str, Found] = {}
    for each in ordered:
        best.setdefault(each.passage.id, each)
    return {key: (rank, each) for rank, (key, each) in enumerate(best.items(), start=1)}


def _of_space(
    candidates: Candidates, words: Ranked, scale: float, *, method: Method, vector_weight: float
) -> list[Hit]:
    vectors = _ranked(candidates.nearest or ())
    own = {each.passage.id: each.passage for each in candidates.matching or () if each.passage.id in words}
    own |= {key: found.passage for key, (_, found) in vectors.items()}
    likeness = {key: _likeness(found.score, candidates.unrelated) for key, (_, found) in vectors.items()}
    vector_parts = _vector_parts(vectors, likeness, scale, method)
    word_parts = _word_parts(words, method)
    weight = _weight(likeness, words, method, vector_weight)
    hits: list[Hit] = []
    for key, passage in own.items():
        fused = weight * vector_parts.get(key, 0.0) + (1 - weight) * word_parts.get(key, 0.0)
        explanation = Explanation(
            space=candidates.space,
            vector_rank=_rank(vectors, key),
            vector_score=_score(vectors, key),
            bm25_rank=_rank(words, key),
            bm25_score=_score(words, key),
            boosts={},
            fused=fused,
        )
        hits.append(Hit(passage, fused, explanation))
    return hits


def _weight(likeness: Mapping[str, float], words: Ranked, method: Method, configured: float) -> float:
    """A search that found nothing, or could not be made, leaves all the weight to the other."""
    if not likeness:
        return 0.0
    if not words:
        return 1.0
    if method == "reciprocal_rank":
        return 0.5
    if method == "weighted":
        return configured
    strangeness = 1.0 - max(likeness.values())  # 0 for the same text, 1 for nothing in common
    return _following(configured, WORDS_WEIGHT * strangeness**2 * _clarity(words))


def _following(configured: float, trust: float) -> float:
    """The share of the vectors, `configured` being 0.5 for no leaning to either side."""
    told = configured + (1 - configured) * trust
    return configured / told if told > 0 else 0.0


def _clarity(words: Ranked) -> float:
    """How much the best match by words stands out: 0 where ten are equally good."""
    by_rank = {rank: found.score for rank, found in words.values()}
    return 1.0 - by_rank.get(_STANDING_OUT, 0.0) / by_rank[1] if by_rank[1] > 0 else 0.0


def _likeness(similarity: float, unrelated: float) -> float:
    """A cosine as a share of the way from what unrelated texts have to what the same text has."""
    return min(1.0, max(0.0, (similarity - unrelated) / (1.0 - unrelated)))


def _scales(candidates: Sequence[Candidates]) -> list[float]:
    """Similarities by different models do not compare: each model's best counts as good as the others'."""
    best = [
        max(
            (
                _likeness(found.score, each.unrelated)
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


def _vector_parts(
    vectors: Ranked, likeness: Mapping[str, float], scale: float, method: Method
) -> dict[str, float]:
    if method == "reciprocal_rank":
        return _by_rank(vectors)
    if method == "weighted":
        return _min_max(vectors)
    return {key: min(1.0, alike * scale) for key, alike in likeness.items()}


def _word_parts(words: Ranked, method: Method) -> dict[str, float]:
    if method == "reciprocal_rank":
        return _by_rank(words)
    best = max((found.score for _, found in words.values()), default=0.0)
    return {key: found.score / best if best > 0 else 0.0 for key, (_, found) in words.items()}


def _by_rank(ranked: Ranked) -> dict[str, float]:
    """Reciprocal ranks, scaled so that the first has 1."""
    return {key: (_RANK_OFFSET + 1) / (_RANK_OFFSET + rank) for key, (rank, _) in ranked.items()}


def _min_max(ranked: Ranked) -> dict[str, float]:
    scores = {key: found.score for key, (_, found) in ranked.items()}
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    if low == high:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}


def _rank(ranked: Ranked, key: str) -> int | None:
    return ranked[key][0] if key in ranked else None


def _score(ranked: Ranked, key: str) -> float | None:
    return ranked[key][1].score if key in ranked else None


def _boosted(hits: Iterable[Hit], question: Question, sentence: str) -> list[Hit]:
    """Fused scores with their boosts, over the most that the hits' boosts come to: [0, 1] again."""
    boosted = [(hit, _boosts(hit, question, sentence)) for hit in hits]
    most = max((sum(boosts.values()) for _, boosts in boosted), default=0.0)
    return [
        Hit(
            passage=hit.passage,
            score=(hit.score + sum(boosts.values())) / (1 + most),
            explanation=replace(hit.explanation, boosts=boosts) if boosts else hit.explanation,
        )
        for hit, boosts in boosted
    ]


def _boosts(hit: Hit, question: Question, sentence: str) -> dict[str, float]:
    passage, boosts = hit.passage, dict[str, float]()
    if sentence and hit.explanation.bm25_rank is not None and sentence in _folded(passage.text):
        boosts["verbatim"] = VERBATIM_BOOST
    if any(_ends_with(symbol, name) for symbol in passage.symbols for name in question.identifiers):
        boosts["symbol"] = SYMBOL_BOOST
    if any(_ends_with(passage.path, path) for path in question.paths):
        boosts["path"] = PATH_BOOST
    return boosts


def _sentence(text: str) -> str:
    """A question to be looked for word for word, as what an error message says; "" for a short one."""
    folded = _folded(text).strip(" .?!\"'`")
    return folded if folded.count(" ") + 1 >= VERBATIM_FROM_WORDS else ""


def _folded(text: str) -> str:
    """Letter case and white space, line breaks among it, do not matter."""
    return " ".join(text.casefold().split())


def _ends_with(name: str, asked: str) -> bool:
    """`get` and `Store.get` both name `app.Store.get`; letter case does not matter."""
    name, asked = (_SEPARATOR.sub(".", text).casefold() for text in (name, asked))
    return name == asked or name.endswith(f".{asked}")
