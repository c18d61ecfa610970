"""Adds related documents and code-graph neighbours to results.

Both follow from a release and what the caller may see, so they are kept for the results that come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import replace

from cachetools import LRUCache

from knowledge_pipeline.contract.responses.documents import Relation
from knowledge_pipeline.contract.responses.graph import CodeNeighbours
from knowledge_pipeline.contract.responses.search import SearchResult
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.visible_graph import VisibleGraph
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import OpenRelease
from knowledge_pipeline.query.relations import Subject, find_relations
from knowledge_pipeline.query.search.hits import IndexedChunk
from knowledge_pipeline.query.search.neighbours import find_neighbours
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.records import is_variant_uri

MAX_ENRICHED = 5  # the best code results of a response
MAX_KEPT = 10_000  # chunks whose relations are kept, and whose neighbours: a few KB each


class GraphUnavailable(StoreError):
    """The release has no code graph, or it cannot be opened."""


class Enricher:
    """Adds to results what they lead to. For one event loop."""

    def __init__(self, max_relations: int) -> None:
        """`max_relations` of each result, the most telling ones."""
        self._max_relations = max_relations
        self._versions: tuple[Hashable, ...] = ()  # of the tables that what is kept was read of
        self._relations: LRUCache[Hashable, tuple[Relation, ...]] = LRUCache(MAX_KEPT)
        self._neighbours: LRUCache[Hashable, CodeNeighbours] = LRUCache(MAX_KEPT)

    async def enrich(
        self,
        open_release: OpenRelease,
        access: Access,
        chunks: Sequence[IndexedChunk],
        results: tuple[SearchResult, ...],
        watch: Stopwatch,
        *,
        with_neighbours: bool = False,
    ) -> tuple[tuple[SearchResult, ...], str | None]:
        """Adds the most telling relations to each result, and neighbours in the code graph to the best code.

        `chunks` are those of the results, and maybe more, in any order. Nothing is added that the caller
        may not see. Also returns why results lack neighbours that they should have.
        """
        self._forget_other_releases(open_release)
        by_id = {chunk.id: chunk for chunk in chunks}
        shown = [by_id[result.id] for result in results]
        relations, (neighbours, graph_problem) = await asyncio.gather(
            self._find_relations(open_release, access, shown if self._max_relations else [], watch),
            self._find_neighbours(open_release, access, shown if with_neighbours else [], watch),
        )
        enriched = tuple(
            replace(each, related=relations.get(each.id, ()), graph=neighbours.get(each.id))
            for each in results
        )
        return enriched, graph_problem

    def _forget_other_releases(self, open_release: OpenRelease) -> None:
        release = open_release.release
        versions = (*sorted(release.tables.items()), *sorted(release.graph.items()))
        if versions != self._versions:
            self._versions = versions
            self._relations.clear()
            self._neighbours.clear()

    async def _find_relations(
        self, open_release: OpenRelease, access: Access, chunks: Sequence[IndexedChunk], watch: Stopwatch
    ) -> dict[str, tuple[Relation, ...]]:
        """Chunk id -> relations, the most telling first."""
        if not chunks:
            return {}
        visible, tables = compile_filter(access), tuple(sorted(open_release.release.tables.items()))
        subjects = [Subject(chunk.source, chunk.uri, chunk.names, chunk.mentions) for chunk in chunks]
        keys = [(tables, visible, subject) for subject in subjects]
        known = {key: self._relations[key] for key in keys if key in self._relations}
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if missing:
            with watch.step("relate"):
                readers, _ = await open_release.open_readable_readers()
                found, is_truncated = await find_relations(readers, visible, [key[-1] for key in missing])
            for key, relations in zip(missing, found, strict=True):
                known[key] = tuple(relations)[: self._max_relations]
                if not is_truncated:  # else it depends on what else was asked for
                    self._relations[key] = known[key]
        return {chunk.id: known[key] for chunk, key in zip(chunks, keys, strict=True)}

    async def _find_neighbours(
        self, open_release: OpenRelease, access: Access, chunks: Sequence[IndexedChunk], watch: Stopwatch
    ) -> tuple[dict[str, CodeNeighbours | None], str | None]:
        """Chunk id -> neighbours, for the best code of main branches; and why there is no code graph."""
        code = [chunk for chunk in chunks if chunk.metadata.get("source_type") == "code"]
        code = [chunk for chunk in code if not is_variant_uri(chunk.uri)][:MAX_ENRICHED]
        if not code:
            return {}, None
        with watch.step("enrich"):
            try:
                graph = await open_visible_graph(open_release, access)
            except GraphUnavailable as problem:
                return {}, str(problem)
            keys = {
                chunk.id: (tuple(sorted(graph.reader.versions.items())), graph.visibility, *_locate(chunk))
                for chunk in code
            }
            known = {id_: self._neighbours[key] for id_, key in keys.items() if key in self._neighbours}
            missing = [chunk for chunk in code if chunk.id not in known]
            for chunk, found in zip(missing, await find_neighbours(graph, missing), strict=True):
                known[chunk.id] = self._neighbours[keys[chunk.id]] = found
        return {id_: neighbours or None for id_, neighbours in known.items()}, None


def _locate(chunk: IndexedChunk) -> tuple[Hashable, ...]:
    """What its neighbours depend on."""
    return chunk.source, chunk.path, chunk.start_line, chunk.end_line, chunk.symbols


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
