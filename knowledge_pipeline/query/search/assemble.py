"""From hits to an answer: each content once, with a citation that a person can follow."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge_pipeline.contract.responses import Citation, ResultSpan, ScoreExplanation, SearchResult
from knowledge_pipeline.query.citations import format_lines, link_to_lines
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.query.search.near_duplicates import Shingles, is_nearly_equal, shingles
from knowledge_pipeline.records import SPACE_BEFORE_KEY


def assemble(
    hits: Iterable[Hit], *, limit: int, explain: bool, drop_near_duplicates: bool = False
) -> tuple[SearchResult, ...]:
    """The best `limit` hits, in the order given; of equal contents only the first.

    With `near_once` only the first of nearly equal ones, too; see `near`.
    """
    results: list[SearchResult] = []
    seen: set[str] = set()
    known: list[Shingles] = []
    for hit in hits:
        if len(results) == limit:
            break
        if hit.chunk.content_hash in seen:
            continue
        seen.add(hit.chunk.content_hash)
        if drop_near_duplicates:
            made = shingles(hit.chunk.text)
            if any(is_nearly_equal(made, other) for other in known):
                continue
            known.append(made)
        results.append(to_result(hit.chunk, hit.score, hit.explanation if explain else None))
    return tuple(results)


def to_result(chunk: IndexedChunk, score: float, explanation: ScoreExplanation | None = None) -> SearchResult:
    """A passage as a caller gets it."""
    known = {name: value for name, value in chunk.metadata.items() if name != SPACE_BEFORE_KEY}
    return SearchResult(
        id=chunk.id,
        content=chunk.text,
        score=round(score, 6),
        metadata=known,
        citation=to_citation(chunk),
        span=_to_span(chunk),
        explain=explanation,
    )


def to_citation(chunk: IndexedChunk) -> Citation:
    """Path, lines and link of a passage."""
    lines = format_lines(chunk.start_line, chunk.end_line)
    return Citation(chunk.source, chunk.path, lines, chunk.title, link_to_lines(chunk.url, lines))


def _to_span(chunk: IndexedChunk) -> ResultSpan:
    return ResultSpan(
        uri=chunk.uri,
        start_char=chunk.start_char,
        end_char=chunk.start_char + len(chunk.text),
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        space_before=chunk.metadata.get(SPACE_BEFORE_KEY),
    )
