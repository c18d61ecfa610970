"""What pieces of code have to do with: what they call, what calls them, imports and inheritance.

Read from the code graph for all passages at once, in two steps: what stands in their lines, then what is
at the other end. Every read is narrowed to what the caller may see, by the store itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from knowledge_pipeline.contract.responses import CodeNeighbour, CodeNeighbours
from knowledge_pipeline.query.citations import parse_first_line
from knowledge_pipeline.query.code_graph.constructors import class_of_constructor
from knowledge_pipeline.query.code_graph.visible_graph import IS_DEFINITION, MIN_CONFIDENCE, VisibleGraph
from knowledge_pipeline.query.search.hits import IndexedChunk
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import Row

MAX_PER_KIND = 5  # of each kind

_INHERITANCE_KINDS = ("extends", "implements")
_USE_KINDS = ("calls", "references", *_INHERITANCE_KINDS)
_EDGE_COLUMNS = (
    *("kind", "source", "path", "line", "confidence"),
    *("source_id", "source_name", "target_id", "target_name", "target_path"),
)


async def find_neighbours(graph: VisibleGraph, chunks: Sequence[IndexedChunk]) -> list[CodeNeighbours]:
    """What each passage has to do with, as far as the caller may see it."""
    found = await _read_graph(graph, chunks, ("calls", *_INHERITANCE_KINDS))
    return [_build_neighbours(piece, arriving, places) for piece, arriving, places in found]


@dataclass(frozen=True, slots=True)
class LinkedLocation:
    """A place in code that a passage uses, or from where it is used."""

    source: str
    path: str
    line: int
    confidence: float


async def find_linked_locations(
    graph: VisibleGraph, chunks: Sequence[IndexedChunk]
) -> list[list[LinkedLocation]]:
    """The definitions that each passage uses, and the places where it is used, that the caller may see."""
    return [list(_iter_linked_locations(*each)) for each in await _read_graph(graph, chunks, _USE_KINDS)]


async def _read_graph(
    graph: VisibleGraph, chunks: Sequence[IndexedChunk], kinds: Sequence[str]
) -> list[tuple[_ChunkInGraph, Sequence[Row], _Definitions]]:
    """Each passage in the graph, the edges of some kinds that arrive at any, and what they lead to."""
    if not chunks:
        return []
    read = [
        _read_definitions(graph, chunks),
        _read_outgoing_edges(graph, chunks),
        _read_aliases(graph, chunks),
    ]
    standing, leaving, aliases = await asyncio.gather(*read)
    pieces = [_ChunkInGraph.build(passage, standing, leaving, aliases) for passage in chunks]
    arriving, places = await asyncio.gather(
        _read_incoming_edges(graph, pieces, kinds), _Definitions.read(graph, pieces)
    )
    return [(piece, arriving, places) for piece in pieces]


@dataclass(frozen=True, slots=True)
class _ChunkInGraph:
    """A passage in the graph."""

    chunk: IndexedChunk
    nodes: frozenset[str]  # that it shows the beginning of, or is a part of
    callable_nodes: frozenset[str]  # the same, and the class that one of them constructs
    names: Mapping[str, str]  # full name -> node, by which other sources may know it
    use_edges: Sequence[Row]  # edges that go out from its lines
    import_edges: Sequence[Row]  # edges of its file

    @classmethod
    def build(
        cls, chunk: IndexedChunk, definitions: Sequence[Row], outgoing: Sequence[Row], aliases: Sequence[Row]
    ) -> _ChunkInGraph:
        within = [row for row in definitions if _is_in_file(row, chunk) and _overlaps(row, chunk)]
        begun = [row for row in within if row["start_line"] >= chunk.start_line]
        shown = begun or sorted(within, key=lambda row: row["end_line"] - row["start_line"])[:1]
        nodes = {row["node"] for row in shown}
        classes = {class_of_constructor(row["name"]) for row in shown}
        built = {row["node"] for row in within if row["name"] in classes}
        named = nodes | built
        names = {row["full_name"]: row["node"] for row in (*within, *aliases) if row["node"] in named}
        edges = [row for row in outgoing if _is_in_file(row, chunk)]
        uses = [row for row in edges if row["kind"] != "imports" and _is_in_lines(row, chunk)]
        imports = [row for row in edges if row["kind"] == "imports"]
        return cls(chunk, frozenset(nodes), frozenset(named), names, uses, imports)


@dataclass(slots=True)
class _Definitions:
    """Where what is used is defined."""

    by_node: dict[str, Row] = field(default_factory=dict[str, Row])
    by_name: dict[str, list[CodeNeighbour]] = field(default_factory=dict[str, list[CodeNeighbour]])

    @classmethod
    async def read(cls, graph: VisibleGraph, pieces: Sequence[_ChunkInGraph]) -> _Definitions:
        """Of what is in the same source by its node, else by its full name."""
        edges = [row for piece in pieces for row in (*piece.use_edges, *piece.import_edges)]
        nodes = {row["target_id"] for row in edges if row["target_id"]}
        names = {row["target_name"] for row in edges if not row["target_id"]}
        found, named = await asyncio.gather(
            _read_symbols(graph, filters.one_of("node", sorted(nodes)) & IS_DEFINITION),
            graph.find_by_full_name(names, as_files=False),
        )
        ordered = sorted(found, key=lambda row: row["start_line"], reverse=True)
        elsewhere = {
            name: [
                CodeNeighbour(
                    node.name,
                    node.source,
                    node.path,
                    parse_first_line(node.lines) if node.lines else None,
                    node.signature,
                )
                for node in each
            ]
            for name, each in named.items()
        }
        return cls({row["node"]: row for row in ordered}, elsewhere)

    def resolve(self, row: Row) -> Iterator[CodeNeighbour]:
        """What an edge leads to, that the caller may see; a name alone where nothing indexed has it."""
        if (target := row["target_id"]) is not None:
            if target in self.by_node:
                yield _definition_to_neighbour(self.by_node[target])
            return
        there = [each for each in self.by_name.get(row["target_name"], ()) if each.source != row["source"]]
        yield from there or [CodeNeighbour(row["target_name"])]


async def _read_definitions(graph: VisibleGraph, chunks: Sequence[IndexedChunk]) -> list[Row]:
    """Definitions that share lines with the passages."""
    lines = [
        filters.below("start_line", each.end_line + 1) & filters.at_least("end_line", each.start_line)
        for each in chunks
    ]
    return await _read_symbols(
        graph, _match_files(chunks, lines) & IS_DEFINITION & ~filters.eq("kind", "file")
    )


async def _read_outgoing_edges(graph: VisibleGraph, chunks: Sequence[IndexedChunk]) -> list[Row]:
    """Sure uses in the lines of the passages, and the imports of their files."""
    uses, imports = filters.one_of("kind", _USE_KINDS), filters.eq("kind", "imports")
    lines = [
        imports | uses & filters.at_least("line", each.start_line) & filters.below("line", each.end_line + 1)
        for each in chunks
    ]
    return await _read_sure_edges(graph, _match_files(chunks, lines))


async def _read_aliases(graph: VisibleGraph, chunks: Sequence[IndexedChunk]) -> list[Row]:
    """Re-exports of definitions that are called as those of the passages."""
    if not await graph.has_several_sources():
        return []
    symbols = {symbol for each in chunks for symbol in each.symbols}
    symbols |= {name for symbol in symbols if (name := class_of_constructor(symbol))}
    simple = {symbol.rpartition(".")[2] for symbol in symbols}
    return await _read_symbols(graph, filters.one_of("simple", sorted(simple)) & filters.eq("kind", "alias"))


async def _read_incoming_edges(
    graph: VisibleGraph, pieces: Sequence[_ChunkInGraph], kinds: Sequence[str]
) -> list[Row]:
    """Sure uses of the pieces, from other sources too."""
    nodes = sorted({node for piece in pieces for node in piece.callable_nodes})
    met = filters.one_of("target_id", nodes)
    if await graph.has_several_sources():
        met |= filters.one_of("target_name", sorted({name for piece in pieces for name in piece.names}))
    return await _read_sure_edges(graph, met & filters.one_of("kind", kinds))


async def _read_symbols(graph: VisibleGraph, where: Filter) -> list[Row]:
    return await graph.read_symbols(where)


async def _read_sure_edges(graph: VisibleGraph, where: Filter) -> list[Row]:
    return await graph.read_edges(
        where & filters.at_least("confidence", MIN_CONFIDENCE), columns=_EDGE_COLUMNS
    )


def _match_files(chunks: Sequence[IndexedChunk], conditions: Sequence[Filter]) -> Filter:
    """Rows of the passages' files, each under its passage's condition; the paths alone say where to look."""
    of_each = [
        filters.eq("source", passage.source) & filters.eq("path", passage.path) & condition
        for passage, condition in zip(chunks, conditions, strict=True)
    ]
    return filters.one_of("path", sorted({each.path for each in chunks})) & reduce(or_, of_each)


def _is_in_file(row: Row, chunk: IndexedChunk) -> bool:
    return (row["source"], row["path"]) == (chunk.source, chunk.path)


def _overlaps(row: Row, chunk: IndexedChunk) -> bool:
    return row["start_line"] <= chunk.end_line and row["end_line"] >= chunk.start_line


def _is_in_lines(row: Row, chunk: IndexedChunk) -> bool:
    return chunk.start_line <= row["line"] <= chunk.end_line


def _build_neighbours(
    piece: _ChunkInGraph, incoming: Sequence[Row], definitions: _Definitions
) -> CodeNeighbours:
    by_line = sorted(
        piece.use_edges, key=lambda row: (row["line"], row["target_id"] is None, row["target_name"])
    )
    outward = [row for row in by_line if row["target_id"] not in piece.nodes]
    inward = sorted(
        (row for row in incoming if _reaches(row, piece)), key=lambda row: _nearness_key(row, piece)
    )
    found = {
        "calls": _iter_targets(definitions, (row for row in outward if row["kind"] == "calls")),
        "called_by": map(_user_to_neighbour, (row for row in inward if row["kind"] == "calls")),
        "imports": _iter_targets(definitions, _order_imports(piece)),
        "extends": _iter_targets(definitions, (row for row in outward if row["kind"] in _INHERITANCE_KINDS)),
        "implemented_by": map(
            _user_to_neighbour, (row for row in inward if row["kind"] in _INHERITANCE_KINDS)
        ),
    }
    distinct = {name: _deduplicate(each) for name, each in found.items()}
    more = {name: len(each) - MAX_PER_KIND for name, each in distinct.items() if len(each) > MAX_PER_KIND}
    shown = {name: tuple(each[:MAX_PER_KIND]) for name, each in distinct.items()}
    return CodeNeighbours(**shown, omitted=more)


def _iter_linked_locations(
    piece: _ChunkInGraph, incoming: Sequence[Row], definitions: _Definitions
) -> Iterator[LinkedLocation]:
    for row in incoming:
        if _reaches(row, piece):
            yield LinkedLocation(row["source"], row["path"], row["line"], row["confidence"])
    for row in piece.use_edges:
        for each in definitions.resolve(row):
            if each.source and each.path and each.line:
                yield LinkedLocation(each.source, each.path, each.line, row["confidence"])


def _iter_targets(definitions: _Definitions, edges: Iterable[Row]) -> Iterator[CodeNeighbour]:
    for row in edges:
        yield from definitions.resolve(row)


def _reaches(row: Row, piece: _ChunkInGraph) -> bool:
    """Whether an edge leads to a piece from outside of it: by node, or by full name from another source."""
    if row["source_id"] in piece.nodes:
        return False
    target = row["target_id"]
    if target is None and row["source"] != piece.chunk.source:
        target = piece.names.get(row["target_name"])
    return target in (piece.callable_nodes if row["kind"] == "calls" else piece.nodes)


def _nearness_key(row: Row, piece: _ChunkInGraph) -> tuple[bool, float, str, str, int]:
    return row["source"] != piece.chunk.source, -row["confidence"], row["source"], row["path"], row["line"]


def _order_imports(piece: _ChunkInGraph) -> list[Row]:
    """What the file imports, as exactly as it says, what the piece uses first."""
    exact = {row["target_path"] for row in piece.import_edges if row["target_name"]} - {None}
    names = [row["target_name"] for row in piece.import_edges if row["target_id"] is None]
    kept = [row for row in piece.import_edges if not _is_enclosing_module(row, exact, names)]
    used = {row[end] for row in piece.use_edges for end in ("target_id", "target_path", "target_name")} - {
        None
    }

    def sort_key(row: Row) -> tuple[bool, int]:
        is_used = row["target_id"] in used if row["target_name"] else row["target_path"] in used
        if row["target_id"] is None:
            is_used = any(f"{name}.".startswith(f"{row['target_name']}.") for name in used)
        return not (is_used or _is_in_lines(row, piece.chunk)), row["line"]

    return sorted(kept, key=sort_key)


def _is_enclosing_module(row: Row, exact: set[str], names: Sequence[str]) -> bool:
    """Whether an import leads to the module of something that is imported, too."""
    if row["target_id"] is not None:
        return not row["target_name"] and row["target_path"] in exact
    return any(name.startswith(f"{row['target_name']}.") for name in names)


def _deduplicate(neighbours: Iterable[CodeNeighbour]) -> list[CodeNeighbour]:
    first: dict[tuple[str | None, str | None, str], CodeNeighbour] = {}
    for each in neighbours:
        first.setdefault((each.source, each.path, each.name), each)
    return list(first.values())


def _definition_to_neighbour(row: Row) -> CodeNeighbour:
    line = None if row["kind"] == "file" else row["start_line"]
    return CodeNeighbour(row["name"] or row["path"], row["source"], row["path"], line, row["signature"])


def _user_to_neighbour(row: Row) -> CodeNeighbour:
    return CodeNeighbour(row["source_name"] or row["path"], row["source"], row["path"], row["line"])
