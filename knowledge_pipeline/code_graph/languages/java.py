"""Java: what its files say, and how its names lead to definitions.

Source: https://docs.oracle.com/javase/specs/jls/se21/html/
"""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Import,
    Values,
    add_prefix,
    element_values,
    last_segment,
    parent_scope,
)
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    ExtractionRules,
    FactsBuilder,
    PathWriter,
    TypeSyntax,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.syntax.grammars import (
    ancestor_of_type,
    children_of,
    children_of_type,
    first_of_type,
    part_of,
)

_WORDS = load_words("java")

BUILTINS = _WORDS["builtins"]
"""Names of `java.lang`, which every file sees."""

TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"},
    arrays={"array_type": "element"},
    transparent={"annotated_type": -1, "wildcard": -1},
    ignored=frozenset({"var"}),
)


def _access_path(writer: PathWriter, node: Node) -> str | None:
    """`a.b`; `Outer.this` as an instance of `Outer`."""
    of, field = writer.path(part_of(node, "object")), part_of(node, "field")
    if of is None or field is None:
        return None
    return f"{of}()" if field.type == "this" else f"{of}.{writer.text(field)}"


def _scoped_path(writer: PathWriter, node: Node) -> str | None:
    """`Map.Entry`, its annotations and arguments left out."""
    parts = [writer.path(child) for child in node.named_children if "annotation" not in child.type]
    return ".".join(part for part in parts if part) or None


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "type_identifier", "this", "super"}),
    calls={"method_invocation": ("object", "name"), "object_creation_expression": ("type",)},
    indexes={"array_access": ("array", "index")},
    transparent={
        "parenthesized_expression": 0, "assignment_expression": "right", "generic_type": 0,
        "annotated_type": -1,
    },
    choices={"ternary_expression": ("consequence", "alternative")}, casts={"cast_expression": "type"},
    path_writers={
        "field_access": _access_path, "scoped_type_identifier": _scoped_path,
        "scoped_identifier": PathWriter.dotted_text,
    },
    implicit_receiver="@around.", types=TYPES,
)  # fmt: skip


def _read_package(builder: FactsBuilder, node: Node) -> None:
    builder.module = builder.writer.dotted_text(first_of_type(node, "scoped_identifier", "identifier")) or ""


def _read_import(builder: FactsBuilder, node: Node) -> None:
    path = builder.writer.dotted_text(first_of_type(node, "scoped_identifier", "identifier"))
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
    for child in listed.named_children:
        builder.add_use(kind, builder.writer.path(child), child, scope)
        builder.skip_reference(child)


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """`T` stands for its bound."""
    name, bound = first_of_type(node, "type_identifier"), part_of(first_of_type(node, "type_bound"), 0)
    builder.bind(builder.scope(node), builder.text(name), builder.writer.path(bound) or "")


