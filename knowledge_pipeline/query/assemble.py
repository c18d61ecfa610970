"""From hits to an answer: each content once, with a citation that a person can follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from knowledge_pipeline.query.hits import Explanation, Hit, Passage
from knowledge_pipeline.records import Metadata


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a passage is from."""

    source: str
    path: str
    lines: str  # "L10-L24", counted from 1; "L10" for one line
    title: str | None
    url: str | None  # with the lines as its fragment, where it is a web address without one


@dataclass(frozen=True, slots=True)
class Result:
    """One retrieved passage."""

    id: str
    content: str
    score: float  # in [0, 1], comparable within one answer
    metadata: Metadata
    citation: Citation
    explain: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gets."""

    query_id: str
    took_ms: float
    release: int
    degraded: tuple[str, ...]  # "vector", "rerank": steps that the answer had to do without
    results: tuple[Result, ...]
    timings_ms: Mapping[str, float]  # by step
    explain: Mapping[str, Any] | None = None  # how the question was understood, why it is degraded

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; `explain` only where it was asked for."""
        answer = _plain(asdict(self))
        for holder in (answer, *answer["results"]):
            if holder["explain"] is None:
                del holder["explain"]
        return answer


def assemble(hits: Iterable[Hit], *, limit: int, explain: bool) -> tuple[Result, ...]:
    """The best `limit` hits, in the order given; of equal contents only the first."""
    results: list[Result] = []
    seen: set[str] = set()
    for hit in hits:
        if len(results) == limit:
            break
        if hit.passage.content_hash not in seen:
            seen.add(hit.passage.content_hash)
            results.append(result_of(hit.passage, hit.score, hit.explanation if explain else None))
    return tuple(results)


def result_of(passage: Passage, score: float, explanation: Explanation | None = None) -> Result:
    """A passage as a caller gets it."""
    return Result(
        id=passage.id,
        content=passage.text,
        score=round(score, 6),
        metadata=passage.metadata,
        citation=cite(passage),
        explain=explanation,
    )


def cite(passage: Passage) -> Citation:
    """Path, lines and link of a passage."""
    first, last = passage.start_line, passage.end_line
    lines = f"L{first}-L{last}" if last > first else f"L{first}"
    return Citation(passage.source, passage.path, lines, passage.title, _link(passage.url, lines))


def _link(url: str | None, lines: str) -> str | None:
    if url and url.startswith(("http://", "https://")) and "#" not in url:
        return f"{url}#{lines}"
    return url


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    match value:
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case datetime():
            return value.isoformat()
    return value
