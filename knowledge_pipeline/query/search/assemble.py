"""From hits to an answer: each content once, with a citation that a person can follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from knowledge_pipeline.query.search.hits import Explanation, Hit, Passage
from knowledge_pipeline.query.search.near_duplicates import Shingles, nearly_equal, shingles
from knowledge_pipeline.query.stopwatch import Step
from knowledge_pipeline.records import SPACE_BEFORE, Metadata


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a passage is from."""

    source: str
    path: str
    lines: str  # "L10-L24", counted from 1; "L10" for one line
    title: str | None
    url: str | None  # with the lines as its fragment, where it is a web address without one


@dataclass(frozen=True, slots=True)
class Span:
    """Where a passage lies in its document, whose characters are counted half-open."""

    uri: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    space_before: str | None = None  # all white space between what stands before and it; None: not known


@dataclass(frozen=True, slots=True)
class Related:
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
    document: Related  # the other one


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Code that a result has to do with."""

    name: str  # in its file: "Store.get"; of a file its path; of what is not indexed the full name
    source: str | None = None  # None: not indexed
    path: str | None = None
    line: int | None = None  # where it begins; of what calls the result, where it first does
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What a piece of code has to do with: a few of each kind, and how many more there are."""

    calls: tuple[Neighbour, ...] = ()  # in the order of its lines
    called_by: tuple[Neighbour, ...] = ()  # of its own source first, then the surest
    imports: tuple[Neighbour, ...] = ()  # of its file; what it uses itself first
    extends: tuple[Neighbour, ...] = ()  # classes and interfaces
    implemented_by: tuple[Neighbour, ...] = ()  # what extends or implements it
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
    span: Span
    related: tuple[Relation, ...] = ()  # the most telling ones; `KnowledgeBase.related` gives all
    graph: Neighbours | None = None  # of the best code hits; `KnowledgeBase.graph` tells more
    explain: Explanation | None = None


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
        answer = plain(asdict(replace(self, steps=())))
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
    hits: Iterable[Hit], *, limit: int, explain: bool, near_once: bool = False
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
        if hit.passage.content_hash in seen:
            continue
        seen.add(hit.passage.content_hash)
        if near_once:
            made = shingles(hit.passage.text)
            if any(nearly_equal(made, other) for other in known):
                continue
            known.append(made)
        results.append(result_of(hit.passage, hit.score, hit.explanation if explain else None))
    return tuple(results)


def result_of(passage: Passage, score: float, explanation: Explanation | None = None) -> Result:
    """A passage as a caller gets it."""
    known = {name: value for name, value in passage.metadata.items() if name != SPACE_BEFORE}
    return Result(
        id=passage.id,
        content=passage.text,
        score=round(score, 6),
        metadata=known,
        citation=cite(passage),
        span=_span(passage),
        explain=explanation,
    )


def cite(passage: Passage) -> Citation:
    """Path, lines and link of a passage."""
    lines = _lines(passage.start_line, passage.end_line)
    return Citation(passage.source, passage.path, lines, passage.title, _link(passage.url, lines))


def moved(citation: Citation, first_line: int, last_line: int) -> Citation:
    """The citation of other lines of the same document."""
    lines = _lines(first_line, last_line)
    url = citation.url.removesuffix(f"#{citation.lines}") if citation.url else None
    return replace(citation, lines=lines, url=_link(url, lines))


def _span(passage: Passage) -> Span:
    return Span(
        uri=passage.uri,
        start_char=passage.start_char,
        end_char=passage.start_char + len(passage.text),
        start_line=passage.start_line,
        end_line=passage.end_line,
        space_before=passage.metadata.get(SPACE_BEFORE),
    )


def _lines(first: int, last: int) -> str:
    return f"L{first}-L{last}" if last > first else f"L{first}"


def _link(url: str | None, lines: str) -> str | None:
    if url and url.startswith(("http://", "https://")) and "#" not in url:
        return f"{url}#{lines}"
    return url


def plain(value: Any) -> Any:
    """The value as JSON has it: lists for tuples, text for times."""
    match value:
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case datetime():
            return value.isoformat()
    return value