def _read_method(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    name = part_of(node, "name")
    if node.type == "annotation_type_element_declaration" and name is not None:
        scope = f"{scope}.{builder.text(name)}"
        builder.add_definition(scope, "method", node)
    builder.bind_result(scope, part_of(node, "type"))


def _read_field(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    for declarator in children_of_type(node, "variable_declarator"):
        name = _bind_variable(builder, scope, node, declarator, local=False)
        if name and scope in builder.type_names:
            builder.add_definition(f"{scope}.{name}", "variable", declarator)


def _read_local(builder: FactsBuilder, node: Node) -> None:
    for declarator in children_of_type(node, "variable_declarator"):
        _bind_variable(builder, builder.scope(node), node, declarator, local=True)


def _bind_variable(
    builder: FactsBuilder, scope: str, node: Node, declarator: Node, *, local: bool
) -> str | None:
    """Bind a variable to its type, or to its value where the type is left to it; gives its name."""
    name = builder.writer.path(part_of(declarator, "name"))
    kind = part_of(node, "type")
    if builder.text(kind) == "var":
        builder.bind_observed(scope, name, builder.writer.values(part_of(declarator, "value")), local=local)
    else:
        values = builder.values_of_type(kind)
        if part_of(declarator, "dimensions") is not None:
            values = add_prefix("[]", values)
        builder.bind_declared(scope, name, values, local=local)
    return name


def _read_record(builder: FactsBuilder, node: Node) -> None:
    """A component of a record is a field, and a method that gives it."""
    parameters = part_of(node, "parameters")
    if parameters is None:
        return
    scope = builder.scope(parameters)
    for parameter in children_of_type(parameters, "formal_parameter", "spread_parameter"):
        name, values = _parameter_values(builder, parameter)
        if name:
            builder.bind_declared(scope, name, values, local=False)
            builder.add_definition(f"{scope}.{name}", "method", parameter)
            builder.bind_all(f"{scope}.{name}", "@()", values, declared=True)


def _parameter_values(builder: FactsBuilder, node: Node) -> tuple[str | None, Values]:
    if node.type == "formal_parameter":
        name = builder.writer.path(part_of(node, "name"))
        return name, builder.values_of_type(part_of(node, "type"))
    declarator = first_of_type(node, "variable_declarator")
    if declarator is None:
        return None, []
    kinds = [child for child in node.named_children if child.type not in ("modifiers", "variable_declarator")]
    values = builder.values_of_type(kinds[0] if kinds else None)
    name = builder.writer.path(part_of(declarator, "name"))
    return name, add_prefix("[]", values)


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    scope, parent = builder.scope(node), node.parent
    if parent is not None and parent.parent is not None and parent.parent.type == "record_declaration":
        return
    if node.type == "catch_formal_parameter":
        caught = children_of(first_of_type(node, "catch_type"))
        values = [value for kind in caught for value in builder.values_of_type(kind)]
        builder.bind_declared(scope, builder.writer.path(part_of(node, "name")), values)
    else:
        builder.bind_declared(scope, *_parameter_values(builder, node))


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    parameters = part_of(node, "parameters")
    if parameters is None:
        return
    call = node.parent.parent if node.parent is not None else None
    handed: Values = []
    if call is not None and call.type == "method_invocation":
        owner, method = part_of(call, "object"), part_of(call, "name")
        handed = builder.writer.handed_values(owner, method, _CALLBACK_METHODS)
    is_name = parameters.type == "identifier"
    for name in [parameters] if is_name else children_of_type(parameters, "identifier"):
        builder.bind_observed(builder.scope(node), builder.text(name), handed)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), builder.writer.path(part_of(node, "name"))
    kind = part_of(node, "type")
    if builder.text(kind) == "var":
        builder.bind_observed(scope, name, element_values(builder.writer.values(part_of(node, "value"))))
    else:
        builder.bind_declared(scope, name, builder.values_of_type(kind))


def _read_resource(builder: FactsBuilder, node: Node) -> None:
    if part_of(node, "name") is not None:
        _bind_variable(builder, builder.scope(node), node, node, local=True)


def _read_instanceof(builder: FactsBuilder, node: Node) -> None:
    name, kind = part_of(node, "name"), part_of(node, "right")
    builder.bind_declared(builder.scope(node), builder.writer.path(name), builder.values_of_type(kind))


def _read_pattern(builder: FactsBuilder, node: Node) -> None:
    kind, name = part_of(node, 0), part_of(node, -1)
    if kind is not None and name is not None and name.type == "identifier" and kind.id != name.id:
        builder.skip_reference(name)
        builder.bind_declared(builder.scope(node), builder.text(name), builder.values_of_type(kind))


def _read_method_reference(builder: FactsBuilder, node: Node) -> None:
    of, name = part_of(node, 0), part_of(node, -1)
    path = builder.writer.path(of)
    if path and of is not None and name is not None and name.type == "identifier" and name.id != of.id:
        builder.add_use("references", f"{path}.{builder.text(name)}", node)


def _read_constructor_call(builder: FactsBuilder, node: Node) -> None:
    """`super(…)` calls what the class extends, `this(…)` the class itself."""
    called = part_of(node, "constructor")
    if called is None:
        return
    if called.type == "this":
        builder.add_use("calls", last_segment(parent_scope(builder.scope(node))), node)
        return
    extended = part_of(ancestor_of_type(node, "class_declaration"), "superclass")
    builder.add_use("calls", builder.writer.path(part_of(extended, 0)), node)


_CALLBACK_METHODS = _WORDS["callback_methods"]

EXTRACTION = ExtractionRules(
    is_private=has_private_modifier, expressions=EXPRESSIONS,
    handlers={
        "package": _read_package, "import": _read_import, "bases": _read_bases,
        "type.parameter": _read_type_parameter, "method": _read_method, "field": _read_field,
        "local": _read_local,
        "enum.constant": lambda builder, node: builder.add_enum_constant(node, part_of(node, "name")),
        "record": _read_record, "parameter": _read_parameter, "lambda": _read_lambda, "loop": _read_loop,
        "resource": _read_resource, "check": _read_instanceof, "pattern": _read_pattern,
        "method.reference": _read_method_reference, "constructed": _read_constructor_call,
    },
    builtins=BUILTINS, sees_sibling_names=True,
)  # fmt: skip


COLLECTION_METHODS = _WORDS.by_word("container_methods")
"""What methods of collections, optionals, suppliers and futures give of what they hold."""

COMMON_METHODS = _WORDS["common_methods"]


class Java(PackageLanguage):
    """Java, as its specification says, chapters 6 to 9: https://docs.oracle.com/javase/specs/."""

    name = "java"
    receiver_keywords: Mapping[str, str] = {"this": "@self", "super": "@super"}
    builtins = BUILTINS
    constructors_named_after_type = True
    container_methods = COLLECTION_METHODS
    element_accessors = ("iterator().next()", "get()")
    common_methods = COMMON_METHODS
    standard_prefixes = ("java.", "javax.")
