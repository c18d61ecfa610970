"""Responses, declared once: every interface derives from them.

In the metadata of a field, `description` and `examples` are what pydantic reads of a dataclass, `exclude`
keeps the field out of JSON, and `omit_none` leaves it out if it is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, cast

from knowledge_pipeline.contract.chat import ChatMessage
from knowledge_pipeline.contract.types import (
    EventState,
    FileState,
    HealthState,
    NodeRole,
    RefreshState,
    SearchName,
    SearchType,
    SectionType,
    TaskKind,
)
from knowledge_pipeline.records import Mention, Metadata

_HIDDEN: Mapping[str, Any] = {"exclude": True}


class JsonResponse:
    """Base of responses."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        return to_json(self)


@dataclass(frozen=True, slots=True)
class Step:
    """When a step of a search ran, in milliseconds since the search began."""

    name: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class QueryResponse(JsonResponse):
    """What every response of the knowledge base has."""

    query_id: str = field(metadata={"description": "Names the response in `feedback` and in the log."})
    took_ms: float
    release: int = field(metadata={"description": "The release that was searched."})
    degraded: tuple[str, ...] = field(
        metadata={"description": "Steps that had to be skipped: `vector`, `embedding`, `rerank`, `graph`, …"}
    )


@dataclass(frozen=True, slots=True)
class ModelCallResponse(JsonResponse):
    """What was recorded of a reported model call."""

    cost: float
    budget: str | None = field(
        metadata={"description": "The caller's budget that is nearly or wholly spent, in a sentence."}
    )


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a result is from."""

    source: str
    path: str
    lines: str = field(metadata={"examples": ["L10-L24", "L10"]})  # counted from 1
    title: str | None
    url: str | None  # with the lines as its fragment, unless the web address has one


@dataclass(frozen=True, slots=True)
class ResultSpan:
    """Where a result lies in its document; characters are half-open."""

    uri: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    space_before: str | None = None  # all white space between the preceding text and it; None: not known


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

    kind: str = field(metadata={"examples": ["closes", "implements", "supersedes", "references"]})
    direction: Literal["to", "from"] = field(
        metadata={"description": "to: this document says it of the other; from: the other says it of this."}
    )
    target: str = field(metadata={"description": "The mention, as it is written."})
    document: RelatedDocument = field(metadata={"description": "The other document."})


_RESOLUTIONS = {
    1.0: "by import or scope",
    0.9: "by declared type",
    0.8: "by value",
    0.7: "by subclass",
    0.5: "by name",
    0.0: "not resolved",
}
"""How an edge of the code graph found its target, by its confidence; docs/code-graph.md explains them."""

_SEVERAL = "one of several"


def describe_resolution(confidence: float) -> str:
    """How an edge of a confidence was resolved; other confidences than those of one target are shared."""
    return _RESOLUTIONS.get(round(confidence, 2), _SEVERAL)


def describe_certainty(resolution: str, confidence: float) -> str:
    """`by import or scope · 1.0`."""
    return f"{resolution} · {round(confidence, 2)}"


@dataclass(frozen=True, slots=True)
class CodeNeighbour:
    """Code that a result is connected to."""

    name: str  # in its file: "Store.get"; of a file its path; of what is not indexed the full name
    source: str | None = field(default=None, metadata={"description": "null: it is not indexed."})
    path: str | None = None
    line: int | None = None  # where it begins; of a caller, where it first calls the result
    signature: str = ""
    edge_line: int | None = field(
        default=None, metadata={"description": "Line of the use, in the file that has it."}
    )
    confidence: float | None = field(
        default=None, metadata={"ge": 0, "le": 1, "description": "How sure it is that this is meant."}
    )

    resolution: str = field(default="", metadata={"description": "How it was found to be meant."})

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
        default_factory=dict[str, int],
        metadata={"description": "How many more neighbours of each kind there are."},
    )

    def __bool__(self) -> bool:
        return any((self.calls, self.called_by, self.imports, self.extends, self.implemented_by))


@dataclass(frozen=True, slots=True)
class ScoreExplanation:
    """Where a score comes from. Ranks count from 1; None: that search did not find the result."""

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
    message: str = field(metadata={"description": "Of the commit; secrets and personal data redacted."})
    pull_requests: tuple[RelatedDocument, ...] = field(
        default=(), metadata={"description": "Indexed pull or merge requests of the commit."}
    )

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result: a chunk of a document."""

    id: str
    content: str
    score: float = field(metadata={"description": "Comparable within one response.", "ge": 0, "le": 1})
    metadata: Metadata
    citation: Citation
    span: ResultSpan = field(metadata=_HIDDEN)
    related: tuple[Relation, ...] = field(
        default=(), metadata={"description": "The most important relations of the document."}
    )
    graph: CodeNeighbours | None = field(
        default=None, metadata={"description": "Of the best results of code.", "omit_none": True}
    )
    explain: ScoreExplanation | None = field(
        default=None, metadata={"description": "Ranks and scores, on request.", "omit_none": True}
    )
    file_state: FileState | None = field(
        default=None,
        metadata={
            "description": "The file now, compared with the index, where the source is a local folder.",
            "omit_none": True,
        },
    )
    blame: tuple[BlamedLines, ...] | None = field(
        default=None, metadata={"description": "Who last changed its lines, on request.", "omit_none": True}
    )


