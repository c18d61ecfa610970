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

from knowledge_pipeline.errors import NotFound, QuestionRefused
from knowledge_pipeline.languages import language_of
from knowledge_pipeline.query.code_graph.answers import Node
from knowledge_pipeline.query.code_graph.visible_graph import DEFINED, GraphRows, nodes_of
from knowledge_pipeline.query.filters import Filters, clean
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import Row

MAX_CHARS = 1_000
_CANDIDATES = 50
_MOST_MEANT = 500  # rows by one name; there are more only of names like `get`
_PLACED = re.compile(r"^(?P<path>[^:]+):(?P<rest>[^:].*)$")
_SEPARATORS = re.compile(r"::|#|->")
_FILE = filters.eq("kind", "file")


@dataclass(frozen=True, slots=True)
class Target:
    """What a question is about: the nodes that are meant, or those that may be."""

    nodes: tuple[Node, ...] = ()
    candidates: tuple[Node, ...] = ()
    more: bool = False  # than the candidates


async def find_target(rows: GraphRows, text: str, narrowed: Filters) -> Target:
    """Find what is meant.

    Raises:
        QuestionRefused: nothing is asked for, or too much.
        NotFound: there is nothing of that name that the caller may see; near names are told.
    """
    asked = clean(text).strip()
    if not asked or len(asked) > MAX_CHARS:
        raise QuestionRefused("give a symbol, a path, or path:line, of at most 1,000 characters")
    within = rows if not (conditions := narrowed.conditions()) else _narrowed(rows, conditions)
    placed = _PLACED.match(asked)
    if placed and "::" not in asked:
        return await _placed(within, placed["path"], placed["rest"], asked)
    ways = (_by_path, _by_name) if _looks_like_path(asked) else (_by_name, _by_path)
    for way in ways:
        if (found := await way(within, asked)) is not None:
            return found
    raise NotFound(await _unknown(within, asked))


def _narrowed(rows: GraphRows, conditions: Sequence[Filter]) -> GraphRows:
    visible = rows.visible
    for condition in conditions:
        visible &= condition
    return GraphRows(rows.reader, visible)


def _looks_like_path(asked: str) -> bool:
    return "/" in asked or language_of(asked) is not None


async def _by_name(rows: GraphRows, asked: str) -> Target | None:
    """By full name, else by qualified name, else by the end of one."""
    dotted = _SEPARATORS.sub(".", asked.removesuffix("()")).strip(".")
    last = dotted.rpartition(".")[2]
    if not last:
        return None
    if found := await rows.symbols(filters.one_of("full_name", sorted({asked, dotted})), limit=_MOST_MEANT):
        return await _target(rows, found)
    ending = filters.eq("simple", last) & DEFINED
    if last != dotted:
        ending &= filters.ends_with_parts("name", dotted, ".")
    found = await rows.symbols(ending, limit=_MOST_MEANT)
    exactly = [row for row in found if row["name"] == dotted]
    return await _target(rows, exactly or found) if found else None


async def _target(rows: GraphRows, found: Sequence[Row]) -> Target:
    """One node, or the files of one package; several others are candidates."""
    aliased = {row["node"] for row in found if row["kind"] == "alias"}
    nodes = nodes_of(row for row in found if row["kind"] != "alias")
    nodes |= await rows.nodes(aliased - nodes.keys())
    files = [node for node in nodes.values() if node.kind == "file"]
    if len(nodes) == 1 or (len(files) == len(nodes) and len({node.full_name for node in files}) == 1):
        return Target(tuple(nodes.values()))
    listed = sorted(nodes.values(), key=lambda node: (node.source or "", node.path or "", node.name))
    return Target(candidates=tuple(listed[:_CANDIDATES]), more=len(listed) > _CANDIDATES)


