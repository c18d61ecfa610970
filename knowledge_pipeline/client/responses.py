"""Responses of a server: the dictionaries that `contract.responses` become as JSON, typed for editors.

A test compares their keys with the contract. A newer server may send more.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from knowledge_pipeline.contract.types import (
    EventType,
    NodeRole,
    SearchName,
    SearchType,
    SectionType,
    TaskKind,
)


class CitationDict(TypedDict):
    """See `Citation`."""

    source: str
    path: str
    lines: str  # "L10-L24", counted from 1; "L10" for one line
    title: str | None
    url: str | None


class RelatedDocumentDict(TypedDict):
    """See `RelatedDocument`."""

    source: str
    source_type: str
    uri: str
    path: str
    title: str | None
    url: str | None
    status: str | None
    last_modified: str | None


class RelationDict(TypedDict):
    """See `Relation`."""

    kind: str
    direction: str  # "to", "from"
    target: str
    document: RelatedDocumentDict


class BlamedLinesDict(TypedDict):
    """See `BlamedLines`."""

    lines: str
    commit: str
    author: str | None
    committed: str | None
    message: str
    pull_requests: list[RelatedDocumentDict]


class SearchResultDict(TypedDict):
    """See `SearchResult`."""

    id: str
    content: str
    score: float  # in [0, 1], comparable within one response
    metadata: dict[str, Any]
    citation: CitationDict
    related: list[RelationDict]
    graph: NotRequired[dict[str, Any]]  # see `CodeNeighbours`
    explain: NotRequired[dict[str, Any]]  # see `ScoreExplanation`
    file_state: NotRequired[str]  # "same", "changed" or "missing", where its source is a local folder
    blame: NotRequired[list[BlamedLinesDict]]  # on request, where the server has the repository


class TracedRefreshDict(TypedDict):
    """See `TracedRefresh`."""

    stage: str
    done_at: str
    seconds: float
    changes: int
    code: str | None
    settings: dict[str, str]
    run: str | None
    run_url: str | None


class QueryResponseDict(TypedDict):
    """See `QueryResponse`."""

    query_id: str  # for `feedback`
    took_ms: float
    release: int
    degraded: list[str]  # skipped steps: "vector", "rerank", …
    problem: NotRequired[str]  # why nothing could be answered, for a client whose errors give empty responses


class TraceResponseDict(QueryResponseDict):
    """See `TraceResponse`."""

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


class SearchResponseDict(QueryResponseDict):
    """See `SearchResponse`."""

    results: list[SearchResultDict]
    timings_ms: dict[str, float]
    cached: bool
    embedded_share: float  # of the release's chunks, in [0, 1]
    confidence: NotRequired[float]  # that a result answers, in [0, 1]
    explain: NotRequired[dict[str, Any]]


class GraphNodeDict(TypedDict):
    """See `GraphNode`."""

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


class GraphEdgeDict(TypedDict):
    """See `GraphEdge`."""

    kind: str
    source: str  # id of a node
    target: str
    path: str
    lines: list[int]
    confidence: float
    resolution: str  # "by import or scope"


class GraphResponseDict(QueryResponseDict):
    """See `GraphResponse`."""

    operation: str
    target: str
    nodes: list[GraphNodeDict]
    edges: list[GraphEdgeDict]
    candidates: list[GraphNodeDict]
    notes: list[str]
    timings_ms: dict[str, float]


class ContextExcerptDict(TypedDict):
    """See `ContextExcerpt`."""

    number: int
    text: str
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
    file_state: NotRequired[str]  # as of a result


class OmittedChunkDict(TypedDict):
    """See `OmittedChunk`."""

    id: str
    citation: CitationDict
    score: float
    tokens: int


class SearchRunDict(TypedDict):
    """See `SearchRun`."""

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
    """See `ContextSection`."""

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
    """See `ChatMessage`."""

    role: Literal["system", "user", "assistant"]
    content: str


class ContextResponseDict(QueryResponseDict):
    """See `ContextResponse`."""

    kind: TaskKind
    text: str  # the prompt
    tokens: int
    max_tokens: int
    tokenizer: str
    template: str
    excerpts: list[ContextExcerptDict]
    omitted: list[OmittedChunkDict]
    searches: list[SearchRunDict]
    sections: NotRequired[list[ContextSectionDict]]  # where some are configured
    messages: NotRequired[list[ChatMessageDict]]  # of a chat
    dropped_turns: NotRequired[int]  # of a chat


class MentionDict(TypedDict):
    """See `Mention`."""

    kind: str
    target: str
    name: str


class RelationsResponseDict(QueryResponseDict):
    """See `RelationsResponse`."""

    documents: list[RelatedDocumentDict]
    relations: list[RelationDict]
    unresolved_mentions: list[MentionDict]
    is_truncated: bool


class StatusResponseDict(TypedDict):
    """See `StatusResponse`."""

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


class EventDict(TypedDict):
    """Something that happened in a store."""

    position: str  # `after` of the next call; grows with every event
    id: str  # the same where a webhook delivers the event
    type: EventType
    timestamp: str  # ISO 8601
    data: dict[str, Any]


class ModelCallResponseDict(TypedDict):
    """See `ModelCallResponse`."""

    cost: float
    budget: str | None