@dataclass(frozen=True, slots=True)
class SearchResponse(QueryResponse):
    """The results of a search, best first."""

    results: tuple[SearchResult, ...]
    timings_ms: Mapping[str, float] = field(metadata={"description": "By step."})
    cached: bool = False  # whether the same search was run before
    embedded_share: float = field(
        default=1.0,
        metadata={
            "description": "Share of the release's chunks that have a vector; words alone find the others.",
            **{"ge": 0, "le": 1},
        },
    )
    steps: tuple[Step, ...] = field(default=(), metadata=_HIDDEN)  # for traces
    explain: Mapping[str, Any] | None = field(
        default=None, metadata={"description": "How the query was understood, on request.", "omit_none": True}
    )


@dataclass(frozen=True, slots=True)
class TracedRefresh:
    """One stage of the refresh that wrote a result."""

    stage: str
    done_at: datetime
    seconds: float
    changes: int = field(metadata={"description": "Keys that it added, changed or removed."})
    code: str | None = field(metadata={"description": "Versions of the package and of the stage's code."})
    settings: Mapping[str, str] = field(
        metadata={"description": "Digests of the settings that it used: source, chunking, model, access."}
    )
    run: str | None = field(metadata={"description": "The Dagster run; null: by the command line."})
    run_url: str | None = field(metadata={"description": "Its page, if KNOWLEDGE_DAGSTER_URL is set."})


