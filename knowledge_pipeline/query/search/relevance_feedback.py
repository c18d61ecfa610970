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

from knowledge_pipeline.query.search.hits import Candidates, Found, Hit, Passage
from knowledge_pipeline.query.search.retrieve import Retrieved, compared, found
from knowledge_pipeline.store.filters import Filter, one_of
from knowledge_pipeline.store.readers import IndexReader

BEST = 2  # passages that the question is moved towards

_NOT_PROSE = ("code", "openapi")


async def refine(
    readers: Sequence[IndexReader],
    retrieved: Retrieved,
    hits: Sequence[Hit],
    where: Filter,
    *,
    share: float,
    limit: int,
) -> Retrieved:
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
        _of_space(reader, candidates, retrieved.vectors.get(reader.space), hits, where, share, limit)
        for reader, candidates in zip(readers, retrieved.candidates, strict=True)
    ]
    return replace(retrieved, candidates=tuple(await asyncio.gather(*looks)))


async def _of_space(
    reader: IndexReader,
    candidates: Candidates,
    question: np.ndarray | None,
    hits: Sequence[Hit],
    where: Filter,
    share: float,
    limit: int,
) -> Candidates:
    near = candidates.nearest or ()
    known = {each.row: each.passage for each in (*near, *(candidates.matching or ()))}
    rows = {passage.id: row for row, passage in known.items() if is_prose(passage)}
    best = [rows[id_] for id_ in (hit.passage.id for hit in hits) if id_ in rows]
    if question is None or not best:
        return candidates
    vectors = await reader.vectors(best[:BEST])
    if not vectors:
        return candidates
    vector = _moved(question, list(vectors.values()), share)
    nearest = await reader.nearest(vector, where & ~one_of("source_type", _NOT_PROSE), limit=limit)
    before = [each for each in near if is_prose(each.passage)]
    others = {each.row for each in before} - {each.row for each in nearest}
    prose, alike = await asyncio.gather(found(reader, nearest, known), compared(reader, vector, others))
    prose += [Found(known[each.row], each.score, each.row) for each in alike]
    rest = [each for each in near if not is_prose(each.passage)]
    return replace(candidates, nearest=[*rest, *_level(prose, with_=before)])


def is_prose(passage: Passage) -> bool:
    """Whether a passage is text for people."""
    return passage.metadata.get("source_type") not in _NOT_PROSE


def _moved(question: np.ndarray, best: Sequence[np.ndarray], share: float) -> np.ndarray:
    """The question with a share of the mean of the best, of length 1."""
    moved = question + share * np.mean(best, axis=0)
    length = float(np.linalg.norm(moved))
    return (moved / length).astype(np.float32) if length > 1e-6 else question


def _level(found: Sequence[Found], *, with_: Sequence[Found]) -> list[Found]:
    """Similarities such that the best is what it was: else all prose would come nearer than all code."""
    before = max((each.score for each in with_), default=0.0)
    after = max((each.score for each in found), default=0.0)
    if before <= 0 or after <= 0:
        return list(found)
    return [replace(each, score=each.score * before / after) for each in found]
