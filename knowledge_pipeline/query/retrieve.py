"""Candidates of every space, by vector and by words at once, filters inside both searches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knowledge_pipeline.query.hits import Candidates, Found, Passage
from knowledge_pipeline.query.passages import COLUMNS, passage_of
from knowledge_pipeline.query.vectors import NoVector
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader, Row

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
    reasons = {found.space: str(made) for found, made in spaces if isinstance(made, NoVector)}
    vectors = {found.space: made for found, made in spaces if isinstance(made, np.ndarray)}
    return Retrieved(tuple(found for found, _ in spaces), reasons, vectors)


async def _of_space(
    reader: IndexReader, words: str, vector_in: VectorIn, where: Filter, *, limit: int
) -> tuple[Candidates, np.ndarray | NoVector]:
    """Both searches at once, and the question's vector; what words alone found has its similarity, too."""
    matching = asyncio.ensure_future(_matching(reader, words, where, limit=limit))
    try:
        vector = await vector_in(reader)
        nearest = await nearest_to(reader, vector, where, limit=limit)
    except NoVector as reason:
        return Candidates(reader.space, None, await matching), reason
    except BaseException:
        matching.cancel()
        raise
    matched = await matching
    nearest += await compared(reader, vector, (each.passage for each in matched), nearest, where)
    return Candidates(reader.space, nearest, matched), vector


async def matched_anew(
    readers: Sequence[IndexReader], retrieved: Retrieved, words: str, where: Filter, *, limit: int
) -> Retrieved:
    """The candidates with other matches by words; those by vector stay."""

    async def of_space(reader: IndexReader, candidates: Candidates) -> Candidates:
        matched = await _matching(reader, words, where, limit=limit)
        vector = retrieved.vectors.get(reader.space)
        if vector is None:
            return replace(candidates, matching=matched)
        known = candidates.nearest or ()
        others = await compared(reader, vector, (each.passage for each in matched), known, where)
        return replace(candidates, nearest=[*known, *others], matching=matched)

    spaces = zip(readers, retrieved.candidates, strict=True)
    made = await asyncio.gather(*(of_space(reader, candidates) for reader, candidates in spaces))
    return replace(retrieved, candidates=tuple(made))


async def nearest_to(reader: IndexReader, vector: np.ndarray, where: Filter, *, limit: int) -> list[Found]:
    """The passages nearest to a vector, best first."""
    rows = await reader.nearest(vector, where, limit=limit, columns=COLUMNS)
    return [_found(row, "_similarity") for row in rows]


async def compared(
    reader: IndexReader,
    vector: np.ndarray,
    passages: Iterable[Passage],
    known: Iterable[Found],
    where: Filter,
) -> list[Found]:
    """Passages that are not known yet, with their similarity to a vector."""
    passed = {found.passage.id for found in known}
    others = {each.id: each for each in passages if each.id not in passed}
    vectors = await reader.vectors(list(others), where) if others else {}
    return [Found(others[id_], similarity(vector, made)) for id_, made in vectors.items()]


def similarity(one: np.ndarray, other: np.ndarray) -> float:
    """Cosine of two vectors, in [-1, 1]; 0 where one is all zero."""
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths else 0.0


async def _matching(reader: IndexReader, words: str, where: Filter, *, limit: int) -> list[Found]:
    rows = await reader.matching(words, where, limit=limit, columns=COLUMNS)
    return [_found(row, "_score") for row in rows]


def _found(row: Row, score: str) -> Found:
    return Found(passage_of(row), row[score])
