"""Reading rows of the code graph under a caller's access, symbols as nodes.

Every condition that reaches the store holds the caller's `Access`, so that what they may not see
is neither found nor counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from knowledge_pipeline.query import access as accesses
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.answers import Node
from knowledge_pipeline.query.code_graph.members import Within
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.code_graph import symbol_payload as graph_shown
from knowledge_pipeline.store.code_graph.reader import GraphReader
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import Row
from knowledge_pipeline.store.tables import portions

MOST_ROWS = 10_000  # read in one step
SURE = 0.5  # an edge out of its source with less is no full name but a guess

EDGE = ("kind", "source_id", "target_id", "line", "confidence")
LEAVING = (*EDGE, "source", "target_name")  # of edges that may lead to another source
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

    async def several_sources(self) -> bool:
        """Whether the caller may see more than one source: else no edge leads from one to another."""
        return await self.reader.several_sources(self.visible)

    async def symbols(self, where: Filter, *, limit: int = MOST_ROWS) -> list[Row]:
        """Rows of definitions, files and aliases, with what is shown of them."""
        found = await self.reader.symbols(self.visible & where, limit=limit, columns=("shown",))
        return graph_shown.read(row["shown"] for row in found)

    async def nodes(self, ids: Iterable[str]) -> dict[str, Node]:
        """Nodes by id; those that are not visible are not there."""
        return (await self.known(ids))[0]

    async def known(self, ids: Iterable[str], **place: Any) -> tuple[dict[str, Node], dict[str, set[str]]]:
        """Nodes by id, and the full names of each by which other sources may know it.

        `place` is what `Node` says of where a walk met them: their side and distance.
        """
        wanted, kept = sorted(set(ids)), self.reader.kept(self.visible)
        for portion in portions(id_ for id_ in wanted if id_ not in kept):
            read = await self.symbols(filters.one_of("node", portion))
            kept.update({id_: [] for id_ in portion})
            for row in read:
                kept[row["node"]].append(row)
        rows = [row for id_ in wanted for row in kept[id_]]
        names: dict[str, set[str]] = {}
        for row in rows:
            names.setdefault(row["node"], set()).add(row["full_name"])
        return nodes_of((row for row in rows if row["kind"] != "alias"), **place), names

    async def names_of_files(self, files: Sequence[Node]) -> dict[str, set[str]]:
        """File -> the full names of all that it defines and re-exports, as far as others can name it."""
        ids = {(file.source, file.path): file.id for file in files}
        found: dict[str, set[str]] = {id_: set() for id_ in ids.values()}
        for row in await self._exported(Within.of(files)):
            found[ids[row["source"], row["path"]]].add(row["full_name"])
        return found

    async def names_within(self, within: Within) -> dict[str, set[str]]:
        """Node -> its full names, of the parts of files and definitions that others can name."""
        found: dict[str, set[str]] = {}
        for row in await self._exported(within):
            found.setdefault(row["node"], set()).add(row["full_name"])
        return found

    async def _exported(self, within: Within) -> list[Row]:
        columns, rows = ("source", "path", "node", "full_name"), list[Row]()
        for condition in within.symbols():
            where = self.visible & condition & filters.eq("exported", True)
            rows += await self.reader.symbols(where, limit=MOST_ROWS, columns=columns)
        return rows

    async def named(self, names: Collection[str], *, as_files: bool) -> dict[str, list[Node]]:
        """Full name -> what has it, or the files of what has it; nothing where there is one source alone."""
        if not names or not await self.several_sources():
            return {}
        rows: list[Row] = []
        for portion in portions(sorted(names)):
            rows += await self.symbols(filters.one_of("full_name", portion))
        if as_files:
            nodes: dict[Any, Node] = await self._files({(row["source"], row["path"]) for row in rows})
            keys = [(row["source"], row["path"]) for row in rows]
        else:
            nodes = nodes_of(row for row in rows if row["kind"] != "alias")
            nodes |= await self.nodes({row["node"] for row in rows} - nodes.keys())
            keys = [row["node"] for row in rows]
        found: dict[str, dict[str, Node]] = {}
        for row, key in zip(rows, keys, strict=True):
            if key in nodes:
                found.setdefault(row["full_name"], {})[nodes[key].id] = nodes[key]
        return {name: [each[id_] for id_ in sorted(each)] for name, each in found.items()}

    async def _files(self, places: Collection[tuple[str, str]]) -> dict[Any, Node]:
        found: list[Row] = []
        for portion in portions(sorted({path for _, path in places})):
            found += await self.symbols(filters.one_of("path", portion) & filters.eq("kind", "file"))
        return {(row["source"], row["path"]): node_of(row) for row in found}

    async def edges(
        self, where: Filter, *, limit: int = MOST_ROWS, columns: Sequence[str] = EDGE
    ) -> list[Row]:
        """Edges, in no particular order."""
        return await self.reader.edges(self.visible & where, limit=limit, columns=columns)


def node_of(row: Row, **place: Any) -> Node:
    """A symbol as a caller gets it; `place` is its side and its distance, where a walk met it."""
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
        **place,
    )


def nodes_of(rows: Iterable[Row], **place: Any) -> dict[str, Node]:
    """Nodes by id, see `node_of`; of twins the first in the file."""
    ordered = sorted(rows, key=lambda row: (row["source"], row["path"], row["start_line"]))
    found: dict[str, Node] = {}
    for row in ordered:
        if row["node"] not in found:
            found[row["node"]] = node_of(row, **place)
    return found


def outside(name: str) -> Node:
    """A name that nothing indexed, or visible, has."""
    return Node(id=f"outside:{name}", name=name, kind="outside", full_name=name)


def _lines(first: int, last: int) -> str:
    return f"L{first}-L{last}" if last > first else f"L{first}"
