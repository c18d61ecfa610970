"""What is said of documents, of an agent's task, and of what there is. Nothing here knows of HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from knowledge_pipeline.contract.types import (
    MAX_BUDGET_TOKENS,
    MAX_EXAMPLE_CHARS,
    MAX_TASK_CHARS,
    Judgement,
    TaskKind,
)
from knowledge_pipeline.serve.http.models import (
    DocumentRelation,
    Name,
    QueryResponse,
    RelatedDocumentResponse,
    RequestModel,
    ResponseModel,
    ResultCitation,
    SearchFilters,
)


class ContextRequest(RequestModel):
    """What an agent is about to do."""

    task: str = Field(
        min_length=1,
        max_length=MAX_TASK_CHARS,
        description="What is to be done.",
        examples=["add retries to the payment client"],
    )
    kind: TaskKind = "code_generation"
    file: Name | None = Field(default=None, description="That the task is about: a path within its source.")
    source: Name | None = Field(default=None, description="The file's, where several have such a path.")
    snippet: str | None = Field(default=None, max_length=MAX_EXAMPLE_CHARS, description="Code or prose.")
    filters: SearchFilters = SearchFilters()
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_BUDGET_TOKENS, description="Of the whole text.")
    template: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"^\w[\w.-]*$",
        description="Its name; by default that of the task's kind.",
    )


class ContextExcerpt(ResponseModel):
    """A passage of a context, cited as `[number]`."""

    number: int
    text: str
    citation: ResultCitation
    score: float
    tokens: int
    found_by: list[str]
    symbols: list[str]
    metadata: dict[str, Any]
    chunks: list[str]
    missing_lines: int
    also: list[ResultCitation]


class OmittedChunkResponse(ResponseModel):
    """A passage that did not fit."""

    id: str
    citation: ResultCitation
    score: float
    tokens: int


class ContextResponse(QueryResponse):
    """What an agent should read before it does a task."""

    task: TaskKind
    text: str = Field(description="The prompt.")
    tokens: int
    max_tokens: int
    tokenizer: str
    template: str
    passages: list[ContextExcerpt]
    left_out: list[OmittedChunkResponse]
    searches: list[dict[str, Any]] = Field(description="Which searches were run, and what each gave.")


class RelationsRequest(RequestModel):
    """A document whose relations are wanted."""

    target: str = Field(
        min_length=1,
        max_length=4_000,
        description="A ticket's key, `owner/name#12`, a commit, an address, a path, or an id.",
        examples=["PAY-12"],
    )


class UnresolvedMention(ResponseModel):
    """Something that is mentioned and is not here, or not to be seen."""

    kind: str
    target: str
    name: str


class RelationsResponse(QueryResponse):
    """What documents have to do with others."""

    documents: list[RelatedDocumentResponse] = Field(description="That the target means.")
    relations: list[DocumentRelation]
    elsewhere: list[UnresolvedMention]
    cut: bool = Field(description="More mention it than were read.")


class ChunkResponse(ResponseModel):
    """One chunk of a document."""

    id: str
    lines: str
    section: str | None


class DocumentResponse(QueryResponse):
    """A document, put together from its chunks."""

    id: str = Field(description="`source:uri`.")
    source: str
    uri: str
    path: str
    title: str | None
    url: str | None
    text: str
    complete: bool = Field(description="false: something lies between chunks that is not indexed.")
    metadata: dict[str, Any] = Field(description="What its chunks have in common.")
    chunks: list[ChunkResponse]
    related: list[DocumentRelation]


class CollectionInfo(ResponseModel):
    """One source, as far as the caller may see it."""

    id: str
    type: str
    chunks: int
    refreshed_at: datetime | None = Field(description="When it was last read; null: not known.")


class CollectionsResponse(ResponseModel):
    """What there is to be searched."""

    release: int
    released_at: datetime
    collections: list[CollectionInfo]


class StatusResponse(ResponseModel):
    """What is live, as far as the caller may see it."""

    release: int
    created_at: datetime
    rows: int
    by_source: dict[str, int]
    by_type: dict[str, int]
    by_space: dict[str, int]
    unindexed: dict[str, int] = Field(description="Rows that are found by scanning; for operators.")


class QueryStats(ResponseModel):
    """Questions of the time that was asked for."""

    count: int
    without_results: int
    degraded: int
    cached: int
    by_type: dict[str, int]
    by_door: dict[str, int]
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class StatsResponse(ResponseModel):
    """How much there is, and how it is used."""

    release: int
    chunks: int
    by_type: dict[str, int]
    hours: int
    questions: QueryStats | None = Field(
        description="Of the caller's tenant, or all for an operator; null: nobody's, or not logged."
    )


class FeedbackRequest(RequestModel):
    """What a reader thought of a result."""

    query_id: str = Field(min_length=1, max_length=500, description="Of an answer.")
    result_id: str = Field(min_length=1, max_length=500, description="Of one of its results.")
    judgement: Judgement


ComponentState = Literal["ok", "ill", "off", "unknown"]


class ComponentHealthResponse(ResponseModel):
    """One part of the service."""

    status: ComponentState = Field(description="off: not configured; unknown: cannot be told.")
    detail: str | None = Field(description="What it means, where something is wrong.")


class HealthResponse(ResponseModel):
    """How the service is."""

    status: Literal["ok", "degraded", "ill"] = Field(
        description="degraded: answers lack something; ill: there are none."
    )
    components: dict[str, ComponentHealthResponse]


class ReadyResponse(ResponseModel):
    """That questions are answered."""

    status: Literal["ready"]
