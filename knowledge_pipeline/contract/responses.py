"""Responses to queries, declared once: every interface derives from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from knowledge_pipeline.contract.base import HIDDEN, QueryResponse, Step
from knowledge_pipeline.contract.filters import (
    FileState,
    NodeRole,
    SearchName,
    SearchType,
    SectionType,
    TaskKind,
    about,
    described,
)
from knowledge_pipeline.contract.requests import ChatMessage
from knowledge_pipeline.records import Mention, Metadata

_SEVERAL = "one of several"
_PLACE_STATE = "The lines in the file now, where the source is a local folder: same are those of now."
_RESOLUTIONS = {
    1.0: "by import or scope",
    0.9: "by declared type",
    0.8: "by value",
    0.7: "by subclass",
    0.5: "by name",
    0.0: "not resolved",
}
"""How an edge of the code graph found its target, by its confidence; docs/code-graph.md explains them."""


def describe_resolution(confidence: float) -> str:
    """How an edge of a confidence was resolved; other confidences than those of one target are shared."""
    return _RESOLUTIONS.get(round(confidence, 2), _SEVERAL)


_NAME_MATCHES = {1.0: "as written", 0.9: "as written", 0.8: "by an address", 0.6: "by the end of an address"}
"""How a route, a topic or another name of a system was found, by the confidence of the edge."""


def describe_name_match(confidence: float) -> str:
    """How surely a place in code means such a name."""
    return _NAME_MATCHES.get(round(confidence, 2), "by an address")


def describe_certainty(resolution: str, confidence: float) -> str:
    """`by import or scope · 1.0`."""
    return f"{resolution} · {round(confidence, 2)}"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A definition, a file, or a name outside of everything that is indexed."""

    id: str
    name: str  # qualified within its file: "Store.get"; of a file its path; outside its full name
    kind: str = field(metadata={"examples": ["function", "class", "file", "outside"]})
    full_name: str
    source: str | None = None  # None: outside
    path: str | None = None
    lines: str | None = None  # "L10-L24"
    language: str | None = None
    signature: str = ""
    url: str | None = None
    role: NodeRole = described("target, member (of the target), used_by, or uses.", "target")
    distance: int = described("Steps from the target.", 0)
    score: float | None = None  # in (0, 1], where nodes are ranked
    file_state: FileState | None = described(_PLACE_STATE, None, omit_none=True)


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A connection of two nodes: all places in a file where one uses the other in one way."""

    kind: str = field(metadata={"examples": ["calls", "references", "extends", "implements", "imports"]})
    source: str = field(metadata=about("Id of a node."))
    target: str = field(metadata=about("Id of a node."))
    path: str  # of the file that has the lines
    lines: tuple[int, ...]  # counted from 1
    confidence: float = field(metadata={"ge": 0, "le": 1})  # of the surest place
    resolution: str = described("How the target was found.", "", examples=[*_RESOLUTIONS.values(), _SEVERAL])
    file_state: FileState | None = described(_PLACE_STATE, None, omit_none=True)

    def __post_init__(self) -> None:
        if not self.resolution:
            object.__setattr__(self, "resolution", describe_resolution(self.confidence))

    @property
    def certainty(self) -> str:
        """`by import or scope · 1.0`."""
        return describe_certainty(self.resolution, self.confidence)


@dataclass(frozen=True, slots=True)
class GraphResponse(QueryResponse):
    """Nodes and edges; only candidates if the target is ambiguous."""

    operation: str = field(metadata={"examples": ["usages", "calls"]})
    target: str  # as requested
    nodes: tuple[GraphNode, ...] = ()  # targets first, then by distance
    edges: tuple[GraphEdge, ...] = ()
    candidates: tuple[GraphNode, ...] = ()  # what an ambiguous target may mean
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    steps: tuple[Step, ...] = field(default=(), metadata=HIDDEN)

    @property
    def targets(self) -> tuple[GraphNode, ...]:
        """The nodes that were asked for."""
        return tuple(node for node in self.nodes if node.role == "target")

    @property
    def matches(self) -> tuple[GraphNode, ...]:
        """The nodes that were found from the targets."""
        return tuple(node for node in self.nodes if node.role in ("used_by", "uses"))


@dataclass(frozen=True, slots=True)
class CodeNeighbour:
    """Code that a result is connected to."""

    name: str  # in its file: "Store.get"; of a file its path; of what is not indexed the full name
    source: str | None = described("null: it is not indexed.", None)
    path: str | None = None
    line: int | None = None  # where it begins; of a caller, where it first calls the result
    signature: str = ""
    edge_line: int | None = described("Line of the use, in the file that has it.", None)
    confidence: float | None = described("How sure it is that this is meant.", None, ge=0, le=1)
    resolution: str = described("How it was found to be meant.", "")
    file_state: FileState | None = described(_PLACE_STATE, None, omit_none=True)

    def __post_init__(self) -> None:
        if not self.resolution and self.confidence is not None:
            object.__setattr__(self, "resolution", describe_resolution(self.confidence))

    @property
    def certainty(self) -> str:
        """`by declared type · 0.9`; empty where nothing is known of the edge."""
        return "" if self.confidence is None else describe_certainty(self.resolution, self.confidence)


@dataclass(frozen=True, slots=True)
class CodeNeighbours:
    """What a result of code is connected to: a few neighbours of each kind."""

    calls: tuple[CodeNeighbour, ...] = ()  # in the order of its lines
    called_by: tuple[CodeNeighbour, ...] = ()  # of its own source first, then the surest
    imports: tuple[CodeNeighbour, ...] = ()  # of its file; what it uses itself first
    extends: tuple[CodeNeighbour, ...] = ()  # classes and interfaces
    implemented_by: tuple[CodeNeighbour, ...] = ()  # what extends or implements it
    omitted: Mapping[str, int] = field(
        default_factory=dict[str, int], metadata=about("How many more neighbours of each kind there are.")
    )

    def __bool__(self) -> bool:
        return any((self.calls, self.called_by, self.imports, self.extends, self.implemented_by))


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
    archived: bool = described("Whether its source no longer has it.", False)


@dataclass(frozen=True, slots=True)
class Relation:
    """What one document says of another."""

    kind: str = field(metadata={"examples": ["closes", "implements", "supersedes", "references"]})
    direction: Literal["to", "from"] = field(
        metadata=about("to: this document says it of the other; from: the other says it of this.")
    )
    target: str = field(metadata=about("The mention, as it is written."))
    document: RelatedDocument = field(metadata=about("The other document."))


@dataclass(frozen=True, slots=True)
class RelationsResponse(QueryResponse):
    """How a target is related to other documents."""

    documents: tuple[RelatedDocument, ...] = field(
        metadata=about("The target; several documents if a path is in several sources.")
    )
    relations: tuple[Relation, ...]  # the most important kinds first, then the newest
    unresolved_mentions: tuple[Mention, ...] = field(
        metadata=about("Mentions of documents that are not indexed, or not visible to the caller.")
    )
    is_truncated: bool = field(metadata=about("More documents mention it than were read."))

    @property
    def matches(self) -> tuple[Relation, ...]:
        """What the log counts."""
        return self.relations


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """One chunk of a document."""

    id: str
    lines: str
    section: str | None


@dataclass(frozen=True, slots=True)
class DocumentResponse(QueryResponse):
    """A document of the live release, assembled from its chunks."""

    id: str = field(metadata=about("`source:uri`."))
    source: str
    uri: str
    path: str
    title: str | None
    url: str | None
    text: str
    complete: bool = field(metadata=about("false: some text between chunks is not indexed."))
    metadata: Metadata = field(metadata=about("What its chunks have in common."))
    chunks: tuple[DocumentChunk, ...]
    related: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a result is from."""

    source: str
    path: str
    # counted from 1; of a file that can be read here, where they stand by now
    lines: str = field(metadata={"examples": ["L10-L24", "L10"]})
    title: str | None
    url: str | None  # with the lines as its fragment, unless the web address has one


