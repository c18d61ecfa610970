"""What Java's declarations say: packages, imports, types of fields, parameters, variables and results.

Source: https://docs.oracle.com/javase/specs/jls/se21/html/
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import last_segment, parent_scope
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.declared_types import (
    bind_declared,
    bind_observed,
    children_of_type,
    dotted_text,
    element_values,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.java.values import BUILTINS, EXPRESSIONS, TYPES
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.code_graph.languages.words import split_words

_FIELD_NODES = frozenset({"field_declaration", "constant_declaration"})


def _read_package(builder: FactsBuilder, node: Node) -> None:
    name = next(children_of_type(node, "scoped_identifier", "identifier"), None)
    if name is not None:
        builder.module = dotted_text(builder.writer, name) or ""


def _read_import(builder: FactsBuilder, node: Node) -> None:
    named = next(children_of_type(node, "scoped_identifier", "identifier"), None)
    path = dotted_text(builder.writer, named) if named is not None else None
    if not path:
        return
    line = node.start_point.row + 1
    if any(children_of_type(node, "asterisk")):
        builder.imports.append(Import(path, "*", "*", line))
    else:
        module, _, name = path.rpartition(".")
        builder.imports.append(Import(module, name, name, line))


def _read_bases(builder: FactsBuilder, node: Node) -> None:
    """What a type extends or implements. An interface extends interfaces."""
    scope = builder.scope(node)
    kind = "implements" if node.type == "super_interfaces" else "extends"
    listed = next(children_of_type(node, "type_list"), node)
    for each in listed.named_children:
        builder.add_use(kind, builder.writer.path(each), each, scope)
        builder.skip_reference(each)


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """`T` stands for its bound."""
    scope, name = builder.scope(node), next(children_of_type(node, "type_identifier"), None)
    bound = next(children_of_type(node, "type_bound"), None)
    if name is None:
        return
    found = builder.writer.path(bound.named_children[0]) if bound is not None else None
    builder.bind(scope, builder.text(name), found or "")


def _values_of_type(builder: FactsBuilder, node: Node | None) -> list[tuple[str, str]]:
    return values_of_type(TYPES, builder.writer, node)


def _read_method(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    name = node.child_by_field_name("name")
    if node.type == "annotation_type_element_declaration" and name is not None:
        scope = f"{scope}.{builder.text(name)}"
        builder.add_definition(scope, "method", node)
    for suffix, value in _values_of_type(builder, node.child_by_field_name("type")):
        builder.bind(scope, "@()" + suffix, value, declared=True)


def _read_field(builder: FactsBuilder, node: Node) -> None:
    """Fields are definitions."""
    scope = builder.scope(node)
    for each in children_of_type(node, "variable_declarator"):
        name = _bind_variable(builder, scope, node, each, local=False)
        if name and scope in builder.type_names:
            builder.add_definition(f"{scope}.{name}", "variable", each)


def _read_local(builder: FactsBuilder, node: Node) -> None:
    for each in children_of_type(node, "variable_declarator"):
        _bind_variable(builder, builder.scope(node), node, each, local=True)


def _bind_variable(
    builder: FactsBuilder, scope: str, node: Node, declarator: Node, *, local: bool
) -> str | None:
    """Bind a variable to its type, or to its value where the type is left to it; gives its name."""
    name = builder.writer.path(declarator.child_by_field_name("name"))
    kind = node.child_by_field_name("type")
    if kind is not None and builder.text(kind) == "var":
        value = declarator.child_by_field_name("value")
        bind_observed(builder, scope, name, builder.writer.values(value), local=local)
    else:
        values = _values_of_type(builder, kind)
        if declarator.child_by_field_name("dimensions") is not None:
            values = [("[]" + suffix, value) for suffix, value in values]
        bind_declared(builder, scope, name, values, local=local)
    return name


def _read_enum_constant(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), node.child_by_field_name("name")
    if name is not None and scope in builder.type_names:
        builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
        builder.bind(scope, builder.text(name), "@class()", declared=True)


def _read_record(builder: FactsBuilder, node: Node) -> None:
    """A component of a record is a field, and a method that gives it."""
    parameters = node.child_by_field_name("parameters")
    if parameters is None:
        return
    scope = builder.scope(parameters)
    for each in children_of_type(parameters, "formal_parameter", "spread_parameter"):
        name, values = _parameter_values(builder, each)
        if name:
            bind_declared(builder, scope, name, values, local=False)
            builder.add_definition(f"{scope}.{name}", "method", each)
            for suffix, value in values:
                builder.bind(f"{scope}.{name}", "@()" + suffix, value, declared=True)


def _parameter_values(builder: FactsBuilder, node: Node) -> tuple[str | None, list[tuple[str, str]]]:
    if node.type == "formal_parameter":
        name = builder.writer.path(node.child_by_field_name("name"))
        return name, _values_of_type(builder, node.child_by_field_name("type"))
    declarator = next(children_of_type(node, "variable_declarator"), None)
    if declarator is None:
        return None, []
    kinds = [each for each in node.named_children if each.type not in ("modifiers", "variable_declarator")]
    values = _values_of_type(builder, kinds[0] if kinds else None)
    name = builder.writer.path(declarator.child_by_field_name("name"))
    return name, [("[]" + suffix, value) for suffix, value in values]


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    scope, parent = builder.scope(node), node.parent
    if parent is not None and parent.parent is not None and parent.parent.type == "record_declaration":
        return
    if node.type == "catch_formal_parameter":
        caught = next(children_of_type(node, "catch_type"), None)
        name = builder.writer.path(node.child_by_field_name("name"))
        kinds = caught.named_children if caught is not None else []
        bind_declared(
            builder, scope, name, [value for kind in kinds for value in _values_of_type(builder, kind)]
        )
        return
    bind_declared(builder, scope, *_parameter_values(builder, node))


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    parameters = node.child_by_field_name("parameters")
    if parameters is None:
        return
    named = (
        [parameters] if parameters.type == "identifier" else list(children_of_type(parameters, "identifier"))
    )
    for each in named:
        bind_observed(
            builder, builder.scope(node), builder.text(each), _lambda_argument_values(builder, node)
        )


def _lambda_argument_values(builder: FactsBuilder, node: Node) -> list[tuple[str, str]]:
    """What a method of a collection hands to a lambda: one of its elements."""
    call = node.parent.parent if node.parent is not None else None
    if call is None or call.type != "method_invocation" or node.parent is None:
        return []
    name = call.child_by_field_name("name")
    of = builder.writer.path(call.child_by_field_name("object"))
    if of is None or name is None or builder.text(name) not in _CALLBACK_METHODS:
        return []
    return [("", f"{of}[]")]


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), builder.writer.path(node.child_by_field_name("name"))
    kind = node.child_by_field_name("type")
    if kind is not None and builder.text(kind) == "var":
        bind_observed(
            builder, scope, name, element_values(builder.writer.values(node.child_by_field_name("value")))
        )
    else:
        bind_declared(builder, scope, name, _values_of_type(builder, kind))


def _read_resource(builder: FactsBuilder, node: Node) -> None:
    if node.child_by_field_name("name") is not None:
        _bind_variable(builder, builder.scope(node), node, node, local=True)


def _read_instanceof(builder: FactsBuilder, node: Node) -> None:
    name = builder.writer.path(node.child_by_field_name("name"))
    if name:
        bind_declared(
            builder, builder.scope(node), name, _values_of_type(builder, node.child_by_field_name("right"))
        )


def _read_pattern(builder: FactsBuilder, node: Node) -> None:
    kind, name = part_of(node, 0), part_of(node, -1)
    if kind is not None and name is not None and name.type == "identifier" and kind.id != name.id:
        builder.skip_reference(name)
        bind_declared(builder, builder.scope(node), builder.text(name), _values_of_type(builder, kind))


def _read_method_reference(builder: FactsBuilder, node: Node) -> None:
    of, name = part_of(node, 0), part_of(node, -1)
    path = builder.writer.path(of)
    if path and of is not None and name is not None and name.type == "identifier" and name.id != of.id:
        builder.add_use("references", f"{path}.{builder.text(name)}", node)


def _read_constructor_call(builder: FactsBuilder, node: Node) -> None:
    """`super(…)` calls what the class extends, `this(…)` the class itself."""
    called = node.child_by_field_name("constructor")
    if called is None:
        return
    scope = builder.scope(node)
    if called.type == "this":
        builder.add_use("calls", last_segment(parent_scope(scope)), node)
        return
    around = node.parent
    while around is not None and around.type != "class_declaration":
        around = around.parent
    extended = around.child_by_field_name("superclass") if around is not None else None
    if extended is not None:
        builder.add_use("calls", builder.writer.path(part_of(extended, 0)), node)


_CALLBACK_METHODS = split_words(
    """
    forEach filter map mapToInt mapToLong mapToDouble mapToObj flatMap anyMatch allMatch noneMatch
    removeIf peek ifPresent ifPresentOrElse takeWhile dropWhile sort sorted min max forEachOrdered
    replaceAll thenAccept thenApply thenCompose computeIfPresent
    """
)

EXTRACTION = ExtractionRules(
    is_private=has_private_modifier,
    expressions=EXPRESSIONS,
    handlers={
        "package": _read_package,
        "import": _read_import,
        "bases": _read_bases,
        "type.parameter": _read_type_parameter,
        "method": _read_method,
        "field": _read_field,
        "local": _read_local,
        "enum.constant": _read_enum_constant,
        "record": _read_record,
        "parameter": _read_parameter,
        "lambda": _read_lambda,
        "loop": _read_loop,
        "resource": _read_resource,
        "check": _read_instanceof,
        "pattern": _read_pattern,
        "method.reference": _read_method_reference,
        "constructed": _read_constructor_call,
    },
    builtins=BUILTINS,
    sees_sibling_names=True,
)
