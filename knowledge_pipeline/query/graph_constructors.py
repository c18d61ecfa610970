"""A call of a class runs its constructor: an edge leads to the class, and goes on from the constructor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from knowledge_pipeline.query.graph_answers import Node
from knowledge_pipeline.query.graph_rows import DEFINED, GraphRows
from knowledge_pipeline.store import filters

_NAMES = frozenset(
    {"__init__", "__new__", "__post_init__", "constructor", "__construct", "initialize", "init"}
)


async def constructed(
    rows: GraphRows, nodes: Iterable[Node], direction: Literal["in", "out"]
) -> Mapping[str, str]:
    """Nodes whose edges count as those of others: a class for its constructor, or the other way round.

    Args:
        rows: what may be seen.
        nodes: at the edge of a walk along calls.
        direction: against the edges, callers of a class call its constructors among the nodes; along
            them, what a constructor calls is what a class among the nodes calls.
    """
    wanted: dict[tuple[str, str, str], str] = {}
    for node in nodes:
        around = class_of(node.name)
        if direction == "in" and around:
            wanted[node.source or "", node.path or "", around] = node.id
        elif direction == "out" and node.kind == "class":
            for name in _constructors(node.name):
                wanted[node.source or "", node.path or "", f"{node.name}.{name}"] = node.id
    if not wanted:
        return {}
    paths = filters.one_of("path", sorted({path for _, path, _ in wanted}))
    simple = filters.one_of("simple", sorted({name.rpartition(".")[2] for _, _, name in wanted}))
    found = await rows.symbols(paths & simple & DEFINED)
    places = ((row["node"], (row["source"], row["path"], row["name"])) for row in found)
    return {node: wanted[place] for node, place in places if place in wanted and node != wanted[place]}


def class_of(constructor: str) -> str | None:
    """The class that a function makes objects of, by its name within a file; None: it makes none."""
    around, _, last = constructor.rpartition(".")
    return around if around and last in _constructors(around) else None


def _constructors(name: str) -> frozenset[str]:
    """Java, C#, C++ and others call it as the class."""
    return _NAMES | {name.rpartition(".")[2]}
