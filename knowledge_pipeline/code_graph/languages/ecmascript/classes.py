"""Classes, interfaces and other types of JavaScript and TypeScript: what they extend, hold and stand for."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import UseKind
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.ecmascript.names import to_segment
from knowledge_pipeline.code_graph.languages.ecmascript.types import callback_parameter_values, values_of_type
from knowledge_pipeline.code_graph.languages.ecmascript.values import unwrap_expression
from knowledge_pipeline.syntax.nodes import first_of_type, part_of
from knowledge_pipeline.syntax.outline import TYPE_KINDS

_NAMES = frozenset({"identifier", "type_identifier", "member_expression", "nested_type_identifier"})


def read_heritage(builder: FactsBuilder, node: Node) -> None:
    """`extends A.B<C> implements D`, of classes and interfaces."""
    scope = builder.scope(node)
    if node.type == "extends_type_clause":
        _read_bases(builder, scope, node.children_by_field_name("type"), "extends")
        return
    for clause in node.named_children:
        if clause.type == "extends_clause":
            _read_bases(builder, scope, clause.children_by_field_name("value"), "extends")
        elif clause.type == "implements_clause":
            _read_bases(builder, scope, clause.named_children, "implements")
        else:
            _read_bases(builder, scope, [clause], "extends")


def _read_bases(builder: FactsBuilder, scope: str, bases: list[Node], kind: UseKind) -> None:
    for each in bases:
        named = unwrap_expression(part_of(each, "name") if each.type == "generic_type" else each)
        if named is not None and named.type in _NAMES:
            builder.add_use(kind, "".join((builder.writer.path(named) or "").split()), named, scope)
            builder.skip_reference(named)


def read_super_call(builder: FactsBuilder, node: Node) -> None:
    """`super(…)` calls what the class extends."""
    around = builder.outline.innermost_definition(builder.syntax.start(node))
    while around is not None and around.kind not in TYPE_KINDS:
        around = around.parent
    body = around.node if around is not None else None
    if body is not None and body.type == "variable_declarator":
        body = part_of(body, "value")
    clause = part_of(first_of_type(body, "class_heritage"), 0)
    base = part_of(clause, "value") if clause is not None and clause.type == "extends_clause" else clause
    builder.add_use("calls", builder.writer.path(base), node)


def read_field(builder: FactsBuilder, node: Node) -> None:
    """A field of a class."""
    named = part_of(node, "name") or part_of(node, "property")
    scope, name = builder.scope(node), to_segment(builder.text(named))
    declared, value = part_of(node, "type"), part_of(node, "value")
    if (
        named is None
        or (node.start_byte, node.end_byte) in builder.writer.definition_names
        or scope not in builder.type_names
    ):
        return
    builder.add_definition(f"{scope}.{name}", "variable", node)
    builder.bind_all(scope, name, values_of_type(builder.writer, declared), declared=True)
    builder.bind_all(scope, name, builder.writer.values(value))


def read_type_name(builder: FactsBuilder, node: Node) -> None:
    """`bigint` is TypeScript's own, though its grammar takes it for a name."""
    if builder.writer.short_text(node, 7) == "bigint":
        builder.skip_reference(node)


def read_property(builder: FactsBuilder, node: Node) -> None:
    """A property that an interface, or a type of an object, declares."""
    named, scope = part_of(node, "name"), builder.scope(node)
    if named is None or not scope:
        return
    name = to_segment(builder.text(named))
    builder.add_definition(f"{scope}.{name}", "variable", node)
    builder.bind_all(scope, name, values_of_type(builder.writer, part_of(node, "type")), declared=True)


def read_call_signature(builder: FactsBuilder, node: Node) -> None:
    """What an interface says of its instances when they are called: `(store: Store): Rows`."""
    scope = builder.scope(node)
    if scope not in builder.type_names:
        return
    result = values_of_type(builder.writer, part_of(node, "return_type"))
    builder.bind_all(scope, "@call()", result, declared=True)
    for suffix, path in callback_parameter_values(builder.writer, node):
        builder.bind(scope, suffix[1:], path, declared=True)


def read_enum_member(builder: FactsBuilder, node: Node) -> None:
    """A member of an enumeration."""
    scope = builder.scope(node)
    builder.add_definition(f"{scope}.{to_segment(builder.text(node))}", "variable", node)


def read_type_alias(builder: FactsBuilder, node: Node) -> None:
    """What a name for a type stands for; one for a type of an object is itself what has its members."""
    value, scope = part_of(node, "value"), builder.scope(node)
    if value is None or not scope:
        return
    parts = value.named_children if value.type == "intersection_type" else [value]
    if any(each.type == "object_type" for each in parts):
        builder.bind(scope, "@()", "@", declared=True)
    for each in parts:
        if each.type != "object_type":
            builder.bind_all(scope, "@()", values_of_type(builder.writer, each), declared=True)


def read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """A type's parameter is what it extends, as far as is known."""
    named, limit = part_of(node, "name"), part_of(node, "constraint")
    if named is None:
        return
    scope, name = builder.scope(node), builder.text(named)
    found = [value for suffix, value in values_of_type(builder.writer, limit) if not suffix]
    for each in found:
        if each.endswith("()"):
            builder.bind(scope, name, each[:-2], declared=True)
        else:
            builder.bind(scope, f"{name}()", each, declared=True)
    if not found:
        builder.bind(scope, name, "")
