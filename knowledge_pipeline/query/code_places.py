"""Places in code that answers name without its text: whether they are still there, and where otherwise.

Most are told by the file alone: a definition begins with its signature, a use names what it uses. Of the
others, the indexed text is looked for in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from knowledge_pipeline.contract.describe import format_lines, parse_lines
from knowledge_pipeline.contract.filters import FileState
from knowledge_pipeline.contract.responses import (
    CodeNeighbour,
    GraphEdge,
    GraphNode,
    GraphResponse,
    SearchResult,
)
from knowledge_pipeline.query.present_files import PresentFile, is_redacted

FileOpener = Callable[[str, str], PresentFile | FileState | None]
"""By source and path a file of this machine; None for one of no folder."""

CodePlace = tuple[str, str, int]
"""Source, path and line, from 1, as indexed."""

_MAX_PLACES = 200  # of an answer, that are looked for in what is indexed
_MAX_FILES_NAMED = 3
_HEAD_CHARS = 1_000  # of a definition, that its signature is in
_WORST_FIRST: tuple[FileState, ...] = ("missing", "changed", "same")
_DEFINED_ELSEWHERE = ("calls", "extends", "imports")  # kinds of neighbours that a result uses
_USED_ELSEWHERE = ("called_by", "implemented_by")  # and of those that use it


class CodePlaces:
    """Places in folders of this machine, each with what its line should have."""

    def __init__(self, places: Iterable[tuple[CodePlace, str]], open_file: FileOpener) -> None:
        self._open_file = open_file
        self._locations: dict[CodePlace, tuple[FileState | None, int]] = {}
        self.doubtful: list[CodePlace] = []
        """Those of which the file alone does not tell whether they are as they were."""
        for place, expected in places:
            if place not in self._locations:
                self._locations[place] = self._check(place, expected)

    def search(self, chunks: Sequence[SearchResult]) -> None:
        """Find the doubtful ones by what the index has there."""
        for place in self.doubtful:
            self._locations[place] = self._search(place, chunks)

    def locate(self, source: str | None, path: str | None, line: int | None) -> tuple[FileState | None, int]:
        """The state of a place, and its line now; None, and the line as it was, for one that is not known."""
        return self._locations.get((source or "", path or "", line or 0), (None, line or 0))

    def is_missing(self, source: str, path: str) -> bool:
        """Whether a file is gone."""
        return self._open_file(source, path) == "missing"

    def _check(self, place: CodePlace, expected: str) -> tuple[FileState | None, int]:
        source, path, line = place
        file = self._open_file(source, path)
        if not isinstance(file, PresentFile):
            return file, line
        if _stands_at(file, line, expected):
            return "same", line
        if len(self.doubtful) < _MAX_PLACES:
            self.doubtful.append(place)
        return None, line

    def _search(self, place: CodePlace, chunks: Sequence[SearchResult]) -> tuple[FileState | None, int]:
        source, path, line = place
        file = self._open_file(source, path)
        for chunk in chunks:
            first, last = chunk.span.start_line, chunk.span.end_line
            is_there = (chunk.citation.source, chunk.citation.path) == (
                source,
                path,
            ) and first <= line <= last
            if not is_there or not isinstance(file, PresentFile):
                continue
            lines = chunk.content.split("\n")
            indexed = lines[line - first].strip() if line - first < len(lines) else ""
            if is_redacted(indexed) or (indexed and file.get_line(line).strip() == indexed):
                return "same", line
            if (begins := file.find_first_line(chunk.content, first)) is not None:
                return "same", line + begins - first
            moved = file.find_only_line(indexed) if indexed else None
            return ("changed", line) if moved is None else ("same", moved)
        return None, line


def iter_graph_places(response: GraphResponse) -> Iterator[tuple[CodePlace, str]]:
    """The places of an answer of the code graph, each with what its line should have."""
    nodes = {node.id: node for node in response.nodes}
    for node in (*response.nodes, *response.candidates):
        if node.source and node.path and node.lines:
            yield (node.source, node.path, parse_lines(node.lines)[0]), node.signature
    for edge in response.edges:
        user, target = nodes.get(edge.source), nodes.get(edge.target)
        if user and user.source and target:
            name = _simplify(target.name, is_file=target.kind == "file")
            yield from (((user.source, edge.path, line), name) for line in edge.lines)


def mark_graph(response: GraphResponse, places: CodePlaces) -> GraphResponse:
    """The answer with the lines of now; a note names what has changed."""
    sources = {node.id: node.source for node in response.nodes}
    nodes = tuple(_mark_node(node, places) for node in response.nodes)
    candidates = tuple(_mark_node(node, places) for node in response.candidates)
    edges = tuple(_mark_edge(edge, sources.get(edge.source), places) for edge in response.edges)
    stale = {it.path for it in (*nodes, *candidates, *edges) if it.file_state in ("changed", "missing")}
    notes = response.notes
    if paths := sorted(filter(None, stale)):
        names = ", ".join(paths[:_MAX_FILES_NAMED]) + (", …" if len(paths) > _MAX_FILES_NAMED else "")
        notes = (*notes, f"changed or gone since it was indexed, so that lines may be wrong: {names}")
    return replace(response, nodes=nodes, edges=edges, candidates=candidates, notes=notes)


def _mark_node(node: GraphNode, places: CodePlaces) -> GraphNode:
    if not node.source or not node.path:
        return node
    if not node.lines:
        return replace(node, file_state="missing") if places.is_missing(node.source, node.path) else node
    first, last = parse_lines(node.lines)
    state, line = places.locate(node.source, node.path, first)
    return replace(node, file_state=state, lines=format_lines(line, last + line - first))


def _mark_edge(edge: GraphEdge, source: str | None, places: CodePlaces) -> GraphEdge:
    locations = [places.locate(source, edge.path, line) for line in edge.lines]
    states = {state for state, _ in locations}
    worst = next((state for state in _WORST_FIRST if state in states), None)
    return replace(edge, file_state=worst, lines=tuple(sorted({line for _, line in locations})))


def iter_neighbour_places(results: Iterable[SearchResult]) -> Iterator[tuple[CodePlace, str]]:
    """The places of what results are connected to, each with what its line should have."""
    for result in results:
        own = str(result.metadata.get("symbol") or "").rpartition(".")[2]
        for kind in (*_DEFINED_ELSEWHERE, *_USED_ELSEWHERE):
            neighbours: Sequence[CodeNeighbour] = getattr(result.graph, kind, ())
            for it in neighbours:
                is_used = kind in _DEFINED_ELSEWHERE
                if it.source and it.path and it.line:
                    yield (it.source, it.path, it.line), it.signature if is_used else own
                if is_used and it.edge_line:
                    name = _simplify(it.name, is_file=it.name == it.path)
                    yield (result.citation.source, result.citation.path, it.edge_line), name


def mark_neighbours(result: SearchResult, places: CodePlaces) -> SearchResult:
    """The result with the lines of now of what it is connected to."""
    if not result.graph:
        return result
    marked: dict[str, Any] = {}
    for kind in (*_DEFINED_ELSEWHERE, *_USED_ELSEWHERE):
        user = result.citation if kind in _DEFINED_ELSEWHERE else None
        neighbours: Sequence[CodeNeighbour] = getattr(result.graph, kind)
        marked[kind] = tuple(_mark_neighbour(it, user, places) for it in neighbours)
    return replace(result, graph=replace(result.graph, **marked))


def _mark_neighbour(neighbour: CodeNeighbour, user: Any, places: CodePlaces) -> CodeNeighbour:
    """`user`: the citation of the result whose file has the use; None: the neighbour's has it."""
    state, line = places.locate(neighbour.source, neighbour.path, neighbour.line)
    source, path = (user.source, user.path) if user else (neighbour.source, neighbour.path)
    _, edge_line = places.locate(source, path, neighbour.edge_line)
    return replace(neighbour, line=line or None, edge_line=edge_line or None, file_state=state)


def _simplify(name: str, *, is_file: bool) -> str:
    """What a line that uses something should name: the last part of it."""
    return PurePosixPath(name).stem if is_file else name.rpartition(".")[2]


def _stands_at(file: PresentFile, line: int, expected: str) -> bool:
    """Whether something, or its beginning on one line, begins in a line."""
    head = " ".join(file.get_text_from(line, _HEAD_CHARS).split())
    at = head.find(expected.removesuffix("…"))
    return bool(expected) and 0 <= at < len(" ".join(file.get_line(line).split()))
