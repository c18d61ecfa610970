"""What requests say and answers hold, for checking and for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from knowledge_pipeline.query.filters import Filters
from knowledge_pipeline.query.profiles import MAX_RESULTS, SearchType
from knowledge_pipeline.query.understand import MAX_CHARS

Query = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_CHARS,
        description="A question, keywords, or a name; `lang:go path:src/ since:30d` narrow it.",
        examples=["how are sessions signed"],
    ),
]
Limit = Annotated[int | None, Field(ge=1, le=MAX_RESULTS, description="How many results.")]


class Asked(BaseModel):
    """Base of all bodies: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid")


class Search(Asked):
    """A question to the live release."""

    query: Query
    type: SearchType = "semantic"
    filters: Filters = Filters()
    limit: Limit = None
    explain: bool = Field(default=False, description="Say where each score comes from.")


class Told(BaseModel):
    """Base of answers; what is not named here may be added."""

    model_config = ConfigDict(extra="allow")


class CitationTold(Told):
    """Where a passage is from."""

    source: str
    path: str
    lines: str = Field(examples=["L10-L24"])
    title: str | None
    url: str | None


class ResultTold(Told):
    """One retrieved passage."""

    id: str
    content: str
    score: float = Field(ge=0, le=1, description="Comparable within one answer.")
    metadata: dict[str, Any]
    citation: CitationTold
    related: list[dict[str, Any]] = []


class AnswerTold(Told):
    """What a question gets, the best result first."""

    query_id: str
    took_ms: float
    release: int
    degraded: list[str] = Field(description="Steps that the answer had to do without: `vector`, `rerank`, …")
    results: list[ResultTold]
    timings_ms: dict[str, float]
