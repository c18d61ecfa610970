"""Assembles the response: each content once, cited, with related documents and code-graph neighbours."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from cachetools import LRUCache

from knowledge_pipeline.contract.describe import format_lines, link_to_lines, parse_first_line
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import (
    Citation,
    CodeNeighbour,
    CodeNeighbours,
    Relation,
    ResultSpan,
    ScoreExplanation,
    SearchResponse,
    SearchResult,
)
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.answer_cache import Stopwatch
from knowledge_pipeline.query.documents import Subject, find_relations
from knowledge_pipeline.query.filters import compile_filter, select_changes
from knowledge_pipeline.query.hits import Hit, IndexedChunk, RankedChunk
from knowledge_pipeline.query.open_release import OpenRelease
from knowledge_pipeline.query.retrieve import SearchScope, read_hits
from knowledge_pipeline.query.visible_graph import MIN_CONFIDENCE, VisibleGraph, class_of_constructor
from knowledge_pipeline.records import SPACE_BEFORE_KEY, VARIANT_MARK, is_variant_uri
from knowledge_pipeline.store.graph import WHOLE_EDGE_COLUMNS, RowLookup
from knowledge_pipeline.store.search import Row
from knowledge_pipeline.text import is_list

MAX_PER_KIND = 5

_INHERITANCE_KINDS = ("extends", "implements")
_INCOMING_KINDS = ("calls", *_INHERITANCE_KINDS)
_USE_KINDS = ("calls", "references", *_INHERITANCE_KINDS)


async def find_neighbours(graph: VisibleGraph, chunks: Sequence[IndexedChunk]) -> list[CodeNeighbours]:
    """What each chunk calls, what calls it, imports and inheritance, as far as the caller may see it.

    The graph is read for all chunks at once, in two pairs of steps beside each other: what their lines
    define, then who uses it; what their lines use, then where that is defined.
    """
    if not chunks:
        return []
    (shown, incoming), (edges, targets) = await asyncio.gather(
        _read_shown(graph, chunks), _read_used(graph, chunks)
    )
    return [
        _build_neighbours(chunk, incoming, uses, imports, targets)
        for chunk, (uses, imports) in zip(shown, edges, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _ChunkInGraph:
    """A chunk, and what stands in its lines."""

    chunk: IndexedChunk
    nodes: frozenset[str]  # that it shows the beginning of, or is a part of
    callable_nodes: frozenset[str]  # the same, and the class that one of them constructs
    names: Mapping[str, str]  # full name -> node, by which other sources may know it

    @classmethod
    def build(cls, chunk: IndexedChunk, definitions: Sequence[Row], aliases: Sequence[Row]) -> _ChunkInGraph:
        """Pick a chunk's own rows out of those of all chunks."""
        file = (chunk.source, chunk.path)
        first, last = chunk.start_line, chunk.end_line
        in_file = (row for row in definitions if (row["source"], row["path"]) == file)
        within = [row for row in in_file if row["start_line"] <= last and row["end_line"] >= first]
        begun = [row for row in within if row["start_line"] >= first]
        shown = begun or sorted(within, key=lambda row: row["end_line"] - row["start_line"])[:1]
        classes = {class_of_constructor(row["name"]) for row in shown}
        nodes = frozenset(row["node"] for row in shown)
        callable_nodes = nodes | {row["node"] for row in within if row["name"] in classes}
        names = (row for row in (*within, *aliases) if row["node"] in callable_nodes)
        return cls(chunk, nodes, callable_nodes, {row["full_name"]: row["node"] for row in names})

    def is_used_by(self, row: Row) -> bool:
        """Whether an edge leads here from outside: by node, or by full name from another source."""
        if row["source_id"] in self.nodes:
            return False
        target = row["target_id"]
        if target is None and row["source"] != self.chunk.source:
            target = self.names.get(row["target_name"])
        return target in (self.callable_nodes if row["kind"] == "calls" else self.nodes)


