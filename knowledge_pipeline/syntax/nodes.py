"""Steps through a syntax tree; a missing node has no parts."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node


def part_of(node: Node | None, part: str | int) -> Node | None:
    """A part of a node, by its field or by its position among the named children."""
    if node is None:
        return None
    if isinstance(part, str):
        return node.child_by_field_name(part)
    named = node.named_children
    return named[part] if -len(named) <= part < len(named) else None


def children_of(node: Node | None) -> list[Node]:
    """The named children of a node."""
    return node.named_children if node is not None else []


def children_of_type(node: Node | None, *types: str) -> Iterator[Node]:
    """The named children of some types."""
    return (each for each in children_of(node) if each.type in types)


def first_of_type(node: Node | None, *types: str) -> Node | None:
    """The first named child of some types."""
    return next(children_of_type(node, *types), None)


def has_child(node: Node | None, *types: str) -> bool:
    """Whether a node has a child of some types, keywords and signs included."""
    return node is not None and any(each.type in types for each in node.children)


def ancestor_of_type(node: Node | None, *types: str) -> Node | None:
    """The nearest node of some types around a node."""
    around = node.parent if node is not None else None
    while around is not None and around.type not in types:
        around = around.parent
    return around
