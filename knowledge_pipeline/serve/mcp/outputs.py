"""What the tools answer beside what every door does: where a whole document is, and its pages."""

from __future__ import annotations

from pydantic import Field

from knowledge_pipeline.serve.http.models import SearchResponse, SearchResult


class ToolSearchResult(SearchResult):
    """One retrieved passage, and the document that it is from."""

    document: str = Field(description="`source:uri`: `get_document` gives all of it.")


class ToolSearchResponse(SearchResponse):
    """What a question gets, the best result first."""

    results: list[ToolSearchResult]


class DocumentPageResponse(ToolSearchResponse):
    """Passages of a document, in their order."""

    offset: int = Field(description="How many passages were skipped.")
    total: int = Field(description="How many passages there are.")