@dataclass(frozen=True, slots=True)
class _Definitions:
    """Where what is used is defined."""

    by_node: Mapping[str, Row]
    by_full_name: Mapping[str, Sequence[CodeNeighbour]]  # of all sources

    @classmethod
    async def read_targets(cls, graph: VisibleGraph, edges: Sequence[Row]) -> _Definitions:
        """The targets of edges: those in the same source by node, others by full name."""
        nodes = {row["target_id"] for row in edges if row["target_id"]}
        names = {row["target_name"] for row in edges if not row["target_id"]}
        rows, nodes_by_name = await asyncio.gather(
            graph.look_up_symbols(RowLookup({"node": nodes}, excluded_kinds=("alias",))),
            graph.find_by_full_name(names, as_files=False),
        )
        by_full_name: dict[str, list[CodeNeighbour]] = {}
        for name, same_name in nodes_by_name.items():
            for node in same_name:
                line = parse_first_line(node.lines) if node.lines else None
                neighbour = CodeNeighbour(node.name, node.source, node.path, line, node.signature)
                by_full_name.setdefault(name, []).append(neighbour)
        last_first = sorted(rows, key=lambda row: row["start_line"], reverse=True)  # of twins the first wins
        return cls({row["node"]: row for row in last_first}, by_full_name)

    def resolve(self, row: Row) -> Iterator[CodeNeighbour]:
        """What an edge leads to, that the caller may see; a name alone where nothing indexed has it."""
        if row["target_id"] is None:
            same_name = self.by_full_name.get(row["target_name"], ())
            others = [neighbour for neighbour in same_name if neighbour.source != row["source"]]
            yield from others or [CodeNeighbour(row["target_name"])]
        elif target := self.by_node.get(row["target_id"]):
            line = None if target["kind"] == "file" else target["start_line"]
            name = target["name"] or target["path"]
            yield CodeNeighbour(name, target["source"], target["path"], line, target["signature"])


async def _read_shown(
    graph: VisibleGraph, chunks: Sequence[IndexedChunk]
) -> tuple[list[_ChunkInGraph], list[Row]]:
    """What the chunks define; and sure calls of it and inheritance from it, from other sources too."""
    lines = _span_files(chunks)
    in_lines = RowLookup(
        {"path": lines.keys()},
        sources={chunk.source for chunk in chunks},
        excluded_kinds=("alias", "file"),
        lines=lines,
        line_columns=("start_line", "end_line"),
    )
    definitions, aliases = await asyncio.gather(graph.look_up_symbols(in_lines), _read_aliases(graph, chunks))
    shown = [_ChunkInGraph.build(chunk, definitions, aliases) for chunk in chunks]
    targets = {"target_id": {node for chunk in shown for node in chunk.callable_nodes}}
    if await graph.has_several_sources():
        targets["target_name"] = {name for chunk in shown for name in chunk.names}
    incoming = RowLookup(targets, kinds=_INCOMING_KINDS, min_confidence=MIN_CONFIDENCE)
    return shown, await graph.look_up_edges(incoming, columns=WHOLE_EDGE_COLUMNS)


async def _read_used(
    graph: VisibleGraph, chunks: Sequence[IndexedChunk]
) -> tuple[list[tuple[list[Row], list[Row]]], _Definitions]:
    """For each chunk the sure uses in its lines, and the imports of its file; and their targets."""
    lines = _span_files(chunks)
    in_lines = RowLookup(
        {"path": lines.keys()},
        sources={chunk.source for chunk in chunks},
        kinds=_USE_KINDS,
        lines=lines,
        unbounded_kinds=("imports",),
        min_confidence=MIN_CONFIDENCE,
    )
    outgoing = await graph.look_up_edges(in_lines, columns=WHOLE_EDGE_COLUMNS)
    edges: list[tuple[list[Row], list[Row]]] = []
    for chunk in chunks:
        file = (chunk.source, chunk.path)
        own = [row for row in outgoing if (row["source"], row["path"]) == file]
        first, last = chunk.start_line, chunk.end_line
        uses = [row for row in own if row["kind"] != "imports" and first <= row["line"] <= last]
        edges.append((uses, [row for row in own if row["kind"] == "imports"]))
    return edges, await _Definitions.read_targets(
        graph, [row for uses, imports in edges for row in (*uses, *imports)]
    )


async def _read_aliases(graph: VisibleGraph, chunks: Sequence[IndexedChunk]) -> list[Row]:
    """Re-exports of definitions that have the name of one of the chunks'."""
    if not await graph.has_several_sources():
        return []
    symbols = {symbol for chunk in chunks for symbol in chunk.symbols}
    symbols |= {name for symbol in symbols if (name := class_of_constructor(symbol))}
    simple = {symbol.rpartition(".")[2] for symbol in symbols}
    return await graph.look_up_symbols(RowLookup({"simple": simple}, kinds=("alias",)))


