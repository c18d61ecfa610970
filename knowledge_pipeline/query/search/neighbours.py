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

from knowledge_pipeline.query.code_graph.constructors import class_of
from knowledge_pipeline.query.code_graph.visible_graph import DEFINED, SURE, GraphRows
from knowledge_pipeline.query.search.assemble import Neighbour, Neighbours
from knowledge_pipeline.query.search.hits import Passage
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import Row

SHOWN = 5  # of each kind

_INHERITS = ("extends", "implements")
_USES = ("calls", "references", *_INHERITS)
_EDGE = (
    *("kind", "source", "path", "line", "confidence"),
    *("source_id", "source_name", "target_id", "target_name", "target_path"),
)


async def neighbours_of(graph: GraphRows, passages: Sequence[Passage]) -> list[Neighbours]:
    """What each passage has to do with, as far as the caller may see it."""
    found = await _read(graph, passages, ("calls", *_INHERITS))
    return [_told(piece, arriving, places) for piece, arriving, places in found]


@dataclass(frozen=True, slots=True)
class Linked:
    """A place in code that a passage uses, or from where it is used."""

    source: str
    path: str
    line: int
    confidence: float


async def links_of(graph: GraphRows, passages: Sequence[Passage]) -> list[list[Linked]]:
    """The definitions that each passage uses, and the places where it is used, that the caller may see."""
    return [list(_links(*each)) for each in await _read(graph, passages, _USES)]


