"""From hits to an answer: each content once, with a citation that a person can follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from knowledge_pipeline.query.search.hits import Hit, IndexedChunk, ScoreExplanation
from knowledge_pipeline.query.search.near_duplicates import Shingles, is_nearly_equal, shingles
from knowledge_pipeline.query.stopwatch import Step
from knowledge_pipeline.records import SPACE_BEFORE_KEY, Metadata


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a passage is from."""

    source: str
    path: str
    lines: str  # "L10-L24", counted from 1; "L10" for one line
    title: str | None
    url: str | None  # with the lines as its fragment, where it is a web address without one


@dataclass(frozen=True, slots=True)
class ResultSpan:
    """Where a passage lies in its document, whose characters are counted half-open."""

    uri: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    space_before: str | None = None  # all white space between what stands before and it; None: not known


@dataclass(frozen=True, slots=True)
class RelatedDocument:
    """A document that another one is related to."""

    source: str
    source_type: str
    uri: str
    path: str
    title: str | None
    url: str | None
    status: str | None
    last_modified: datetime | None


@dataclass(frozen=True, slots=True)
class Relation:
    """What one document says of another."""

    kind: str  # "closes", "implements", "supersedes", "duplicates", "changes", "references"
    direction: Literal["to", "from"]  # whether this document says it of the other, or the other of this
    target: str  # what the one that says it has written
    document: RelatedDocument  # the other one


@dataclass(frozen=True, slots=True)
class CodeNeighbour:
    """Code that a result has to do with."""

    name: str  # in its file: "Store.get"; of a file its path; of what is not indexed the full name
    source: str | None = None  # None: not indexed
    path: str | None = None
    line: int | None = None  # where it begins; of what calls the result, where it first does
    signature: str = ""


@dataclass(frozen=True, slots=True)
class CodeNeighbours:
    """What a piece of code has to do with: a few of each kind, and how many more there are."""

    calls: tuple[CodeNeighbour, ...] = ()  # in the order of its lines
    called_by: tuple[CodeNeighbour, ...] = ()  # of its own source first, then the surest
    imports: tuple[CodeNeighbour, ...] = ()  # of its file; what it uses itself first
    extends: tuple[CodeNeighbour, ...] = ()  # classes and interfaces
    implemented_by: tuple[CodeNeighbour, ...] = ()  # what extends or implements it
    more: Mapping[str, int] = field(default_factory=dict[str, int])  # by field, how many are not told

    def __bool__(self) -> bool:
        return any((self.calls, self.called_by, self.imports, self.extends, self.implemented_by))


@dataclass(frozen=True, slots=True)
class Result:
    """One retrieved passage."""

    id: str
    content: str
    score: float  # in [0, 1], comparable within one answer
    metadata: Metadata
    citation: Citation
    span: ResultSpan
    related: tuple[Relation, ...] = ()  # the most telling ones; `KnowledgeBase.related` gives all
    graph: CodeNeighbours | None = None  # of the best code hits; `KnowledgeBase.graph` tells more
    explain: ScoreExplanation | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gets."""

    query_id: str
    took_ms: float
    release: int
    degraded: tuple[str, ...]  # "vector", "rerank", "graph": steps that the answer had to do without
    results: tuple[Result, ...]
    timings_ms: Mapping[str, float]  # by step
    cached: bool = False  # whether it was found for the same question before
    steps: tuple[Step, ...] = ()  # when each was, for those who trace
    explain: Mapping[str, Any] | None = None  # how the question was understood, why it is degraded

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; `explain` only where it was asked for."""
        answer = to_json_value(asdict(replace(self, steps=())))
        del answer["steps"]
        for holder in (answer, *answer["results"]):
            if holder["explain"] is None:
                del holder["explain"]
        for result in answer["results"]:
            del result["span"]  # for those who put chunks together again
            if result["graph"] is None:
                del result["graph"]
        return answer


def assemble(
    hits: Iterable[Hit], *, limit: int, explain: bool, drop_near_duplicates: bool = False
) -> tuple[Result, ...]:
    """The best `limit` hits, in the order given; of equal contents only the first.

    With `near_once` only the first of nearly equal ones, too; see `near`.
    """
    results: list[Result] = []
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


def to_result(chunk: IndexedChunk, score: float, explanation: ScoreExplanation | None = None) -> Result:
    """A passage as a caller gets it."""
    known = {name: value for name, value in chunk.metadata.items() if name != SPACE_BEFORE_KEY}
    return Result(
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


def to_json_value(value: Any) -> Any:
    """The value as JSON has it: lists for tuples, text for times."""
    match value:
        case dict():
            return {key: to_json_value(inner) for key, inner in value.items()}
        case list() | tuple():
            return [to_json_value(inner) for inner in value]
        case datetime():
            return value.isoformat()
    return value
