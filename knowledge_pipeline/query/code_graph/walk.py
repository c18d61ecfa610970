"""A walk over the code graph, breadth first, each node once.

A step is two reads of the store: the edges of all nodes at the frontier of the walk, then the nodes at
their far ends, as many as the limit still allows. An edge that leaves its source carries the full name of
its target; the walk finds the definition of that name in other sources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from knowledge_pipeline.contract.responses.graph import GraphEdge, GraphNode
from knowledge_pipeline.contract.types import NodeRole
from knowledge_pipeline.query.code_graph.constructors import map_constructors
from knowledge_pipeline.query.code_graph.members import MemberScope
from knowledge_pipeline.query.code_graph.visible_graph import (
    EDGE_COLUMNS,
    MIN_CONFIDENCE,
    OUTGOING_EDGE_COLUMNS,
    VisibleGraph,
    build_external_node,
)
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import Row

EdgeDirection = Literal["in", "out"]
EdgeKey = tuple[str, str, str, str]  # kind, source, target, path
DEPENDENCY_KINDS = ("depends",)
"""Edges between files: one edge for all that lead from one file to another, in any way."""

_ROLES: Mapping[EdgeDirection, NodeRole] = {"in": "used_by", "out": "uses"}
_MAX_NAMES = 1_000  # full names that one step looks for in other sources
_EDGES_PER_NODE, _MAX_EDGES = 10, 10_000  # one step reads so many for each node of the limit


class EdgePath(NamedTuple):
    """Edges to follow, and how far."""

    direction: EdgeDirection
    kinds: Collection[str]
    depth: int = 1


class _Hop(NamedTuple):
    edge: Row
    start: str
    end: str


@dataclass(slots=True)
class Walk:
    """Nodes and edges found so far, and what was left out."""

    graph: VisibleGraph
    limit: int  # nodes, in addition to the first ones
    nodes: dict[str, GraphNode] = field(default_factory=dict[str, GraphNode])
    edges: dict[EdgeKey, GraphEdge] = field(default_factory=dict[EdgeKey, GraphEdge])
    left_out: int = 0  # nodes
    unresolved: int = 0  # uses whose target is not known
    is_truncated: bool = False  # whether there is more that was not counted
    member_scope: MemberScope = field(default_factory=MemberScope)  # whose members the walk starts from, too
    _found_count: int = 0
    _full_names: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # node -> its full names

    def add_start_nodes(self, nodes: Iterable[GraphNode]) -> None:
        """Add nodes that the limit does not count."""
        for node in nodes:
            self.nodes.setdefault(node.id, node)

    async def follow_all(self, ids: Collection[str], *paths: EdgePath) -> None:
        """Walk several paths at the same time, each up to the limit; of all nodes the nearest stay."""
        scope = self.member_scope
        walks = [Walk(self.graph, self.limit, dict(self.nodes), member_scope=scope) for _ in paths]
        pairs = zip(paths, walks, strict=True)
        await asyncio.gather(
            *(walk.follow(ids, way, kinds, depth=depth) for (way, kinds, depth), walk in pairs)
        )
        found = {id_: node for walk in reversed(walks) for id_, node in walk.nodes.items()}
        self.add_start_nodes(node for node in found.values() if node.role == "member")
        for node in sorted(found.values(), key=lambda node: node.distance):
            if node.id not in self.nodes and self._found_count < self.limit:
                self._found_count += 1
                self.nodes[node.id] = node
            self.left_out += node.id not in self.nodes
        kept = self.nodes.keys()
        for walk in walks:
            self.left_out += walk.left_out
            self.unresolved += walk.unresolved
            self.is_truncated |= walk.is_truncated
            edges = walk.edges.items()
            self.edges |= {key: edge for key, edge in edges if {edge.source, edge.target} <= kept}

    async def follow(
        self, ids: Collection[str], direction: EdgeDirection, kinds: Collection[str], *, depth: int = 1
    ) -> None:
        """Walk from some nodes along edges of some kinds."""
        step = self._step_in if direction == "in" else self._step_out
        frontier, seen = set(ids), set(ids)
        for distance in range(1, depth + 1):
            far = await step(frontier, kinds, distance)
            seen |= frontier
            frontier = far - seen
            if not frontier:
                return
            if self._found_count >= self.limit:
                self.is_truncated |= distance < depth
                return

    async def _step_in(self, frontier: set[str], kinds: Collection[str], distance: int) -> set[str]:
        """Walk against the edges, those of other sources by full names; used members join the frontier."""
        between_files = kinds == DEPENDENCY_KINDS
        conditions = [] if distance > 1 or between_files else list(self.member_scope.incoming_conditions())
        names: dict[str, set[str]] = {}
        if await self.graph.has_several_sources():  # else no other source can know a node
            names = self._index_by_name(await self._read_full_names(frontier, whole_files=between_files))
            if conditions:
                names |= self._index_by_name(await self.graph.read_member_names(self.member_scope))
        ids = self._map_constructor_ids(frontier, kinds, "in")
        where = filters.one_of("target_id", sorted({*frontier, *ids}))
        for condition in conditions:
            where |= condition
        if names:
            where |= filters.one_of("target_name", sorted(names))
        edges = await self._read_edges(kinds, where, OUTGOING_EDGE_COLUMNS if names else EDGE_COLUMNS)
        hops: list[_Hop] = []
        for edge in edges:
            id_ = ids.get(edge["target_id"], edge["target_id"])
            ends = [id_] if id_ else sorted(names.get(edge["target_name"], ()))
            hops += [_Hop(edge, edge["source_id"], end) for end in ends]
        if conditions:
            frontier |= await self._admit_members(hop.end for hop in hops)
        hops = [hop for hop in hops if hop.end in frontier and self._leads_to(hop)]
        far = await self._read_far_nodes((hop.start for hop in hops), "in", distance, between_files)
        self._add_edges(hop for hop in hops if hop.start in far)
        return far

    async def _step_out(self, frontier: set[str], kinds: Collection[str], distance: int) -> set[str]:
        """Walk along the edges, to other sources and to names outside, too."""
        between_files = kinds == DEPENDENCY_KINDS
        conditions = [] if distance > 1 or between_files else list(self.member_scope.outgoing_conditions())
        ids = self._map_constructor_ids(frontier, kinds, "out")
        where = filters.one_of("source_id", sorted({*frontier, *ids}))
        for condition in conditions:
            where |= condition
        rows = await self._read_edges(kinds, where, OUTGOING_EDGE_COLUMNS)
        edges: list[Row] = [{**row, "source_id": ids.get(row["source_id"], row["source_id"])} for row in rows]
        if conditions:
            frontier |= await self._admit_members(edge["source_id"] for edge in edges)
        edges = [edge for edge in edges if edge["source_id"] in frontier]
        inner = [_Hop(edge, edge["source_id"], edge["target_id"]) for edge in edges if edge["target_id"]]
        far = await self._read_far_nodes((hop.end for hop in inner), "out", distance, between_files)
        leaving = [edge for edge in edges if not edge["target_id"]]
        sure = [edge for edge in leaving if edge["confidence"] >= MIN_CONFIDENCE]
        self.unresolved += len(leaving) - len(sure)
        outer = await self._resolve_external(sure, distance, between_files)
        self._add_edges([*(hop for hop in inner if hop.end in far), *outer])
        return far | {hop.end for hop in outer}

    async def _admit_members(self, ids: Iterable[str]) -> set[str]:
        """Add members of the start nodes; returns the ids that the walk has then."""
        wanted = set(ids)
        nodes = (await self.graph.read_nodes(wanted - self.nodes.keys())).values()
        self.add_start_nodes(replace(node, role="member") for node in nodes if node in self.member_scope)
        return wanted & self.nodes.keys()

    def _map_constructor_ids(
        self, frontier: Collection[str], kinds: Collection[str], direction: EdgeDirection
    ) -> dict[str, str]:
        """Ids of nodes not at the frontier -> ids of nodes there that their edges count as edges of."""
        if "calls" not in kinds:
            return {}
        nodes = [self.nodes[id_] for id_ in frontier]
        if direction == "out":  # the constructors of these are members
            nodes = [node for node in nodes if node not in self.member_scope.definitions]
        ids = map_constructors(nodes, direction)
        return {id_: at_frontier for id_, at_frontier in ids.items() if id_ not in frontier}

    async def _resolve_external(self, edges: Sequence[Row], distance: int, between_files: bool) -> list[_Hop]:
        """Follow edges out of their source: to what has the name in other sources, else to the name alone."""
        if between_files:
            edges = _keep_outermost(edges)
        names = list(dict.fromkeys(edge["target_name"] for edge in edges))[:_MAX_NAMES]
        by_name = await self.graph.find_by_full_name(names, as_files=between_files)
        nodes = {node.id: node for found in by_name.values() for node in found}
        hops: list[_Hop] = []
        for edge in edges:
            name = edge["target_name"]
            ends = [node.id for node in by_name.get(name, ()) if node.source != edge["source"]]
            if not ends:
                outside = build_external_node(name)
                nodes.setdefault(outside.id, outside)
                ends = [outside.id]
            hops += [_Hop(edge, edge["source_id"], end) for end in ends]
        hops.sort(key=lambda hop: nodes[hop.end].kind == "outside")
        self._add_nodes((nodes[id_] for id_ in dict.fromkeys(hop.end for hop in hops)), "out", distance)
        return [hop for hop in hops if hop.end in self.nodes]

    def _leads_to(self, hop: _Hop) -> bool:
        """Whether an edge means a node: by its id, or surely by the full name of one of another source."""
        edge = hop.edge
        return bool(edge["target_id"]) or (
            edge["confidence"] >= MIN_CONFIDENCE and edge["source"] != self.nodes[hop.end].source
        )

    async def _read_far_nodes(
        self, ids: Iterable[str], direction: EdgeDirection, distance: int, between_files: bool
    ) -> set[str]:
        """Read the nodes at the far ends, as far as the limit allows; returns the ids that are known then."""
        distinct = list(dict.fromkeys(ids))
        new = [id_ for id_ in distinct if id_ not in self.nodes]
        room = max(0, self.limit - self._found_count)
        role = _ROLES[direction]
        nodes, names = await self.graph.read_nodes_with_names(new[:room], role=role, distance=distance)
        if not between_files:
            self._full_names |= names
        self._add_nodes((nodes[id_] for id_ in new[:room] if id_ in nodes), direction, distance)
        self.left_out += len(new[room:])
        return {id_ for id_ in distinct if id_ in self.nodes}

    def _add_nodes(self, nodes: Iterable[GraphNode], direction: EdgeDirection, distance: int) -> None:
        for node in nodes:
            if node.id in self.nodes or node in self.member_scope:
                continue
            if self._found_count >= self.limit:
                self.left_out += 1
                continue
            self._found_count += 1
            self.nodes[node.id] = replace(node, role=_ROLES[direction], distance=distance)

    def drop_unconnected_members(self) -> None:
        """Drop members of the start nodes that have no edge."""
        connected = {end for edge in self.edges.values() for end in (edge.source, edge.target)}
        nodes = self.nodes.items()
        self.nodes = {id_: node for id_, node in nodes if node.role != "member" or id_ in connected}

    def _add_edges(self, hops: Iterable[_Hop]) -> None:
        places: dict[EdgeKey, list[Row]] = {}
        for edge, start, end in hops:
            if start != end or edge["kind"] == "calls":  # from a node to itself, only recursion counts
                key = (edge["kind"], start, end, self.nodes[start].path or "")
                places.setdefault(key, []).append(edge)
        for key, edges in places.items():
            known = self.edges.get(key)
            lines = {*(known.lines if known else ()), *(edge["line"] for edge in edges)}
            confidence = max(known.confidence if known else 0.0, *(edge["confidence"] for edge in edges))
            self.edges[key] = GraphEdge(*key, tuple(sorted(lines)), round(confidence, 3))

    async def _read_full_names(self, ids: Collection[str], *, whole_files: bool) -> dict[str, set[str]]:
        """Node -> the full names by which other sources may know it; of files, those of what they define."""
        unknown = sorted(id_ for id_ in ids if id_ not in self._full_names and self.nodes[id_].source)
        if unknown and whole_files:
            self._full_names |= await self.graph.read_file_names([self.nodes[id_] for id_ in unknown])
        elif unknown:
            self._full_names |= (await self.graph.read_nodes_with_names(unknown))[1]
        return {id_: self._full_names.get(id_, set()) for id_ in ids}

    def _index_by_name(self, names_by_node: Mapping[str, set[str]]) -> dict[str, set[str]]:
        ids: dict[str, set[str]] = {}
        for id_ in sorted(names_by_node):
            for name in sorted(names_by_node[id_]):
                ids.setdefault(name, set()).add(id_)
        self.is_truncated |= len(ids) > _MAX_NAMES
        return dict(list(ids.items())[:_MAX_NAMES])

    async def _read_edges(self, kinds: Collection[str], where: Filter, columns: Sequence[str]) -> list[Row]:
        """Edges to a definition first, then the surest, then in a fixed order."""
        limit = min(_EDGES_PER_NODE * self.limit, _MAX_EDGES)
        where = filters.one_of("kind", sorted(kinds)) & where
        edges = await self.graph.read_edges(where, limit=limit, columns=columns)
        self.is_truncated |= len(edges) >= limit
        return sorted(
            edges,
            key=lambda row: (row["target_id"] is None, -row["confidence"], row["source_id"], row["line"]),
        )


def _keep_outermost(edges: Sequence[Row]) -> list[Row]:
    """Where a file uses `json` and `json.dumps`, it depends on `json`."""
    names = {(edge["source_id"], edge["target_name"]) for edge in edges}
    kept: list[Row] = []
    for edge in edges:
        parts = edge["target_name"].split(".")
        outer_names = {(edge["source_id"], ".".join(parts[:end])) for end in range(1, len(parts))}
        if not outer_names & names:
            kept.append(edge)
    return kept