@dataclass(frozen=True, slots=True)
class ResultSpan:
    """Where a result lies in its document as it was indexed; characters are half-open."""

    uri: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    space_before: str | None = None  # all white space between the preceding text and it; None: not known


@dataclass(frozen=True, slots=True)
class ScoreExplanation:
    """Where a score comes from. Ranks count from 1; None: that search did not find the result.

    `boosts` are what the ranker's base, each feature and the age add to the log-odds of the score: they sum
    to them, unless the result was reranked afterwards.
    """

    space: str
    vector_rank: int | None
    vector_score: float | None
    bm25_rank: int | None
    bm25_score: float | None
    boosts: Mapping[str, float]
    fused: float
    rerank: float | None = None


@dataclass(frozen=True, slots=True)
class BlamedLines:
    """Lines of a result that one commit wrote last."""

    lines: str = field(metadata={"examples": ["L10-L24", "L10"]})  # of the file as it was indexed
    commit: str
    author: str | None
    committed: datetime | None
    message: str = field(metadata=about("Of the commit; secrets and personal data redacted."))
    pull_requests: tuple[RelatedDocument, ...] = described(
        "Indexed pull or merge requests of the commit.", ()
    )

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A line that an exact search matched."""

    line: int = field(metadata=about("Counted from 1, as `citation.lines`."))
    text: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result: a chunk of a document."""

    id: str
    content: str
    score: float = field(metadata=about("Comparable within one response.", ge=0, le=1))
    metadata: Metadata
    citation: Citation
    span: ResultSpan = field(metadata=HIDDEN)
    related: tuple[Relation, ...] = described("The most important relations of the document.", ())
    graph: CodeNeighbours | None = described("Of the best results of code.", None, omit_none=True)
    explain: ScoreExplanation | None = described("Ranks and scores, on request.", None, omit_none=True)
    ranking: ScoreExplanation | None = field(default=None, compare=False, metadata=HIDDEN)  # for the log
    file_state: FileState | None = described(
        "The file now, compared with the index, where the source is a local folder.", None, omit_none=True
    )
    blame: tuple[BlamedLines, ...] | None = described(
        "Who last changed its lines, on request.", None, omit_none=True
    )
    matches: tuple[MatchedLine, ...] | None = described(
        "The lines that match, of the modes exact and regex.", None, omit_none=True
    )


