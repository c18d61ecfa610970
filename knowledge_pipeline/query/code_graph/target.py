"""What a question to the code graph is about: a symbol, a file, a folder, or a line.

Store.get                 a definition, by its name or the end of it
lake.store.Store.get      by its full name, as an import would write it
src/store.py              a file, by its path or the end of it
src/store                 all files of a folder
src/store.py:120          the definition around a line
src/store.py:Store.get    a definition of a file
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import GraphNode
from knowledge_pipeline.contract.types import MAX_TARGET_CHARS
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.languages import detect_language
from knowledge_pipeline.query.code_graph.visible_graph import IS_DEFINITION, VisibleGraph, to_nodes
from knowledge_pipeline.query.filters import replace_invalid_characters, to_conditions
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import Row

_MAX_CANDIDATES = 50
_MAX_MATCHES = 500  # rows by one name; there are more only of names like `get`
_PATH_AND_REST = re.compile(r"^(?P<path>[^:]+):(?P<rest>[^:].*)$")
_SEPARATORS = re.compile(r"::|#|->")
_IS_FILE = filters.eq("kind", "file")


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """What a question is about: the nodes that are meant, or those that may be."""

    nodes: tuple[GraphNode, ...] = ()
    candidates: tuple[GraphNode, ...] = ()
    is_truncated: bool = False  # than the candidates


async def find_target(rows: VisibleGraph, text: str, target_filters: Filters) -> ResolvedTarget:
    """Find what is meant.

    Raises:
        QuestionRefused: nothing is asked for, or too much.
        NotFound: there is nothing of that name that the caller may see; near names are told.
    """
    asked = replace_invalid_characters(text).strip()
    if not asked or len(asked) > MAX_TARGET_CHARS:
        raise InvalidQuery("give a symbol, a path, or path:line, of at most 1,000 characters")
    within = rows if not (conditions := to_conditions(target_filters)) else _restrict_graph(rows, conditions)
    placed = _PATH_AND_REST.match(asked)
    if placed and "::" not in asked:
        return await _find_in_file(within, placed["path"], placed["rest"], asked)
    ways = (_find_by_path, _find_by_name) if _looks_like_path(asked) else (_find_by_name, _find_by_path)
    for way in ways:
        if (found := await way(within, asked)) is not None:
            return found
    raise NotFound(await _describe_unknown(within, asked))


def _restrict_graph(rows: VisibleGraph, conditions: Sequence[Filter]) -> VisibleGraph:
    visible = rows.visibility
    for condition in conditions:
        visible &= condition
    return VisibleGraph(rows.reader, visible)


def _looks_like_path(target: str) -> bool:
    return "/" in target or detect_language(target) is not None


async def _find_by_name(rows: VisibleGraph, target: str) -> ResolvedTarget | None:
    """By full name, else by qualified name, else by the end of one."""
    dotted = _SEPARATORS.sub(".", target.removesuffix("()")).strip(".")
    last = dotted.rpartition(".")[2]
    if not last:
        return None
    if found := await rows.read_symbols(
        filters.one_of("full_name", sorted({target, dotted})), limit=_MAX_MATCHES
    ):
        return await _build_target(rows, found)
    ending = filters.eq("simple", last) & IS_DEFINITION
    if last != dotted:
        ending &= filters.ends_with_parts("name", dotted, ".")
    found = await rows.read_symbols(ending, limit=_MAX_MATCHES)
    exactly = [row for row in found if row["name"] == dotted]
    return await _build_target(rows, exactly or found) if found else None


async def _build_target(rows: VisibleGraph, found: Sequence[Row]) -> ResolvedTarget:
    """One node, or the files of one package; several others are candidates."""
    aliased = {row["node"] for row in found if row["kind"] == "alias"}
    nodes = to_nodes(row for row in found if row["kind"] != "alias")
    nodes |= await rows.read_nodes(aliased - nodes.keys())
    files = [node for node in nodes.values() if node.kind == "file"]
    if len(nodes) == 1 or (len(files) == len(nodes) and len({node.full_name for node in files}) == 1):
        return ResolvedTarget(tuple(nodes.values()))
    listed = sorted(nodes.values(), key=lambda node: (node.source or "", node.path or "", node.name))
    return ResolvedTarget(
        candidates=tuple(listed[:_MAX_CANDIDATES]), is_truncated=len(listed) > _MAX_CANDIDATES
    )


async def _find_by_path(rows: VisibleGraph, target: str) -> ResolvedTarget | None:
    """A file, else files that end so, else all files of a folder."""
    path = target.removeprefix("./").strip("/")
    if not path:
        return None
    for where in (filters.eq("path", path), filters.ends_with_parts("path", path, "/")):
        if found := await rows.read_symbols(where & _IS_FILE):
            nodes = list(to_nodes(found).values())
            return ResolvedTarget(tuple(nodes)) if len(nodes) == 1 else _build_file_candidates(nodes)
    found = await rows.read_symbols(filters.starts_with("path", f"{path}/") & _IS_FILE)
    nodes = to_nodes(found).values()
    sources = {node.source for node in nodes}
    if len(sources) > 1:
        return _build_file_candidates(list(nodes))
    return ResolvedTarget(tuple(nodes)) if nodes else None


def _build_file_candidates(nodes: list[GraphNode]) -> ResolvedTarget:
    return ResolvedTarget(
        candidates=tuple(nodes[:_MAX_CANDIDATES]), is_truncated=len(nodes) > _MAX_CANDIDATES
    )


async def _find_in_file(rows: VisibleGraph, path: str, rest: str, target: str) -> ResolvedTarget:
    """The innermost definition around a line, or a definition by name, within a file."""
    if not rest.isdecimal() and (found := await _find_exact_in_file(rows, path, _to_dotted(rest))):
        return found
    files = await _find_by_path(rows, path)
    if files is None:
        raise NotFound(await _describe_unknown(rows, path))
    if len(files.nodes) != 1:
        return files if files.candidates else _build_file_candidates(list(files.nodes))
    (file,) = files.nodes
    there = filters.eq("source", file.source or "") & filters.eq("path", file.path or "") & IS_DEFINITION
    held = [row for row in await rows.read_symbols(there) if row["kind"] != "file"]
    if rest.isdecimal():
        around = [row for row in held if row["start_line"] <= int(rest) <= row["end_line"]]
        inner = min(
            around, key=lambda row: (row["end_line"] - row["start_line"], -row["start_line"]), default=None
        )
        return ResolvedTarget(tuple((await rows.read_nodes([inner["node"]])).values())) if inner else files
    dotted = _to_dotted(rest)
    named = [row for row in held if row["name"] == dotted]
    named = named or [row for row in held if row["name"].endswith(f".{dotted}")]
    if not named:
        names = {row["name"].rpartition(".")[2]: row["name"] for row in held}
        close = get_close_matches(dotted.rpartition(".")[2], names, n=3, cutoff=0.6)
        near = [names[name] for name in close]
        raise NotFound(_add_suggestions(f"{file.path} defines no {dotted!r}", near))
    return await _build_target(rows, named)


async def _find_exact_in_file(rows: VisibleGraph, path: str, dotted: str) -> ResolvedTarget | None:
    """What the one file of exactly this path defines by exactly this name, in one read."""
    here = filters.eq("path", path.removeprefix("./")) & IS_DEFINITION
    last = dotted.rpartition(".")[2]
    found = await rows.read_symbols(here & (_IS_FILE | filters.eq("simple", last)))
    if sum(row["kind"] == "file" for row in found) != 1:
        return None
    nodes = to_nodes(row for row in found if row["name"] == dotted)
    return ResolvedTarget(tuple(nodes.values())) if dotted and len(nodes) == 1 else None


def _to_dotted(name: str) -> str:
    return _SEPARATORS.sub(".", name.removesuffix("()"))


async def _describe_unknown(rows: VisibleGraph, target: str) -> str:
    """A sentence with names that are near, of those that the caller may see."""
    shown = target if len(target) <= 200 else f"{target[:200]}…"
    if _looks_like_path(target):
        last = target.rstrip("/").rpartition("/")[2]
        found = await rows.read_symbols(_IS_FILE)
        paths = {row["path"].rpartition("/")[2]: row["path"] for row in found}
        near = [paths[name] for name in get_close_matches(last, paths, n=3, cutoff=0.6)]
        return _add_suggestions(f"there is no file, folder or symbol {shown!r} in the code graph", near)
    last = _SEPARATORS.sub(".", target).strip(".").rpartition(".")[2]
    found = (
        await rows.read_symbols(filters.starts_with_folded("simple", last[:1]) & IS_DEFINITION)
        if last
        else []
    )
    simple = {row["name"].rpartition(".")[2] for row in found}
    near = get_close_matches(last, simple, n=3, cutoff=0.6)
    return _add_suggestions(f"there is no symbol {shown!r} in the code graph", near)


def _add_suggestions(sentence: str, suggestions: Sequence[str]) -> str:
    return (
        f"{sentence}: did you mean {', '.join(suggestions)}?"
        if suggestions
        else f"{sentence}: `knowledge search` finds it"
    )