def _span_files(chunks: Sequence[IndexedChunk]) -> dict[str, tuple[int, int]]:
    """Path -> the first and the last line of the chunks there."""
    spans: dict[str, tuple[int, int]] = {}
    for chunk in chunks:
        first, last = spans.get(chunk.path, (chunk.start_line, chunk.end_line))
        spans[chunk.path] = min(first, chunk.start_line), max(last, chunk.end_line)
    return spans


def _build_neighbours(
    chunk: _ChunkInGraph,
    incoming: Sequence[Row],
    used: Sequence[Row],
    imported: Sequence[Row],
    targets: _Definitions,
) -> CodeNeighbours:
    """By sure edges: `incoming` ones of all chunks, and those that go out from its lines and its file."""

    def order_by_nearness(row: Row) -> tuple[bool, float, str, str, int]:
        is_elsewhere = row["source"] != chunk.chunk.source
        return is_elsewhere, -row["confidence"], row["source"], row["path"], row["line"]

    def list_used(edges: Iterable[Row]) -> list[tuple[CodeNeighbour, Row]]:
        return _deduplicate((neighbour, row) for row in edges for neighbour in targets.resolve(row))

    def list_users(kinds: Sequence[str]) -> list[tuple[CodeNeighbour, Row]]:
        return _deduplicate(
            (CodeNeighbour(row["source_name"] or row["path"], row["source"], row["path"], row["line"]), row)
            for row in users
            if row["kind"] in kinds
        )

    uses = sorted(
        (row for row in used if row["target_id"] not in chunk.nodes),
        key=lambda row: (row["line"], row["target_id"] is None, row["target_name"]),
    )
    users = sorted((row for row in incoming if chunk.is_used_by(row)), key=order_by_nearness)
    linked = {
        "calls": list_used(row for row in uses if row["kind"] == "calls"),
        "called_by": list_users(("calls",)),
        "imports": list_used(_order_imports(chunk.chunk, used, imported)),
        "extends": list_used(row for row in uses if row["kind"] in _INHERITANCE_KINDS),
        "implemented_by": list_users(_INHERITANCE_KINDS),
    }
    omitted = {kind: len(all_) - MAX_PER_KIND for kind, all_ in linked.items() if len(all_) > MAX_PER_KIND}
    shown = {
        kind: tuple(
            replace(neighbour, edge_line=row["line"], confidence=round(row["confidence"], 3))
            for neighbour, row in all_[:MAX_PER_KIND]
        )
        for kind, all_ in linked.items()
    }
    return CodeNeighbours(**shown, omitted=omitted)


def _order_imports(chunk: IndexedChunk, uses: Sequence[Row], imports: Sequence[Row]) -> list[Row]:
    """What the file imports, what the chunk uses first; not the modules of what it imports by name."""
    exact = {row["target_path"] for row in imports if row["target_name"]} - {None}
    outer = (row["target_name"] for row in imports if row["target_id"] is None)
    modules = set[str]().union(*map(_iter_modules, outer))
    ends = ("target_id", "target_path", "target_name")
    used = {row[end] for row in uses for end in ends} - {None}
    used_names = used.union(*map(_iter_modules, used))

    def is_enclosing_module(row: Row) -> bool:
        if row["target_id"] is not None:
            return not row["target_name"] and row["target_path"] in exact
        return row["target_name"] in modules

    def order_by_use(row: Row) -> tuple[bool, int]:
        if row["target_id"] is None:
            is_used = row["target_name"] in used_names
        else:
            is_used = (row["target_id"] if row["target_name"] else row["target_path"]) in used
        return not (is_used or chunk.start_line <= row["line"] <= chunk.end_line), row["line"]

    return sorted((row for row in imports if not is_enclosing_module(row)), key=order_by_use)


def _iter_modules(name: str) -> Iterator[str]:
    """What a dotted name is in: `a` and `a.b` of `a.b.c`."""
    return (name[:at] for at, character in enumerate(name) if character == ".")


def _deduplicate(pairs: Iterable[tuple[CodeNeighbour, Row]]) -> list[tuple[CodeNeighbour, Row]]:
    """Each neighbour once, with the first edge that leads to it."""
    first: dict[tuple[str | None, str | None, str], tuple[CodeNeighbour, Row]] = {}
    for neighbour, row in pairs:
        first.setdefault((neighbour.source, neighbour.path, neighbour.name), (neighbour, row))
    return list(first.values())


MAX_ENRICHED = 5  # the best code results of a response
MAX_KEPT = 10_000  # chunks whose relations are kept, and whose neighbours: a few KB each