@dataclass(frozen=True, slots=True)
class TraceResponse(QueryResponse):
    """What made a result, as far as the store still knows it."""

    id: str
    citation: Citation
    revision: str | None = field(metadata={"description": "Of the document, as its source has it."})
    document_hash: str | None
    chunk_fingerprint: str | None = field(
        metadata={"description": "Of the document, the chunker and the sanitizer that made the chunk."}
    )
    text_key: str | None = field(metadata={"description": "Of the embedded text; the key of its vector."})
    indexed_at: datetime
    updated_at: datetime
    first_release: int | None = field(
        metadata={"description": "The first of the kept releases that has it as it is."}
    )
    first_released_at: datetime | None
    stages: tuple[TracedRefresh, ...]


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
    role: NodeRole = field(
        default="target", metadata={"description": "target, member (of the target), used_by, or uses."}
    )
    distance: int = field(default=0, metadata={"description": "Steps from the target."})
    score: float | None = None  # in (0, 1], where nodes are ranked


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A connection of two nodes: all places in a file where one uses the other in one way."""

    kind: str = field(metadata={"examples": ["calls", "references", "extends", "implements", "imports"]})
    source: str = field(metadata={"description": "Id of a node."})
    target: str = field(metadata={"description": "Id of a node."})
    path: str  # of the file that has the lines
    lines: tuple[int, ...]  # counted from 1
    confidence: float = field(metadata={"ge": 0, "le": 1})  # of the surest place
    resolution: str = field(
        default="",
        metadata={
            "description": "How the target was found.",
            "examples": [*_RESOLUTIONS.values(), _SEVERAL],
        },
    )

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
    notes: tuple[str, ...] = field(
        default=(), metadata={"description": "Sentences: what was left out, what could not be resolved."}
    )
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    steps: tuple[Step, ...] = field(default=(), metadata=_HIDDEN)

    @property
    def targets(self) -> tuple[GraphNode, ...]:
        """The nodes that were asked for."""
        return tuple(node for node in self.nodes if node.role == "target")

    @property
    def matches(self) -> tuple[GraphNode, ...]:
        """The nodes that were found from the targets."""
        return tuple(node for node in self.nodes if node.role in ("used_by", "uses"))


@dataclass(frozen=True, slots=True)
class RelationsResponse(QueryResponse):
    """How a target is related to other documents."""

    documents: tuple[RelatedDocument, ...] = field(
        metadata={"description": "The target; several documents if a path is in several sources."}
    )
    relations: tuple[Relation, ...]  # the most important kinds first, then the newest
    unresolved_mentions: tuple[Mention, ...] = field(
        metadata={"description": "Mentions of documents that are not indexed, or not visible to the caller."}
    )
    is_truncated: bool = field(metadata={"description": "More documents mention it than were read."})

    @property
    def matches(self) -> tuple[Relation, ...]:
        """What the log counts."""
        return self.relations


@dataclass(frozen=True, slots=True)
class ContextExcerpt:
    """An excerpt in a context, to be cited as `[number]`."""

    number: int  # from 1, in the order shown
    text: str  # exactly the document's, from the first to the last of its lines
    citation: Citation
    score: float  # of its best chunk
    tokens: int  # about: with its heading, in the reader's tokens
    found_by: tuple[str, ...]  # names of searches
    symbols: tuple[str, ...]  # that it defines, as far as they are known
    metadata: Metadata  # of its best chunk; of several, what they have in common
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
    query: str = field(metadata={"description": "The text, or the code, that was searched for."})
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
    text: str = field(metadata={"description": "The prompt; of a chat, its system message."})
    tokens: int  # of the prompt, or of all messages of a chat: at most `max_tokens`
    max_tokens: int
    tokenizer: str
    template: str
    excerpts: tuple[ContextExcerpt, ...]
    omitted: tuple[OmittedChunk, ...] = field(
        metadata={"description": "What was found and did not fit, best first."}
    )
    searches: tuple[SearchRun, ...] = field(
        metadata={"description": "Which searches were run, and what each found."}
    )
    results: tuple[SearchResult, ...] = field(metadata=_HIDDEN)  # of the excerpts, best first
    sections: tuple[ContextSection, ...] | None = field(
        default=None,
        metadata={"description": "What each configured section found.", "omit_none": True},
    )
    messages: tuple[ChatMessage, ...] | None = field(
        default=None,
        metadata={
            "description": "Of a chat: the system message, the history that fits, and the question.",
            "omit_none": True,
        },
    )
    dropped_turns: int | None = field(
        default=None,
        metadata={
            "description": "Of a chat: how many of the oldest messages of the history did not fit.",
            "omit_none": True,
        },
    )


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """One chunk of a document."""

    id: str
    lines: str
    section: str | None


@dataclass(frozen=True, slots=True)
class DocumentResponse(QueryResponse):
    """A document of the live release, assembled from its chunks."""

    id: str = field(metadata={"description": "`source:uri`."})
    source: str
    uri: str
    path: str
    title: str | None
    url: str | None
    text: str
    complete: bool = field(metadata={"description": "false: some text between chunks is not indexed."})
    metadata: Metadata = field(metadata={"description": "What its chunks have in common."})
    chunks: tuple[DocumentChunk, ...]
    related: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class StatusResponse(JsonResponse):
    """Rows of the live release that the caller may see, without archived ones."""

    release: int
    released_at: datetime
    rows: int
    by_source: Mapping[str, int]  # for an operator also sources without rows
    by_type: Mapping[str, int]
    by_space: Mapping[str, int]
    unembedded_rows: Mapping[str, int] = field(
        metadata={"description": "By source, rows that have no vector yet: words alone find them."}
    )
    unindexed_rows: Mapping[str, int] = field(
        metadata={"description": "By space, rows that are found by scanning; for operators."}
    )
    restores: int | None = field(
        default=None, metadata={"description": "The release whose content a rollback made live again."}
    )
    pinned_since: datetime | None = field(
        default=None,
        metadata={"description": "Since when refreshes publish nothing, because a rollback is pinned."},
    )
    pin: str | None = field(default=None, metadata={"description": "The same, in a sentence."})


@dataclass(frozen=True, slots=True)
class LastEvent:
    """The last event about a source that a service sent to a server of this machine."""

    service: str = field(metadata={"examples": ["github", "jira"]})
    kind: str = field(
        metadata={
            "description": "As the service calls it; empty where it does not say.",
            "examples": ["push", "jira:issue_updated"],
        }
    )
    at: datetime = field(metadata={"description": "When it came."})
    state: EventState = field(metadata={"description": "done: what it is about has been read since."})
    error: str | None = field(metadata={"description": "Why that failed last, in a sentence."})


@dataclass(frozen=True, slots=True)
class SourceState:
    """Whether a source is as it should be, and what its refreshes left out and cost."""

    state: Literal["fresh", "stale"]
    reason: str = field(metadata={"description": "Why it is stale; empty where it is not."})
    age_hours: float | None = field(
        metadata={"description": "Since its index was last brought up to date; null: it never was."}
    )
    trigger: str | None = field(metadata={"description": "When it is refreshed; null: it is not configured."})
    skipped: int = field(metadata={"description": "Documents that give no chunk."})
    skipped_reasons: str | None = field(
        metadata={"description": "Why, the most frequent reason first, each with its number of documents."}
    )
    cost: float | None = field(
        metadata={"description": "Of its vectors, as far as the log goes back; null without a tenant."}
    )
    last_run: str | None = field(metadata={"description": "The Dagster run that refreshed it last."})
    last_run_url: str | None = field(
        metadata={"description": "Its page, where the server knows the address of Dagster."}
    )
    last_event: LastEvent | None = field(
        default=None, metadata={"description": "null: none came within 30 days, to this machine."}
    )


@dataclass(frozen=True, slots=True)
class Collection:
    """One source, as far as the caller may see it."""

    id: str
    type: str
    chunks: int
    refreshed_at: datetime | None = field(metadata={"description": "When it was last read; null: not known."})
    embedded: int = field(metadata={"description": "Chunks that have a vector; words alone find the others."})
    state: SourceState | None = field(
        default=None,
        metadata={"description": "Whether it is stale, and why; null: not all of it is visible."},
    )


@dataclass(frozen=True, slots=True)
class CollectionsResponse(JsonResponse):
    """The sources that can be searched."""

    release: int
    released_at: datetime
    collections: tuple[Collection, ...]
    pin: str | None = field(
        default=None, metadata={"description": "That a rollback is pinned, so that what is new is not live."}
    )


@dataclass(frozen=True, slots=True)
class QueryStats:
    """The queries of a period."""

    count: int
    zero_result_count: int
    degraded: int
    cached: int
    by_type: Mapping[str, int]
    by_interface: Mapping[str, int]
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class StatsResponse(JsonResponse):
    """How much is indexed, and how it is used."""

    release: int
    chunks: int
    by_type: Mapping[str, int]
    hours: int
    queries: QueryStats | None = field(
        metadata={"description": "Of the caller's tenant, or all for an operator; null: none, or not logged."}
    )


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """One component of the service."""

    status: HealthState = field(
        metadata={"description": "disabled: not configured; unknown: the check did not finish."}
    )
    detail: str | None = field(default=None, metadata={"description": "What a problem means for answers."})


@dataclass(frozen=True, slots=True)
class HealthResponse(JsonResponse):
    """The health of the service."""

    status: Literal["ok", "degraded", "unhealthy"] = field(
        metadata={"description": "degraded: answers lack something; unhealthy: there are none."}
    )
    components: Mapping[str, ComponentHealth]


@dataclass(frozen=True, slots=True)
class WatcherHealth:
    """One `knowledge watch`, without names of sources."""

    status: Literal["ok", "unhealthy"]
    state: str = field(metadata={"examples": ["waiting", "refreshing", "starting"]})
    started_at: datetime
    looked_at: datetime = field(metadata={"description": "When it last looked for changes, or progressed."})
    sources: int
    behind: int = field(metadata={"description": "Sources whose last refresh failed or is not done."})
    last_error_at: datetime | None
    detail: str | None = field(metadata={"description": "What is wrong, and what to do."})


@dataclass(frozen=True, slots=True)
class WatcherHealthResponse(JsonResponse):
    """The health of the watchers of the store on the server's machine."""

    status: Literal["ok", "unhealthy", "absent"] = field(
        metadata={"description": "unhealthy: one hangs, or was killed; absent: none runs."}
    )
    detail: str
    watchers: tuple[WatcherHealth, ...]


