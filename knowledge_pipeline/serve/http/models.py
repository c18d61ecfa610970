"""What searches say and get, for checking and for OpenAPI. Nothing here knows of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.types import (
    MAX_EXAMPLE_CHARS,
    MAX_QUERY_CHARS,
    MAX_RESULTS,
    MAX_VALUES,
    SearchType,
    SourceType,
)

MAX_NAME_CHARS = 1_000

Query = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="A question, keywords, or a name; `lang:go path:src/ since:30d` narrow it.",
        examples=["how are sessions signed"],
    ),
]
Limit = Annotated[int | None, Field(ge=1, le=MAX_RESULTS, description="How many results at most.")]
Explain = Annotated[bool, Field(description="Say where each score comes from.")]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
Names = Annotated[list[Name], Field(max_length=MAX_VALUES)]


class RequestModel(BaseModel):
    """Base of all bodies: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid")


class SearchFilters(RequestModel):
    """What results are narrowed to: all conditions must hold, any value of one will do."""

    languages: Names = Field(default=[], description='"python", or a file name\'s end: "py".')
    extensions: Names = Field(default=[], description='"py", with or without the dot.')
    sources: Names = Field(default=[], description="Ids of sources.")
    source_types: Sequence[SourceType] = Field(default=[], max_length=MAX_VALUES)
    repos: Names = Field(default=[], description='"psf/requests", or its last part: "requests".')
    branches: Names = []
    paths: Names = Field(default=[], description="Globs; without a wildcard all below the path, too.")
    authors: Names = Field(default=[], description="Whole words of a name or an address.")
    tags: Names = []
    labels: Names = []
    projects: Names = Field(default=[], description="Of tickets, by key.")
    statuses: Names = Field(default=[], description="Of tickets and pull requests.")
    spaces: Names = Field(default=[], description="Of a wiki, by key.")
    since: datetime | None = Field(default=None, description="Last modified then or later.")
    until: datetime | None = Field(default=None, description="Last modified before then.")
    include_archived: bool = Field(default=False, description="Also what its source no longer has.")

    def to_filters(self) -> Filters:
        """As the knowledge base takes them. Raises `QuestionRefused` for too many values."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        values: dict[str, Any] = {n: tuple(v) if isinstance(v, list | tuple) else v for n, v in given.items()}
        return Filters(**values)


class QueryRequest(RequestModel):
    """A question to the live release, or to a part of it."""

    query: Query
    filters: SearchFilters = SearchFilters()
    limit: Limit = None
    explain: Explain = False


TicketType = Literal["github_issues", "github_pr", "jira"]
DocumentType = Literal["markdown", "openapi", "confluence", "files", "archive"]


class TicketFilters(SearchFilters):
    """What tickets are narrowed to."""

    source_types: Sequence[TicketType] = Field(default=get_args(TicketType), min_length=1)


class DocumentFilters(SearchFilters):
    """What documents are narrowed to."""

    source_types: Sequence[DocumentType] = Field(default=get_args(DocumentType), min_length=1)


class TicketQueryRequest(QueryRequest):
    """A question to issues, tickets and pull requests."""

    filters: TicketFilters = TicketFilters()  # pyright: ignore[reportIncompatibleVariableOverride]


class DocumentQueryRequest(QueryRequest):
    """A question to documents."""

    filters: DocumentFilters = DocumentFilters()  # pyright: ignore[reportIncompatibleVariableOverride]


class SearchRequestBody(QueryRequest):
    """A question, and how it is to be searched for."""

    type: SearchType = Field(
        default="semantic",
        description="semantic: everything; code: source code; similar: what is like a piece of text; "
        "historical: commits and pull requests.",
    )


class SimilarRequest(RequestModel):
    """What results are to be like: a text, or an indexed file, whose own passages are left out."""

    text: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_EXAMPLE_CHARS,
        description="A piece of code or prose. With `path` as well, the path says where it is from.",
    )
    path: Name | None = Field(default=None, description="A file within its source.", examples=["src/auth.py"])
    source: Name | None = Field(default=None, description="The file's, where several have such a path.")
    filters: SearchFilters = SearchFilters()
    limit: Limit = None
    explain: Explain = False

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["text"], "properties": {"text": {"type": "string"}}},
                {"required": ["path"], "properties": {"path": {"type": "string"}}},
            ]
        }
    )

    @model_validator(mode="after")
    def _require_text_or_path(self) -> SimilarRequest:
        if self.text is None and self.path is None:
            raise ValueError("nothing to be similar to: give a text or a path")
        return self


class ResponseModel(BaseModel):
    """Base of answers; what is not named here may be added."""

    model_config = ConfigDict(extra="allow")


class QueryResponse(ResponseModel):
    """What every answer says of itself."""

    query_id: str = Field(description="For `feedback`, and for the log.")
    took_ms: float
    release: int = Field(description="The release that was asked.")
    degraded: list[str] = Field(
        description="Steps that the answer had to do without: `vector`, `rerank`, `graph`, …"
    )


class ResultCitation(ResponseModel):
    """Where a passage is from."""

    source: str
    path: str
    lines: str = Field(examples=["L10-L24"])
    title: str | None
    url: str | None


class RelatedDocumentResponse(ResponseModel):
    """A document that another one is related to."""

    source: str
    source_type: str
    uri: str
    path: str
    title: str | None
    url: str | None
    status: str | None
    last_modified: datetime | None


class DocumentRelation(ResponseModel):
    """What one document says of another."""

    kind: str = Field(examples=["closes"])
    direction: str = Field(description="to: this document says it of the other; from: the other of this.")
    target: str = Field(description="What the one that says it has written.")
    document: RelatedDocumentResponse = Field(description="The other one.")


class CodeNeighbourResponse(ResponseModel):
    """Code that a result has to do with."""

    name: str
    source: str | None = Field(description="null: it is not indexed.")
    path: str | None
    line: int | None
    signature: str


class CodeNeighboursResponse(ResponseModel):
    """What a piece of code has to do with: a few of each kind."""

    calls: list[CodeNeighbourResponse]
    called_by: list[CodeNeighbourResponse]
    imports: list[CodeNeighbourResponse]
    extends: list[CodeNeighbourResponse]
    implemented_by: list[CodeNeighbourResponse]
    more: dict[str, int] = Field(description="How many of each kind are not told.")


class SearchResult(ResponseModel):
    """One retrieved passage."""

    id: str
    content: str
    score: float = Field(ge=0, le=1, description="Comparable within one answer.")
    metadata: dict[str, Any]
    citation: ResultCitation
    related: list[DocumentRelation] = []
    graph: CodeNeighboursResponse | None = Field(default=None, description="Of the best code.")
    explain: dict[str, Any] | None = Field(default=None, description="Ranks and scores, where asked for.")


class SearchResponse(QueryResponse):
    """What a question gets, the best result first."""

    results: list[SearchResult]
    timings_ms: dict[str, float] = Field(description="By step.")
    explain: dict[str, Any] | None = Field(default=None, description="How the question was understood.")
