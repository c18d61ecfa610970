"""Candidates of every space, by vector and by words at once, filters inside both searches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knowledge_pipeline.query.search.chunk_rows import CHUNK_COLUMNS, to_chunk
from knowledge_pipeline.query.search.hits import IndexedChunk, ScoredChunk, SpaceCandidates
from knowledge_pipeline.query.search.query_vectors import VectorUnavailable
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader, ScoredRow

EmbedQuery = Callable[[IndexReader], Awaitable[np.ndarray]]
"""The question's vector in a reader's space; raises `NoVector`."""


@dataclass(frozen=True, slots=True)
class RetrievedCandidates:
    """The candidates of all spaces, and why a space was searched without vectors."""

    candidates: tuple[SpaceCandidates, ...]
    vector_problems: Mapping[str, str]  # space -> reason
    query_vectors: Mapping[str, np.ndarray]  # space -> the question's


async def retrieve(
    readers: Sequence[IndexReader], keywords: str, embed_query: EmbedQuery, where: Filter, *, limit: int
) -> RetrievedCandidates:
    """At most `limit` candidates by each search of each space."""
    spaces = await asyncio.gather(
        *(_retrieve_from_space(reader, keywords, embed_query, where, limit=limit) for reader in readers)
    )
    reasons = {each.space: str(made) for each, made in spaces if isinstance(made, VectorUnavailable)}
    vectors = {each.space: made for each, made in spaces if isinstance(made, np.ndarray)}
    return RetrievedCandidates(tuple(candidates for candidates, _ in spaces), reasons, vectors)


async def _retrieve_from_space(
    reader: IndexReader, keywords: str, embed_query: EmbedQuery, where: Filter, *, limit: int
) -> tuple[SpaceCandidates, np.ndarray | VectorUnavailable]:
    """Both searches at once, and the question's vector; what words alone found has its similarity, too."""
    matching = asyncio.ensure_future(reader.search_text(keywords, where, limit=limit))
    try:
        vector = await embed_query(reader)
        nearest = await reader.search_vector(vector, where, limit=limit)
    except VectorUnavailable as reason:
        return SpaceCandidates(reader.space, None, await read_scored_chunks(reader, await matching)), reason
    except BaseException:
        matching.cancel()
        raise
    matched = await matching
    passages, others = await asyncio.gather(
        read_chunks(reader, {each.row_id for each in (*nearest, *matched)}),
        score_rows(reader, vector, _find_new_rows(matched, nearest)),
    )
    alike = _join_scores(passages, [*nearest, *others])
    return SpaceCandidates(reader.space, alike, _join_scores(passages, matched)), vector


async def replace_keyword_matches(
    readers: Sequence[IndexReader],
    retrieved: RetrievedCandidates,
    keywords: str,
    where: Filter,
    *,
    limit: int,
) -> RetrievedCandidates:
    """The candidates with other matches by words; those by vector stay."""

    async def rematch_space(reader: IndexReader, candidates: SpaceCandidates) -> SpaceCandidates:
        matched = await read_scored_chunks(reader, await reader.search_text(keywords, where, limit=limit))
        vector = retrieved.query_vectors.get(reader.space)
        if vector is None:
            return replace(candidates, keyword_matches=matched)
        known = candidates.nearest or ()
        rows = {each.row: each.chunk for each in matched}
        others = await score_rows(reader, vector, rows.keys() - {each.row for each in known})
        return replace(candidates, nearest=[*known, *_join_scores(rows, others)], keyword_matches=matched)

    spaces = zip(readers, retrieved.candidates, strict=True)
    made = await asyncio.gather(*(rematch_space(reader, candidates) for reader, candidates in spaces))
    return replace(retrieved, candidates=tuple(made))


async def read_scored_chunks(
    reader: IndexReader, scored: Sequence[ScoredRow], known_chunks: Mapping[int, IndexedChunk] | None = None
) -> list[ScoredChunk]:
    """What a search found, with the passages; those that are known are not read again."""
    passages = dict(known_chunks or {})
    passages |= await read_chunks(reader, {each.row_id for each in scored} - passages.keys())
    return _join_scores(passages, scored)


async def read_chunks(reader: IndexReader, rows: Collection[int]) -> dict[int, IndexedChunk]:
    """The passages in some rows, by row."""
    return {row: to_chunk(read) for row, read in (await reader.take_rows(rows, CHUNK_COLUMNS)).items()}


async def score_rows(reader: IndexReader, vector: np.ndarray, rows: Collection[int]) -> list[ScoredRow]:
    """The similarity of some rows to a vector."""
    made = await reader.take_vectors(rows)
    if not made:
        return []
    alike = compute_similarities(vector, np.stack(list(made.values())))
    return [ScoredRow(row, score) for row, score in zip(made, alike.tolist(), strict=True)]


def compute_similarities(vector: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Cosines of a vector and some others, in [-1, 1]; 0 where one is all zero.

    Args:
        vector: float32, shape (dimensions,).
        others: float32, shape (others, dimensions).

    Returns:
        float32, shape (others,).
    """
    lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(vector)
    return (others @ vector) / np.where(lengths > 0, lengths, np.inf)


def _find_new_rows(scored: Iterable[ScoredRow], known_rows: Iterable[ScoredRow]) -> set[int]:
    return {each.row_id for each in scored} - {each.row_id for each in known_rows}


def _join_scores(chunks: Mapping[int, IndexedChunk], scored: Iterable[ScoredRow]) -> list[ScoredChunk]:
    return [ScoredChunk(chunks[row], score, row) for row, score in scored]
