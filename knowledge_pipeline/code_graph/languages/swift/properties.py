"""What Swift's properties say: of files and types, local ones, computed ones, those of protocols."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.swift.patterns import bind_pattern
from knowledge_pipeline.syntax.nodes import first_of_type, part_of

_BODIES = ("class_body", "enum_class_body", "protocol_body")


def read_property(builder: FactsBuilder, node: Node) -> None:
    """Properties of files and types are definitions; others are local variables."""
    scope = builder.scope(node)
    if part_of(node, "computed_value") is not None:
        _read_computed_property(builder, node, scope)
        return
    owner = _owner_of(scope, node)
    for at, each in enumerate(node.children):
        if node.field_name_for_child(at) == "name":
            after = node.children[at + 1 : at + 4]  # of several names: `var a: Item, b = Item()`
            end = next((at for at, other in enumerate(after) if other.type == ","), len(after))
            _bind_property(builder, scope, owner, each, node, after[:end])


def _bind_property(
    builder: FactsBuilder, scope: str, owner: str | None, pattern: Node, node: Node, following: list[Node]
) -> None:
    kind = next((each for each in following if each.type == "type_annotation"), None)
    equals = next((at for at, each in enumerate(following) if each.type == "="), None)
    value = following[equals + 1] if equals is not None and equals + 1 < len(following) else None
    name = part_of(pattern, "bound_identifier")
    if name is None:
        bind_pattern(builder, scope if owner is None else owner, pattern, builder.writer.values(value))
        return
    text, at = builder.text(name).strip("`"), scope if owner is None else owner
    if owner is not None:
        builder.add_definition(f"{owner}.{text}" if owner else text, "variable", node)
    if kind is not None:
        builder.bind_declared(at, text, builder.values_of_type(kind), local=owner is None)
    elif owner is None and builder.writer.path(value) == text:  # `let parent = parent`
        builder.bind(scope, text, f"@around.{text}")
    else:
        builder.bind_observed(at, text, builder.writer.values(value), local=owner is None)


def _owner_of(scope: str, node: Node) -> str | None:
    """The type that a property belongs to, "" for the file; None for a local variable."""
    parent = node.parent
    if parent is not None and parent.type == "source_file":
        return ""
    return scope if parent is not None and parent.type in _BODIES else None


def _read_computed_property(builder: FactsBuilder, node: Node, scope: str) -> None:
    """A property with a getter is read like a field."""
    kind = first_of_type(node, "type_annotation")
    if node.parent is None or node.parent.type not in (*_BODIES, "source_file"):
        pattern = part_of(node, "name")
        builder.bind_declared(scope, builder.text(pattern), builder.values_of_type(kind))
        return
    bind_receiver(builder, scope, node)
    builder.bind(scope, "@", "@()")
    builder.bind_result(scope, kind)


def read_requirement(builder: FactsBuilder, node: Node) -> None:
    """A property that a protocol asks for."""
    scope, name = builder.scope(node), part_of(part_of(node, "name"), "bound_identifier")
    if name is not None and scope in builder.type_names:
        builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
        kind = first_of_type(node, "type_annotation")
        builder.bind_declared(scope, builder.text(name), builder.values_of_type(kind), local=False)


def bind_receiver(builder: FactsBuilder, scope: str, node: Node) -> None:
    """A member in an extension has what is extended as its receiver."""
    body = node.parent
    around = body.parent if body is not None and body.type in _BODIES else None
    if around is not None and any(each.type == "extension" for each in around.children[:4]):
        path = builder.writer.path(part_of(around, "name"))
        builder.bind(scope, "@receiver", f"{path}()" if path else "", declared=True)
