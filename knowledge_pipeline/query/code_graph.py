"""Walks over the code graph: resolves a target, follows edges, ranks related code."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import reduce
from math import log
from typing import Literal, NamedTuple

from knowledge_pipeline.contract.filters import Filters, NodeRole
from knowledge_pipeline.contract.responses import GraphEdge, GraphNode, describe_name_match
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import replace_invalid_characters, to_conditions
from knowledge_pipeline.query.open_release import Index, OpenRelease
from knowledge_pipeline.query.places import parse_place
from knowledge_pipeline.query.visible_graph import (
    EDGE_COLUMNS,
    IS_DEFINITION,
    MIN_CONFIDENCE,
    OUTGOING_EDGE_COLUMNS,
    MemberScope,
    VisibleGraph,
    build_external_node,
    map_constructors,
    to_nodes,
)
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.search import Row
from knowledge_pipeline.system_names import is_system_name, list_matching_names, parse_system_name

EdgeDirection = Literal["in", "out"]
EdgeKey = tuple[str, str, str, str]  # kind, source, target, path
DEPENDENCY_KINDS = ("depends",)
"""Edges between files: one edge for all that lead from one file to another, in any way."""

DECLARES = "declares"
"""Edges from what declares a name of `system_names`: whoever uses the name depends on it."""

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
    """A walk, breadth first, each node once: nodes and edges found so far, and what was left out.

    A step is two reads of the store: the edges of all nodes at the frontier of the walk, then the nodes at
    their far ends, as many as the limit still allows. An edge that leaves its source carries the full name
    of its target; the walk finds the definition of that name in other sources.
    """

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
        nodes = {id_: node for walk in reversed(walks) for id_, node in walk.nodes.items()}
        self.add_start_nodes(node for node in nodes.values() if node.role == "member")
        for node in sorted(nodes.values(), key=lambda node: node.distance):
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
        between_files = "depends" in kinds
        conditions = [] if distance > 1 or between_files else list(self.member_scope.incoming_conditions())
        declared = await self._find_declared(frontier, distance, between_files) if DECLARES in kinds else []
        names: dict[str, set[str]] = {}
        if await self.graph.has_several_sources():  # else no other source can know a node
            names = self._index_by_name(await self._read_full_names(frontier, whole_files=between_files))
            if conditions:
                names |= self._index_by_name(await self.graph.read_member_names(self.member_scope))
        names |= self._list_system_names(frontier)
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
            hops += [_Hop(self._weigh(edge, end), edge["source_id"], end) for end in ends]
        if conditions:
            frontier |= await self._admit_members(hop.end for hop in hops)
        hops = [  # by id, or surely by the full name of what is in another source
            hop
            for hop in hops
            if hop.end in frontier
            and (
                hop.edge["target_id"]
                or (
                    hop.edge["confidence"] >= MIN_CONFIDENCE
                    and hop.edge["source"] != self.nodes[hop.end].source
                )
            )
        ]
        far = await self._read_far_nodes((hop.start for hop in hops), "in", distance, between_files)
        self._add_edges([*(hop for hop in hops if hop.start in far), *declared])
        return far | {hop.start for hop in declared}

    async def _find_declared(
        self, frontier: Collection[str], distance: int, between_files: bool
    ) -> list[_Hop]:
        """The routes and other system names that the frontier declares, as nodes that depend on it."""
        nodes = [self.nodes[id_] for id_ in frontier if self.nodes[id_].source]
        if not nodes:
            return []
        scope = self.member_scope if distance == 1 else MemberScope()
        where = filters.one_of("source_id", sorted(node.id for node in nodes))
        for condition in (MemberScope.from_nodes(nodes) if between_files else scope).outgoing_conditions():
            where |= condition
        edges = await self._read_edges([DECLARES], where, (*OUTGOING_EDGE_COLUMNS, "path"))
        if not between_files:
            await self._admit_members(edge["source_id"] for edge in edges)
        by_file = {(node.source, node.path): node.id for node in nodes if node.kind == "file"}
        hops: list[_Hop] = []
        for edge in edges:
            node, id_ = build_external_node(edge["target_name"]), edge["source_id"]
            end = id_ if id_ in self.nodes else by_file.get((edge["source"], edge["path"]))
            if end is not None and "…" not in node.name:
                self._add_nodes([node], "in", distance)
                hops.append(_Hop({**edge, "kind": "declared_by"}, node.id, end))
        return [hop for hop in hops if hop.start in self.nodes]

    def _list_system_names(self, frontier: Collection[str]) -> dict[str, set[str]]:
        """The names under which routes, topics and the like are stored, with their nodes at the frontier."""
        ids: dict[str, set[str]] = {}
        for id_ in frontier:
            if not self.nodes[id_].source and is_system_name(self.nodes[id_].full_name):
                for name in list_matching_names(self.nodes[id_].full_name):
                    ids.setdefault(name, set()).add(id_)
        return ids

    def _weigh(self, edge: Row, end: str) -> Row:
        """An edge, no surer than it is that its name is that of a node."""
        if edge["target_id"] or not is_system_name(edge["target_name"]):
            return edge
        worth = list_matching_names(self.nodes[end].full_name)[edge["target_name"]]
        return {**edge, "confidence": min(edge["confidence"], worth)}

    async def _step_out(self, frontier: set[str], kinds: Collection[str], distance: int) -> set[str]:
        """Walk along the edges, to other sources and to names outside, too."""
        between_files = "depends" in kinds
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
        leaving = [edge for edge in edges if not edge["target_id"] and " …" not in edge["target_name"]]
        sure = [edge for edge in leaving if edge["confidence"] >= MIN_CONFIDENCE]
        self.unresolved += len(leaving) - len(sure)
        outer = await self._resolve_external(sure, distance, between_files)
        declaring = await self._find_declaring(frontier, distance) if DECLARES in kinds else []
        self._add_edges([*(hop for hop in inner if hop.end in far), *outer, *declaring])
        return far | {hop.end for hop in [*outer, *declaring]}

    async def _find_declaring(self, frontier: Collection[str], distance: int) -> list[_Hop]:
        """What declares the routes and other system names of the frontier."""
        names = self._list_system_names(frontier)
        if not names:
            return []
        edges = await self._read_edges(
            [DECLARES], filters.one_of("target_name", sorted(names)), OUTGOING_EDGE_COLUMNS
        )
        far = await self._read_far_nodes((edge["source_id"] for edge in edges), "out", distance, False)
        return [
            _Hop({**self._weigh(edge, id_), "kind": "declared_by"}, id_, edge["source_id"])
            for edge in edges
            for id_ in sorted(names[edge["target_name"]])
            if edge["source_id"] in far
        ]

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
        nodes = {node.id: node for same_name in by_name.values() for node in same_name}
        hops: list[_Hop] = []
        for edge in edges:
            name = edge["target_name"]
            ends = [node.id for node in by_name.get(name, ()) if node.source != edge["source"]]
            if not ends:
                outside = build_external_node(name)
                nodes.setdefault(outside.id, outside)
                ends = [outside.id]
            hops += [_Hop(edge, edge["source_id"], end) for end in ends]
        hops.sort(key=lambda hop: nodes[hop.end].source is None)
        self._add_nodes((nodes[id_] for id_ in dict.fromkeys(hop.end for hop in hops)), "out", distance)
        return [hop for hop in hops if hop.end in self.nodes]

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

    def drop_internal_edges(self) -> None:
        """Drop edges between the target's own parts, and members that no other node is connected to."""
        members = {id_ for id_, node in self.nodes.items() if node.role == "member"}
        own = members | {id_ for id_, node in self.nodes.items() if node.role == "target"}
        if members or self.member_scope.files:
            edges = self.edges.items()
            self.edges = {key: edge for key, edge in edges if not {edge.source, edge.target} <= own}
        self.drop_unconnected_members()

    def drop_unconnected_members(self) -> None:
        """Drop members of the start nodes that have no edge."""
        connected = {end for edge in self.edges.values() for end in (edge.source, edge.target)}
        nodes = self.nodes.items()
        self.nodes = {id_: node for id_, node in nodes if node.role != "member" or id_ in connected}

    def _add_edges(self, hops: Iterable[_Hop]) -> None:
        places: dict[EdgeKey, list[Row]] = {}
        for edge, start, end in hops:
            if start != end or edge["kind"] == "calls":  # from a node to itself, only recursion counts
                path = self.nodes[start].path or self.nodes[end].path or ""
                key = (edge["kind"], start, end, path)
                places.setdefault(key, []).append(edge)
        for key, edges in places.items():
            start, end = key[1:3]
            earlier = self.edges.get(key)
            lines = {*(earlier.lines if earlier else ()), *(edge["line"] for edge in edges)}
            confidence = max(earlier.confidence if earlier else 0.0, *(edge["confidence"] for edge in edges))
            meets = any(is_system_name(node.full_name) for node in (self.nodes[start], self.nodes[end]))
            resolution = describe_name_match(confidence) if meets else ""
            self.edges[key] = GraphEdge(*key, tuple(sorted(lines)), round(confidence, 3), resolution)

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
        where = filters.one_of("kind", sorted({*kinds} - {DECLARES} or kinds)) & where
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


