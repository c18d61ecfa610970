"""Candidates of every space, by vector and by words at once, filters inside both searches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knowledge_pipeline.query.hits import Candidates, Found
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


async def retrieve(
    readers: Sequence[IndexReader], words: str, vector_in: VectorIn, where: Filter, *, limit: int
) -> Retrieved:
    """At most `limit` candidates by each search of each space."""
    both = [
        asyncio.gather(
            _nearest(reader, vector_in, where, limit=limit), _matching(reader, words, where, limit=limit)
        )
        for reader in readers
    ]
    found: list[Candidates] = []
    reasons: dict[str, str] = {}
    for reader, (nearest, matching) in zip(readers, await asyncio.gather(*both), strict=True):
        if isinstance(nearest, NoVector):
            reasons[reader.space] = str(nearest)
            nearest = None
        found.append(Candidates(reader.space, nearest, matching))
    return Retrieved(tuple(found), reasons)


async def _nearest(
    reader: IndexReader, vector_in: VectorIn, where: Filter, *, limit: int
) -> list[Found] | NoVector:
    try:
        vector = await vector_in(reader)
    except NoVector as reason:
        return reason
    rows = await reader.nearest(vector, where, limit=limit, columns=COLUMNS)
    return [_found(row, "_similarity") for row in rows]


async def _matching(reader: IndexReader, words: str, where: Filter, *, limit: int) -> list[Found]:
    rows = await reader.matching(words, where, limit=limit, columns=COLUMNS)
    return [_found(row, "_score") for row in rows]


def _found(row: Row, score: str) -> Found:
    return Found(passage_of(row), row[score])
