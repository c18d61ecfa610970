"""What Swift's properties say: of files and types, local ones, computed ones, those of protocols."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts_builder import Reading
from knowledge_pipeline.code_graph.languages.declared_types import Values, children, declare, give, promised
from knowledge_pipeline.code_graph.languages.swift.patterns import bind_pattern
from knowledge_pipeline.code_graph.languages.swift.types import TYPES

_BODIES = ("class_body", "enum_class_body", "protocol_body")


def stored_or_computed(reading: Reading, node: Node) -> None:
    """Properties of files and types are definitions; others are local variables."""
    scope = reading.scope(node)
    if node.child_by_field_name("computed_value") is not None:
        _computed(reading, node, scope)
        return
    owner = _owner(reading, scope, node)
    for at, each in enumerate(node.children):
        if node.field_name_for_child(at) == "name":
            after = node.children[at + 1 : at + 4]
            _declared(reading, scope, owner, each, node, _until_name(after))


def _until_name(after: list[Node]) -> list[Node]:
    """What belongs to one of several names: `var a: Item, b = Item()`."""
    end = next((at for at, each in enumerate(after) if each.type == ","), len(after))
    return after[:end]


def _declared(
    reading: Reading, scope: str, owner: str | None, pattern: Node, node: Node, after: list[Node]
) -> None:
    kind = next((each for each in after if each.type == "type_annotation"), None)
    equals = next((at for at, each in enumerate(after) if each.type == "="), None)
    value = after[equals + 1] if equals is not None and equals + 1 < len(after) else None
    name = pattern.child_by_field_name("bound_identifier")
    if name is None:
        bind_pattern(reading, scope if owner is None else owner, pattern, reading.writer.values(value))
        return
    text, at = reading.text(name).strip("`"), scope if owner is None else owner
    if owner is not None:
        reading.define(f"{owner}.{text}" if owner else text, "variable", node)
    if kind is not None:
        declare(reading, at, text, _promised(reading, kind), local=owner is None)
    elif owner is None and value is not None and _names(reading, value, text):
        reading.bind(scope, text, f"@around.{text}")
    else:
        give(reading, at, text, reading.writer.values(value), local=owner is None)


def _names(reading: Reading, value: Node, text: str) -> bool:
    """`let parent = parent`."""
    return reading.writer.path(value) == text


def _owner(reading: Reading, scope: str, node: Node) -> str | None:
    """The type that a property belongs to, "" for the file; None for a local variable."""
    parent = node.parent
    if parent is not None and parent.type == "source_file":
        return ""
    return scope if parent is not None and parent.type in _BODIES else None


def _computed(reading: Reading, node: Node, scope: str) -> None:
    """A property with a getter is read like a field."""
    kind = next(children(node, "type_annotation"), None)
    if node.parent is None or node.parent.type not in (*_BODIES, "source_file"):
        pattern = node.child_by_field_name("name")
        declare(
            reading, scope, reading.text(pattern) if pattern is not None else None, _promised(reading, kind)
        )
        return
    receive(reading, scope, node)
    reading.bind(scope, "@", "@()")
    for suffix, value in _promised(reading, kind):
        reading.bind(scope, "@()" + suffix, value, declared=True)


def required(reading: Reading, node: Node) -> None:
    """A property that a protocol asks for."""
    scope, pattern = reading.scope(node), node.child_by_field_name("name")
    name = pattern.child_by_field_name("bound_identifier") if pattern is not None else None
    if name is not None and scope in reading.types:
        reading.define(f"{scope}.{reading.text(name)}", "variable", node)
        kind = next(children(node, "type_annotation"), None)
        declare(reading, scope, reading.text(name), _promised(reading, kind), local=False)


def receive(reading: Reading, scope: str, node: Node) -> None:
    """A member in an extension has what is extended as its receiver."""
    body = node.parent
    around = body.parent if body is not None and body.type in _BODIES else None
    if around is not None and any(each.type == "extension" for each in around.children[:4]):
        path = reading.writer.path(around.child_by_field_name("name"))
        reading.bind(scope, "@receiver", f"{path}()" if path else "", declared=True)


def _promised(reading: Reading, node: Node | None) -> Values:
    return promised(TYPES, reading.writer, node)