_MAX_CANDIDATES = 50
_MAX_SHOWN_CHARS = 200  # of a target in an error
_MAX_MATCHES = 500  # rows by one name; only names like `get` have more
_PATH_AND_REST = re.compile(r"^(?P<path>[^:]+):(?P<rest>[^:].*)$")
_SEPARATORS = re.compile(r"::|#|->")
_IS_FILE = filters.eq("kind", "file")


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """The nodes that a target means, or those that it may mean."""

    nodes: tuple[GraphNode, ...] = ()
    candidates: tuple[GraphNode, ...] = ()
    is_truncated: bool = False  # whether there are more candidates


async def find_target(graph: VisibleGraph, text: str, target_filters: Filters) -> ResolvedTarget:
    """Resolve a target.

        Store.get                 a definition, by its name or the end of it
        lake.store.Store.get      by its full name, as an import would write it
        src/store.py              a file, by its path or the end of it
        src/store                 all files of a folder
        src/store.py:120          the definition around a line
        src/store.py:Store.get    a definition of a file; `src/store.py::Store.get` and `#get`, too
        shop:src/store.py:120     the same of one source
        POST /orders, topic jobs  a route, or a topic, table, variable or flag by its name

    Raises:
        InvalidQuery: the text is empty.
        NotFound: the caller may see nothing of that name; the message suggests similar names.
    """
    target = replace_invalid_characters(text).strip()
    if not target:
        raise InvalidQuery("the target is empty: give a symbol, a path, or path:line")
    visibility = reduce(lambda left, right: left & right, to_conditions(target_filters), graph.visibility)
    graph = VisibleGraph(graph.reader, visibility)
    if (name := parse_system_name(target)) is not None:
        return await _find_system_name(graph, name)
    place = parse_place(target)
    target = f"{place.path}{place.suffix}"
    try:
        return await _find_whole_target(graph, target)
    except NotFound:
        source, _, rest = target.partition(":")
        of_source = VisibleGraph(graph.reader, visibility & filters.eq("source", source))
        if not rest or not await of_source.read_symbols(_IS_FILE, limit=1):
            raise
    return await _find_whole_target(of_source, rest)


