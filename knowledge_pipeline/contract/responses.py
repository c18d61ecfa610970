"""What is answered: the one declaration of every response, which every interface derives from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from knowledge_pipeline.contract.types import NodeRole, SearchName, SearchType, TaskKind
from knowledge_pipeline.records import Mention, Metadata


@dataclass(frozen=True, slots=True)
class Step:
    """When something was done, in milliseconds since the question began."""

    name: str
    start_ms: float
    end_ms: float


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
    omitted: Mapping[str, int] = field(default_factory=dict[str, int])  # by field, how many are not told

    def __bool__(self) -> bool:
        return any((self.calls, self.called_by, self.imports, self.extends, self.implemented_by))


@dataclass(frozen=True, slots=True)
class ScoreExplanation:
    """Where a hit's score comes from. Ranks count from 1; None: that search did not find it."""

    space: str
    vector_rank: int | None
    vector_score: float | None
    bm25_rank: int | None
    bm25_score: float | None
    boosts: Mapping[str, float]
    fused: float
    rerank: float | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
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
class SearchResponse:
    """What a question gets."""

    query_id: str
    took_ms: float
    release: int
    degraded: tuple[str, ...]  # "vector", "rerank", "graph": steps that the answer had to do without
    results: tuple[SearchResult, ...]
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


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A definition, a file, or a name outside of everything that is indexed."""

    id: str
    name: str  # qualified within its file: "Store.get"; of a file its path; of what is outside its full name
    kind: str  # "function", "class", "file", ...; "outside"
    full_name: str
    source: str | None = None  # None: outside
    path: str | None = None
    lines: str | None = None  # "L10-L24"
    language: str | None = None
    signature: str = ""
    url: str | None = None
    role: NodeRole = "target"
    distance: int = 0  # steps from the target
    score: float | None = None  # in (0, 1], where nodes are ranked


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """One node has to do with another: all places in a file where it does so in one way."""

    kind: str  # "calls", "references", "extends", "implements", "imports"
    source: str  # id of a node
    target: str
    path: str  # of the file where it stands
    lines: tuple[int, ...]  # counted from 1
    confidence: float  # 0 to 1, of the surest place


@dataclass(frozen=True, slots=True)
class GraphResponse:
    """Nodes and links; several candidates and nothing else where the target is ambiguous."""

    query_id: str
    operation: str  # "usages", "calls", ...
    target: str  # as it was asked
    took_ms: float
    release: int
    nodes: tuple[GraphNode, ...] = ()  # those that were asked for first, then by distance
    edges: tuple[GraphEdge, ...] = ()
    candidates: tuple[GraphNode, ...] = ()  # what the target may mean, where it may mean several things
    notes: tuple[str, ...] = ()  # sentences: what was cut, what could not be resolved
    degraded: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    steps: tuple[Step, ...] = ()  # when each was, for those who trace

    @property
    def targets(self) -> tuple[GraphNode, ...]:
        """The nodes that were asked for."""
        return tuple(node for node in self.nodes if node.role == "target")

    @property
    def matches(self) -> tuple[GraphNode, ...]:
        """The nodes that were found by way of them."""
        return tuple(node for node in self.nodes if node.role in ("used_by", "uses"))

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        told = to_json_value(asdict(self))
        del told["steps"]
        return told


@dataclass(frozen=True, slots=True)
class RelationsResponse:
    """What a target has to do with other documents."""

    query_id: str
    took_ms: float
    release: int
    degraded: tuple[str, ...]
    documents: tuple[
        RelatedDocument, ...
    ]  # that the target means; several where a path is in several sources
    relations: tuple[Relation, ...]  # the most telling kinds first, then the newest
    unresolved_mentions: tuple[Mention, ...]  # of documents that are not here, or not for the caller to see
    is_truncated: bool  # more mention it than were read

    @property
    def matches(self) -> tuple[Relation, ...]:
        """What the log counts."""
        return self.relations

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        return to_json_value(asdict(self))


@dataclass(frozen=True, slots=True)
class ContextExcerpt:
    """A passage of a context, which the reader can cite as `[number]`."""

    number: int  # from 1, in the order shown
    text: str  # exactly the document's, from the first to the last of its lines
    citation: Citation
    score: float  # of its best chunk
    tokens: int  # about: with its heading, in the reader's tokens
    found_by: tuple[str, ...]  # names of searches
    symbols: tuple[str, ...]  # that it defines, as far as they are known
    metadata: Metadata  # of its best chunk; of several, what they have in common
    chunks: tuple[str, ...]  # ids
    missing_lines: int = 0  # that were cut off at its end
    near_duplicates: tuple[Citation, ...] = ()  # where nearly the same stands


@dataclass(frozen=True, slots=True)
class OmittedChunk:
    """A chunk that was found and did not fit."""

    id: str
    citation: Citation
    score: float
    tokens: int


@dataclass(frozen=True, slots=True)
class SearchRun:
    """One search that a task asked for; with a `problem` it could not be run, and gave nothing."""

    name: SearchName
    type: SearchType
    query: str  # the text, or the file, that was searched for
    source_types: tuple[str, ...] = ()  # that it was narrowed to
    found: int = 0
    shown: int = 0  # of what it found
    took_ms: float = 0.0
    degraded: Mapping[str, Any] = field(default_factory=dict[str, Any])  # step gone without -> why
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ContextResponse:
    """What an agent gets for a task."""

    query_id: str
    took_ms: float
    release: int
    degraded: tuple[str, ...]  # "vector", "rerank"; a search with a problem; "task": only its beginning
    kind: TaskKind
    text: str  # the prompt
    tokens: int  # of the prompt: at most `max_tokens`
    max_tokens: int
    tokenizer: str
    template: str
    excerpts: tuple[ContextExcerpt, ...]
    omitted: tuple[OmittedChunk, ...]  # for want of budget, best first
    searches: tuple[SearchRun, ...]
    results: tuple[SearchResult, ...]  # the chunks that the passages are made of, best first

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; of the chunks only the passages' ids."""
        told = to_json_value(asdict(replace(self, results=())))
        del told["results"]
        return told


@dataclass(frozen=True, slots=True)
class StatusResponse:
    """Rows that the caller may see in the live release, archived ones aside."""

    release: int
    released_at: datetime
    rows: int
    by_source: Mapping[str, int]  # a source without rows is listed for an operator
    by_type: Mapping[str, int]
    by_space: Mapping[str, int]
    unindexed_rows: Mapping[
        str, int
    ]  # for an operator: space -> rows of its newest version found by scanning

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, strings and numbers."""
        return {**asdict(self), "created_at": self.released_at.isoformat()}


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
