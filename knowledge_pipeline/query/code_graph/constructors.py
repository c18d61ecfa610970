"""A call of a class runs its constructor: the edge ends at the class, the walk goes on there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from knowledge_pipeline.contract.responses.graph import GraphNode
from knowledge_pipeline.store.code_graph.symbol_payload import node_id

_CONSTRUCTORS_BY_LANGUAGE = {
    "python": frozenset({"__init__", "__new__", "__post_init__"}),
    **dict.fromkeys(("javascript", "typescript", "tsx"), frozenset({"constructor"})),
    "php": frozenset({"__construct"}),
    "ruby": frozenset({"initialize"}),
    "swift": frozenset({"init"}),
}
_ALL_CONSTRUCTORS = frozenset[str]().union(*_CONSTRUCTORS_BY_LANGUAGE.values())


def map_constructors(nodes: Iterable[GraphNode], direction: Literal["in", "out"]) -> Mapping[str, str]:
    """Nodes whose edges count as those of others: a class for its constructor, or the other way round.

    Derived from names alone: a constructor that does not exist has no edges.

    Args:
        nodes: at the frontier of a walk along calls.
        direction: "in": callers of a class call its constructors among the nodes; "out": what a
            constructor calls is what a class among the nodes calls.
    """
    ids: dict[str, str] = {}
    for node in nodes:
        source, path = node.source or "", node.path or ""
        around = class_of_constructor(node.name)
        if direction == "in" and around:
            ids[node_id(source, path, around)] = node.id
        elif direction == "out" and node.kind == "class":
            same_name = frozenset({node.name.rpartition(".")[2]})  # in Java, C#, C++ and others
            for name in _CONSTRUCTORS_BY_LANGUAGE.get(node.language or "", same_name):
                ids[node_id(source, path, f"{node.name}.{name}")] = node.id
    return ids


def class_of_constructor(constructor: str) -> str | None:
    """The class that a function constructs, by its name within a file; None: it is no constructor."""
    around, _, last = constructor.rpartition(".")
    return around if around and (last in _ALL_CONSTRUCTORS or last == around.rpartition(".")[2]) else None
