"""Reading rows of the code graph under a caller's access, symbols as nodes.

Every condition that reaches the store holds the caller's `Access`, so that what they may not see
is neither found nor counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from knowledge_pipeline.query import access as accesses
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.graph_answers import Node
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.graph_reader import GraphReader
from knowledge_pipeline.store.readers import Row
from knowledge_pipeline.store.tables import portions

MOST_ROWS = 10_000  # read in one step
SURE = 0.5  # an edge out of its source with less is no full name but a guess

_NODE = ("node", "source", "path", "language", "url", "kind", "name", "full_name", "signature")
_NODE_COLUMNS = (*_NODE, "start_line", "end_line")
_EDGE_COLUMNS = (
    *("kind", "source", "path", "source_id", "source_name", "target_id", "target_name", "target_path"),
    *("line", "confidence"),
)
DEFINED = ~filters.eq("kind", "alias")


@dataclass(frozen=True, slots=True)
class GraphRows:
    """The rows that one caller may see."""

    reader: GraphReader
    visible: Filter

    @classmethod
    def of(cls, reader: GraphReader, access: Access) -> GraphRows:
        """What a caller may see of a release."""
        return cls(reader, accesses.filter(access))

    async def symbols(self, where: Filter, *, limit: int = MOST_ROWS) -> list[Row]:
        """Rows of definitions, files and aliases."""
        return await self.reader.symbols(self.visible & where, limit=limit, columns=_NODE_COLUMNS)

    async def nodes(self, ids: Iterable[str]) -> dict[str, Node]:
        """Nodes by id; those that are not visible are not there."""
        found: list[Row] = []
        for portion in portions(sorted(set(ids))):
            found += await self.symbols(filters.one_of("node", portion) & DEFINED)
        return nodes_of(found)

    async def files(self, places: Collection[tuple[str, str]]) -> dict[tuple[str, str], Node]:
        """File nodes by source and path."""
        found: list[Row] = []
        for portion in portions(sorted({path for _, path in places})):
            found += await self.symbols(filters.one_of("path", portion) & filters.eq("kind", "file"))
        return {
            (row["source"], row["path"]): node_of(row)
            for row in found
            if (row["source"], row["path"]) in places
        }

    async def full_names(self, ids: Collection[str]) -> dict[str, set[str]]:
        """Every full name that other repositories may know a node by -> the nodes that it means."""
        names: dict[str, set[str]] = {}
        for portion in portions(sorted(ids)):
            for row in await self.symbols(filters.one_of("node", portion)):
                names.setdefault(row["full_name"], set()).add(row["node"])
        return names

    async def named(self, names: Collection[str]) -> dict[str, list[Row]]:
        """Symbols and aliases by their full names."""
        found: dict[str, list[Row]] = {}
        for portion in portions(sorted(names)):
            for row in await self.symbols(filters.one_of("full_name", portion)):
                found.setdefault(row["full_name"], []).append(row)
        return found

    async def edges(self, where: Filter) -> list[Row]:
        """Edges, the surest first, then by place."""
        found = await self.reader.edges(self.visible & where, limit=MOST_ROWS, columns=_EDGE_COLUMNS)
        return sorted(found, key=lambda row: (-row["confidence"], row["source"], row["path"], row["line"]))

    async def count(self, where: Filter) -> int:
        """How many edges there are."""
        return await self.reader.count_edges(self.visible & where)


def node_of(row: Row) -> Node:
    """A symbol as a caller gets it."""
    lines = _lines(row["start_line"], row["end_line"]) if row["kind"] != "file" else None
    url = row["url"]
    if url and lines and url.startswith(("http://", "https://")) and "#" not in url:
        url = f"{url}#{lines}"
    return Node(
        id=row["node"],
        name=row["name"] or row["path"],
        kind=row["kind"],
        full_name=row["full_name"],
        source=row["source"],
        path=row["path"],
        lines=lines,
        language=row["language"],
        signature=row["signature"],
        url=url,
    )


def nodes_of(rows: Iterable[Row]) -> dict[str, Node]:
    """Nodes by id; of twins the first in the file."""
    ordered = sorted(rows, key=lambda row: (row["source"], row["path"], row["start_line"]))
    found: dict[str, Node] = {}
    for row in ordered:
        found.setdefault(row["node"], node_of(row))
    return found


def outside(name: str) -> Node:
    """A name that nothing indexed, or visible, has."""
    return Node(id=f"outside:{name}", name=name, kind="outside", full_name=name)


def by_source(places: Iterable[tuple[str, str]], column: str) -> Filter:
    """The column holds one of some values, each of its own source."""
    grouped: dict[str, list[str]] = {}
    for source, value in sorted(set(places)):
        grouped.setdefault(source, []).append(value)
    each = (filters.eq("source", source) & filters.one_of(column, held) for source, held in grouped.items())
    return reduce(or_, each, filters.NOTHING)


def _lines(first: int, last: int) -> str:
    return f"L{first}-L{last}" if last > first else f"L{first}"
