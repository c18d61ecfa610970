"""A walk over the code graph, breadth first, each node once.

A step reads the edges of all nodes at the edge of the walk at once, then the nodes at their far
ends, as many as the limit still allows: two reads of the store. An edge out of its source has the full
name of its target; here it meets the definition of that name in another source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from knowledge_pipeline.contract.responses import GraphEdge, GraphNode
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
from knowledge_pipeline.store.readers import Row

EdgeDirection = Literal["in", "out"]
DEPENDENCY_KINDS = ("depends",)
"""Of files: one has to do with the other in any way; one edge for all that lead from a file to another."""

_ROLES: dict[EdgeDirection, NodeRole] = {"in": "used_by", "out": "uses"}
_MAX_NAMES = 1_000  # full names that one step looks for in other sources
_EDGES_PER_NODE, _MAX_EDGES = 10, 10_000  # one step reads so many for each node of the limit

_Hop = tuple[Row, str, str]  # an edge, the node it goes out from, the node it leads to


class EdgePath(NamedTuple):
    """Edges to follow, and how far."""

    direction: EdgeDirection
    kinds: Collection[str]
    depth: int = 1


@dataclass(slots=True)
class Walk:
    """Nodes and links found so far, and what was left out."""

    graph: VisibleGraph
    limit: int  # nodes, the first ones aside
    nodes: dict[str, GraphNode] = field(default_factory=dict[str, GraphNode])
    edges: dict[tuple[str, str, str, str], GraphEdge] = field(
        default_factory=dict[tuple[str, str, str, str], GraphEdge]
    )
    left_out: int = 0  # nodes
    unresolved: int = 0  # uses of what cannot be told
    is_truncated: bool = False  # whether there is more that was not counted
    member_scope: MemberScope = field(default_factory=MemberScope)  # what is started from, too
    _found_count: int = 0
    _full_names: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # node -> its full names

    def add_start_nodes(self, nodes: Iterable[GraphNode]) -> None:
        """Take nodes in that the limit does not count."""
        for node in nodes:
            self.nodes.setdefault(node.id, node)

    async def follow_all(self, ids: Collection[str], *paths: EdgePath) -> None:
        """Walk several paths at the same time, each up to the limit; of all nodes the nearest stay."""
        walks = [
            Walk(self.graph, self.limit, dict(self.nodes), member_scope=self.member_scope) for _ in paths
        ]
        await asyncio.gather(
            *(
                walk.follow(ids, path.direction, path.kinds, depth=path.depth)
                for path, walk in zip(paths, walks, strict=True)
            )
        )
        found = {id_: node for walk in reversed(walks) for id_, node in walk.nodes.items()}
        self.add_start_nodes(node for node in found.values() if node.role == "member")
        for node in sorted(found.values(), key=lambda node: node.distance):
            if node.id not in self.nodes and self._found_count < self.limit:
                self._found_count += 1
                self.nodes[node.id] = node
            self.left_out += node.id not in self.nodes
        for walk in walks:
            self.left_out += walk.left_out
            self.unresolved += walk.unresolved
            self.is_truncated |= walk.is_truncated
            kept = {key: link for key, link in walk.edges.items() if self._has_both_ends(link)}
            self.edges |= kept

    def _has_both_ends(self, link: GraphEdge) -> bool:
        return link.source in self.nodes and link.target in self.nodes

    async def follow(
        self, ids: Collection[str], direction: EdgeDirection, kinds: Collection[str], *, depth: int = 1
    ) -> None:
        """Walk from some nodes along edges of some kinds."""
        front, seen = set(ids), set(ids)
        for distance in range(1, depth + 1):
            step = self._step_in if direction == "in" else self._step_out
            far = await step(front, kinds, distance)
            seen |= front
            front = far - seen
            seen |= front
            if not front:
                return
            if self._found_count >= self.limit:
                self.is_truncated |= distance < depth
                return

    async def _step_in(self, frontier: set[str], kinds: Collection[str], distance: int) -> set[str]:
        """One step against the edges: those of other sources are found by the full names.

        Parts of what is started from join the front where they are used.
        """
        within = (
            [*self.member_scope.incoming_conditions()] if distance == 1 and kinds != DEPENDENCY_KINDS else []
        )
        names = await self._read_full_names(frontier, whole_files=kinds == DEPENDENCY_KINDS)
        if within:
            names |= await self._read_member_names()
        same = self._map_constructor_ids(frontier, kinds, "in")
        wanted = filters.one_of("target_id", sorted({*frontier, *same}))
        for condition in within:
            wanted |= condition
        if names:
            wanted |= filters.one_of("target_name", sorted(names))
        edges = await self._read_edges(
            filters.one_of("kind", sorted(kinds)) & wanted, OUTGOING_EDGE_COLUMNS if names else EDGE_COLUMNS
        )
        edges = [{**row, "target_id": same.get(row["target_id"], row["target_id"])} for row in edges]
        if within:
            frontier |= await self._admit_members(
                id_
                for row in edges
                for id_ in ([row["target_id"]] if row["target_id"] else names[row["target_name"]])
            )
        met = [
            (row, row["source_id"], target)
            for row in edges
            for target in (
                [row["target_id"]] if row["target_id"] else sorted(names.get(row["target_name"], ()))
            )
            if target in frontier and (row["target_id"] or self._is_cross_source(row, target))
        ]
        far = await self._read_far_nodes(
            [source for _, source, _ in met], "in", distance, whole_files=kinds == DEPENDENCY_KINDS
        )
        return self._add_edges([each for each in met if each[1] in far], far)

    async def _step_out(self, frontier: set[str], kinds: Collection[str], distance: int) -> set[str]:
        """One step along the edges, to other sources and to names outside, too."""
        within = (
            [*self.member_scope.outgoing_conditions()] if distance == 1 and kinds != DEPENDENCY_KINDS else []
        )
        same = self._map_constructor_ids(frontier, kinds, "out")
        starts = filters.one_of("source_id", sorted({*frontier, *same}))
        for condition in within:
            starts |= condition
        edges = await self._read_edges(filters.one_of("kind", sorted(kinds)) & starts, OUTGOING_EDGE_COLUMNS)
        edges = [{**row, "source_id": same.get(row["source_id"], row["source_id"])} for row in edges]
        if within:
            frontier |= await self._admit_members(row["source_id"] for row in edges)
        edges = [row for row in edges if row["source_id"] in frontier]
        inner = [(row, row["source_id"], row["target_id"]) for row in edges if row["target_id"]]
        far = await self._read_far_nodes(
            [target for _, _, target in inner], "out", distance, whole_files=kinds == DEPENDENCY_KINDS
        )
        leaving = [row for row in edges if not row["target_id"]]
        sure = [row for row in leaving if row["confidence"] >= MIN_CONFIDENCE]
        beyond = await self._resolve_external(
            _keep_outermost(sure) if kinds == DEPENDENCY_KINDS else sure, kinds, distance
        )
        self.unresolved += sum(1 for row in leaving if row["confidence"] < MIN_CONFIDENCE)
        far |= {target for _, _, target in beyond}
        return self._add_edges([*(each for each in inner if each[2] in far), *beyond], far)

    async def _admit_members(self, ids: Iterable[str]) -> set[str]:
        """Take in parts of what is started from; returns those that are there."""
        distinct = set(ids)
        read = await self.graph.read_nodes(distinct - self.nodes.keys())
        self.add_start_nodes(
            replace(node, role="member") for node in read.values() if node in self.member_scope
        )
        return distinct & self.nodes.keys()

    def _map_constructor_ids(
        self, frontier: Collection[str], kinds: Collection[str], direction: EdgeDirection
    ) -> dict[str, str]:
        """Nodes that are not at the edge of the walk, and whose edges count as those of one that is."""
        if "calls" not in kinds:
            return {}
        nodes = [self.nodes[id_] for id_ in frontier]
        if direction == "out":  # of these the constructor is a part by itself
            nodes = [node for node in nodes if node not in self.member_scope.definitions]
        same = map_constructors(nodes, direction)
        return {id_: meant for id_, meant in same.items() if id_ not in frontier}

    async def _resolve_external(
        self, leaving: Sequence[Row], kinds: Collection[str], distance: int
    ) -> list[_Hop]:
        """Where edges out of their source lead: to what other sources call so, else to the name alone."""
        wanted = list(dict.fromkeys(row["target_name"] for row in leaving))[:_MAX_NAMES]
        named = await self.graph.find_by_full_name(wanted, as_files=kinds == DEPENDENCY_KINDS)
        nodes = {node.id: node for each in named.values() for node in each}
        met: list[_Hop] = []
        for row in leaving:
            meant = named.get(row["target_name"], ())
            there = [node.id for node in meant if node.source != row["source"]]
            met += [(row, row["source_id"], id_) for id_ in there]
            if not there:
                nodes.setdefault(f"outside:{row['target_name']}", build_external_node(row["target_name"]))
                met.append((row, row["source_id"], f"outside:{row['target_name']}"))
        met.sort(key=lambda each: nodes[each[2]].kind == "outside")
        self._add_nodes([nodes[id_] for id_ in dict.fromkeys(each[2] for each in met)], "out", distance)
        return [each for each in met if each[2] in self.nodes]

    def _is_cross_source(self, row: Row, target: str) -> bool:
        """Whether an edge by full name may mean a node: one that is sure, and of another source."""
        return row["confidence"] >= MIN_CONFIDENCE and row["source"] != self.nodes[target].source

    async def _read_far_nodes(
        self, ids: Iterable[str], direction: EdgeDirection, distance: int, *, whole_files: bool
    ) -> set[str]:
        """Read the nodes at the far ends, as far as the limit allows; returns those that are known."""
        distinct = list(dict.fromkeys(ids))
        new = [id_ for id_ in distinct if id_ not in self.nodes]
        room = max(0, self.limit - self._found_count)
        read, names = await self.graph.read_nodes_with_names(
            new[:room], role=_ROLES[direction], distance=distance
        )
        if not whole_files:
            self._full_names |= names
        self._add_nodes([read[id_] for id_ in new[:room] if id_ in read], direction, distance)
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
            side = _ROLES[direction]
            there = (node.role, node.distance) == (side, distance)
            self.nodes[node.id] = node if there else replace(node, role=side, distance=distance)

    def _add_edges(self, hops: Iterable[_Hop], far_ids: set[str]) -> set[str]:
        places: dict[tuple[str, str, str, str], list[Row]] = {}
        for row, source, target in hops:
            if source != target or row["kind"] == "calls":  # of a node to itself recursion alone is told
                key = (row["kind"], source, target, self.nodes[source].path or "")
                places.setdefault(key, []).append(row)
        for key, rows in places.items():
            known = self.edges.get(key)
            lines = {*(known.lines if known else ()), *(row["line"] for row in rows)}
            confidence = max(known.confidence if known else 0.0, *(row["confidence"] for row in rows))
            self.edges[key] = GraphEdge(*key, tuple(sorted(lines)), round(confidence, 3))
        return far_ids

    async def _read_full_names(self, ids: Collection[str], *, whole_files: bool) -> dict[str, set[str]]:
        """The full names by which other sources may know nodes -> the nodes; of files, what they define.

        None where there is one source alone: no other can know them.
        """
        if not await self.graph.has_several_sources():
            return {}
        unknown = sorted(id_ for id_ in ids if id_ not in self._full_names and self.nodes[id_].source)
        if unknown and whole_files:
            self._full_names |= await self.graph.read_file_names([self.nodes[id_] for id_ in unknown])
        elif unknown:
            self._full_names |= (await self.graph.read_nodes_with_names(unknown))[1]
        return self._index_by_name({id_: self._full_names.get(id_, set()) for id_ in ids})

    async def _read_member_names(self) -> dict[str, set[str]]:
        """The same of the parts of what is started from."""
        if not await self.graph.has_several_sources():
            return {}
        return self._index_by_name(await self.graph.read_member_names(self.member_scope))

    def _index_by_name(self, of_nodes: Mapping[str, set[str]]) -> dict[str, set[str]]:
        names: dict[str, set[str]] = {}
        for id_ in sorted(of_nodes):
            for name in sorted(of_nodes[id_]):
                names.setdefault(name, set()).add(id_)
        self.is_truncated |= len(names) > _MAX_NAMES
        return dict(list(names.items())[:_MAX_NAMES])

    async def _read_edges(self, where: filters.Filter, columns: Sequence[str]) -> list[Row]:
        """Those that lead to a definition first, then the surest, then in a fixed order."""
        most = min(_EDGES_PER_NODE * self.limit, _MAX_EDGES)
        found = await self.graph.read_edges(where, limit=most, columns=columns)
        self.is_truncated |= len(found) >= most
        return sorted(found, key=_edge_sort_key)


def _edge_sort_key(row: Row) -> tuple[bool, float, str, int]:
    return row["target_id"] is None, -row["confidence"], row["source_id"], row["line"]


def _keep_outermost(leaving: Sequence[Row]) -> list[Row]:
    """Where a file uses `json` and `json.dumps`, it depends on `json`."""
    names = {(row["source_id"], row["target_name"]) for row in leaving}
    kept: list[Row] = []
    for row in leaving:
        parts = row["target_name"].split(".")
        around = {(row["source_id"], ".".join(parts[:end])) for end in range(1, len(parts))}
        if not around & names:
            kept.append(row)
    return kept