async def _read(
    graph: GraphRows, passages: Sequence[Passage], kinds: Sequence[str]
) -> list[tuple[_Piece, Sequence[Row], _Places]]:
    """Each passage in the graph, the edges of some kinds that arrive at any, and what they lead to."""
    if not passages:
        return []
    read = [_standing_in(graph, passages), _leaving(graph, passages), _other_names(graph, passages)]
    standing, leaving, aliases = await asyncio.gather(*read)
    pieces = [_Piece.of(passage, standing, leaving, aliases) for passage in passages]
    arriving, places = await asyncio.gather(_arriving(graph, pieces, kinds), _Places.read(graph, pieces))
    return [(piece, arriving, places) for piece in pieces]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A passage in the graph."""

    passage: Passage
    nodes: frozenset[str]  # that it shows the beginning of, or is a part of
    callable: frozenset[str]  # the same, and the class that one of them constructs
    names: Mapping[str, str]  # full name -> node, by which other sources may know it
    uses: Sequence[Row]  # edges that go out from its lines
    imports: Sequence[Row]  # edges of its file

    @classmethod
    def of(
        cls, passage: Passage, standing: Sequence[Row], leaving: Sequence[Row], aliases: Sequence[Row]
    ) -> _Piece:
        within = [row for row in standing if _is_in(row, passage) and _overlaps(row, passage)]
        begun = [row for row in within if row["start_line"] >= passage.start_line]
        shown = begun or sorted(within, key=lambda row: row["end_line"] - row["start_line"])[:1]
        nodes = {row["node"] for row in shown}
        classes = {class_of(row["name"]) for row in shown}
        built = {row["node"] for row in within if row["name"] in classes}
        named = nodes | built
        names = {row["full_name"]: row["node"] for row in (*within, *aliases) if row["node"] in named}
        edges = [row for row in leaving if _is_in(row, passage)]
        uses = [row for row in edges if row["kind"] != "imports" and _is_at(row, passage)]
        imports = [row for row in edges if row["kind"] == "imports"]
        return cls(passage, frozenset(nodes), frozenset(named), names, uses, imports)


@dataclass(slots=True)
class _Places:
    """Where what is used is defined."""

    by_node: dict[str, Row] = field(default_factory=dict[str, Row])
    by_name: dict[str, list[Neighbour]] = field(default_factory=dict[str, list[Neighbour]])

    @classmethod
    async def read(cls, graph: GraphRows, pieces: Sequence[_Piece]) -> _Places:
        """Of what is in the same source by its node, else by its full name."""
        edges = [row for piece in pieces for row in (*piece.uses, *piece.imports)]
        nodes = {row["target_id"] for row in edges if row["target_id"]}
        names = {row["target_name"] for row in edges if not row["target_id"]}
        found, named = await asyncio.gather(
            _symbols(graph, filters.one_of("node", sorted(nodes)) & DEFINED),
            graph.named(names, as_files=False),
        )
        ordered = sorted(found, key=lambda row: row["start_line"], reverse=True)
        elsewhere = {
            name: [
                Neighbour(node.name, node.source, node.path, _first(node.lines), node.signature)
                for node in each
            ]
            for name, each in named.items()
        }
        return cls({row["node"]: row for row in ordered}, elsewhere)

    def of(self, row: Row) -> Iterator[Neighbour]:
        """What an edge leads to, that the caller may see; a name alone where nothing indexed has it."""
        if (target := row["target_id"]) is not None:
            if target in self.by_node:
                yield _defined(self.by_node[target])
            return
        there = [each for each in self.by_name.get(row["target_name"], ()) if each.source != row["source"]]
        yield from there or [Neighbour(row["target_name"])]


async def _standing_in(graph: GraphRows, passages: Sequence[Passage]) -> list[Row]:
    """Definitions that share lines with the passages."""
    lines = [
        filters.below("start_line", each.end_line + 1) & filters.at_least("end_line", each.start_line)
        for each in passages
    ]
    return await _symbols(graph, _in_files(passages, lines) & DEFINED & ~filters.eq("kind", "file"))


async def _leaving(graph: GraphRows, passages: Sequence[Passage]) -> list[Row]:
    """Sure uses in the lines of the passages, and the imports of their files."""
    uses, imports = filters.one_of("kind", _USES), filters.eq("kind", "imports")
    lines = [
        imports | uses & filters.at_least("line", each.start_line) & filters.below("line", each.end_line + 1)
        for each in passages
    ]
    return await _edges(graph, _in_files(passages, lines))


async def _other_names(graph: GraphRows, passages: Sequence[Passage]) -> list[Row]:
    """Re-exports of definitions that are called as those of the passages."""
    if not await graph.several_sources():
        return []
    symbols = {symbol for each in passages for symbol in each.symbols}
    symbols |= {name for symbol in symbols if (name := class_of(symbol))}
    simple = {symbol.rpartition(".")[2] for symbol in symbols}
    return await _symbols(graph, filters.one_of("simple", sorted(simple)) & filters.eq("kind", "alias"))


async def _arriving(graph: GraphRows, pieces: Sequence[_Piece], kinds: Sequence[str]) -> list[Row]:
    """Sure uses of the pieces, from other sources too."""
    nodes = sorted({node for piece in pieces for node in piece.callable})
    met = filters.one_of("target_id", nodes)
    if await graph.several_sources():
        met |= filters.one_of("target_name", sorted({name for piece in pieces for name in piece.names}))
    return await _edges(graph, met & filters.one_of("kind", kinds))


async def _symbols(graph: GraphRows, where: Filter) -> list[Row]:
    return await graph.symbols(where)


async def _edges(graph: GraphRows, where: Filter) -> list[Row]:
    return await graph.edges(where & filters.at_least("confidence", SURE), columns=_EDGE)


def _in_files(passages: Sequence[Passage], conditions: Sequence[Filter]) -> Filter:
    """Rows of the passages' files, each under its passage's condition; the paths alone say where to look."""
    of_each = [
        filters.eq("source", passage.source) & filters.eq("path", passage.path) & condition
        for passage, condition in zip(passages, conditions, strict=True)
    ]
    return filters.one_of("path", sorted({each.path for each in passages})) & reduce(or_, of_each)


def _is_in(row: Row, passage: Passage) -> bool:
    return (row["source"], row["path"]) == (passage.source, passage.path)


def _overlaps(row: Row, passage: Passage) -> bool:
    return row["start_line"] <= passage.end_line and row["end_line"] >= passage.start_line


def _is_at(row: Row, passage: Passage) -> bool:
    return passage.start_line <= row["line"] <= passage.end_line


def _told(piece: _Piece, arriving: Sequence[Row], places: _Places) -> Neighbours:
    by_line = sorted(piece.uses, key=lambda row: (row["line"], row["target_id"] is None, row["target_name"]))
    outward = [row for row in by_line if row["target_id"] not in piece.nodes]
    inward = sorted((row for row in arriving if _reaches(row, piece)), key=lambda row: _near(row, piece))
    found = {
        "calls": _targets(places, (row for row in outward if row["kind"] == "calls")),
        "called_by": map(_user, (row for row in inward if row["kind"] == "calls")),
        "imports": _targets(places, _imports(piece)),
        "extends": _targets(places, (row for row in outward if row["kind"] in _INHERITS)),
        "implemented_by": map(_user, (row for row in inward if row["kind"] in _INHERITS)),
    }
    distinct = {name: _distinct(each) for name, each in found.items()}
    more = {name: len(each) - SHOWN for name, each in distinct.items() if len(each) > SHOWN}
    shown = {name: tuple(each[:SHOWN]) for name, each in distinct.items()}
    return Neighbours(**shown, more=more)


def _links(piece: _Piece, arriving: Sequence[Row], places: _Places) -> Iterator[Linked]:
    for row in arriving:
        if _reaches(row, piece):
            yield Linked(row["source"], row["path"], row["line"], row["confidence"])
    for row in piece.uses:
        for each in places.of(row):
            if each.source and each.path and each.line:
                yield Linked(each.source, each.path, each.line, row["confidence"])


def _targets(places: _Places, edges: Iterable[Row]) -> Iterator[Neighbour]:
    for row in edges:
        yield from places.of(row)


def _reaches(row: Row, piece: _Piece) -> bool:
    """Whether an edge leads to a piece from outside of it: by node, or by full name from another source."""
    if row["source_id"] in piece.nodes:
        return False
    target = row["target_id"]
    if target is None and row["source"] != piece.passage.source:
        target = piece.names.get(row["target_name"])
    return target in (piece.callable if row["kind"] == "calls" else piece.nodes)


def _near(row: Row, piece: _Piece) -> tuple[bool, float, str, str, int]:
    return row["source"] != piece.passage.source, -row["confidence"], row["source"], row["path"], row["line"]


def _imports(piece: _Piece) -> list[Row]:
    """What the file imports, as exactly as it says, what the piece uses first."""
    exact = {row["target_path"] for row in piece.imports if row["target_name"]} - {None}
    names = [row["target_name"] for row in piece.imports if row["target_id"] is None]
    kept = [row for row in piece.imports if not _is_around(row, exact, names)]
    used = {row[end] for row in piece.uses for end in ("target_id", "target_path", "target_name")} - {None}

    def place(row: Row) -> tuple[bool, int]:
        is_used = row["target_id"] in used if row["target_name"] else row["target_path"] in used
        if row["target_id"] is None:
            is_used = any(f"{name}.".startswith(f"{row['target_name']}.") for name in used)
        return not (is_used or _is_at(row, piece.passage)), row["line"]

    return sorted(kept, key=place)


def _is_around(row: Row, exact: set[str], names: Sequence[str]) -> bool:
    """Whether an import leads to the module of something that is imported, too."""
    if row["target_id"] is not None:
        return not row["target_name"] and row["target_path"] in exact
    return any(name.startswith(f"{row['target_name']}.") for name in names)


def _distinct(found: Iterable[Neighbour]) -> list[Neighbour]:
    first: dict[tuple[str | None, str | None, str], Neighbour] = {}
    for each in found:
        first.setdefault((each.source, each.path, each.name), each)
    return list(first.values())


def _defined(row: Row) -> Neighbour:
    line = None if row["kind"] == "file" else row["start_line"]
    return Neighbour(row["name"] or row["path"], row["source"], row["path"], line, row["signature"])


def _user(row: Row) -> Neighbour:
    return Neighbour(row["source_name"] or row["path"], row["source"], row["path"], row["line"])


def _first(lines: str | None) -> int | None:
    """Of "L10-L24"."""
    return int(lines.removeprefix("L").partition("-")[0]) if lines else None
