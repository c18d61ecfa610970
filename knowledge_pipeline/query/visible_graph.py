"""Reads the code graph under a caller's access, symbols as nodes.

Every condition that reaches the store includes the caller's `Access`, so that what they may not see is
neither found nor counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge_pipeline.contract.describe import format_lines, link_to_lines
from knowledge_pipeline.contract.filters import NodeRole
from knowledge_pipeline.contract.responses import GraphNode
from knowledge_pipeline.query.access import Access, build_visibility_filter
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.graph import GraphReader, RowLookup, node_id
from knowledge_pipeline.store.search import Row
from knowledge_pipeline.store.tables import split_batches
from knowledge_pipeline.system_names import is_system_name

_FileKey = tuple[str | None, str | None]  # source, path


@dataclass(frozen=True, slots=True)
class MemberScope:
    """What is defined in some files, or below some definitions, as conditions on edges.

    A walk that starts from all of a class, a file or a folder reads the edges by path and name, so that of
    its hundreds of members it reads only those that other code is connected to.
    """

    files: frozenset[_FileKey] = frozenset()
    definitions: tuple[GraphNode, ...] = ()

    @classmethod
    def from_nodes(cls, nodes: Iterable[GraphNode]) -> MemberScope:
        """The members of some nodes; names outside have none."""
        inside = [node for node in nodes if node.source and node.path]
        files = frozenset((node.source, node.path) for node in inside if node.kind == "file")
        return cls(files, tuple(node for node in inside if node.kind != "file"))

    def __contains__(self, node: GraphNode) -> bool:
        return (node.source, node.path) in self.files or any(
            (node.source, node.path) == (definition.source, definition.path)
            and node.name.startswith(f"{definition.name}.")
            for definition in self.definitions
        )

    def incoming_conditions(self) -> Iterator[Filter]:
        """Edges of the same source that end at a member; of files those that start elsewhere."""
        return self._iter_conditions(
            lambda paths: filters.one_of("target_path", paths) & ~filters.one_of("path", paths),
            ("target_path", "target_name"),
        )

    def outgoing_conditions(self) -> Iterator[Filter]:
        """Edges that start at a member; of files those that end elsewhere."""
        outside = filters.is_null("target_path")
        return self._iter_conditions(
            lambda paths: filters.one_of("path", paths) & (outside | ~filters.one_of("target_path", paths)),
            ("path", "source_name"),
        )

    def symbol_conditions(self) -> Iterator[Filter]:
        """The members themselves, and the files."""
        return self._iter_conditions(lambda paths: filters.one_of("path", paths), ("path", "name"))

    def _iter_conditions(
        self, match_files: Callable[[list[str]], Filter], columns: tuple[str, str]
    ) -> Iterator[Filter]:
        """By the paths of files, source by source; by path and name, of which the columns are, of members."""
        for source in sorted({source or "" for source, _ in self.files}):
            paths = sorted(path or "" for of_source, path in self.files if of_source == source)
            yield filters.eq("source", source) & match_files(paths)
        for definition in self.definitions:
            in_file = filters.eq("source", definition.source or "") & filters.eq(
                columns[0], definition.path or ""
            )
            yield in_file & filters.starts_with(columns[1], f"{definition.name}.")


MAX_ROWS = 10_000  # read in one step
MIN_CONFIDENCE = 0.5  # with less, the target name of an edge out of its source is a guess

EDGE_COLUMNS = ("kind", "source_id", "target_id", "line", "confidence")
OUTGOING_EDGE_COLUMNS = (*EDGE_COLUMNS, "source", "target_name")  # of edges that may lead to another source
IS_DEFINITION = ~filters.eq("kind", "alias")
_NODE_COLUMNS = ("kind", "full_name", "source", "path", "language", "signature")


@dataclass(frozen=True, slots=True)
class VisibleGraph:
    """The rows that one caller may see."""

    reader: GraphReader
    visibility: Filter

    @classmethod
    def for_access(cls, reader: GraphReader, access: Access) -> VisibleGraph:
        """The part of a release that a caller may see."""
        return cls(reader, build_visibility_filter(access))

    async def has_several_sources(self) -> bool:
        """Whether the caller may see more than one source; otherwise no edge leads from one to another."""
        return await self.reader.has_several_sources(self.visibility)

    async def read_symbols(self, where: Filter, *, limit: int = MAX_ROWS) -> list[Row]:
        """Rows of definitions, files and aliases, with what is shown of them."""
        rows = await self.reader.find_symbols(self.visibility & where, limit=limit, columns=("shown",))
        return [row["shown"] for row in rows]

    async def look_up_symbols(self, lookup: RowLookup) -> list[Row]:
        """The same by path, node, simple or full name."""
        look_up = self.reader.look_up_symbols
        rows = await look_up(lookup, self.visibility, limit=MAX_ROWS, columns=("shown",))
        return [row["shown"] for row in rows]

    async def look_up_edges(self, lookup: RowLookup, *, columns: Sequence[str]) -> list[Row]:
        """Edges by path, or by the node or name of their target."""
        return await self.reader.look_up_edges(lookup, self.visibility, limit=MAX_ROWS, columns=columns)

    async def read_nodes(self, ids: Iterable[str]) -> dict[str, GraphNode]:
        """The visible nodes, by id."""
        return (await self.read_nodes_with_names(ids))[0]

    async def read_nodes_with_names(
        self, ids: Iterable[str], *, role: NodeRole = "target", distance: int = 0
    ) -> tuple[dict[str, GraphNode], dict[str, set[str]]]:
        """Nodes by id, and the full names of each by which other sources may know it."""
        wanted, cache = sorted(set(ids)), self.reader.cached_symbols(self.visibility)
        for batch in split_batches(id_ for id_ in wanted if id_ not in cache):
            rows = await self.look_up_symbols(RowLookup({"node": batch}))
            cache.update({id_: [] for id_ in batch})
            for row in rows:
                cache[row["node"]].append(row)
        rows = [row for id_ in wanted for row in cache[id_]]
        names: dict[str, set[str]] = {}
        for row in rows:
            names.setdefault(row["node"], set()).add(row["full_name"])
        shown = (row for row in rows if row["kind"] != "alias")
        return to_nodes(shown, role=role, distance=distance), names

    async def read_file_names(self, files: Sequence[GraphNode]) -> dict[str, set[str]]:
        """File -> the full names of all that it defines and re-exports, as far as others can name it."""
        ids = {(file.source, file.path): file.id for file in files}
        names: dict[str, set[str]] = {id_: set() for id_ in ids.values()}
        for row in await self._read_exported(MemberScope.from_nodes(files)):
            names[ids[row["source"], row["path"]]].add(row["full_name"])
        return names

    async def read_member_names(self, member_scope: MemberScope) -> dict[str, set[str]]:
        """Node -> its full names, of the members that others can name."""
        names: dict[str, set[str]] = {}
        for row in await self._read_exported(member_scope):
            names.setdefault(row["node"], set()).add(row["full_name"])
        return names

    async def _read_exported(self, member_scope: MemberScope) -> list[Row]:
        columns, rows = ("source", "path", "node", "full_name"), list[Row]()
        for condition in member_scope.symbol_conditions():
            where = self.visibility & condition & filters.eq("exported", True)
            rows += await self.reader.find_symbols(where, limit=MAX_ROWS, columns=columns)
        return rows

    async def find_by_full_name(
        self, names: Collection[str], *, as_files: bool
    ) -> dict[str, list[GraphNode]]:
        """Full name -> the nodes that have it, or their files; empty if there is only one source."""
        if not names or not await self.has_several_sources():
            return {}
        rows: list[Row] = []
        for batch in split_batches(sorted(names)):
            rows += await self.look_up_symbols(RowLookup({"full_name": batch}))
        if as_files:
            file_rows: list[Row] = []
            for batch in split_batches(sorted({row["path"] for row in rows})):
                is_file = filters.one_of("path", batch) & filters.eq("kind", "file")
                file_rows += await self.read_symbols(is_file)
            nodes = to_nodes(file_rows)
            file_ids = {(row["source"], row["path"]): row["node"] for row in file_rows}
            ids = [file_ids.get((row["source"], row["path"]), "") for row in rows]
        else:
            nodes = to_nodes(row for row in rows if row["kind"] != "alias")
            nodes |= await self.read_nodes({row["node"] for row in rows} - nodes.keys())
            ids = [row["node"] for row in rows]
        ids_by_name: dict[str, set[str]] = {}
        for row, id_ in zip(rows, ids, strict=True):
            if id_ in nodes:
                ids_by_name.setdefault(row["full_name"], set()).add(id_)
        return {name: [nodes[id_] for id_ in sorted(same_name)] for name, same_name in ids_by_name.items()}

    async def read_edges(
        self, where: Filter, *, limit: int = MAX_ROWS, columns: Sequence[str] = EDGE_COLUMNS
    ) -> list[Row]:
        """Edges, in no particular order."""
        return await self.reader.find_edges(self.visibility & where, limit=limit, columns=columns)


def to_nodes(rows: Iterable[Row], *, role: NodeRole = "target", distance: int = 0) -> dict[str, GraphNode]:
    """Symbols as nodes of a response, by id; of twins the first in the file."""
    nodes: dict[str, GraphNode] = {}
    for row in sorted(rows, key=lambda row: (row["source"], row["path"], row["start_line"])):
        if row["node"] in nodes:
            continue
        lines = format_lines(row["start_line"], row["end_line"]) if row["kind"] != "file" else None
        nodes[row["node"]] = GraphNode(
            id=row["node"],
            name=row["name"] or row["path"],
            lines=lines,
            url=link_to_lines(row["url"], lines) if lines else row["url"],
            role=role,
            distance=distance,
            **{column: row[column] for column in _NODE_COLUMNS},
        )
    return nodes


def build_external_node(name: str) -> GraphNode:
    """A name that nothing visible has, outside of the index or where the parts of a system meet."""
    kind, shown = name.split(" ", 1) if is_system_name(name) else ("outside", name)
    return GraphNode(id=f"outside:{name}", name=shown, kind=kind, full_name=name)


_CONSTRUCTORS_BY_LANGUAGE = {
    "python": frozenset({"__init__", "__new__", "__post_init__"}),
    **dict.fromkeys(("javascript", "typescript", "tsx"), frozenset({"constructor"})),
    "php": frozenset({"__construct"}),
    "ruby": frozenset({"initialize"}),
    "swift": frozenset({"init"}),
}
_ALL_CONSTRUCTORS = frozenset[str]().union(*_CONSTRUCTORS_BY_LANGUAGE.values())


def map_constructors(nodes: Iterable[GraphNode], direction: Literal["in", "out"]) -> Mapping[str, str]:
    """Nodes whose edges count as those of others: a class for its constructor, or the other way round.

    A call of a class runs its constructor: the edge ends at the class, the walk goes on there.
    Derived from names alone: a constructor that does not exist has no edges.

    Args:
        nodes: at the frontier of a walk along calls.
        direction: "in": callers of a class call its constructors among the nodes; "out": what a
            constructor calls is what a class among the nodes calls.
    """
    ids: dict[str, str] = {}
    for node in nodes:
        source, path = node.source or "", node.path or ""
        around = class_of_constructor(node.name)
        if direction == "in" and around:
            ids[node_id(source, path, around)] = node.id
        elif direction == "out" and node.kind == "class":
            same_name = frozenset({node.name.rpartition(".")[2]})  # in Java, C#, C++ and others
            for name in _CONSTRUCTORS_BY_LANGUAGE.get(node.language or "", same_name):
                ids[node_id(source, path, f"{node.name}.{name}")] = node.id
    return ids


def class_of_constructor(constructor: str) -> str | None:
    """The class that a function constructs, by its name within a file; None: it is no constructor."""
    around, _, last = constructor.rpartition(".")
    return around if around and (last in _ALL_CONSTRUCTORS or last == around.rpartition(".")[2]) else None
