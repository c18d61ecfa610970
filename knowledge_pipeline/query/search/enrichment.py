"""What goes with results: documents that theirs are related to, and the code that they have to do with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.visible_graph import GraphRows
from knowledge_pipeline.query.filters import where
from knowledge_pipeline.query.open_release import Opened
from knowledge_pipeline.query.relations import Subject, relations_of
from knowledge_pipeline.query.search.assemble import Neighbours, Relation, Result
from knowledge_pipeline.query.search.hits import Passage
from knowledge_pipeline.query.search.neighbours import neighbours_of
from knowledge_pipeline.query.stopwatch import Stopwatch

ENRICHED = 5  # code hits of an answer, the best ones

_NOT_BUILT = "the release has no code graph: run `knowledge refresh`"


class NoGraph(StoreError):
    """The release has no code graph, or it cannot be opened."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Results with what goes with them, and why there is no code graph, where there should be one."""

    results: tuple[Result, ...]
    without_graph: str | None = None


async def beside(
    opened: Opened,
    access: Access,
    passages: Sequence[Passage],
    results: tuple[Result, ...],
    watch: Stopwatch,
    *,
    related: int,
    enrich: bool,
) -> Beside:
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
    by_id = {passage.id: passage for passage in passages}
    shown = [by_id[result.id] for result in results]
    told, enriched = await asyncio.gather(
        _relations(opened, access, shown if related else [], watch),
        _neighbours(opened, access, shown if enrich else [], watch),
    )
    neighbours, without_graph = enriched
    made = [
        replace(result, related=tuple(told.get(result.id, ()))[:related], graph=neighbours.get(result.id))
        for result in results
    ]
    return Beside(tuple(made), without_graph)


async def _relations(
    opened: Opened, access: Access, shown: Sequence[Passage], watch: Stopwatch
) -> dict[str, list[Relation]]:
    """Passage id -> relations, the most telling first."""
    if not shown:
        return {}
    asked = [Subject(each.source, each.uri, each.names, each.mentions) for each in shown]
    with watch.step("relate"):
        readers, _ = await opened.readable()
        found, _ = await relations_of(readers, where(access), asked)
    return {passage.id: relations for passage, relations in zip(shown, found, strict=True)}


async def _neighbours(
    opened: Opened, access: Access, shown: Sequence[Passage], watch: Stopwatch
) -> tuple[dict[str, Neighbours | None], str | None]:
    """Passage id -> what it has to do with, of the best code; and why there is no code graph."""
    code = [passage for passage in shown if passage.metadata.get("source_type") == "code"][:ENRICHED]
    if not code:
        return {}, None
    with watch.step("enrich"):
        try:
            found = await neighbours_of(await graph_of(opened, access), code)
        except NoGraph as reason:
            return {}, str(reason)
    return {passage.id: each or None for passage, each in zip(code, found, strict=True)}, None


async def graph_of(opened: Opened, access: Access) -> GraphRows:
    """The code graph as far as the caller may see it.

    Raises:
        NoGraph: the release has none, or it cannot be opened.
    """
    try:
        reader = await opened.graph()
    except StoreError as error:
        raise NoGraph(str(error)) from error
    if reader is None:
        raise NoGraph(_NOT_BUILT)
    return GraphRows.of(reader, access)
