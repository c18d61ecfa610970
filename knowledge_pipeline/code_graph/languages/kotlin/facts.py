"""What Kotlin's declarations say: packages, imports, types of properties, parameters and results.

Source: https://kotlinlang.org/spec/
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import first_segment, parent_scope
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    add_prefix,
    bind_declared,
    bind_observed,
    children_of_type,
    element_values,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.kotlin.imports import qualify, read_import, read_package
from knowledge_pipeline.code_graph.languages.kotlin.values import (
    BUILTINS,
    EXPRESSIONS,
    TYPES,
    find_receiver,
    find_type,
    find_value,
    lambda_argument_values,
)
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier


def _values_of_type(builder: FactsBuilder, node: Node | None) -> Values:
    return values_of_type(TYPES, builder.writer, node)


def _read_base(builder: FactsBuilder, node: Node) -> None:
    """A class that is constructed is extended, all others are interfaces; in an interface, extended."""
    inner = part_of(node, 0)
    if inner is None or node.parent is None or node.parent.parent is None:
        return
    around = node.parent.parent
    kind = inner if inner.type == "user_type" else next(children_of_type(inner, "user_type"), None)
    path = builder.writer.path(kind)
    if kind is None or not path or around.type == "object_literal":
        return
    scope = builder.scope(node)
    is_interface = any(each.type == "interface" for each in around.children)
    constructed = inner.type == "constructor_invocation"
    builder.add_use("extends" if constructed or is_interface else "implements", path, kind, scope)
    builder.skip_reference(kind)
    if constructed:
        builder.add_use("calls", path, kind, scope)


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    name, scope = node.child_by_field_name("type"), builder.scope(node)
    for suffix, value in _values_of_type(builder, find_type(node)) if name is not None else ():
        builder.bind(scope, "@()" + suffix, value, declared=True)


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """`T` stands for its bound."""
    name, bound = part_of(node, 0), find_type(node)
    if name is not None and name.type == "identifier":
        builder.bind(builder.scope(node), builder.text(name), builder.writer.path(bound) or "")


def _read_function(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    _bind_receiver(builder, scope, node)
    body = next(children_of_type(node, "function_body"), None)
    result = _find_type_after(node, "function_value_parameters")
    for suffix, value in _values_of_type(builder, result):
        builder.bind(scope, "@()" + suffix, value, declared=True)
    expression = part_of(body, -1) if body is not None else None
    if result is None and expression is not None and expression.type != "block":
        for suffix, value in builder.writer.values(expression):
            builder.bind(scope, "@()" + suffix, value)


def _bind_receiver(builder: FactsBuilder, scope: str, node: Node) -> None:
    receiver = find_receiver(node)
    for suffix, value in _values_of_type(builder, receiver):
        builder.bind(scope, "@receiver" + suffix, value, declared=True)


def _find_type_after(node: Node, node_type: str) -> Node | None:
    passed = False
    for each in node.named_children:
        if passed and each.type in ("user_type", "nullable_type", "function_type", "parenthesized_type"):
            return each
        passed = passed or each.type == node_type
    return None


def _read_property(builder: FactsBuilder, node: Node) -> None:
    """Properties of files and types are definitions; others are local variables."""
    scope = builder.scope(node)
    named = next(children_of_type(node, "variable_declaration", "multi_variable_declaration"), None)
    if named is None:
        return
    value = find_value(node)
    if named.type == "multi_variable_declaration":
        for place, each in enumerate(children_of_type(named, "variable_declaration")):
            _bind_variable(
                builder, scope, each, add_prefix("", _component_values(builder, value, place)), local=True
            )
        return
    name = builder.text(named.named_children[0])
    if scope.rpartition(".")[2] == name and any(children_of_type(node, "getter")):
        _read_computed_property(builder, node, named, scope)
        return
    owner = _owner_of(builder, scope, node)
    if owner is not None:
        builder.add_definition(f"{owner}.{name}" if owner else name, "variable", node)
    _bind_variable(
        builder,
        owner if owner is not None else scope,
        named,
        builder.writer.values(value),
        local=owner is None,
    )


def _owner_of(builder: FactsBuilder, scope: str, node: Node) -> str | None:
    """The type that a property belongs to, "" for the file; None for a local variable."""
    parent = node.parent
    if parent is not None and parent.type == "source_file":
        return ""
    if (
        parent is None
        or parent.type not in ("class_body", "enum_class_body")
        or scope not in builder.type_names
    ):
        return None
    return (
        parent_scope(scope)
        if parent.parent is not None and parent.parent.type == "companion_object"
        else scope
    )


def _read_computed_property(builder: FactsBuilder, node: Node, named: Node, scope: str) -> None:
    """A property with a getter is read like a field."""
    _bind_receiver(builder, scope, node)
    builder.bind(scope, "@", "@()")
    for suffix, value in _values_of_type(builder, find_type(named)):
        builder.bind(scope, "@()" + suffix, value, declared=True)


def _component_values(builder: FactsBuilder, value: Node | None, position: int) -> Values:
    """What `val (a, b) = pair` gives by place."""
    path = builder.writer.path(value)
    return [("", f"{path}.component{position + 1}()")] if path else []


def _bind_variable(builder: FactsBuilder, scope: str, named: Node, values: Values, *, local: bool) -> None:
    name, kind = builder.text(named.named_children[0]), find_type(named)
    if kind is not None:
        bind_declared(builder, scope, name, _values_of_type(builder, kind), local=local)
    else:
        bind_observed(builder, scope, name, values, local=local)
        if local and any(first_segment(value) == name for _, value in values):  # `val parent = parent()`
            builder.bind(scope, name, f"@around.{name}")


def _read_class_parameter(builder: FactsBuilder, node: Node) -> None:
    """A parameter with `val` or `var` is a property; of data classes also a component."""
    scope, name = builder.scope(node), next(children_of_type(node, "identifier"), None)
    if name is None:
        return
    text, values = builder.text(name), _values_of_type(builder, find_type(node))
    bind_declared(builder, scope, text, values, local=False)
    if any(each.type in ("val", "var") for each in node.children):
        builder.add_definition(f"{scope}.{text}", "variable", node)
        listed = list(children_of_type(node.parent, "class_parameter"))
        for suffix, value in values:
            place = next(at for at, each in enumerate(listed, 1) if each.id == node.id)
            builder.bind(scope, f"component{place}(){suffix}", value, declared=True)


def _read_enum_entry(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), part_of(node, 0)
    if name is not None and scope in builder.type_names:
        builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
        builder.bind(scope, builder.text(name), "@class()", declared=True)


def _read_parameters(builder: FactsBuilder, node: Node) -> None:
    scope, many = builder.scope(node), False
    for each in node.named_children:
        if each.type == "parameter_modifiers":
            many = "vararg" in builder.text(each)
            continue
        name = part_of(each, 0)
        if each.type == "parameter" and name is not None:
            values = _values_of_type(builder, find_type(each))
            bind_declared(builder, scope, builder.text(name), add_prefix("[]", values) if many else values)
        many = False


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    listed = next(children_of_type(node, "lambda_parameters"), None)
    named = list(children_of_type(listed, "variable_declaration"))
    handed = lambda_argument_values(builder.writer, node) if len(named) == 1 else []
    for each in named:
        _bind_variable(builder, builder.scope(node), each, handed, local=True)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    named = next(children_of_type(node, "variable_declaration"), None)
    iterated = next((each for each in node.named_children if each.type not in _LOOP_HEADER_NODES), None)
    if named is not None:
        held = element_values(builder.writer.values(iterated))
        _bind_variable(builder, builder.scope(node), named, held, local=True)
        return
    for several in children_of_type(node, "multi_variable_declaration"):
        of = element_values(builder.writer.values(iterated))
        for place, each in enumerate(children_of_type(several, "variable_declaration")):
            _bind_variable(builder, builder.scope(node), each, of if place else [], local=True)


_LOOP_HEADER_NODES = frozenset({"label", "variable_declaration", "multi_variable_declaration", "annotation"})


def _read_catch(builder: FactsBuilder, node: Node) -> None:
    name = part_of(node, 0)
    if name is not None and name.type == "identifier":
        bind_declared(
            builder, builder.scope(node), builder.text(name), _values_of_type(builder, find_type(node))
        )


def _read_type_check(builder: FactsBuilder, node: Node) -> None:
    """`x is Special` says more of x."""
    if node.type == "is_expression":
        path = builder.writer.path(node.child_by_field_name("left"))
        _bind_narrowed(builder, node, path, node.child_by_field_name("right"))
        return
    subject = next(children_of_type(node, "when_subject"), None)
    path = builder.writer.path(part_of(subject, -1)) if subject is not None else None
    for entry in children_of_type(node, "when_entry"):
        for condition in entry.children_by_field_name("condition"):
            if condition.type == "type_test":
                _bind_narrowed(builder, node, path, part_of(condition, -1))


def _bind_narrowed(builder: FactsBuilder, node: Node, path: str | None, type_node: Node | None) -> None:
    for suffix, value in _values_of_type(builder, type_node) if path and path.isidentifier() else ():
        builder.bind(builder.scope(node), f"{path}{suffix}", value, declared=True)


def _read_when_subject(builder: FactsBuilder, node: Node) -> None:
    named = next(children_of_type(node, "variable_declaration"), None)
    if named is not None:
        _bind_variable(
            builder, builder.scope(node), named, builder.writer.values(part_of(node, -1)), local=True
        )


EXTRACTION = ExtractionRules(
    is_private=has_private_modifier,
    expressions=EXPRESSIONS,
    handlers={
        "package": read_package,
        "import": read_import,
        "base": _read_base,
        "alias": _read_alias,
        "type.parameter": _read_type_parameter,
        "function": _read_function,
        "property": _read_property,
        "class.parameter": _read_class_parameter,
        "enum.entry": _read_enum_entry,
        "parameters": _read_parameters,
        "lambda": _read_lambda,
        "loop": _read_loop,
        "catch": _read_catch,
        "check": _read_type_check,
        "subject": _read_when_subject,
    },
    builtins=BUILTINS,
    sees_sibling_names=True,
    qualify=qualify,
)
