"""Responses of a server: the dictionaries that `contract.responses` become as JSON, typed for editors.

The contract, and the server's page `/docs`, say what each field means. A newer server may send more.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from knowledge_pipeline.contract.filters import (
    EventType,
    FileState,
    NodeRole,
    SearchName,
    SearchType,
    SectionType,
    TaskKind,
)


class EventDict(TypedDict):
    """Something that happened in a store."""

    position: str  # `after` of the next call; grows with every event
    id: str  # the same where a webhook delivers the event
    type: EventType
    timestamp: str  # ISO 8601
    data: dict[str, Any]


# From here on `make docs` writes what the contract says.
# [[[cog
# import cog
# from benchmarks.client_types import write_types
# cog.out(f"\n\n{write_types()}\n\n")
# ]]]


class SourceFreshnessDict(TypedDict):
    """How current a source is, by what refreshes of it read, and looks at its origin saw."""

    source: str
    revision: str | None
    as_of: str | None
    looked_at: str | None
    origin_revision: NotRequired[str]
    commits_behind: int | None
    behind_since: NotRequired[str]
    minutes_behind: NotRequired[int]
    permissions_at: NotRequired[str]
    embedded_share: float | None
    failing_since: NotRequired[str]
    problem: NotRequired[str]
    skipped: NotRequired[dict[str, int]]
    too_old: bool


class QueryResponseDict(TypedDict):
    """What every response of the knowledge base has."""

    query_id: str
    took_ms: float
    release: int
    degraded: list[str]
    freshness: list[SourceFreshnessDict]
    notes: list[str]
    problem: NotRequired[str]  # why nothing could be answered, where errors give empty responses


class CitationDict(TypedDict):
    """Where a result is from."""

    source: str
    path: str
    lines: str
    title: str | None
    url: str | None


class RelatedDocumentDict(TypedDict):
    """A document that another one is related to."""

    source: str
    source_type: str
    uri: str
    path: str
    title: str | None
    url: str | None
    status: str | None
    last_modified: str | None
    archived: bool


class RelationDict(TypedDict):
    """What one document says of another."""

    kind: str
    direction: Literal["to", "from"]
    target: str
    document: RelatedDocumentDict


class CodeNeighbourDict(TypedDict):
    """Code that a result is connected to."""

    name: str
    source: str | None
    path: str | None
    line: int | None
    signature: str
    edge_line: int | None
    confidence: float | None
    resolution: str
    file_state: NotRequired[FileState]


class CodeNeighboursDict(TypedDict):
    """What a result of code is connected to: a few neighbours of each kind."""

    calls: list[CodeNeighbourDict]
    called_by: list[CodeNeighbourDict]
    imports: list[CodeNeighbourDict]
    extends: list[CodeNeighbourDict]
    implemented_by: list[CodeNeighbourDict]
    omitted: dict[str, int]


class ScoreExplanationDict(TypedDict):
    """Where a score comes from. Ranks count from 1; None: that search did not find the result.

    `boosts` are what the ranker's base, each feature and the age add to the log-odds of the score: they sum
    to them, unless the result was reranked afterwards.
    """

    space: str
    vector_rank: int | None
    vector_score: float | None
    bm25_rank: int | None
    bm25_score: float | None
    boosts: dict[str, float]
    fused: float
    rerank: float | None


class BlamedLinesDict(TypedDict):
    """Lines of a result that one commit wrote last."""

    lines: str
    commit: str
    author: str | None
    committed: str | None
    message: str
    pull_requests: list[RelatedDocumentDict]


class MatchedLineDict(TypedDict):
    """A line that an exact search matched."""

    line: int
    text: str


class SearchResultDict(TypedDict):
    """One result: a chunk of a document."""

    id: str
    content: str
    score: float
    metadata: dict[str, Any]
    citation: CitationDict
    related: list[RelationDict]
    graph: NotRequired[CodeNeighboursDict]
    explain: NotRequired[ScoreExplanationDict]
    file_state: NotRequired[FileState]
    blame: NotRequired[list[BlamedLinesDict]]
    matches: NotRequired[list[MatchedLineDict]]


class SearchResponseDict(QueryResponseDict):
    """The results of a search, best first."""

    results: list[SearchResultDict]
    timings_ms: dict[str, float]
    cached: bool
    embedded_share: float
    confidence: NotRequired[float]
    explain: NotRequired[dict[str, Any]]


class TracedRefreshDict(TypedDict):
    """One stage of the refresh that wrote a result."""

    stage: str
    done_at: str
    seconds: float
    changes: int
    code: str | None
    settings: dict[str, str]
    run: str | None
    run_url: str | None


class TraceResponseDict(QueryResponseDict):
    """What made a result, as far as the store still knows it."""

    id: str
    citation: CitationDict
    revision: str | None
    document_hash: str | None
    chunk_fingerprint: str | None
    text_key: str | None
    indexed_at: str
    updated_at: str
    first_release: int | None
    first_released_at: str | None
    stages: list[TracedRefreshDict]


class MentionDict(TypedDict):
    """One document says something of another."""

    kind: str
    target: str
    name: str


class RelationsResponseDict(QueryResponseDict):
    """How a target is related to other documents."""

    documents: list[RelatedDocumentDict]
    relations: list[RelationDict]
    unresolved_mentions: list[MentionDict]
    is_truncated: bool


class ContextExcerptDict(TypedDict):
    """An excerpt in a context, to be cited as `[number]`."""

    number: int
    text: NotRequired[str]
    citation: CitationDict
    score: float
    tokens: int
    found_by: list[str]
    symbols: list[str]
    metadata: dict[str, Any]
    chunks: list[str]
    missing_lines: int
    near_duplicates: list[CitationDict]
    within: str | None
    file_state: NotRequired[FileState]


class OmittedChunkDict(TypedDict):
    """A chunk that was found and did not fit."""

    id: str
    citation: CitationDict
    score: float
    tokens: int


class SearchRunDict(TypedDict):
    """One search for a task; one with a `problem` failed and found nothing."""

    name: SearchName
    type: SearchType
    query: str
    source_types: list[str]
    found: int
    shown: int
    took_ms: float
    degraded: dict[str, Any]
    problem: str | None


class ContextSectionDict(TypedDict):
    """A section of a context, as `context.sections` configures it; with a `problem`, its search failed."""

    name: str
    heading: str
    type: SectionType
    query: str
    share: float
    found: int
    shown: int
    tokens: int
    excerpts: list[int]
    took_ms: float
    degraded: dict[str, Any]
    problem: str | None


class ChatMessageDict(TypedDict):
    """A message for a language model."""

    role: Literal["system", "user", "assistant"]
    content: str


class ContextResponseDict(QueryResponseDict):
    """What an agent should read before it does a task."""

    kind: TaskKind
    text: str
    tokens: int
    max_tokens: int
    tokenizer: str
    template: str
    excerpts: list[ContextExcerptDict]
    omitted: list[OmittedChunkDict]
    searches: list[SearchRunDict]
    sections: NotRequired[list[ContextSectionDict]]
    messages: NotRequired[list[ChatMessageDict]]
    dropped_turns: NotRequired[int]


class GraphNodeDict(TypedDict):
    """A definition, a file, or a name outside of everything that is indexed."""

    id: str
    name: str
    kind: str
    full_name: str
    source: str | None
    path: str | None
    lines: str | None
    language: str | None
    signature: str
    url: str | None
    role: NodeRole
    distance: int
    score: float | None
    file_state: NotRequired[FileState]


class GraphEdgeDict(TypedDict):
    """A connection of two nodes: all places in a file where one uses the other in one way."""

    kind: str
    source: str
    target: str
    path: str
    lines: list[int]
    confidence: float
    resolution: str
    file_state: NotRequired[FileState]


class GraphResponseDict(QueryResponseDict):
    """Nodes and edges; only candidates if the target is ambiguous."""

    operation: str
    target: str
    nodes: list[GraphNodeDict]
    edges: list[GraphEdgeDict]
    candidates: list[GraphNodeDict]
    timings_ms: dict[str, float]


class StatusResponseDict(TypedDict):
    """Rows of the live release that the caller may see, without archived ones."""

    release: int
    released_at: str
    rows: int
    by_source: dict[str, int]
    by_type: dict[str, int]
    by_space: dict[str, int]
    unembedded_rows: dict[str, int]
    unindexed_rows: dict[str, int]
    restores: int | None
    pinned_since: str | None
    pin: str | None


class ModelCallResponseDict(TypedDict):
    """What was recorded of a reported model call."""

    cost: float
    budget: str | None


class PushResponseDict(TypedDict):
    """A document that was pushed or deleted; it is kept, and seen after the next refresh."""

    source: str
    id: str
    refresh_id: str


# [[[end]]]