class Enricher:
    """Adds related documents and code-graph neighbours to results. For one event loop.

    Both follow from a release and what the caller may see, so they are kept for the results that come again.
    """

    def __init__(self, max_relations: int) -> None:
        """`max_relations` of each result, the most telling ones."""
        self._max_relations = max_relations
        self._identity: tuple[Hashable, ...] = ()  # of the release that what is kept was read of
        self._relations: LRUCache[Hashable, tuple[Relation, ...]] = LRUCache(MAX_KEPT)
        self._neighbours: LRUCache[Hashable, CodeNeighbours] = LRUCache(MAX_KEPT)

    async def enrich(
        self,
        open_release: OpenRelease,
        access: Access,
        chunks: Sequence[IndexedChunk],
        results: tuple[SearchResult, ...],
        watch: Stopwatch,
        *,
        with_neighbours: bool = False,
    ) -> tuple[tuple[SearchResult, ...], str | None]:
        """Adds the most telling relations to each result, and neighbours in the code graph to the best code.

        `chunks` are those of the results. Nothing is added that the caller may not see. Also returns why
        results lack neighbours that they should have.
        """
        release = open_release.release
        if release.identity != self._identity:
            self._identity = release.identity
            self._relations.clear()
            self._neighbours.clear()
        relations, (neighbours, graph_problem) = await asyncio.gather(
            self._find_relations(open_release, access, chunks if self._max_relations else [], watch),
            self._find_neighbours(open_release, access, chunks if with_neighbours else [], watch),
        )
        enriched = tuple(
            replace(result, related=relations.get(result.id, ()), graph=neighbours.get(result.id))
            for result in results
        )
        return enriched, graph_problem

    async def _find_relations(
        self, open_release: OpenRelease, access: Access, chunks: Sequence[IndexedChunk], watch: Stopwatch
    ) -> dict[str, tuple[Relation, ...]]:
        """Chunk id -> relations, the most telling first."""
        if not chunks:
            return {}
        visible, tables = compile_filter(access), tuple(sorted(open_release.release.tables.items()))
        subjects = [Subject(chunk.source, chunk.uri, chunk.names, chunk.mentions) for chunk in chunks]
        keys = [(tables, visible, subject) for subject in subjects]
        by_key = {key: self._relations[key] for key in keys if key in self._relations}
        missing = [key for key in dict.fromkeys(keys) if key not in by_key]
        if missing:
            with watch.step("relate"):
                readers, _ = await open_release.open_readable_readers()
                read, is_truncated = await find_relations(readers, visible, [key[-1] for key in missing])
            for key, relations in zip(missing, read, strict=True):
                by_key[key] = tuple(relations)[: self._max_relations]
                if not is_truncated:  # else it depends on what else was asked for
                    self._relations[key] = by_key[key]
        return {chunk.id: by_key[key] for chunk, key in zip(chunks, keys, strict=True)}

    async def _find_neighbours(
        self, open_release: OpenRelease, access: Access, chunks: Sequence[IndexedChunk], watch: Stopwatch
    ) -> tuple[dict[str, CodeNeighbours | None], str | None]:
        """Chunk id -> neighbours, for the best code of main branches; and why there is no code graph."""
        code = [chunk for chunk in chunks if chunk.metadata.get("source_type") == "code"]
        code = [chunk for chunk in code if VARIANT_MARK not in chunk.uri or not is_variant_uri(chunk.uri)]
        code = code[:MAX_ENRICHED]
        if not code:
            return {}, None
        with watch.step("enrich"):
            try:
                reader = await open_release.open_graph_reader()
            except StoreError as problem:
                return {}, str(problem)
            if reader is None:
                return {}, "the release has no code graph: run `knowledge refresh`"
            graph = VisibleGraph.for_access(reader, access)
            versions = tuple(sorted(graph.reader.versions.items()))
            keys = {
                chunk.id: (
                    versions,
                    graph.visibility,
                    chunk.source,
                    chunk.path,
                    chunk.start_line,
                    chunk.end_line,
                    chunk.symbols,
                )
                for chunk in code
            }
            by_id = {id_: self._neighbours[key] for id_, key in keys.items() if key in self._neighbours}
            missing = [chunk for chunk in code if chunk.id not in by_id]
            for chunk, own in zip(missing, await find_neighbours(graph, missing), strict=True):
                by_id[chunk.id] = self._neighbours[keys[chunk.id]] = own
        return {id_: neighbours or None for id_, neighbours in by_id.items()}, None


