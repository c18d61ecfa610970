"""Reads the code graph under a caller's access, symbols as nodes.

Every condition that reaches the store includes the caller's `Access`, so that what they may not see is
neither found nor counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from knowledge_pipeline.contract.responses.graph import GraphNode
from knowledge_pipeline.contract.types import NodeRole
from knowledge_pipeline.query import access as accesses
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.citations import format_lines, link_to_lines
from knowledge_pipeline.query.code_graph.members import MemberScope
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.code_graph.reader import GraphReader
from knowledge_pipeline.store.code_graph.row_lookup import RowLookup
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import Row
from knowledge_pipeline.store.tables import split_batches

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
        return cls(reader, accesses.build_visibility_filter(access))

    async def has_several_sources(self) -> bool:
        """Whether the caller may see more than one source; otherwise no edge leads from one to another."""
        return await self.reader.has_several_sources(self.visibility)

    async def read_symbols(self, where: Filter, *, limit: int = MAX_ROWS) -> list[Row]:
        """Rows of definitions, files and aliases, with what is shown of them."""
        found = await self.reader.find_symbols(self.visibility & where, limit=limit, columns=("shown",))
        return [row["shown"] for row in found]

    async def look_up_symbols(self, lookup: RowLookup) -> list[Row]:
        """The same by path, node, simple or full name."""
        look_up = self.reader.look_up_symbols
        found = await look_up(lookup, self.visibility, limit=MAX_ROWS, columns=("shown",))
        return [row["shown"] for row in found]

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
        return {name: [nodes[id_] for id_ in sorted(found)] for name, found in ids_by_name.items()}

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
    """A name that nothing visible in the index has."""
    return GraphNode(id=f"outside:{name}", name=name, kind="outside", full_name=name)
