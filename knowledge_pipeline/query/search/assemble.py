"""From hits to an answer: each content once, with a citation that a person can follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from knowledge_pipeline.contract.responses import Citation, ResultSpan, ScoreExplanation, SearchResult
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
    lines = _format_lines(chunk.start_line, chunk.end_line)
    return Citation(chunk.source, chunk.path, lines, chunk.title, _build_link(chunk.url, lines))


def cite_other_lines(citation: Citation, first_line: int, last_line: int) -> Citation:
    """The citation of other lines of the same document."""
    lines = _format_lines(first_line, last_line)
    url = citation.url.removesuffix(f"#{citation.lines}") if citation.url else None
    return replace(citation, lines=lines, url=_build_link(url, lines))


def _to_span(chunk: IndexedChunk) -> ResultSpan:
    return ResultSpan(
        uri=chunk.uri,
        start_char=chunk.start_char,
        end_char=chunk.start_char + len(chunk.text),
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        space_before=chunk.metadata.get(SPACE_BEFORE_KEY),
    )


def _format_lines(first: int, last: int) -> str:
    return f"L{first}-L{last}" if last > first else f"L{first}"


def _build_link(url: str | None, lines: str) -> str | None:
    if url and url.startswith(("http://", "https://")) and "#" not in url:
        return f"{url}#{lines}"
    return url
