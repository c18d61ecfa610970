"""Classes, interfaces and other types of JavaScript and TypeScript: what they extend, hold and stand for."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts_builder import Reading
from knowledge_pipeline.code_graph.languages.ecmascript.names import plain
from knowledge_pipeline.code_graph.languages.ecmascript.types import parameters, promised, under
from knowledge_pipeline.code_graph.languages.ecmascript.values import bare
from knowledge_pipeline.syntax.outline import TYPES

_BIGINT_BYTES = 6
_NAMES = frozenset({"identifier", "type_identifier", "member_expression", "nested_type_identifier"})


def of_heritage(reading: Reading, node: Node) -> None:
    """`extends A.B<C> implements D`, of classes and interfaces."""
    scope = reading.scope(node)
    if node.type == "extends_type_clause":
        _bases(reading, scope, node.children_by_field_name("type"), "extends")
        return
    for clause in node.named_children:
        if clause.type == "extends_clause":
            _bases(reading, scope, clause.children_by_field_name("value"), "extends")
        elif clause.type == "implements_clause":
            _bases(reading, scope, clause.named_children, "implements")
        else:
            _bases(reading, scope, [clause], "extends")


def _bases(reading: Reading, scope: str, bases: list[Node], kind: str) -> None:
    for each in bases:
        named = each.child_by_field_name("name") if each.type == "generic_type" else each
        named = bare(named)
        if named is None or named.type not in _NAMES:
            continue
        path = "".join((reading.writer.path(named) or "").split())
        reading.use("extends" if kind == "extends" else "implements", path, named, scope)
        reading.skip(named)


def of_super(reading: Reading, node: Node) -> None:
    """`super(…)` calls what the class extends."""
    around = reading.outline.innermost(reading.syntax.start(node))
    while around is not None and around.kind not in TYPES:
        around = around.parent
    body = around.node if around is not None else None
    if body is not None and body.type == "variable_declarator":
        body = body.child_by_field_name("value")
    heritage = next((each for each in body.children if each.type == "class_heritage"), None) if body else None
    if heritage is None or not heritage.named_child_count:
        return
    clause = heritage.named_children[0]
    base = clause.child_by_field_name("value") if clause.type == "extends_clause" else clause
    reading.use("calls", reading.writer.path(base), node)


def of_field(reading: Reading, node: Node) -> None:
    """A field of a class."""
    named = node.child_by_field_name("name") or node.child_by_field_name("property")
    if named is None:
        return
    scope, name = reading.scope(node), plain(reading.text(named))
    declared, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    if (node.start_byte, node.end_byte) in reading.writer.defined or scope not in reading.types:
        return
    reading.define(f"{scope}.{name}", "variable", node)
    for suffix, path in promised(reading.writer, declared):
        reading.bind(scope, name + suffix, path, declared=True)
    for suffix, path in reading.writer.values(value):
        reading.bind(scope, name + suffix, path)


def of_type_name(reading: Reading, node: Node) -> None:
    """`bigint` is TypeScript's own, though its grammar takes it for a name."""
    if node.end_byte - node.start_byte == _BIGINT_BYTES and reading.text(node) == "bigint":
        reading.skip(node)


def of_property(reading: Reading, node: Node) -> None:
    """A property that an interface, or a type of an object, declares."""
    named = node.child_by_field_name("name")
    scope = reading.scope(node)
    if named is None or not scope:
        return
    name = plain(reading.text(named))
    reading.define(f"{scope}.{name}", "variable", node)
    for suffix, path in promised(reading.writer, node.child_by_field_name("type")):
        reading.bind(scope, name + suffix, path, declared=True)


def of_signature(reading: Reading, node: Node) -> None:
    """What an interface says of its instances when they are called: `(store: Store): Rows`."""
    scope = reading.scope(node)
    if scope not in reading.types:
        return
    for suffix, path in under("()", promised(reading.writer, node.child_by_field_name("return_type"))):
        reading.bind(scope, f"@call{suffix}", path, declared=True)
    for suffix, path in parameters(reading.writer, node):
        reading.bind(scope, suffix[1:], path, declared=True)


def of_member(reading: Reading, node: Node) -> None:
    """A member of an enumeration."""
    scope = reading.scope(node)
    reading.define(f"{scope}.{plain(reading.text(node))}", "variable", node)


def of_alias(reading: Reading, node: Node) -> None:
    """What a name for a type stands for; one for a type of an object is itself what has its members."""
    value, scope = node.child_by_field_name("value"), reading.scope(node)
    if value is None or not scope:
        return
    parts = value.named_children if value.type == "intersection_type" else [value]
    if any(each.type == "object_type" for each in parts):
        reading.bind(scope, "@()", "@", declared=True)
    for each in parts:
        for suffix, path in promised(reading.writer, each) if each.type != "object_type" else ():
            reading.bind(scope, "@()" + suffix, path, declared=True)


def of_type_parameter(reading: Reading, node: Node) -> None:
    """A type's parameter is what it extends, as far as is known."""
    named, limit = node.child_by_field_name("name"), node.child_by_field_name("constraint")
    if named is None:
        return
    scope, name = reading.scope(node), reading.text(named)
    found = [value for suffix, value in promised(reading.writer, limit) if not suffix]
    for each in found:
        if each.endswith("()"):
            reading.bind(scope, name, each[:-2], declared=True)
        else:
            reading.bind(scope, f"{name}()", each, declared=True)
    if not found:
        reading.bind(scope, name, "")
