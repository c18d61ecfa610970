"""Responses of a server: the dictionaries that `contract.responses` become as JSON, typed for editors.

A newer server may send more.
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
    """The indexed commit; null: it has none, or it is not known."""
    as_of: str | None
    """When what is indexed was last known to be what its origin had; null: not known."""
    looked_at: str | None
    """When its origin was last looked at since it was read."""
    origin_revision: NotRequired[str]
    """The commit that its origin had then."""
    commits_behind: int | None
    """Commits that are not indexed; null: some, not known how many."""
    behind_since: NotRequired[str]
    """When the first of them was seen."""
    minutes_behind: NotRequired[int]
    """The same, in minutes before this answer."""
    permissions_at: NotRequired[str]
    """When its own permissions, which decide who sees what, were last read in full."""
    embedded_share: float | None
    """Share of its chunks with a vector; only for callers who may see the whole source."""
    failing_since: NotRequired[str]
    """Since when every refresh of it failed."""
    problem: NotRequired[str]
    """Why the last one failed; only for callers who may see the whole source."""
    skipped: NotRequired[dict[str, int]]
    """Documents that give no chunk, by the reason; only for callers who may see the whole source."""
    too_old: bool
    """Whether it is not known to be as new as `max_age` asks."""


class QueryResponseDict(TypedDict):
    """What every response of the knowledge base has."""

    query_id: str
    """Names the response in `feedback` and in the log."""
    took_ms: float
    release: int
    """The release that was searched."""
    degraded: list[str]
    """Steps that had to be skipped: `vector`, `embedding`, `rerank`, `graph`, …"""
    freshness: list[SourceFreshnessDict]
    """How current its sources are; if nothing was found, those that may be why."""
    notes: list[str]
    """Sentences: how the query was read, what was left out, what would find more, and which sources are
    behind, failing or too old."""
    problem: NotRequired[str]
    """Why nothing could be answered, for a client whose errors give empty responses."""


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
    """Whether its source no longer has it."""


class RelationDict(TypedDict):
    """What one document says of another."""

    kind: str
    direction: Literal["to", "from"]
    """to: this document says it of the other; from: the other says it of this."""
    target: str
    """The mention, as it is written."""
    document: RelatedDocumentDict
    """The other document."""


class CodeNeighbourDict(TypedDict):
    """Code that a result is connected to."""

    name: str
    source: str | None
    """null: it is not indexed."""
    path: str | None
    line: int | None
    signature: str
    edge_line: int | None
    """Line of the use, in the file that has it."""
    confidence: float | None
    """How sure it is that this is meant."""
    resolution: str
    """How it was found to be meant."""
    file_state: NotRequired[FileState]
    """The lines in the file now, where the source is a local folder: same are those of now."""


class CodeNeighboursDict(TypedDict):
    """What a result of code is connected to: a few neighbours of each kind."""

    calls: list[CodeNeighbourDict]
    called_by: list[CodeNeighbourDict]
    imports: list[CodeNeighbourDict]
    extends: list[CodeNeighbourDict]
    implemented_by: list[CodeNeighbourDict]
    omitted: dict[str, int]
    """How many more neighbours of each kind there are."""


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
    """Of the commit; secrets and personal data redacted."""
    pull_requests: list[RelatedDocumentDict]
    """Indexed pull or merge requests of the commit."""


class MatchedLineDict(TypedDict):
    """A line that an exact search matched."""

    line: int
    """Counted from 1, as `citation.lines`."""
    text: str


class SearchResultDict(TypedDict):
    """One result: a chunk of a document."""

    id: str
    content: str
    score: float
    """Comparable within one response."""
    metadata: dict[str, Any]
    citation: CitationDict
    related: list[RelationDict]
    """The most important relations of the document."""
    graph: NotRequired[CodeNeighboursDict]
    """Of the best results of code."""
    explain: NotRequired[ScoreExplanationDict]
    """Ranks and scores, on request."""
    file_state: NotRequired[FileState]
    """The file now, compared with the index, where the source is a local folder."""
    blame: NotRequired[list[BlamedLinesDict]]
    """Who last changed its lines, on request."""
    matches: NotRequired[list[MatchedLineDict]]
    """The lines that match, of the modes exact and regex."""


class SearchResponseDict(QueryResponseDict):
    """The results of a search, best first."""

    results: list[SearchResultDict]
    timings_ms: dict[str, float]
    """By step."""
    cached: bool
    embedded_share: float
    """Share of the release's chunks that have a vector; words alone find the others."""
    confidence: NotRequired[float]
    """How likely a result answers the question, where as many questions have an answer as have none. Absent
    where it was not compared by its meaning."""
    explain: NotRequired[dict[str, Any]]
    """How the query was understood, on request."""


