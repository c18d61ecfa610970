"""Finds the types that some code refers to: classes, interfaces, structs and the like."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses.graph import GraphNode
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.members import MemberScope
from knowledge_pipeline.query.code_graph.target import find_target
from knowledge_pipeline.query.code_graph.visible_graph import VisibleGraph
from knowledge_pipeline.query.code_graph.walk import Walk
from knowledge_pipeline.query.open_release import Index

_KINDS = ("calls", "references", "extends", "implements")
_TYPE_KINDS = frozenset({"class", "interface", "type", "struct", "enum", "trait"})
_MAX_NODES = 200  # that the code refers to, types or not

CodePlace = tuple[str, str | None]
"""A path or `path:line`, and its source; None is any."""


async def find_used_types(index: Index, places: Collection[CodePlace], access: Access) -> list[GraphNode]:
    """The indexed types of other files that some files and definitions use, most used first.

    A place that the code graph does not have, or that may mean several things, is passed over.

    Raises:
        NotFound: nothing is released yet, or there is no code graph.
    """
    opened = await index.open_release()
    reader = await opened.open_graph_reader()
    if reader is None:
        raise NotFound("the code graph is not built: run `knowledge refresh`, with a source of type code")
    graph = VisibleGraph.for_access(reader, access)
    found = await asyncio.gather(*(_find_nodes(graph, place) for place in places))
    nodes = {node.id: node for several in found for node in several}
    files = {(node.source, node.path) for node in nodes.values() if node.kind == "file"}
    if not nodes:
        return []
    walk = Walk(graph, _MAX_NODES, member_scope=MemberScope.from_nodes(nodes.values()))
    walk.add_start_nodes(nodes.values())
    await walk.follow(set(nodes), "out", _KINDS)
    uses = Counter[str]()
    for edge in walk.edges.values():
        uses[edge.target] += len(edge.lines)
    types = [
        node
        for node in walk.nodes.values()
        if uses[node.id] and node.kind in _TYPE_KINDS and node.lines and (node.source, node.path) not in files
    ]
    return sorted(types, key=lambda node: (-uses[node.id], node.source or "", node.path or "", node.name))


async def _find_nodes(graph: VisibleGraph, place: CodePlace) -> tuple[GraphNode, ...]:
    target, source = place
    try:
        found = await find_target(graph, target, Filters(sources=(source,) if source else ()))
    except (NotFound, InvalidQuery):
        return ()
    is_file = ":" not in target
    return tuple(node for node in found.nodes if is_file or node.kind != "file")