@dataclass(slots=True)
class Refresh(JsonResponse):
    """One refresh of sources, or the purge of one."""

    id: str
    sources: tuple[str, ...]
    reason: str = field(
        metadata={"description": "What requested it.", "examples": ["sync", "github", "jira", "purge"]}
    )
    status: RefreshState
    requested_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = field(default=None, metadata={"description": "Why it failed, in a sentence."})
    release: int | None = field(default=None, metadata={"description": "The release that it published."})
    documents: tuple[str, ...] = field(default=(), metadata=_HIDDEN)  # "SOURCE/URI"; none: whole sources
    relist: bool = field(default=False, metadata=_HIDDEN)  # services are listed in full
    tries: int = field(default=0, metadata=_HIDDEN)  # that failed before this one


@dataclass(frozen=True, slots=True)
class RefreshListResponse(JsonResponse):
    """The refreshes that servers of this store were asked for, newest first; the last two hundred."""

    refreshes: tuple[Refresh, ...]


@dataclass(frozen=True, slots=True)
class SourceResponse(JsonResponse):
    """A source, without its secrets."""

    id: str
    type: str
    location: str = field(metadata={"description": "The folder or address that it reads."})
    branch: str | None
    refresh_trigger: str = field(
        metadata={"description": "When it is refreshed automatically.", "examples": ["on_commit"]}
    )
    visibility: str
    tenant: str | None
    principals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceListResponse(JsonResponse):
    """The sources of knowledge.yaml that the caller may manage."""

    sources: tuple[SourceResponse, ...]


