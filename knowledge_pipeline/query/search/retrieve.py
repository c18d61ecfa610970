"""Candidates of every space, by vector and by words at once, filters inside both searches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knowledge_pipeline.query.search.chunk_rows import COLUMNS, passage_of
from knowledge_pipeline.query.search.hits import Candidates, Found, Passage
from knowledge_pipeline.query.search.query_vectors import NoVector
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader, Scored

VectorIn = Callable[[IndexReader], Awaitable[np.ndarray]]
"""The question's vector in a reader's space; raises `NoVector`."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The candidates of all spaces, and why a space was searched without vectors."""

    candidates: tuple[Candidates, ...]
    without_vector: Mapping[str, str]  # space -> reason
    vectors: Mapping[str, np.ndarray]  # space -> the question's


async def retrieve(
    readers: Sequence[IndexReader], words: str, vector_in: VectorIn, where: Filter, *, limit: int
) -> Retrieved:
    """At most `limit` candidates by each search of each space."""
    spaces = await asyncio.gather(
        *(_of_space(reader, words, vector_in, where, limit=limit) for reader in readers)
    )
    reasons = {each.space: str(made) for each, made in spaces if isinstance(made, NoVector)}
    vectors = {each.space: made for each, made in spaces if isinstance(made, np.ndarray)}
    return Retrieved(tuple(candidates for candidates, _ in spaces), reasons, vectors)


async def _of_space(
    reader: IndexReader, words: str, vector_in: VectorIn, where: Filter, *, limit: int
) -> tuple[Candidates, np.ndarray | NoVector]:
    """Both searches at once, and the question's vector; what words alone found has its similarity, too."""
    matching = asyncio.ensure_future(reader.matching(words, where, limit=limit))
    try:
        vector = await vector_in(reader)
        nearest = await reader.nearest(vector, where, limit=limit)
    except NoVector as reason:
        return Candidates(reader.space, None, await found(reader, await matching)), reason
    except BaseException:
        matching.cancel()
        raise
    matched = await matching
    passages, others = await asyncio.gather(
        passages_at(reader, {each.row for each in (*nearest, *matched)}),
        compared(reader, vector, _new(matched, nearest)),
    )
    alike = _found(passages, [*nearest, *others])
    return Candidates(reader.space, alike, _found(passages, matched)), vector


async def matched_anew(
    readers: Sequence[IndexReader], retrieved: Retrieved, words: str, where: Filter, *, limit: int
) -> Retrieved:
    """The candidates with other matches by words; those by vector stay."""

    async def of_space(reader: IndexReader, candidates: Candidates) -> Candidates:
        matched = await found(reader, await reader.matching(words, where, limit=limit))
        vector = retrieved.vectors.get(reader.space)
        if vector is None:
            return replace(candidates, matching=matched)
        known = candidates.nearest or ()
        rows = {each.row: each.passage for each in matched}
        others = await compared(reader, vector, rows.keys() - {each.row for each in known})
        return replace(candidates, nearest=[*known, *_found(rows, others)], matching=matched)

    spaces = zip(readers, retrieved.candidates, strict=True)
    made = await asyncio.gather(*(of_space(reader, candidates) for reader, candidates in spaces))
    return replace(retrieved, candidates=tuple(made))


async def found(
    reader: IndexReader, scored: Sequence[Scored], known: Mapping[int, Passage] | None = None
) -> list[Found]:
    """What a search found, with the passages; those that are known are not read again."""
    passages = dict(known or {})
    passages |= await passages_at(reader, {each.row for each in scored} - passages.keys())
    return _found(passages, scored)


async def passages_at(reader: IndexReader, rows: Collection[int]) -> dict[int, Passage]:
    """The passages in some rows, by row."""
    return {row: passage_of(read) for row, read in (await reader.taken(rows, COLUMNS)).items()}


async def compared(reader: IndexReader, vector: np.ndarray, rows: Collection[int]) -> list[Scored]:
    """The similarity of some rows to a vector."""
    made = await reader.vectors(rows)
    if not made:
        return []
    alike = similarities(vector, np.stack(list(made.values())))
    return [Scored(row, score) for row, score in zip(made, alike.tolist(), strict=True)]


def similarities(vector: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Cosines of a vector and some others, in [-1, 1]; 0 where one is all zero.

    Args:
        vector: float32, shape (dimensions,).
        others: float32, shape (others, dimensions).

    Returns:
        float32, shape (others,).
    """
    lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(vector)
    return (others @ vector) / np.where(lengths > 0, lengths, np.inf)


def _new(scored: Iterable[Scored], known: Iterable[Scored]) -> set[int]:
    return {each.row for each in scored} - {each.row for each in known}


def _found(passages: Mapping[int, Passage], scored: Iterable[Scored]) -> list[Found]:
    return [Found(passages[row], score, row) for row, score in scored]