async def _by_path(rows: GraphRows, asked: str) -> Target | None:
    """A file, else files that end so, else all files of a folder."""
    path = asked.removeprefix("./").strip("/")
    if not path:
        return None
    for where in (filters.eq("path", path), filters.ends_with_parts("path", path, "/")):
        if found := await rows.symbols(where & _FILE):
            nodes = list(nodes_of(found).values())
            return Target(tuple(nodes)) if len(nodes) == 1 else _several_files(nodes)
    found = await rows.symbols(filters.begins("path", f"{path}/") & _FILE)
    nodes = nodes_of(found).values()
    sources = {node.source for node in nodes}
    if len(sources) > 1:
        return _several_files(list(nodes))
    return Target(tuple(nodes)) if nodes else None


def _several_files(nodes: list[Node]) -> Target:
    return Target(candidates=tuple(nodes[:_CANDIDATES]), more=len(nodes) > _CANDIDATES)


async def _placed(rows: GraphRows, path: str, rest: str, asked: str) -> Target:
    """The innermost definition around a line, or a definition by name, within a file."""
    if not rest.isdecimal() and (found := await _by_exact_place(rows, path, _dotted(rest))):
        return found
    files = await _by_path(rows, path)
    if files is None:
        raise NotFound(await _unknown(rows, path))
    if len(files.nodes) != 1:
        return files if files.candidates else _several_files(list(files.nodes))
    (file,) = files.nodes
    there = filters.eq("source", file.source or "") & filters.eq("path", file.path or "") & DEFINED
    held = [row for row in await rows.symbols(there) if row["kind"] != "file"]
    if rest.isdecimal():
        around = [row for row in held if row["start_line"] <= int(rest) <= row["end_line"]]
        inner = min(
            around, key=lambda row: (row["end_line"] - row["start_line"], -row["start_line"]), default=None
        )
        return Target(tuple((await rows.nodes([inner["node"]])).values())) if inner else files
    dotted = _dotted(rest)
    named = [row for row in held if row["name"] == dotted]
    named = named or [row for row in held if row["name"].endswith(f".{dotted}")]
    if not named:
        names = {row["name"].rpartition(".")[2]: row["name"] for row in held}
        close = get_close_matches(dotted.rpartition(".")[2], names, n=3, cutoff=0.6)
        near = [names[name] for name in close]
        raise NotFound(_told(f"{file.path} defines no {dotted!r}", near))
    return await _target(rows, named)


async def _by_exact_place(rows: GraphRows, path: str, dotted: str) -> Target | None:
    """What the one file of exactly this path defines by exactly this name, in one read."""
    here = filters.eq("path", path.removeprefix("./")) & DEFINED
    last = dotted.rpartition(".")[2]
    found = await rows.symbols(here & (_FILE | filters.eq("simple", last)))
    if sum(row["kind"] == "file" for row in found) != 1:
        return None
    nodes = nodes_of(row for row in found if row["name"] == dotted)
    return Target(tuple(nodes.values())) if dotted and len(nodes) == 1 else None


def _dotted(name: str) -> str:
    return _SEPARATORS.sub(".", name.removesuffix("()"))


async def _unknown(rows: GraphRows, asked: str) -> str:
    """A sentence with names that are near, of those that the caller may see."""
    shown = asked if len(asked) <= 200 else f"{asked[:200]}…"
    if _looks_like_path(asked):
        last = asked.rstrip("/").rpartition("/")[2]
        found = await rows.symbols(_FILE)
        paths = {row["path"].rpartition("/")[2]: row["path"] for row in found}
        near = [paths[name] for name in get_close_matches(last, paths, n=3, cutoff=0.6)]
        return _told(f"there is no file, folder or symbol {shown!r} in the code graph", near)
    last = _SEPARATORS.sub(".", asked).strip(".").rpartition(".")[2]
    found = await rows.symbols(filters.begins_folded("simple", last[:1]) & DEFINED) if last else []
    simple = {row["name"].rpartition(".")[2] for row in found}
    near = get_close_matches(last, simple, n=3, cutoff=0.6)
    return _told(f"there is no symbol {shown!r} in the code graph", near)


def _told(sentence: str, near: Sequence[str]) -> str:
    return (
        f"{sentence}: did you mean {', '.join(near)}?" if near else f"{sentence}: `knowledge search` finds it"
    )