_WORDS = re.compile(r"\w+|[^\w\s]")
_SHINGLE_WORDS = 4  # words of a shingle
_MIN_JACCARD = 0.8  # share of shingles that both have, of those that either has

Shingles = frozenset[tuple[str, ...]]


def shingles(text: str) -> Shingles:
    """Every run of four words of a text; a shorter text is one run."""
    if text.isascii():  # its letters are folded one by one
        words: list[str] = _WORDS.findall(text.lower())
    else:
        words = [word.casefold() for word in _WORDS.findall(text)]
    if len(words) < _SHINGLE_WORDS:
        return frozenset((tuple(words),))
    return frozenset(zip(*(words[start:] for start in range(_SHINGLE_WORDS)), strict=False))


def is_nearly_equal(first: Shingles, second: Shingles) -> bool:
    """Whether two texts share most of their runs of words (a Jaccard index of at least 0.8).

    White space and letter case do not count. In a text of 100 words, about two words may differ.
    """
    shared = len(first & second)
    return shared >= _MIN_JACCARD * (len(first) + len(second) - shared)


def find_first_duplicates(texts: Iterable[str]) -> Iterator[int]:
    """For each text the index of the first one that it is nearly equal to: its own, if it is new."""
    firsts: list[tuple[int, Shingles]] = []
    for index, text in enumerate(texts):
        own = shingles(text)
        size = len(own)
        alike = (
            at
            for at, other in firsts
            if min(size, len(other)) >= _MIN_JACCARD * max(size, len(other)) and is_nearly_equal(own, other)
        )
        first = next(alike, index)
        if first == index:
            firsts.append((index, own))
        yield first


async def assemble_best(
    hits: Sequence[Hit[RankedChunk]], scope: SearchScope
) -> tuple[list[IndexedChunk], tuple[SearchResult, ...]]:
    """The chunks and results of the best hits, in the order given; of equal contents only the first.

    Of a diverse plan also only the first of nearly equal ones. Many are read only where contents are alike.
    What restrictions leave out of a chunk is not shown.
    """
    plan, count = scope.plan, 2 * scope.plan.limit
    while True:
        first_by_content = dict[str, Hit[IndexedChunk]]()
        for hit in await read_hits(scope, hits[:count]):
            first_by_content.setdefault(hit.chunk.content_hash, hit)
        distinct: Iterable[Hit[IndexedChunk]] = first_by_content.values()
        if plan.diverse:
            firsts = find_first_duplicates(hit.chunk.text for hit in first_by_content.values())
            distinct = (
                hit for at, (hit, first) in enumerate(zip(distinct, firsts, strict=True)) if first == at
            )
        narrowed = ((chunk, hit) for hit in distinct if (chunk := narrow_chunk(hit.chunk, plan.restrictions)))
        shown = list(islice(narrowed, plan.limit))
        if len(shown) == plan.limit or count >= len(hits):
            break
        count *= 4
    explain = plan.question.explain
    results = (to_result(chunk, hit.score, hit.explanation, explain=explain) for chunk, hit in shown)
    return [chunk for chunk, _ in shown], tuple(results)


_PART_START = {
    "git_history": re.compile(r"^diff (?P<path>\S[^\n]*)\n(?=@@ )", re.MULTILINE),
    "github_pr": re.compile(  # turns, as connectors head them; of a path that is cut nothing is known
        r"(?:\A|(?<=\n\n))[A-Z][a-z]+(?: [a-z]+){0,2}(?: by [^\n]{1,100}?)?"
        r"(?: on (?P<path>[^\n…][^\n]{0,180}?)(?: lines? \d+(?:-\d+)?(?: in [^\n]{1,80}?)?)?)?"
        r", \d{4}-\d\d-\d\d:(?=\n)"
    ),
}
"""Where parts of a change begin that are about one path: diffs of a commit, turns of a pull request."""


_WORD = re.compile(r"[^\W_]+")
_LINK_TARGET = re.compile(r"\]\([^()\n]*\)")


