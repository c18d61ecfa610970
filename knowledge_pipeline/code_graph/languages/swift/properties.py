"""What Swift's properties say: of files and types, local ones, computed ones, those of protocols."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    bind_declared,
    bind_observed,
    children_of_type,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.swift.patterns import bind_pattern
from knowledge_pipeline.code_graph.languages.swift.types import TYPES

_BODIES = ("class_body", "enum_class_body", "protocol_body")


def read_property(builder: FactsBuilder, node: Node) -> None:
    """Properties of files and types are definitions; others are local variables."""
    scope = builder.scope(node)
    if node.child_by_field_name("computed_value") is not None:
        _read_computed_property(builder, node, scope)
        return
    owner = _owner_of(builder, scope, node)
    for at, each in enumerate(node.children):
        if node.field_name_for_child(at) == "name":
            after = node.children[at + 1 : at + 4]
            _bind_property(builder, scope, owner, each, node, _split_at_comma(after))


def _split_at_comma(nodes: list[Node]) -> list[Node]:
    """What belongs to one of several names: `var a: Item, b = Item()`."""
    end = next((at for at, each in enumerate(nodes) if each.type == ","), len(nodes))
    return nodes[:end]


def _bind_property(
    builder: FactsBuilder, scope: str, owner: str | None, pattern: Node, node: Node, following: list[Node]
) -> None:
    kind = next((each for each in following if each.type == "type_annotation"), None)
    equals = next((at for at, each in enumerate(following) if each.type == "="), None)
    value = following[equals + 1] if equals is not None and equals + 1 < len(following) else None
    name = pattern.child_by_field_name("bound_identifier")
    if name is None:
        bind_pattern(builder, scope if owner is None else owner, pattern, builder.writer.values(value))
        return
    text, at = builder.text(name).strip("`"), scope if owner is None else owner
    if owner is not None:
        builder.add_definition(f"{owner}.{text}" if owner else text, "variable", node)
    if kind is not None:
        bind_declared(builder, at, text, _values_of_type(builder, kind), local=owner is None)
    elif owner is None and value is not None and _has_path(builder, value, text):
        builder.bind(scope, text, f"@around.{text}")
    else:
        bind_observed(builder, at, text, builder.writer.values(value), local=owner is None)


def _has_path(builder: FactsBuilder, value: Node, text: str) -> bool:
    """`let parent = parent`."""
    return builder.writer.path(value) == text


def _owner_of(builder: FactsBuilder, scope: str, node: Node) -> str | None:
    """The type that a property belongs to, "" for the file; None for a local variable."""
    parent = node.parent
    if parent is not None and parent.type == "source_file":
        return ""
    return scope if parent is not None and parent.type in _BODIES else None


def _read_computed_property(builder: FactsBuilder, node: Node, scope: str) -> None:
    """A property with a getter is read like a field."""
    kind = next(children_of_type(node, "type_annotation"), None)
    if node.parent is None or node.parent.type not in (*_BODIES, "source_file"):
        pattern = node.child_by_field_name("name")
        bind_declared(
            builder,
            scope,
            builder.text(pattern) if pattern is not None else None,
            _values_of_type(builder, kind),
        )
        return
    bind_receiver(builder, scope, node)
    builder.bind(scope, "@", "@()")
    for suffix, value in _values_of_type(builder, kind):
        builder.bind(scope, "@()" + suffix, value, declared=True)


def read_requirement(builder: FactsBuilder, node: Node) -> None:
    """A property that a protocol asks for."""
    scope, pattern = builder.scope(node), node.child_by_field_name("name")
    name = pattern.child_by_field_name("bound_identifier") if pattern is not None else None
    if name is not None and scope in builder.type_names:
        builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
        kind = next(children_of_type(node, "type_annotation"), None)
        bind_declared(builder, scope, builder.text(name), _values_of_type(builder, kind), local=False)


def bind_receiver(builder: FactsBuilder, scope: str, node: Node) -> None:
    """A member in an extension has what is extended as its receiver."""
    body = node.parent
    around = body.parent if body is not None and body.type in _BODIES else None
    if around is not None and any(each.type == "extension" for each in around.children[:4]):
        path = builder.writer.path(around.child_by_field_name("name"))
        builder.bind(scope, "@receiver", f"{path}()" if path else "", declared=True)


def _values_of_type(builder: FactsBuilder, node: Node | None) -> Values:
    return values_of_type(TYPES, builder.writer, node)
