"""A whole document, put together from the chunks that the caller may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from knowledge_pipeline.contract.responses import Relation, SearchResponse, SearchResult, to_json
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.excerpts import ChunkPart, build_excerpts
from knowledge_pipeline.query.knowledge_base import KnowledgeBase

_CHUNK_SEPARATOR = "\n\n"  # where something lies between two chunks that is not indexed


@dataclass(frozen=True, slots=True)
class WholeDocument:
    """One document of the live release."""

    query_id: str
    took_ms: float
    release: int
    degraded: tuple[str, ...]
    id: str  # "source:uri"
    source: str
    uri: str
    path: str
    title: str | None
    url: str | None
    text: str
    complete: bool  # nothing lies between its chunks that is not indexed
    metadata: Mapping[str, Any]  # what its chunks have in common
    chunks: tuple[Mapping[str, Any], ...]
    related: tuple[Relation, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        return to_json(asdict(self))


async def load_document(base: KnowledgeBase, id: str, access: Access) -> WholeDocument:
    """The document of an id, or the one that a chunk is of.

    Raises:
        NotFound: there is none that the caller may see.
    """
    answer = await base.aget(id, access=access)
    first = answer.results[0]
    if first.id == id:
        answer = await base.aget(_document_id_of(first), access=access)
    return _assemble_document(answer)


def _document_id_of(result: SearchResult) -> str:
    return f"{result.citation.source}:{result.span.uri}"


def _assemble_document(answer: SearchResponse) -> WholeDocument:
    results = answer.results
    first, parts = results[0], build_excerpts(map(ChunkPart.from_result, results))
    link = first.citation.url
    return WholeDocument(
        query_id=answer.query_id,
        took_ms=answer.took_ms,
        release=answer.release,
        degraded=answer.degraded,
        id=_document_id_of(first),
        source=first.citation.source,
        uri=first.span.uri,
        path=first.citation.path,
        title=first.citation.title,
        url=link.removesuffix(f"#{first.citation.lines}") if link else None,
        text=_CHUNK_SEPARATOR.join(part.text for part in parts),
        complete=len(parts) == 1,
        metadata=_common_metadata(results),
        chunks=tuple(_to_chunk_dict(result) for result in results),
        related=tuple(dict.fromkeys(relation for result in results for relation in result.related)),
    )


def _common_metadata(results: Sequence[SearchResult]) -> dict[str, Any]:
    first, *others = (result.metadata for result in results)
    return {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}


def _to_chunk_dict(result: SearchResult) -> dict[str, Any]:
    section = result.metadata.get("section") or result.metadata.get("symbol")
    return {"id": result.id, "lines": result.citation.lines, "section": section}