@dataclass(frozen=True, slots=True)
class SourceRemovedResponse(JsonResponse):
    """A source that is no longer declared."""

    source_id: str
    purge: Refresh | None = field(
        metadata={"description": "null: its content stays until `knowledge purge` deletes it."}
    )


@dataclass(frozen=True, slots=True)
class WebhookResponse(JsonResponse):
    """What a webhook started."""

    refreshes: tuple[Refresh, ...]
    ignored_reason: str | None = field(metadata={"description": "Why nothing was started."})


def to_json(value: Any) -> Any:
    """A value as JSON has it: objects for dataclasses, lists for tuples, text for times."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if is_dataclass(value):
        return {
            name: to_json(inner)
            for name, omits_none in _list_json_fields(type(value))
            if (inner := getattr(value, name)) is not None or not omits_none
        }
    if isinstance(value, Mapping):
        return {key: to_json(inner) for key, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [to_json(inner) for inner in cast("Sequence[Any]", value)]
    return value.isoformat() if isinstance(value, datetime) else value


@cache
def _list_json_fields(kind: type[Any]) -> tuple[tuple[str, bool], ...]:
    """The fields of a dataclass that JSON has, and whether one is left out where it is None."""
    return tuple(
        (each.name, "omit_none" in each.metadata) for each in fields(kind) if "exclude" not in each.metadata
    )
