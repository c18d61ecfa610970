"""Adds related documents and code-graph neighbours to results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from knowledge_pipeline.contract.responses import CodeNeighbours, Relation, SearchResult
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.visible_graph import VisibleGraph
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import OpenRelease
from knowledge_pipeline.query.relations import Subject, find_relations
from knowledge_pipeline.query.search.hits import IndexedChunk
from knowledge_pipeline.query.search.neighbours import find_neighbours
from knowledge_pipeline.query.stopwatch import Stopwatch

MAX_ENRICHED = 5  # the best code results of a response


class GraphUnavailable(StoreError):
    """The release has no code graph, or it cannot be opened."""


async def enrich_results(
    open_release: OpenRelease,
    access: Access,
    chunks: Sequence[IndexedChunk],
    results: tuple[SearchResult, ...],
    watch: Stopwatch,
    *,
    max_relations: int,
    with_neighbours: bool = False,
) -> tuple[tuple[SearchResult, ...], str | None]:
    """Adds the most telling relations to each result, and neighbours in the code graph to the best code.

    `chunks` are those of the results, and maybe more, in any order. Nothing is added that the caller
    may not see. Also returns why results lack neighbours that they should have.
    """
    by_id = {chunk.id: chunk for chunk in chunks}
    shown = [by_id[result.id] for result in results]
    relations, (neighbours, graph_problem) = await asyncio.gather(
        _find_relations(open_release, access, shown if max_relations else [], watch),
        _find_code_neighbours(open_release, access, shown if with_neighbours else [], watch),
    )
    enriched = tuple(
        replace(
            each, related=tuple(relations.get(each.id, ()))[:max_relations], graph=neighbours.get(each.id)
        )
        for each in results
    )
    return enriched, graph_problem


async def _find_relations(
    open_release: OpenRelease, access: Access, chunks: Sequence[IndexedChunk], watch: Stopwatch
) -> dict[str, list[Relation]]:
    """Chunk id -> relations, the most telling first."""
    if not chunks:
        return {}
    subjects = [Subject(chunk.source, chunk.uri, chunk.names, chunk.mentions) for chunk in chunks]
    with watch.step("relate"):
        readers, _ = await open_release.open_readable_readers()
        found, _ = await find_relations(readers, compile_filter(access), subjects)
    return {chunk.id: relations for chunk, relations in zip(chunks, found, strict=True)}


async def _find_code_neighbours(
    open_release: OpenRelease, access: Access, chunks: Sequence[IndexedChunk], watch: Stopwatch
) -> tuple[dict[str, CodeNeighbours | None], str | None]:
    """Chunk id -> neighbours, for the best code; and why there is no code graph."""
    code = [chunk for chunk in chunks if chunk.metadata.get("source_type") == "code"][:MAX_ENRICHED]
    if not code:
        return {}, None
    with watch.step("enrich"):
        try:
            found = await find_neighbours(await open_visible_graph(open_release, access), code)
        except GraphUnavailable as problem:
            return {}, str(problem)
    return {chunk.id: neighbours or None for chunk, neighbours in zip(code, found, strict=True)}, None


async def open_visible_graph(open_release: OpenRelease, access: Access) -> VisibleGraph:
    """The code graph as far as the caller may see it.

    Raises:
        GraphUnavailable: the release has none, or it cannot be opened.
    """
    try:
        reader = await open_release.open_graph_reader()
    except StoreError as error:
        raise GraphUnavailable(str(error)) from error
    if reader is None:
        raise GraphUnavailable("the release has no code graph: run `knowledge refresh`")
    return VisibleGraph.for_access(reader, access)