async def _find_system_name(graph: VisibleGraph, name: str) -> ResolvedTarget:
    """A route or another name at which parts of a system meet, if anything visible declares or uses it."""
    node = build_external_node(name)
    same_name = filters.one_of("target_name", sorted(list_matching_names(name)))
    if await graph.read_edges(same_name, limit=1, columns=("target_name",)):
        return ResolvedTarget((node,))
    of_kind = filters.starts_with("target_name", f"{node.kind} ")
    rows = await graph.read_edges(of_kind, columns=("target_name",))
    names = {row["target_name"].partition(" ")[2] for row in rows if " …" not in row["target_name"]}
    sentence = f"no visible code declares or uses the {node.kind} {node.name[:_MAX_SHOWN_CHARS]!r}"
    raise NotFound(_add_suggestions(sentence, _find_similar(node.name, names)))


async def _find_whole_target(graph: VisibleGraph, target: str) -> ResolvedTarget:
    in_file = _PATH_AND_REST.match(target)
    if in_file and "::" not in target:
        return await _find_in_file(graph, in_file["path"], in_file["rest"])
    finders = (_find_by_path, _find_by_name) if _looks_like_path(target) else (_find_by_name, _find_by_path)
    for find in finders:
        if (resolved := await find(graph, target)) is not None:
            return resolved
    raise NotFound(await _describe_unknown(graph, target))


def _looks_like_path(target: str) -> bool:
    return "/" in target or detect_language(target) is not None