def narrow_chunk(chunk: IndexedChunk, restrictions: Sequence[Filters]) -> IndexedChunk | None:
    """What restrictions take of a chunk: of a change the parts at their paths, of a text their section on.

    The message of a commit and what a pull request says of no path stay. None where nothing is left.
    """
    pattern = _PART_START.get(chunk.source_type)
    if pattern is None:
        start, heading = _find_section(chunk, [word for it in restrictions for word in it.sections])
        return _keep_spans(chunk, [(start, len(chunk.text))], section=heading) if start else chunk
    is_commit = chunk.source_type == "git_history"
    changed: Sequence[str] = chunk.metadata.get("paths" if is_commit else "files", ())
    selected = select_changes(changed, restrictions)
    if not selected or len(selected) == len({*changed}):
        return chunk
    starts = [
        (0, _find_path_that_goes_on(chunk, changed, pattern)),
        *((match.start(), match["path"]) for match in pattern.finditer(chunk.text)),
    ]
    ends = [*(start for start, _ in starts[1:]), len(chunk.text)]
    kept = [
        (start, end)
        for (start, path), end in zip(starts, ends, strict=True)
        if start < end and (path is None or path in selected)
    ]
    facts = {"paths": [path for path in changed if path in selected]} if is_commit else {}
    return _keep_spans(chunk, kept, **facts) if kept else None


def _find_path_that_goes_on(
    chunk: IndexedChunk, changed: Sequence[str], pattern: re.Pattern[str]
) -> str | None:
    """The path of the part of a change with which a chunk begins, where an earlier chunk has its start."""
    if chunk.source_type == "git_history":
        return changed[0] if chunk.metadata.get("anchor", "").startswith("diff ") else None
    headings = (pattern.match(f"{line}:\n") for line in chunk.header.split("\n"))
    return next((heading["path"] for heading in headings if heading), None)


def _find_section(chunk: IndexedChunk, sections: Sequence[str]) -> tuple[int, str]:
    """Where the first asked section begins in a chunk of several, and its heading; 0 where none is found."""
    headings: Any = chunk.metadata.get("sections") if sections else None  # a plugin may give anything
    words = re.compile("|".join(rf"(?:^|\W){re.escape(word)}(?:\W|$)" for word in sections), re.IGNORECASE)
    heading = next(filter(words.search, map(str, headings)), "") if is_list(headings) else ""
    start, wanted = 0, _WORD.findall(heading)  # its markup is not in the heading
    for line in chunk.text.splitlines(keepends=True) if wanted else ():
        if _WORD.findall(_LINK_TARGET.sub("]", line)) == wanted:
            return start, heading
        start += len(line)
    return 0, ""


def _keep_spans(chunk: IndexedChunk, spans: Sequence[tuple[int, int]], **facts: Any) -> IndexedChunk:
    text = "".join(chunk.text[start:end] for start, end in spans).rstrip()
    first = chunk.start_line + chunk.text.count("\n", 0, spans[0][0])
    return replace(
        chunk,
        text=text,
        start_char=chunk.start_char + spans[0][0],
        start_line=first,
        end_line=first + text.count("\n"),
        metadata={**chunk.metadata, **facts},
    )


def to_result(
    chunk: IndexedChunk, score: float, ranking: ScoreExplanation | None = None, *, explain: bool = False
) -> SearchResult:
    """A chunk as a caller gets it."""
    lines = format_lines(chunk.start_line, chunk.end_line)
    url = link_to_lines(chunk.url, lines)
    return SearchResult(
        id=chunk.id,
        content=chunk.text,
        score=round(score, 6),
        metadata={name: value for name, value in chunk.metadata.items() if name != SPACE_BEFORE_KEY},
        citation=Citation(chunk.source, chunk.path, lines, chunk.title, url),
        span=ResultSpan(
            uri=chunk.uri,
            start_char=chunk.start_char,
            end_char=chunk.start_char + len(chunk.text),
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            space_before=chunk.metadata.get(SPACE_BEFORE_KEY),
        ),
        explain=ranking if explain else None,
        ranking=ranking,
    )


def build_response(
    open_release: OpenRelease,
    results: tuple[SearchResult, ...],
    watch: Stopwatch,
    *,
    degraded: tuple[str, ...] = (),
    explain: Mapping[str, Any] | None = None,
    confidence: float | None = None,
    notes: tuple[str, ...] = (),
) -> SearchResponse:
    """The response of a release, with an id of its own and the times taken so far."""
    return SearchResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=open_release.release.release,
        degraded=degraded or tuple(open_release.missing),
        embedded_share=open_release.embedded_share,
        results=results,
        timings_ms=watch.timings_ms,
        steps=tuple(watch.steps),
        explain=explain,
        confidence=None if confidence is None else round(confidence, 4),
        notes=notes,
    )