@dataclass(frozen=True, slots=True)
class SearchResponse(QueryResponse):
    """The results of a search, best first."""

    results: tuple[SearchResult, ...]
    timings_ms: Mapping[str, float] = field(metadata=about("By step."))
    cached: bool = False  # whether the same search was run before
    embedded_share: float = described(
        "Share of the release's chunks that have a vector; words alone find the others.", 1.0, ge=0, le=1
    )
    confidence: float | None = described(
        "How likely a result answers the question, where as many questions have an answer "
        "as have none. Absent where it was not compared by its meaning.",
        None,
        **{"ge": 0, "le": 1, "omit_none": True},
    )
    steps: tuple[Step, ...] = field(default=(), metadata=HIDDEN)  # for traces
    explain: Mapping[str, Any] | None = described(
        "How the query was understood, on request.", None, omit_none=True
    )


@dataclass(frozen=True, slots=True)
class ContextExcerpt:
    """An excerpt in a context, to be cited as `[number]`."""

    number: int  # from 1, in the order shown
    text: str = field(  # exactly the document's, from the first to the last of its lines
        default="", kw_only=True, metadata=about("Over HTTP on request: the prompt has it.", omit_none=True)
    )
    citation: Citation
    score: float  # of its best chunk
    tokens: int  # about: with its heading, in the reader's tokens
    found_by: tuple[str, ...]  # names of searches
    symbols: tuple[str, ...]  # that it defines, as far as they are known
    metadata: Metadata = field(  # of its best chunk; of several, what they have in common
        metadata=about("Over HTTP on request.")
    )
    chunks: tuple[str, ...]  # ids
    missing_lines: int = 0  # cut off at its end
    near_duplicates: tuple[Citation, ...] = ()  # other places of nearly the same text
    within: str | None = None  # the signature of the definition that it begins in the middle of
    file_state: FileState | None = field(default=None, metadata={"omit_none": True})