async def _find_by_name(graph: VisibleGraph, target: str) -> ResolvedTarget | None:
    """By full name, else by qualified name, else by the end of one."""
    dotted = _to_dotted(target).strip(".")
    last = dotted.rpartition(".")[2]
    if not last:
        return None
    by_full_name = filters.one_of("full_name", sorted({target, dotted}))
    if rows := await graph.read_symbols(by_full_name, limit=_MAX_MATCHES):
        return await _build_target(graph, rows)
    by_ending = filters.eq("simple", last) & IS_DEFINITION
    if last != dotted:
        by_ending &= filters.ends_with_parts("name", dotted, ".")
    rows = await graph.read_symbols(by_ending, limit=_MAX_MATCHES)
    exact = [row for row in rows if row["name"] == dotted]
    return await _build_target(graph, exact or rows) if rows else None


async def _build_target(graph: VisibleGraph, rows: Sequence[Row]) -> ResolvedTarget:
    """One node, or the files of one package; several others are candidates."""
    aliased = {row["node"] for row in rows if row["kind"] == "alias"}
    by_id = to_nodes(row for row in rows if row["kind"] != "alias")
    by_id |= await graph.read_nodes(aliased - by_id.keys())
    nodes = list(by_id.values())
    is_package = all(node.kind == "file" for node in nodes) and len({node.full_name for node in nodes}) == 1
    if len(nodes) == 1 or is_package:
        return ResolvedTarget(tuple(nodes))
    return _build_candidates(sorted(nodes, key=lambda node: (node.source or "", node.path or "", node.name)))


def _build_candidates(nodes: Sequence[GraphNode]) -> ResolvedTarget:
    candidates = tuple(nodes[:_MAX_CANDIDATES])
    return ResolvedTarget(candidates=candidates, is_truncated=len(nodes) > _MAX_CANDIDATES)


async def _find_by_path(graph: VisibleGraph, target: str) -> ResolvedTarget | None:
    """A file, else files whose paths end so, else all files of a folder."""
    path = target.removeprefix("./").strip("/")
    if not path:
        return None
    for where in (filters.equals_path("path", path), filters.ends_with_parts("path", path, "/")):
        if rows := await graph.read_symbols(where & _IS_FILE):
            nodes = tuple(to_nodes(rows).values())
            return ResolvedTarget(nodes) if len(nodes) == 1 else _build_candidates(nodes)
    rows = await graph.read_symbols(filters.starts_with("path", f"{path}/") & _IS_FILE)
    nodes = tuple(to_nodes(rows).values())
    if len({node.source for node in nodes}) > 1:
        return _build_candidates(nodes)
    return ResolvedTarget(nodes) if nodes else None


async def _find_in_file(graph: VisibleGraph, path: str, rest: str) -> ResolvedTarget:
    """The innermost definition around a line, or a definition by name, within a file."""
    dotted = _to_dotted(rest)
    if not rest.isdecimal() and (exact := await _find_exact_in_file(graph, path, dotted)):
        return exact
    files = await _find_by_path(graph, path)
    if files is None:
        raise NotFound(await _describe_unknown(graph, path))
    if len(files.nodes) != 1:
        return files if files.candidates else _build_candidates(files.nodes)
    (file,) = files.nodes
    in_file = filters.eq("source", file.source or "") & filters.eq("path", file.path or "") & IS_DEFINITION
    rows = [row for row in await graph.read_symbols(in_file) if row["kind"] != "file"]
    if rest.isdecimal():
        around = [row for row in rows if row["start_line"] <= int(rest) <= row["end_line"]]
        if not around:
            return files
        inner = min(around, key=lambda row: (row["end_line"] - row["start_line"], -row["start_line"]))
        return ResolvedTarget(tuple((await graph.read_nodes([inner["node"]])).values()))
    matches = [row for row in rows if row["name"] == dotted]
    matches = matches or [row for row in rows if row["name"].endswith(f".{dotted}")]
    if not matches:
        names = {row["name"].rpartition(".")[2]: row["name"] for row in rows}
        similar = [names[name] for name in _find_similar(dotted.rpartition(".")[2], names)]
        raise NotFound(_add_suggestions(f"{file.path} defines no {dotted!r}", similar))
    return await _build_target(graph, matches)


