"""A walk over the code graph, breadth first, each node once.

A step reads the edges of all nodes at the edge of the walk at once, then the nodes at their far
ends, as many as the limit still allows: two reads of the store. An edge out of its source has the full
name of its target; here it meets the definition of that name in another source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from knowledge_pipeline.query.code_graph.answers import Link, Node, Side
from knowledge_pipeline.query.code_graph.constructors import constructed
from knowledge_pipeline.query.code_graph.members import Within
from knowledge_pipeline.query.code_graph.visible_graph import EDGE, LEAVING, SURE, GraphRows, outside
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.readers import Row

Direction = Literal["in", "out"]
DEPENDS = ("depends",)
"""Of files: one has to do with the other in any way; one edge for all that lead from a file to another."""

_SIDES: dict[Direction, Side] = {"in": "used_by", "out": "uses"}
_MOST_NAMES = 1_000  # full names that one step looks for in other sources
_EDGES_A_NODE, _MOST_EDGES = 10, 10_000  # one step reads so many for each node of the limit

_Met = tuple[Row, str, str]  # an edge, the node it goes out from, the node it leads to


@dataclass(slots=True)
class Walk:
    """Nodes and links found so far, and what was left out."""

    rows: GraphRows
    limit: int  # nodes, the first ones aside
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    links: dict[tuple[str, str, str, str], Link] = field(
        default_factory=dict[tuple[str, str, str, str], Link]
    )
    left_out: int = 0  # nodes
    unresolved: int = 0  # uses of what cannot be told
    cut: bool = False  # whether there is more that was not counted
    within: Within = field(default_factory=Within)  # what is started from, too
    _found: int = 0
    _names: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # node -> its full names

    def start(self, nodes: Iterable[Node]) -> None:
        """Take nodes in that the limit does not count."""
        for node in nodes:
            self.nodes.setdefault(node.id, node)

    async def at_once(self, *ways: Callable[[Walk], Awaitable[None]]) -> None:
        """Walk several ways at the same time, each as far as the limit; of all nodes the nearest stay."""
        walks = [Walk(self.rows, self.limit, dict(self.nodes), within=self.within) for _ in ways]
        await asyncio.gather(*(way(walk) for way, walk in zip(ways, walks, strict=True)))
        found = {id_: node for walk in reversed(walks) for id_, node in walk.nodes.items()}
        self.start(node for node in found.values() if node.side == "member")
        for node in sorted(found.values(), key=lambda node: node.distance):
            if node.id not in self.nodes and self._found < self.limit:
                self._found += 1
                self.nodes[node.id] = node
            self.left_out += node.id not in self.nodes
        for walk in walks:
            self.left_out += walk.left_out
            self.unresolved += walk.unresolved
            self.cut |= walk.cut
            kept = {key: link for key, link in walk.links.items() if self._has_ends(link)}
            self.links |= kept

    def _has_ends(self, link: Link) -> bool:
        return link.source in self.nodes and link.target in self.nodes

    async def follow(
        self, ids: Collection[str], direction: Direction, kinds: Collection[str], *, depth: int = 1
    ) -> None:
        """Walk from some nodes along edges of some kinds."""
        front, seen = set(ids), set(ids)
        for distance in range(1, depth + 1):
            step = self._users if direction == "in" else self._used
            far = await step(front, kinds, distance)
            seen |= front
            front = far - seen
            seen |= front
            if not front:
                return
            if self._found >= self.limit:
                self.cut |= distance < depth
                return

    async def _users(self, front: set[str], kinds: Collection[str], distance: int) -> set[str]:
        """One step against the edges: those of other sources are found by the full names.

        Parts of what is started from join the front where they are used.
        """
        within = [*self.within.leading_in()] if distance == 1 and kinds != DEPENDS else []
        names = await self._names_of(front, whole_files=kinds == DEPENDS)
        if within:
            names |= await self._names_within()
        same = self._same(front, kinds, "in")
        wanted = filters.one_of("target_id", sorted({*front, *same}))
        for condition in within:
            wanted |= condition
        if names:
            wanted |= filters.one_of("target_name", sorted(names))
        edges = await self._edges(filters.one_of("kind", sorted(kinds)) & wanted, LEAVING if names else EDGE)
        edges = [{**row, "target_id": same.get(row["target_id"], row["target_id"])} for row in edges]
        if within:
            front |= await self._enter(
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
            if target in front and (row["target_id"] or self._crosses(row, target))
        ]
        far = await self._take([source for _, source, _ in met], "in", distance, whole_files=kinds == DEPENDS)
        return self._link([each for each in met if each[1] in far], far)

    async def _used(self, front: set[str], kinds: Collection[str], distance: int) -> set[str]:
        """One step along the edges, to other sources and to names outside, too."""
        within = [*self.within.leading_out()] if distance == 1 and kinds != DEPENDS else []
        same = self._same(front, kinds, "out")
        starts = filters.one_of("source_id", sorted({*front, *same}))
        for condition in within:
            starts |= condition
        edges = await self._edges(filters.one_of("kind", sorted(kinds)) & starts, LEAVING)
        edges = [{**row, "source_id": same.get(row["source_id"], row["source_id"])} for row in edges]
        if within:
            front |= await self._enter(row["source_id"] for row in edges)
        edges = [row for row in edges if row["source_id"] in front]
        inner = [(row, row["source_id"], row["target_id"]) for row in edges if row["target_id"]]
        far = await self._take(
            [target for _, _, target in inner], "out", distance, whole_files=kinds == DEPENDS
        )
        leaving = [row for row in edges if not row["target_id"]]
        sure = [row for row in leaving if row["confidence"] >= SURE]
        beyond = await self._leave(_shortest(sure) if kinds == DEPENDS else sure, kinds, distance)
        self.unresolved += sum(1 for row in leaving if row["confidence"] < SURE)
        far |= {target for _, _, target in beyond}
        return self._link([*(each for each in inner if each[2] in far), *beyond], far)

    async def _enter(self, ids: Iterable[str]) -> set[str]:
        """Take in parts of what is started from; returns those that are there."""
        distinct = set(ids)
        read = await self.rows.nodes(distinct - self.nodes.keys())
        self.start(replace(node, side="member") for node in read.values() if node in self.within)
        return distinct & self.nodes.keys()

    def _same(self, front: Collection[str], kinds: Collection[str], direction: Direction) -> dict[str, str]:
        """Nodes that are not at the edge of the walk, and whose edges count as those of one that is."""
        if "calls" not in kinds:
            return {}
        nodes = [self.nodes[id_] for id_ in front]
        if direction == "out":  # of these the constructor is a part by itself
            nodes = [node for node in nodes if node not in self.within.definitions]
        same = constructed(nodes, direction)
        return {id_: meant for id_, meant in same.items() if id_ not in front}

    async def _leave(self, leaving: Sequence[Row], kinds: Collection[str], distance: int) -> list[_Met]:
        """Where edges out of their source lead: to what other sources call so, else to the name alone."""
        wanted = list(dict.fromkeys(row["target_name"] for row in leaving))[:_MOST_NAMES]
        named = await self.rows.named(wanted, as_files=kinds == DEPENDS)
        nodes = {node.id: node for each in named.values() for node in each}
        met: list[_Met] = []
        for row in leaving:
            meant = named.get(row["target_name"], ())
            there = [node.id for node in meant if node.source != row["source"]]
            met += [(row, row["source_id"], id_) for id_ in there]
            if not there:
                nodes.setdefault(f"outside:{row['target_name']}", outside(row["target_name"]))
                met.append((row, row["source_id"], f"outside:{row['target_name']}"))
        met.sort(key=lambda each: nodes[each[2]].kind == "outside")
        self._add([nodes[id_] for id_ in dict.fromkeys(each[2] for each in met)], "out", distance)
        return [each for each in met if each[2] in self.nodes]

    def _crosses(self, row: Row, target: str) -> bool:
        """Whether an edge by full name may mean a node: one that is sure, and of another source."""
        return row["confidence"] >= SURE and row["source"] != self.nodes[target].source

    async def _take(
        self, ids: Iterable[str], direction: Direction, distance: int, *, whole_files: bool
    ) -> set[str]:
        """Read the nodes at the far ends, as far as the limit allows; returns those that are known."""
        distinct = list(dict.fromkeys(ids))
        new = [id_ for id_ in distinct if id_ not in self.nodes]
        room = max(0, self.limit - self._found)
        place = {"side": _SIDES[direction], "distance": distance}
        read, names = await self.rows.known(new[:room], **place) if new[:room] else ({}, {})
        if not whole_files:
            self._names |= names
        self._add([read[id_] for id_ in new[:room] if id_ in read], direction, distance)
        self.left_out += len(new[room:])
        return {id_ for id_ in distinct if id_ in self.nodes}

    def _add(self, nodes: Iterable[Node], direction: Direction, distance: int) -> None:
        for node in nodes:
            if node.id in self.nodes or node in self.within:
                continue
            if self._found >= self.limit:
                self.left_out += 1
                continue
            self._found += 1
            side = _SIDES[direction]
            there = (node.side, node.distance) == (side, distance)
            self.nodes[node.id] = node if there else replace(node, side=side, distance=distance)

    def _link(self, met: Iterable[_Met], far: set[str]) -> set[str]:
        places: dict[tuple[str, str, str, str], list[Row]] = {}
        for row, source, target in met:
            if source != target or row["kind"] == "calls":  # of a node to itself recursion alone is told
                key = (row["kind"], source, target, self.nodes[source].path or "")
                places.setdefault(key, []).append(row)
        for key, rows in places.items():
            known = self.links.get(key)
            lines = {*(known.lines if known else ()), *(row["line"] for row in rows)}
            confidence = max(known.confidence if known else 0.0, *(row["confidence"] for row in rows))
            self.links[key] = Link(*key, tuple(sorted(lines)), round(confidence, 3))
        return far

    async def _names_of(self, ids: Collection[str], *, whole_files: bool) -> dict[str, set[str]]:
        """The full names by which other sources may know nodes -> the nodes; of files, what they define.

        None where there is one source alone: no other can know them.
        """
        if not await self.rows.several_sources():
            return {}
        unknown = sorted(id_ for id_ in ids if id_ not in self._names and self.nodes[id_].source)
        if unknown and whole_files:
            self._names |= await self.rows.names_of_files([self.nodes[id_] for id_ in unknown])
        elif unknown:
            self._names |= (await self.rows.known(unknown))[1]
        return self._by_name({id_: self._names.get(id_, set()) for id_ in ids})

    async def _names_within(self) -> dict[str, set[str]]:
        """The same of the parts of what is started from."""
        if not await self.rows.several_sources():
            return {}
        return self._by_name(await self.rows.names_within(self.within))

    def _by_name(self, of_nodes: Mapping[str, set[str]]) -> dict[str, set[str]]:
        names: dict[str, set[str]] = {}
        for id_ in sorted(of_nodes):
            for name in sorted(of_nodes[id_]):
                names.setdefault(name, set()).add(id_)
        self.cut |= len(names) > _MOST_NAMES
        return dict(list(names.items())[:_MOST_NAMES])

    async def _edges(self, where: filters.Filter, columns: Sequence[str]) -> list[Row]:
        """Those that lead to a definition first, then the surest, then in a fixed order."""
        most = min(_EDGES_A_NODE * self.limit, _MOST_EDGES)
        found = await self.rows.edges(where, limit=most, columns=columns)
        self.cut |= len(found) >= most
        return sorted(found, key=_rank)


def _rank(row: Row) -> tuple[bool, float, str, int]:
    return row["target_id"] is None, -row["confidence"], row["source_id"], row["line"]


def _shortest(leaving: Sequence[Row]) -> list[Row]:
    """Where a file uses `json` and `json.dumps`, it depends on `json`."""
    names = {(row["source_id"], row["target_name"]) for row in leaving}
    kept: list[Row] = []
    for row in leaving:
        parts = row["target_name"].split(".")
        around = {(row["source_id"], ".".join(parts[:end])) for end in range(1, len(parts))}
        if not around & names:
            kept.append(row)
    return kept