@dataclass(frozen=True, slots=True)
class OmittedChunk:
    """A chunk that was found and did not fit."""

    id: str
    citation: Citation
    score: float
    tokens: int


@dataclass(frozen=True, slots=True)
class SearchRun:
    """One search for a task; one with a `problem` failed and found nothing."""

    name: SearchName
    type: SearchType
    query: str  # the text, or the file, that was searched for
    source_types: tuple[str, ...] = ()  # that it was narrowed to
    found: int = 0
    shown: int = 0  # of what it found
    took_ms: float = 0.0
    degraded: Mapping[str, Any] = field(default_factory=dict[str, Any])  # skipped step -> why
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ContextSection:
    """A section of a context, as `context.sections` configures it; with a `problem`, its search failed."""

    name: str
    heading: str
    type: SectionType
    query: str = field(metadata=about("The text, or the code, that was searched for."))
    share: float  # of the budget
    found: int = 0
    shown: int = 0  # of what it found
    tokens: int = 0  # of its excerpts
    excerpts: tuple[int, ...] = ()  # their numbers
    took_ms: float = 0.0
    degraded: Mapping[str, Any] = field(default_factory=dict[str, Any])  # skipped step -> why
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ContextResponse(QueryResponse):
    """What an agent should read before it does a task."""

    # degraded: "vector", "rerank"; a search with a problem; "task": only its beginning was searched for;
    # "history", "snippet", "suffix": only what is nearest to the question or the cursor is shown
    kind: TaskKind
    text: str = field(metadata=about("The prompt; of a chat, its system message."))
    tokens: int  # of the prompt, or of all messages of a chat: at most `max_tokens`
    max_tokens: int
    tokenizer: str
    template: str
    excerpts: tuple[ContextExcerpt, ...]
    omitted: tuple[OmittedChunk, ...] = field(metadata=about("What was found and did not fit, best first."))
    searches: tuple[SearchRun, ...] = field(metadata=about("Which searches were run, and what each found."))
    results: tuple[SearchResult, ...] = field(metadata=HIDDEN)  # of the excerpts, best first
    sections: tuple[ContextSection, ...] | None = described(
        "What each configured section found.", None, omit_none=True
    )
    messages: tuple[ChatMessage, ...] | None = described(
        "Of a chat: the system message, the history that fits, and the question.", None, omit_none=True
    )
    dropped_turns: int | None = described(
        "Of a chat: how many of the oldest messages of the history did not fit.", None, omit_none=True
    )
    steps: tuple[Step, ...] = field(default=(), metadata=HIDDEN)  # for traces

    def to_search_response(self) -> SearchResponse:
        """The results of its excerpts alone."""
        return SearchResponse(**self.list_shared(), results=self.results, timings_ms={}, steps=self.steps)


@dataclass(frozen=True, slots=True)
class TracedRefresh:
    """One stage of the refresh that wrote a result."""

    stage: str
    done_at: datetime
    seconds: float
    changes: int = field(metadata=about("Keys that it added, changed or removed."))
    code: str | None = field(metadata=about("Versions of the package and of the stage's code."))
    settings: Mapping[str, str] = field(
        metadata=about("Digests of the settings that it used: source, chunking, model, access.")
    )
    run: str | None = field(metadata=about("The Dagster run; null: by the command line."))
    run_url: str | None = field(metadata=about("Its page, if KNOWLEDGE_DAGSTER_URL is set."))


@dataclass(frozen=True, slots=True)
class TraceResponse(QueryResponse):
    """What made a result, as far as the store still knows it."""

    id: str
    citation: Citation
    revision: str | None = field(metadata=about("Of the document, as its source has it."))
    document_hash: str | None
    chunk_fingerprint: str | None = field(
        metadata=about("Of the document, the chunker and the sanitizer that made the chunk.")
    )
    text_key: str | None = field(metadata=about("Of the embedded text; the key of its vector."))
    indexed_at: datetime
    updated_at: datetime
    first_release: int | None = field(metadata=about("The first of the kept releases that has it as it is."))
    first_released_at: datetime | None
    stages: tuple[TracedRefresh, ...]