async def _find_exact_in_file(graph: VisibleGraph, path: str, dotted: str) -> ResolvedTarget | None:
    """What the one file of exactly this path defines by exactly this name, in one read."""
    in_file = filters.equals_path("path", path.removeprefix("./")) & IS_DEFINITION
    by_name = filters.eq("simple", dotted.rpartition(".")[2])
    rows = await graph.read_symbols(in_file & (_IS_FILE | by_name))
    if sum(row["kind"] == "file" for row in rows) != 1:
        return None
    nodes = to_nodes(row for row in rows if row["name"] == dotted)
    return ResolvedTarget(tuple(nodes.values())) if dotted and len(nodes) == 1 else None


def _to_dotted(name: str) -> str:
    return _SEPARATORS.sub(".", name.removesuffix("()"))


async def _describe_unknown(graph: VisibleGraph, target: str) -> str:
    """A sentence that suggests similar names, of those that the caller may see."""
    shown = target if len(target) <= _MAX_SHOWN_CHARS else f"{target[:_MAX_SHOWN_CHARS]}…"
    if _looks_like_path(target):
        rows = await graph.read_symbols(_IS_FILE)
        paths = {row["path"].rpartition("/")[2]: row["path"] for row in rows}
        similar = [paths[name] for name in _find_similar(target.rstrip("/").rpartition("/")[2], paths)]
        return _add_suggestions(f"there is no file, folder or symbol {shown!r} in the code graph", similar)
    last = _SEPARATORS.sub(".", target).strip(".").rpartition(".")[2]
    same_initial = filters.starts_with_folded("simple", last[:1]) & IS_DEFINITION
    rows = await graph.read_symbols(same_initial) if last else []
    similar = _find_similar(last, {row["name"].rpartition(".")[2] for row in rows})
    return _add_suggestions(f"there is no symbol {shown!r} in the code graph", similar)


def _find_similar(name: str, names: Iterable[str]) -> list[str]:
    return get_close_matches(name, names, n=3, cutoff=0.6)


def _add_suggestions(sentence: str, suggestions: Sequence[str]) -> str:
    if suggestions:
        return f"{sentence}: did you mean {', '.join(suggestions)}?"
    return f"{sentence}: search for it in words"


_WEIGHTS = {"extends": 1.0, "implements": 1.0, "calls": 0.8, "references": 0.5, "imports": 0.3}
_SAME_CLASS_BONUS, _SAME_FILE_BONUS = 0.3, 0.1
_SHARED_USE_WEIGHT = 0.6  # of the weight of a direct use, for what uses the same things
_MAX_NEAR = 100  # definitions that use the target, or that it uses
_MAX_USERS = 1_000  # uses of those that it uses
_MAX_SHARED = 30  # used definitions whose other users are looked at
_RELATION_KINDS = tuple(_WEIGHTS)
_Scores = defaultdict[str, float]


async def rank_related_code(walk: Walk, targets: Sequence[GraphNode], ids: Collection[str]) -> None:
    """Add to a walk that has its targets what is related to them by uses, common uses and place, with scores.

    A definition that uses the same things as the target scores for each of them one over the logarithm
    of how many use it, because what everybody uses relates nobody.

    Source: Adamic & Adar 2003, https://doi.org/10.1016/S0378-8733(03)00009-1
    """
    near = Walk(walk.graph, limit=_MAX_NEAR, nodes=dict(walk.nodes), member_scope=walk.member_scope)
    await near.follow_all(ids, EdgePath("in", _RELATION_KINDS), EdgePath("out", _RELATION_KINDS))
    own = {id_ for id_, node in near.nodes.items() if node.role in ("target", "member")}
    nodes, scores = dict(near.nodes), _Scores(float)
    for edge in near.edges.values():
        other = edge.source if edge.target in own else edge.target
        if other not in own:
            scores[other] += _WEIGHTS[edge.kind] * edge.confidence
    for id_, score in (await _score_shared_uses(near, own)).items():
        scores[id_] += score
    unread = [id_ for id_, _ in _rank_scores(scores)[: 2 * walk.limit] if id_ not in nodes]
    nodes.update(await walk.graph.read_nodes(unread))
    files = {(node.source, node.path) for node in targets}
    classes = {(node.source, node.path, node.name.rpartition(".")[0]) for node in targets if "." in node.name}
    for id_ in scores.keys() & nodes.keys() - own:
        node = nodes[id_]
        if (node.source, node.path, node.name.rpartition(".")[0]) in classes:
            scores[id_] += _SAME_CLASS_BONUS
        elif (node.source, node.path) in files:
            scores[id_] += _SAME_FILE_BONUS
    others = {id_ for id_, node in nodes.items() if node.source and node.kind != "file"} - own
    ranked = [(id_, score) for id_, score in _rank_scores(scores) if id_ in others]
    for id_, score in ranked[: walk.limit]:
        role = near.nodes[id_].role if id_ in near.nodes else "uses"
        walk.nodes[id_] = replace(nodes[id_], role=role, distance=1, score=round(score / (1 + score), 4))
    walk.left_out = max(0, len(ranked) - walk.limit)
    walk.add_start_nodes(node for node in near.nodes.values() if node.role == "member")
    edges = near.edges.items()
    walk.edges = {key: edge for key, edge in edges if {edge.source, edge.target} <= walk.nodes.keys()}
    walk.drop_unconnected_members()


