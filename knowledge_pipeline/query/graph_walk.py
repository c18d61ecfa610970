"""Walks over the code graph, breadth first, each node once: by definitions, or by whole files.

One step reads the edges of all nodes at the edge of the walk at once. An edge out of its source
has the full name of its target; here it meets the definition of that name in another source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from knowledge_pipeline.query.graph_answers import Link, Node, Side
from knowledge_pipeline.query.graph_rows import MOST_ROWS, SURE, GraphRows, by_source, node_of, outside
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import Row

Direction = Literal["in", "out"]
_SIDES: dict[Direction, Side] = {"in": "used_by", "out": "uses"}
_INSIDE = filters.eq("kind", "contains")
_OUT_OF_SOURCE = filters.is_null("target_id") & filters.at_least("confidence", SURE)
MOST_NAMES = 2_000  # of the definitions of files, by which other sources may know them


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
    more_edges: bool = False  # than one step reads
    _found: int = 0

    def start(self, nodes: Iterable[Node]) -> None:
        """Take nodes in that the limit does not count."""
        for node in nodes:
            self.nodes.setdefault(node.id, node)

    async def definitions(
        self, ids: Collection[str], direction: Direction, kinds: Collection[str], *, depth: int
    ) -> None:
        """Walk from definition to definition along edges of some kinds."""
        edge, seen = set(ids), set(ids)
        for distance in range(1, depth + 1):
            found = await (self._users(edge, kinds) if direction == "in" else self._used(edge, kinds))
            edge = self._take(found, direction, distance) - seen
            seen |= edge
            if not edge:
                return

    async def whole_files(self, files: Collection[Node], direction: Direction, *, depth: int) -> None:
        """Walk from file to file along the edges of all kinds between them."""
        places = {(file.source or "", file.path or "") for file in files}
        seen = set(places)
        for distance in range(1, depth + 1):
            found = await (self._using_files(places) if direction == "in" else self._used_files(places))
            taken = self._take(found, direction, distance)
            near = (self.nodes[id_] for id_ in taken)
            places = {(node.source or "", node.path or "") for node in near if node.path} - seen
            seen |= places
            if not places:
                return

    def _take(self, found: list[_Step], direction: Direction, distance: int) -> set[str]:
        """Add links whose ends the limit allows; returns the ids at their far ends."""
        far: set[str] = set()
        left_out: set[str] = set()
        for step in found:
            near, other = (step.target, step.source) if direction == "in" else (step.source, step.target)
            if other.id not in self.nodes:
                if self._found >= self.limit:
                    left_out.add(other.id)
                    continue
                self._found += 1
                self.nodes[other.id] = replace(other, side=_SIDES[direction], distance=distance)
            if other.id != near.id or step.row["kind"] == "calls":  # a recursion is told
                self._link(step)
            far.add(other.id)
        self.left_out += len(left_out)
        return far

    def _link(self, step: _Step) -> None:
        row = step.row
        key = (row["kind"], step.source.id, step.target.id, row["path"])
        known = self.links.get(key)
        lines = {*(known.lines if known else ()), row["line"]}
        confidence = max(known.confidence if known else 0.0, round(row["confidence"], 3))
        self.links[key] = Link(*key, tuple(sorted(lines)), confidence)

    async def _users(self, ids: Collection[str], kinds: Collection[str]) -> list[_Step]:
        """The edges that lead to some definitions, those of other sources by their full names."""
        kind, names = filters.one_of("kind", sorted(kinds)), await self.rows.full_names(ids)
        meant = filters.one_of("target_id", sorted(ids))
        meant |= _OUT_OF_SOURCE & filters.one_of("target_name", sorted(names)[:MOST_NAMES])
        edges = await self._edges(kind & meant)
        known = await self.rows.nodes([*ids, *(row["source_id"] for row in edges)])
        steps: list[_Step] = []
        for row in edges:
            targets = [row["target_id"]] if row["target_id"] else sorted(names.get(row["target_name"], ()))
            steps += [
                _Step(row, known[row["source_id"]], known[target])
                for target in targets
                if target in known and row["source_id"] in known and _meets(row, known[target])
            ]
        return steps

    async def _used(self, ids: Collection[str], kinds: Collection[str]) -> list[_Step]:
        """The edges that lead from some definitions, to other sources and to names outside, too."""
        where = filters.one_of("kind", sorted(kinds)) & filters.one_of("source_id", sorted(ids))
        edges = await self._edges(where)
        known = await self.rows.nodes([*ids, *(row["target_id"] for row in edges if row["target_id"])])
        steps = [
            _Step(row, known[row["source_id"]], known[row["target_id"]])
            for row in edges
            if row["target_id"] in known and row["source_id"] in known
        ]
        leaving = [row for row in edges if not row["target_id"] and row["source_id"] in known]
        return steps + [
            _Step(row, known[row["source_id"]], target) for row, target in await self._elsewhere(leaving)
        ]

    async def _elsewhere(self, leaving: Sequence[Row]) -> list[tuple[Row, Node]]:
        """What edges out of their source lead to; those that are guesses are counted alone."""
        sure = [row for row in leaving if row["confidence"] >= SURE]
        self.unresolved += len(leaving) - len(sure)
        named = await self.rows.named({row["target_name"] for row in sure})
        aliases = [row["node"] for each in named.values() for row in each if row["kind"] == "alias"]
        aliased = await self.rows.nodes(aliases)
        found: list[tuple[Row, Node]] = []
        for row in sure:
            met = {
                meant["node"]: aliased.get(meant["node"]) if meant["kind"] == "alias" else node_of(meant)
                for meant in named.get(row["target_name"], ())
            }
            nodes = [node for node in met.values() if node and _meets(row, node)]
            found += [(row, node) for node in nodes or [outside(row["target_name"])]]
        return found

    async def _using_files(self, places: Collection[tuple[str, str]]) -> list[_Step]:
        """The edges from other files into some files."""
        crossing = ~_INSIDE & filters.one_of("target_path", sorted({path for _, path in places}))
        edges = [row for row in await self._edges(crossing) if row["path"] != row["target_path"]]
        edges = [row for row in edges if (row["source"], row["target_path"]) in places]
        names = await self._names_in(places)
        far = (
            await self._edges(_OUT_OF_SOURCE & filters.one_of("target_name", sorted(names))) if names else []
        )
        ends = [(row, (row["source"], row["target_path"])) for row in edges]
        ends += [
            (row, place) for row in far for place in names[row["target_name"]] if place[0] != row["source"]
        ]
        files = await self.rows.files(
            {place for row, place in ends} | {(r["source"], r["path"]) for r, _ in ends}
        )
        return [
            _Step(row, files[row["source"], row["path"]], files[place])
            for row, place in ends
            if place in files and (row["source"], row["path"]) in files
        ]

    async def _used_files(self, places: Collection[tuple[str, str]]) -> list[_Step]:
        """The edges from some files into others; of names outside only those that are imported."""
        edges = await self._edges(~_INSIDE & by_source(places, "path"))
        inner = [row for row in edges if row["target_path"] and row["target_path"] != row["path"]]
        files = await self.rows.files(
            {(row["source"], row["target_path"]) for row in inner} | {(r["source"], r["path"]) for r in edges}
        )
        steps = [
            _Step(row, files[row["source"], row["path"]], files[row["source"], row["target_path"]])
            for row in inner
            if (row["source"], row["target_path"]) in files and (row["source"], row["path"]) in files
        ]
        leaving = await self._elsewhere([row for row in edges if not row["target_path"]])
        far = {(node.source, node.path) for _, node in leaving if node.source and node.path}
        files |= await self.rows.files({(source, path) for source, path in far if source and path})
        for row, node in leaving:
            target = files.get((node.source or "", node.path or "")) if node.source else node
            wanted = node.source or row["kind"] == "imports"
            if target and wanted and (row["source"], row["path"]) in files:
                steps.append(_Step(row, files[row["source"], row["path"]], target))
        return steps

    async def _names_in(self, places: Collection[tuple[str, str]]) -> dict[str, set[tuple[str, str]]]:
        """The full names of what files define, as far as others can name it."""
        where = by_source(places, "path") & filters.eq("exported", True)
        found: dict[str, set[tuple[str, str]]] = {}
        for row in await self.rows.symbols(where, limit=MOST_NAMES):
            found.setdefault(row["full_name"], set()).add((row["source"], row["path"]))
        return found

    async def _edges(self, where: Filter) -> list[Row]:
        found = await self.rows.edges(where)
        self.more_edges |= len(found) >= MOST_ROWS
        return found


@dataclass(frozen=True, slots=True)
class _Step:
    """One edge with its ends."""

    row: Row
    source: Node
    target: Node


def _meets(row: Row, target: Node) -> bool:
    """Whether an edge may mean a node: within a source by id alone, across sources by name."""
    return bool(row["target_id"]) or row["source"] != target.source
