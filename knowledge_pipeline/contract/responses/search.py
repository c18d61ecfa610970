"""What a search finds: results, where they are from, and why they were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from knowledge_pipeline.contract.responses.base import HIDDEN, QueryResponse, Step
from knowledge_pipeline.contract.responses.documents import RelatedDocument, Relation
from knowledge_pipeline.contract.responses.graph import CodeNeighbours
from knowledge_pipeline.contract.types import FileState
from knowledge_pipeline.records import Metadata


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
class ScoreExplanation:
    """Where a score comes from. Ranks count from 1; None: that search did not find the result.

    `boosts` are what the ranker's base and each feature add to the log-odds of the score: they sum to them,
    unless the result was reranked or boosted by its age afterwards.
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
    span: ResultSpan = field(metadata=HIDDEN)
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
    confidence: float | None = field(
        default=None,
        metadata={
            "description": "How likely a result answers the question, where as many questions have an answer "
            "as have none. Absent where it was not compared by its meaning.",
            **{"ge": 0, "le": 1, "omit_none": True},
        },
    )
    steps: tuple[Step, ...] = field(default=(), metadata=HIDDEN)  # for traces
    explain: Mapping[str, Any] | None = field(
        default=None, metadata={"description": "How the query was understood, on request.", "omit_none": True}
    )
