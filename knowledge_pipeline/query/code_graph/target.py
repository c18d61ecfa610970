"""Resolves the target of a query of the code graph: a symbol, a file, a folder, or a line.

Store.get                 a definition, by its name or the end of it
lake.store.Store.get      by its full name, as an import would write it
src/store.py              a file, by its path or the end of it
src/store                 all files of a folder
src/store.py:120          the definition around a line
src/store.py:Store.get    a definition of a file
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses.graph import GraphNode
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.languages import detect_language
from knowledge_pipeline.query.code_graph.visible_graph import IS_DEFINITION, VisibleGraph, to_nodes
from knowledge_pipeline.query.filters import replace_invalid_characters, to_conditions
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.readers import Row

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

    Raises:
        InvalidQuery: the text is empty.
        NotFound: the caller may see nothing of that name; the message suggests similar names.
    """
    target = replace_invalid_characters(text).strip()
    if not target:
        raise InvalidQuery("the target is empty: give a symbol, a path, or path:line")
    visibility = reduce(lambda left, right: left & right, to_conditions(target_filters), graph.visibility)
    graph = VisibleGraph(graph.reader, visibility)
    in_file = _PATH_AND_REST.match(target)
    if in_file and "::" not in target:
        return await _find_in_file(graph, in_file["path"], in_file["rest"])
    finders = (_find_by_path, _find_by_name) if _looks_like_path(target) else (_find_by_name, _find_by_path)
    for find in finders:
        if (found := await find(graph, target)) is not None:
            return found
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
    for where in (filters.eq("path", path), filters.ends_with_parts("path", path, "/")):
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
    if not rest.isdecimal() and (found := await _find_exact_in_file(graph, path, dotted)):
        return found
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
    named = [row for row in rows if row["name"] == dotted]
    named = named or [row for row in rows if row["name"].endswith(f".{dotted}")]
    if not named:
        names = {row["name"].rpartition(".")[2]: row["name"] for row in rows}
        similar = [names[name] for name in _find_similar(dotted.rpartition(".")[2], names)]
        raise NotFound(_add_suggestions(f"{file.path} defines no {dotted!r}", similar))
    return await _build_target(graph, named)


async def _find_exact_in_file(graph: VisibleGraph, path: str, dotted: str) -> ResolvedTarget | None:
    """What the one file of exactly this path defines by exactly this name, in one read."""
    in_file = filters.eq("path", path.removeprefix("./")) & IS_DEFINITION
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
    return f"{sentence}: try `knowledge search`"
