"""What a server answers: plain dictionaries, typed for editors. A newer server may tell more."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class CitationDict(TypedDict):
    """Where a passage is from."""

    source: str
    path: str
    lines: str  # "L10-L24", counted from 1; "L10" for one line
    title: str | None
    url: str | None


class SearchResultDict(TypedDict):
    """One retrieved passage."""

    id: str
    content: str
    score: float  # in [0, 1], comparable within one answer
    metadata: dict[str, Any]
    citation: CitationDict
    related: list[dict[str, Any]]
    graph: NotRequired[dict[str, Any]]  # of the best code: what it calls, what calls it, …
    explain: NotRequired[dict[str, Any]]


class QueryResponseDict(TypedDict):
    """What every answer says of itself."""

    query_id: str  # for `feedback`
    took_ms: float
    release: int
    degraded: list[str]  # steps that the answer had to do without: "vector", "rerank", …


class SearchResponseDict(QueryResponseDict):
    """What a question gets, the best result first."""

    results: list[SearchResultDict]
    timings_ms: dict[str, float]
    explain: NotRequired[dict[str, Any]]


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
    side: str  # "target", "used_by", "uses", "member"
    distance: int
    score: float | None


class GraphEdgeDict(TypedDict):
    """One node has to do with another."""

    kind: str
    source: str  # id of a node
    target: str
    path: str
    lines: list[int]
    confidence: float


class GraphResponseDict(QueryResponseDict):
    """Nodes and links; several candidates and nothing else where the target is ambiguous."""

    question: str
    target: str
    nodes: list[GraphNodeDict]
    links: list[GraphEdgeDict]
    candidates: list[GraphNodeDict]
    notes: list[str]


class ContextResponseDict(QueryResponseDict):
    """What an agent should read before it does a task."""

    task: str
    text: str  # the prompt
    tokens: int
    max_tokens: int
    passages: list[dict[str, Any]]
    left_out: list[dict[str, Any]]
    searches: list[dict[str, Any]]


class RelationsResponseDict(QueryResponseDict):
    """What a document has to do with others."""

    documents: list[dict[str, Any]]
    relations: list[dict[str, Any]]
    elsewhere: list[dict[str, Any]]
    cut: bool


class StatusResponseDict(TypedDict):
    """What is live, as far as the caller may see it."""

    release: int
    created_at: str
    rows: int
    by_source: dict[str, int]
    by_type: dict[str, int]
