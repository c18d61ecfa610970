"""Assembles the response: each content once, with a citation that a person can follow."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knowledge_pipeline.contract.responses.search import (
    Citation,
    ResultSpan,
    ScoreExplanation,
    SearchResponse,
    SearchResult,
)
from knowledge_pipeline.query.citations import format_lines, link_to_lines
from knowledge_pipeline.query.open_release import OpenRelease
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk, RankedChunk
from knowledge_pipeline.query.search.near_duplicates import Shingles, is_nearly_equal, shingles
from knowledge_pipeline.query.search.retrieve import SearchScope, read_hits
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.records import SPACE_BEFORE_KEY


def assemble(
    hits: Iterable[Hit[IndexedChunk]], *, limit: int, explain: bool, drop_near_duplicates: bool = False
) -> tuple[SearchResult, ...]:
    """The best `limit` hits, in the order given; of equal contents only the first.

    With `drop_near_duplicates` also only the first of nearly equal ones.
    """
    results: list[SearchResult] = []
    seen_hashes: set[str] = set()
    seen_shingles: list[Shingles] = []
    for hit in hits:
        if len(results) == limit:
            break
        if hit.chunk.content_hash in seen_hashes:
            continue
        seen_hashes.add(hit.chunk.content_hash)
        if drop_near_duplicates:
            own = shingles(hit.chunk.text)
            if any(is_nearly_equal(own, seen) for seen in seen_shingles):
                continue
            seen_shingles.append(own)
        explanation = ScoreExplanation(*hit.explanation) if explain else None
        results.append(to_result(hit.chunk, hit.score, explanation))
    return tuple(results)


async def assemble_best(
    hits: Sequence[Hit[RankedChunk]],
    scope: SearchScope,
    *,
    limit: int,
    explain: bool,
    drop_near_duplicates: bool,
) -> tuple[list[IndexedChunk], tuple[SearchResult, ...]]:
    """See `assemble`; with the chunks that were read for it: many only where contents are alike."""
    count = 2 * limit
    while True:
        best = await read_hits(scope, hits[:count])
        results = assemble(best, limit=limit, explain=explain, drop_near_duplicates=drop_near_duplicates)
        if len(results) == limit or count >= len(hits):
            return [hit.chunk for hit in best], results
        count *= 4


def to_result(chunk: IndexedChunk, score: float, explanation: ScoreExplanation | None = None) -> SearchResult:
    """A chunk as a caller gets it."""
    lines = format_lines(chunk.start_line, chunk.end_line)
    url = link_to_lines(chunk.url, lines)
    return SearchResult(
        id=chunk.id,
        content=chunk.text,
        score=round(score, 6),
        metadata={name: value for name, value in chunk.metadata.items() if name != SPACE_BEFORE_KEY},
        citation=Citation(chunk.source, chunk.path, lines, chunk.title, url),
        span=ResultSpan(
            uri=chunk.uri,
            start_char=chunk.start_char,
            end_char=chunk.start_char + len(chunk.text),
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            space_before=chunk.metadata.get(SPACE_BEFORE_KEY),
        ),
        explain=explanation,
    )


def build_response(
    open_release: OpenRelease,
    results: tuple[SearchResult, ...],
    watch: Stopwatch,
    *,
    degraded: tuple[str, ...] = (),
    explain: Mapping[str, Any] | None = None,
    confidence: float | None = None,
) -> SearchResponse:
    """The response of a release, with an id of its own and the times taken so far."""
    return SearchResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=open_release.release.release,
        degraded=degraded or tuple(open_release.missing),
        embedded_share=round(open_release.release.embedded_share, 4),
        results=results,
        timings_ms=watch.timings_ms,
        steps=tuple(watch.steps),
        explain=explain,
        confidence=None if confidence is None else round(confidence, 4),
    )
