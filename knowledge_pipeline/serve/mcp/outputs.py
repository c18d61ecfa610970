"""Responses that only tools have: the document of each result, and pages of a document."""

from __future__ import annotations

from dataclasses import dataclass, field

from knowledge_pipeline.contract.responses.search import SearchResponse, SearchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearchResult(SearchResult):
    """One result, and the document that it is from."""

    document_id: str = field(metadata={"description": "`source:uri`: `get_document` returns all of it."})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearchResponse(SearchResponse):
    """The results of a search, best first."""

    results: tuple[ToolSearchResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPageResponse(ToolSearchResponse):
    """Chunks of a document, in order."""

    offset: int = field(metadata={"description": "How many chunks were skipped."})
    total: int = field(metadata={"description": "How many chunks there are."})
