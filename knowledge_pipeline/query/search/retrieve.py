"""Retrieves candidates from every space, by vector and by words at once; both searches filter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knowledge_pipeline.awaiting import gather_all
from knowledge_pipeline.contract.types import SearchMode
from knowledge_pipeline.query.search.hits import (
    Candidates,
    Hit,
    IndexedChunk,
    RankedChunk,
    ScoredChunk,
    SpaceCandidates,
)
from knowledge_pipeline.query.search.query_vectors import VectorUnavailable
from knowledge_pipeline.query.search.row_cache import RowCache
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.index.vector_files import compute_cosines
from knowledge_pipeline.store.readers import IndexReader, ScoredRow

EmbedQuery = Callable[[IndexReader], Awaitable[np.ndarray]]
"""The query's vector in a reader's space; raises `VectorUnavailable`."""


@dataclass(frozen=True, slots=True)
class SubQuery:
    """One text to search for; a question may be several."""

    query: ParsedQuery
    keywords: str  # for full text
    embedded_texts: tuple[str, ...]  # their mean vector is searched for


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where to search, and how deep."""

    readers: Sequence[IndexReader]
    condition: Filter
    limit: int  # candidates of each search of each space
    cache: RowCache
    mode: SearchMode = "hybrid"


async def retrieve(scope: SearchScope, sub_query: SubQuery, embed_query: EmbedQuery) -> Candidates:
    """At most `scope.limit` candidates by each search of each space that the mode has."""
    spaces = await gather_all(
        _retrieve_from_space(reader, scope, sub_query.keywords, embed_query) for reader in scope.readers
    )
    return Candidates(
        tuple(candidates for candidates, _ in spaces),
        {each.space: str(reason) for each, reason in spaces if isinstance(reason, VectorUnavailable)},
        {each.space: vector for each, vector in spaces if isinstance(vector, np.ndarray)},
    )


async def _retrieve_from_space(
    reader: IndexReader, scope: SearchScope, keywords: str, embed_query: EmbedQuery
) -> tuple[SpaceCandidates, np.ndarray | VectorUnavailable | None]:
    """Both searches at once, and the query's vector. What full text alone found gets a similarity, too."""
    if scope.mode == "words":
        return SpaceCandidates(reader.space, None, await _match_words(scope, reader, keywords)), None
    matching = asyncio.ensure_future(_match_words(scope, reader, keywords))
    try:
        vector = await embed_query(reader)
        found = await reader.search_vector(vector, scope.condition, limit=scope.limit)
        nearest = await read_scored_outlines(scope.cache, reader, found)
        matches = await matching
    except VectorUnavailable as reason:
        return SpaceCandidates(reader.space, None, await matching), reason
    except BaseException:
        matching.cancel()
        raise
    chunks = {match.row: match.chunk for match in matches}
    others = await score_rows(scope.cache, reader, vector, chunks.keys() - {each.row_id for each in found})
    return SpaceCandidates(reader.space, [*nearest, *_join_scores(chunks, others)], matches), vector


async def _match_words(scope: SearchScope, reader: IndexReader, keywords: str) -> list[ScoredChunk]:
    """What full text finds, with outlines. Vectors that will be compared are read meanwhile."""
    found = await _search_words(reader, scope, keywords)
    outlines, rows = read_scored_outlines(scope.cache, reader, found), [each.row_id for each in found]
    if scope.mode == "words" or reader.memory.find_holder(rows):
        return await outlines
    matches, _ = await asyncio.gather(outlines, scope.cache.read_vectors(reader, rows))
    return matches


async def _search_words(reader: IndexReader, scope: SearchScope, keywords: str) -> Sequence[ScoredRow]:
    """What full text finds; nothing where vectors alone are searched."""
    if scope.mode == "vectors":
        return ()
    return await reader.search_text(keywords, scope.condition, limit=scope.limit)


async def replace_keyword_matches(scope: SearchScope, candidates: Candidates, keywords: str) -> Candidates:
    """The candidates with the matches of other keywords; those by vector stay."""

    async def rematch_space(reader: IndexReader, found: SpaceCandidates) -> SpaceCandidates:
        matches = await _match_words(scope, reader, keywords)
        vector = candidates.query_vectors.get(reader.space)
        if vector is None:
            return replace(found, keyword_matches=matches)
        nearest = found.nearest or ()
        chunks = {match.row: match.chunk for match in matches}
        unscored = chunks.keys() - {scored.row for scored in nearest}
        others = await score_rows(scope.cache, reader, vector, unscored)
        similar = [*nearest, *_join_scores(chunks, others)]
        return replace(found, nearest=similar, keyword_matches=matches)

    spaces = zip(scope.readers, candidates.by_space, strict=True)
    rematched = await gather_all(rematch_space(reader, found) for reader, found in spaces)
    return replace(candidates, by_space=tuple(rematched))


async def read_scored_outlines(
    cache: RowCache, reader: IndexReader, scored: Sequence[ScoredRow]
) -> list[ScoredChunk]:
    """What a search found, with the outlines of the chunks."""
    return _join_scores(await cache.read_outlines(reader, [each.row_id for each in scored]), scored)


async def read_hits(scope: SearchScope, hits: Sequence[Hit[RankedChunk]]) -> list[Hit[IndexedChunk]]:
    """The hits with their whole chunks, in their order."""
    rows_by_space: dict[str, list[int]] = {}
    for hit in hits:
        rows_by_space.setdefault(hit.explanation.space, []).append(hit.row)
    readers = [reader for reader in scope.readers if reader.space in rows_by_space]
    found = await gather_all(
        scope.cache.read_chunks(reader, rows_by_space[reader.space]) for reader in readers
    )
    chunks = {reader.space: each for reader, each in zip(readers, found, strict=True)}
    return [Hit(chunks[hit.explanation.space][hit.row], hit.score, hit.explanation, hit.row) for hit in hits]


async def score_rows(
    cache: RowCache, reader: IndexReader, vector: np.ndarray, rows: Collection[int]
) -> list[ScoredRow]:
    """The cosine of some rows' vectors and a vector, in [-1, 1]; 0 where one of the two is all zero."""
    if held := reader.memory.find_holder(rows):
        known, others = held.take_matrix(rows)
    else:
        vectors = await cache.read_vectors(reader, rows)
        known, others = list(vectors), np.array(list(vectors.values()))  # shape (rows, dimensions)
    if not known:
        return []
    return list(map(ScoredRow, known, compute_cosines(others, vector).tolist()))


def _join_scores(chunks: Mapping[int, RankedChunk], scored: Sequence[ScoredRow]) -> list[ScoredChunk]:
    if not scored:
        return []
    rows, scores = zip(*scored, strict=True)
    return list(map(ScoredChunk, map(chunks.__getitem__, rows), scores, rows))
