"""A whole document, assembled from the chunks that the caller may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from knowledge_pipeline.context.select import build_excerpts
from knowledge_pipeline.contract import responses
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access

BuiltT = TypeVar("BuiltT")

_GAP = "\n\n"  # in place of text that is not indexed


async def read_document(
    base: AsyncKnowledgeBase,
    id: str,
    access: Access,
    build: Callable[[responses.SearchResponse], BuiltT],
    max_age: str | None = None,
) -> tuple[responses.SearchResponse, BuiltT]:
    """What `build` makes of the document with an id, or of the one that holds the chunk with that id.

    Beside it, the response with the document's first chunk alone; see `AsyncKnowledgeBase.build_document`.
    """
    if ":" not in id:  # a chunk's
        chunk = await base.get(id, access=access.unlogged)
        id = document_id_of(chunk.results[0])
    return await base.build_document(id, build, max_age=max_age, access=access)


async def load_document(
    base: AsyncKnowledgeBase, id: str, access: Access, max_age: str | None = None
) -> responses.DocumentResponse:
    """The document itself; see `read_document`."""
    answer, document = await read_document(base, id, access, _build_document, max_age)
    return replace(document, **answer.list_shared())


def _build_document(answer: responses.SearchResponse) -> responses.DocumentResponse:
    results = answer.results
    first, excerpts = results[0], build_excerpts(results)
    shared = {
        name: value
        for name, value in first.metadata.items()
        if all(result.metadata.get(name) == value for result in results)
    }
    sections = (it.metadata.get("sections") or [it.metadata.get("section")] for it in results)
    if headers := [name for name in dict.fromkeys(chain.from_iterable(sections)) if name]:
        shared["headers"] = headers
    return responses.DocumentResponse(
        **answer.list_shared(),
        id=document_id_of(first),
        source=first.citation.source,
        uri=first.span.uri,
        path=first.citation.path,
        title=first.citation.title,
        url=document_url_of(first.citation),
        text=_GAP.join(excerpt.text for excerpt in excerpts),
        complete=len(excerpts) == 1,
        metadata=shared,
        chunks=tuple(map(_to_chunk, results)),
        related=tuple(dict.fromkeys(relation for result in results for relation in result.related)),
    )


def _to_chunk(result: responses.SearchResult) -> responses.DocumentChunk:
    part = result.metadata.get("section") or result.metadata.get("symbol")
    return responses.DocumentChunk(result.id, result.citation.lines, part)


def document_id_of(result: responses.SearchResult) -> str:
    """`source:uri` of the document that a result is from."""
    return f"{result.citation.source}:{result.span.uri}"


def document_url_of(citation: responses.Citation) -> str | None:
    """The address of a cited document, without the lines."""
    return citation.url.removesuffix(f"#{citation.lines}") if citation.url else None
