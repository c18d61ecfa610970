"""Reading rows of the code graph under a caller's access, symbols as nodes.

Every condition that reaches the store holds the caller's `Access`, so that what they may not see
is neither found nor counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from knowledge_pipeline.contract.responses import GraphNode
from knowledge_pipeline.contract.types import NodeRole
from knowledge_pipeline.query import access as accesses
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.citations import format_lines, link_to_lines
from knowledge_pipeline.query.code_graph.members import MemberScope
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.code_graph import symbol_payload as graph_shown
from knowledge_pipeline.store.code_graph.reader import GraphReader
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import Row
from knowledge_pipeline.store.tables import split_batches

MAX_ROWS = 10_000  # read in one step
MIN_CONFIDENCE = 0.5  # an edge out of its source with less is no full name but a guess

EDGE_COLUMNS = ("kind", "source_id", "target_id", "line", "confidence")
OUTGOING_EDGE_COLUMNS = (*EDGE_COLUMNS, "source", "target_name")  # of edges that may lead to another source
IS_DEFINITION = ~filters.eq("kind", "alias")


@dataclass(frozen=True, slots=True)
class VisibleGraph:
    """The rows that one caller may see."""

    reader: GraphReader
    visibility: Filter

    @classmethod
    def for_access(cls, reader: GraphReader, access: Access) -> VisibleGraph:
        """What a caller may see of a release."""
        return cls(reader, accesses.build_visibility_filter(access))

    async def has_several_sources(self) -> bool:
        """Whether the caller may see more than one source: else no edge leads from one to another."""
        return await self.reader.has_several_sources(self.visibility)

    async def read_symbols(self, where: Filter, *, limit: int = MAX_ROWS) -> list[Row]:
        """Rows of definitions, files and aliases, with what is shown of them."""
        found = await self.reader.find_symbols(self.visibility & where, limit=limit, columns=("shown",))
        return graph_shown.parse_payloads(row["shown"] for row in found)

    async def read_nodes(self, ids: Iterable[str]) -> dict[str, GraphNode]:
        """Nodes by id; those that are not visible are not there."""
        return (await self.read_nodes_with_names(ids))[0]

    async def read_nodes_with_names(
        self, ids: Iterable[str], *, role: NodeRole = "target", distance: int = 0
    ) -> tuple[dict[str, GraphNode], dict[str, set[str]]]:
        """Nodes by id, and the full names of each by which other sources may know it."""
        wanted, kept = sorted(set(ids)), self.reader.cached_symbols(self.visibility)
        for portion in split_batches(id_ for id_ in wanted if id_ not in kept):
            read = await self.read_symbols(filters.one_of("node", portion))
            kept.update({id_: [] for id_ in portion})
            for row in read:
                kept[row["node"]].append(row)
        rows = [row for id_ in wanted for row in kept[id_]]
        names: dict[str, set[str]] = {}
        for row in rows:
            names.setdefault(row["node"], set()).add(row["full_name"])
        shown = (row for row in rows if row["kind"] != "alias")
        return to_nodes(shown, role=role, distance=distance), names

    async def read_file_names(self, files: Sequence[GraphNode]) -> dict[str, set[str]]:
        """File -> the full names of all that it defines and re-exports, as far as others can name it."""
        ids = {(file.source, file.path): file.id for file in files}
        found: dict[str, set[str]] = {id_: set() for id_ in ids.values()}
        for row in await self._read_exported(MemberScope.from_nodes(files)):
            found[ids[row["source"], row["path"]]].add(row["full_name"])
        return found

    async def read_member_names(self, member_scope: MemberScope) -> dict[str, set[str]]:
        """Node -> its full names, of the parts of files and definitions that others can name."""
        found: dict[str, set[str]] = {}
        for row in await self._read_exported(member_scope):
            found.setdefault(row["node"], set()).add(row["full_name"])
        return found

    async def _read_exported(self, member_scope: MemberScope) -> list[Row]:
        columns, rows = ("source", "path", "node", "full_name"), list[Row]()
        for condition in member_scope.symbol_conditions():
            where = self.visibility & condition & filters.eq("exported", True)
            rows += await self.reader.find_symbols(where, limit=MAX_ROWS, columns=columns)
        return rows

    async def find_by_full_name(
        self, names: Collection[str], *, as_files: bool
    ) -> dict[str, list[GraphNode]]:
        """Full name -> what has it, or the files of what has it; nothing where there is one source alone."""
        if not names or not await self.has_several_sources():
            return {}
        rows: list[Row] = []
        for portion in split_batches(sorted(names)):
            rows += await self.read_symbols(filters.one_of("full_name", portion))
        if as_files:
            nodes: dict[Any, GraphNode] = await self._read_file_nodes(
                {(row["source"], row["path"]) for row in rows}
            )
            keys = [(row["source"], row["path"]) for row in rows]
        else:
            nodes = to_nodes(row for row in rows if row["kind"] != "alias")
            nodes |= await self.read_nodes({row["node"] for row in rows} - nodes.keys())
            keys = [row["node"] for row in rows]
        found: dict[str, dict[str, GraphNode]] = {}
        for row, key in zip(rows, keys, strict=True):
            if key in nodes:
                found.setdefault(row["full_name"], {})[nodes[key].id] = nodes[key]
        return {name: [each[id_] for id_ in sorted(each)] for name, each in found.items()}

    async def _read_file_nodes(self, places: Collection[tuple[str, str]]) -> dict[Any, GraphNode]:
        found: list[Row] = []
        for portion in split_batches(sorted({path for _, path in places})):
            found += await self.read_symbols(filters.one_of("path", portion) & filters.eq("kind", "file"))
        return {(row["source"], row["path"]): to_node(row) for row in found}

    async def read_edges(
        self, where: Filter, *, limit: int = MAX_ROWS, columns: Sequence[str] = EDGE_COLUMNS
    ) -> list[Row]:
        """Edges, in no particular order."""
        return await self.reader.find_edges(self.visibility & where, limit=limit, columns=columns)


def to_node(row: Row, *, role: NodeRole = "target", distance: int = 0) -> GraphNode:
    """A symbol as a caller gets it."""
    lines = format_lines(row["start_line"], row["end_line"]) if row["kind"] != "file" else None
    return GraphNode(
        id=row["node"],
        name=row["name"] or row["path"],
        kind=row["kind"],
        full_name=row["full_name"],
        source=row["source"],
        path=row["path"],
        lines=lines,
        language=row["language"],
        signature=row["signature"],
        url=link_to_lines(row["url"], lines) if lines else row["url"],
        role=role,
        distance=distance,
    )


def to_nodes(rows: Iterable[Row], *, role: NodeRole = "target", distance: int = 0) -> dict[str, GraphNode]:
    """Nodes by id; of twins the first in the file."""
    ordered = sorted(rows, key=lambda row: (row["source"], row["path"], row["start_line"]))
    found: dict[str, GraphNode] = {}
    for row in ordered:
        if row["node"] not in found:
            found[row["node"]] = to_node(row, role=role, distance=distance)
    return found


def build_external_node(name: str) -> GraphNode:
    """A name that nothing indexed, or visible, has."""
    return GraphNode(id=f"outside:{name}", name=name, kind="outside", full_name=name)
