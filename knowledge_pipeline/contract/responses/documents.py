"""A document as a whole, and the documents that it is related to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from knowledge_pipeline.contract.responses.base import QueryResponse
from knowledge_pipeline.records import Mention, Metadata


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
