"""What goes with results: documents that theirs are related to, and the code that they have to do with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

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

MAX_ENRICHED = 5  # code hits of an answer, the best ones

_GRAPH_NOT_BUILT = "the release has no code graph: run `knowledge refresh`"


class GraphUnavailable(StoreError):
    """The release has no code graph, or it cannot be opened."""


@dataclass(frozen=True, slots=True)
class Enrichment:
    """Results with what goes with them, and why there is no code graph, where there should be one."""

    results: tuple[SearchResult, ...]
    graph_problem: str | None = None


async def enrich_results(
    open_release: OpenRelease,
    access: Access,
    chunks: Sequence[IndexedChunk],
    results: tuple[SearchResult, ...],
    watch: Stopwatch,
    *,
    max_relations: int,
    enrich: bool,
) -> Enrichment:
    """Results with the `related` most telling relations of each, and the best code with its neighbours.

    Args:
        opened: the release that the results are of.
        access: who asks; nothing else is told of.
        passages: those that the results were made of, in any order.
        results: the best first.
        watch: what takes the times.
        related: how many relations of each result; 0: none are looked for.
        enrich: whether neighbours are looked for.
    """
    by_id = {passage.id: passage for passage in chunks}
    shown = [by_id[result.id] for result in results]
    told, enriched = await asyncio.gather(
        _find_relations(open_release, access, shown if max_relations else [], watch),
        _find_code_neighbours(open_release, access, shown if enrich else [], watch),
    )
    neighbours, without_graph = enriched
    made = [
        replace(
            result, related=tuple(told.get(result.id, ()))[:max_relations], graph=neighbours.get(result.id)
        )
        for result in results
    ]
    return Enrichment(tuple(made), without_graph)


async def _find_relations(
    open_release: OpenRelease, access: Access, chunks: Sequence[IndexedChunk], watch: Stopwatch
) -> dict[str, list[Relation]]:
    """Passage id -> relations, the most telling first."""
    if not chunks:
        return {}
    asked = [Subject(each.source, each.uri, each.names, each.mentions) for each in chunks]
    with watch.step("relate"):
        readers, _ = await open_release.open_readable_readers()
        found, _ = await find_relations(readers, compile_filter(access), asked)
    return {passage.id: relations for passage, relations in zip(chunks, found, strict=True)}


async def _find_code_neighbours(
    open_release: OpenRelease, access: Access, chunks: Sequence[IndexedChunk], watch: Stopwatch
) -> tuple[dict[str, CodeNeighbours | None], str | None]:
    """Passage id -> what it has to do with, of the best code; and why there is no code graph."""
    code = [passage for passage in chunks if passage.metadata.get("source_type") == "code"][:MAX_ENRICHED]
    if not code:
        return {}, None
    with watch.step("enrich"):
        try:
            found = await find_neighbours(await open_visible_graph(open_release, access), code)
        except GraphUnavailable as reason:
            return {}, str(reason)
    return {passage.id: each or None for passage, each in zip(code, found, strict=True)}, None


async def open_visible_graph(open_release: OpenRelease, access: Access) -> VisibleGraph:
    """The code graph as far as the caller may see it.

    Raises:
        NoGraph: the release has none, or it cannot be opened.
    """
    try:
        reader = await open_release.open_graph_reader()
    except StoreError as error:
        raise GraphUnavailable(str(error)) from error
    if reader is None:
        raise GraphUnavailable(_GRAPH_NOT_BUILT)
    return VisibleGraph.for_access(reader, access)
