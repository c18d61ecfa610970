"""Sources of knowledge.yaml, as an operator manages them over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field

from knowledge_pipeline.contract.responses.base import JsonResponse
from knowledge_pipeline.contract.responses.refreshes import Refresh


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