async def _score_shared_uses(near: Walk, own_ids: set[str]) -> _Scores:
    """What uses the things that the target uses."""
    scores = _Scores(float)
    used = sorted({edge.target for edge in near.edges.values() if edge.source in own_ids} - own_ids)
    used = [id_ for id_ in used if near.nodes[id_].source and near.nodes[id_].kind != "file"][:_MAX_SHARED]
    if not used:
        return scores
    edges = await near.graph.read_edges(
        filters.one_of("kind", _RELATION_KINDS) & filters.one_of("target_id", used),
        limit=_MAX_USERS,
        columns=("source_id", "target_id"),
    )
    users_by_target: defaultdict[str, set[str]] = defaultdict(set)
    for edge in edges:
        users_by_target[edge["target_id"]].add(edge["source_id"])
    for users in users_by_target.values():
        if len(users) > 1:
            for id_ in users - own_ids:
                scores[id_] += _SHARED_USE_WEIGHT / log(1 + len(users))
    return scores


def _rank_scores(scores: _Scores) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


_TYPE_USE_KINDS = ("calls", "references", "extends", "implements")
_TYPE_KINDS = frozenset({"class", "interface", "type", "struct", "enum", "trait"})
_MAX_NODES = 200  # that the code refers to, types or not

CodePlace = tuple[str, str | None]
"""A path or `path:line`, and its source; None is any."""


async def open_code_graph(open_release: OpenRelease, access: Access) -> VisibleGraph:
    """The code graph as far as the caller may see it. Raises `NotFound` if the release has none."""
    reader = await open_release.open_graph_reader()
    if reader is None:
        raise NotFound("the code graph is not built: run `knowledge refresh`, with a source of type code")
    return VisibleGraph.for_access(reader, access)


async def find_used_types(index: Index, places: Collection[CodePlace], access: Access) -> list[GraphNode]:
    """The indexed types of other files that some files and definitions use, most used first.

    A place that the code graph does not have, or that may mean several things, is passed over.

    Raises `NotFound`: nothing is released yet, or there is no code graph.
    """
    graph = await open_code_graph(await index.open_release(), access)

    async def find_nodes(target: str, source: str | None) -> list[GraphNode]:
        try:
            resolved = await find_target(graph, target, Filters(sources=(source,) if source else ()))
        except (NotFound, InvalidQuery):
            return []
        return [node for node in resolved.nodes if ":" not in target or node.kind != "file"]

    starts = await asyncio.gather(*(find_nodes(*location) for location in places))
    nodes = {node.id: node for several in starts for node in several}
    files = {(node.source, node.path) for node in nodes.values() if node.kind == "file"}
    if not nodes:
        return []
    walk = Walk(graph, _MAX_NODES, member_scope=MemberScope.from_nodes(nodes.values()))
    walk.add_start_nodes(nodes.values())
    await walk.follow(set(nodes), "out", _TYPE_USE_KINDS)
    uses = Counter[str]()
    for edge in walk.edges.values():
        uses[edge.target] += len(edge.lines)
    types = [
        node
        for node in walk.nodes.values()
        if uses[node.id] and node.kind in _TYPE_KINDS and node.lines and (node.source, node.path) not in files
    ]
    return sorted(types, key=lambda node: (-uses[node.id], node.source or "", node.path or "", node.name))
