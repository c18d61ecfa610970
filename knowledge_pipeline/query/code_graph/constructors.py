"""A call of a class runs its constructor: an edge leads to the class, and goes on from the constructor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from knowledge_pipeline.contract.responses import GraphNode
from knowledge_pipeline.store.code_graph.symbol_payload import node_id

_CONSTRUCTORS_BY_LANGUAGE = {
    "python": frozenset({"__init__", "__new__", "__post_init__"}),
    "javascript": frozenset({"constructor"}),
    "typescript": frozenset({"constructor"}),
    "tsx": frozenset({"constructor"}),
    "php": frozenset({"__construct"}),
    "ruby": frozenset({"initialize"}),
    "swift": frozenset({"init"}),
}
_ALL_CONSTRUCTORS = frozenset[str]().union(*_CONSTRUCTORS_BY_LANGUAGE.values())


def map_constructors(nodes: Iterable[GraphNode], direction: Literal["in", "out"]) -> Mapping[str, str]:
    """Nodes whose edges count as those of others: a class for its constructor, or the other way round.

    Found by what nodes are named by, without a look whether they are there: what is not has no edges.

    Args:
        nodes: at the edge of a walk along calls.
        direction: against the edges, callers of a class call its constructors among the nodes; along
            them, what a constructor calls is what a class among the nodes calls.
    """
    same: dict[str, str] = {}
    for node in nodes:
        source, path = node.source or "", node.path or ""
        around = class_of_constructor(node.name)
        if direction == "in" and around:
            same[node_id(source, path, around)] = node.id
        elif direction == "out" and node.kind == "class":
            for name in _constructor_names(node.name, node.language):
                same[node_id(source, path, f"{node.name}.{name}")] = node.id
    return same


def class_of_constructor(constructor: str) -> str | None:
    """The class that a function makes objects of, by its name within a file; None: it makes none."""
    around, _, last = constructor.rpartition(".")
    return around if around and (last in _ALL_CONSTRUCTORS or last == around.rpartition(".")[2]) else None


def _constructor_names(name: str, language: str | None) -> frozenset[str]:
    """Java, C#, C++ and others call it as the class."""
    return _CONSTRUCTORS_BY_LANGUAGE.get(language or "", frozenset({name.rpartition(".")[2]}))
