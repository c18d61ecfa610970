"""A second look at prose: the question, moved towards the best of what it found.

What a question and its answer call alike they may call by different words; the best passages found
know some of the answer's. Known as pseudo-relevance feedback (Rocchio 1971, in Salton's "The SMART
Retrieval System", chapter 14). It raises the figures of prose and lowers those of code
(docs/decisions/0011-retrieval.md), so code is left as it was found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from knowledge_pipeline.query.search.hits import Hit, IndexedChunk, ScoredChunk, SpaceCandidates
from knowledge_pipeline.query.search.retrieve import RetrievedCandidates, read_scored_chunks, score_rows
from knowledge_pipeline.store.filters import Filter, one_of
from knowledge_pipeline.store.readers import IndexReader

MAX_FEEDBACK_CHUNKS = 2  # passages that the question is moved towards

_CODE_SOURCE_TYPES = ("code", "openapi")


async def apply_relevance_feedback(
    readers: Sequence[IndexReader],
    retrieved: RetrievedCandidates,
    hits: Sequence[Hit],
    where: Filter,
    *,
    share: float,
    limit: int,
) -> RetrievedCandidates:
    """Candidates whose prose is compared to the refined question; unchanged where no prose was found.

    Args:
        readers: the spaces.
        retrieved: what the question itself found.
        hits: the same, fused, best first.
        where: what the results must fulfil.
        share: of the best passages, against 1 of the question.
        limit: of the nearest, by space.
    """
    looks = [
        _refine_space(
            reader, candidates, retrieved.query_vectors.get(reader.space), hits, where, share, limit
        )
        for reader, candidates in zip(readers, retrieved.candidates, strict=True)
    ]
    return replace(retrieved, candidates=tuple(await asyncio.gather(*looks)))


async def _refine_space(
    reader: IndexReader,
    candidates: SpaceCandidates,
    query_vector: np.ndarray | None,
    hits: Sequence[Hit],
    where: Filter,
    share: float,
    limit: int,
) -> SpaceCandidates:
    near = candidates.nearest or ()
    known = {each.row: each.chunk for each in (*near, *(candidates.keyword_matches or ()))}
    rows = {passage.id: row for row, passage in known.items() if is_prose(passage)}
    best = [rows[id_] for id_ in (hit.chunk.id for hit in hits) if id_ in rows]
    if query_vector is None or not best:
        return candidates
    vectors = await reader.take_vectors(best[:MAX_FEEDBACK_CHUNKS])
    if not vectors:
        return candidates
    vector = _shift_towards(query_vector, list(vectors.values()), share)
    nearest = await reader.search_vector(
        vector, where & ~one_of("source_type", _CODE_SOURCE_TYPES), limit=limit
    )
    before = [each for each in near if is_prose(each.chunk)]
    others = {each.row for each in before} - {each.row_id for each in nearest}
    prose, alike = await asyncio.gather(
        read_scored_chunks(reader, nearest, known), score_rows(reader, vector, others)
    )
    prose += [ScoredChunk(known[each.row_id], each.score, each.row_id) for each in alike]
    rest = [each for each in near if not is_prose(each.chunk)]
    return replace(candidates, nearest=[*rest, *_rescale_scores(prose, reference=before)])


def is_prose(chunk: IndexedChunk) -> bool:
    """Whether a passage is text for people."""
    return chunk.metadata.get("source_type") not in _CODE_SOURCE_TYPES


def _shift_towards(query_vector: np.ndarray, best_vectors: Sequence[np.ndarray], share: float) -> np.ndarray:
    """The question with a share of the mean of the best, of length 1."""
    moved = query_vector + share * np.mean(best_vectors, axis=0)
    length = float(np.linalg.norm(moved))
    return (moved / length).astype(np.float32) if length > 1e-6 else query_vector


def _rescale_scores(scored: Sequence[ScoredChunk], *, reference: Sequence[ScoredChunk]) -> list[ScoredChunk]:
    """Similarities such that the best is what it was: else all prose would come nearer than all code."""
    before = max((each.score for each in reference), default=0.0)
    after = max((each.score for each in scored), default=0.0)
    if before <= 0 or after <= 0:
        return list(scored)
    return [replace(each, score=each.score * before / after) for each in scored]