class TracedRefreshDict(TypedDict):
    """One stage of the refresh that wrote a result."""

    stage: str
    done_at: str
    seconds: float
    changes: int
    """Keys that it added, changed or removed."""
    code: str | None
    """Versions of the package and of the stage's code."""
    settings: dict[str, str]
    """Digests of the settings that it used: source, chunking, model, access."""
    run: str | None
    """The Dagster run; null: by the command line."""
    run_url: str | None
    """Its page, if KNOWLEDGE_DAGSTER_URL is set."""


class TraceResponseDict(QueryResponseDict):
    """What made a result, as far as the store still knows it."""

    id: str
    citation: CitationDict
    revision: str | None
    """Of the document, as its source has it."""
    document_hash: str | None
    chunk_fingerprint: str | None
    """Of the document, the chunker and the sanitizer that made the chunk."""
    text_key: str | None
    """Of the embedded text; the key of its vector."""
    indexed_at: str
    updated_at: str
    first_release: int | None
    """The first of the kept releases that has it as it is."""
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
    """The target; several documents if a path is in several sources."""
    relations: list[RelationDict]
    unresolved_mentions: list[MentionDict]
    """Mentions of documents that are not indexed, or not visible to the caller."""
    is_truncated: bool
    """More documents mention it than were read."""


class ContextExcerptDict(TypedDict):
    """An excerpt in a context, to be cited as `[number]`."""

    number: int
    text: NotRequired[str]
    """Over HTTP on request: the prompt has it."""
    citation: CitationDict
    score: float
    tokens: int
    found_by: list[str]
    symbols: list[str]
    metadata: dict[str, Any]
    """Over HTTP on request."""
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
    """The text, or the code, that was searched for."""
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
    """The prompt; of a chat, its system message."""
    tokens: int
    max_tokens: int
    tokenizer: str
    template: str
    excerpts: list[ContextExcerptDict]
    omitted: list[OmittedChunkDict]
    """What was found and did not fit, best first."""
    searches: list[SearchRunDict]
    """Which searches were run, and what each found."""
    sections: NotRequired[list[ContextSectionDict]]
    """What each configured section found."""
    messages: NotRequired[list[ChatMessageDict]]
    """Of a chat: the system message, the history that fits, and the question."""
    dropped_turns: NotRequired[int]
    """Of a chat: how many of the oldest messages of the history did not fit."""


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
    """target, member (of the target), used_by, or uses."""
    distance: int
    """Steps from the target."""
    score: float | None
    file_state: NotRequired[FileState]
    """The lines in the file now, where the source is a local folder: same are those of now."""


class GraphEdgeDict(TypedDict):
    """A connection of two nodes: all places in a file where one uses the other in one way."""

    kind: str
    source: str
    """Id of a node."""
    target: str
    """Id of a node."""
    path: str
    lines: list[int]
    confidence: float
    resolution: str
    """How the target was found."""
    file_state: NotRequired[FileState]
    """The lines in the file now, where the source is a local folder: same are those of now."""


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
    """By source, rows that have no vector yet: words alone find them."""
    unindexed_rows: dict[str, int]
    """By space, rows that are found by scanning; for operators."""
    restores: int | None
    """The release whose content a rollback made live again."""
    pinned_since: str | None
    """Since when refreshes publish nothing, because a rollback is pinned."""
    pin: str | None
    """The same, in a sentence."""


class ModelCallResponseDict(TypedDict):
    """What was recorded of a reported model call."""

    cost: float
    budget: str | None
    """The caller's budget that is nearly or wholly spent, in a sentence."""


class PushResponseDict(TypedDict):
    """A document that was pushed or deleted; it is kept, and seen after the next refresh."""

    source: str
    id: str
    refresh_id: str
    """The refresh that takes it in: see `sync/status/{id}`."""


# [[[end]]]
