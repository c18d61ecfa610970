"""What Kotlin's declarations say: packages, imports, types of properties, parameters and results.

Source: https://kotlinlang.org/spec/
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import first_segment, parent_scope
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.kotlin.values import (
    BUILTINS,
    EXPRESSIONS,
    find_receiver,
    find_type,
    find_value,
    lambda_argument_values,
)
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.code_graph.values import Values, add_prefix, element_values
from knowledge_pipeline.syntax.nodes import children_of_type, first_of_type, has_child, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_LOOP_HEADER_NODES = frozenset({"label", "variable_declaration", "multi_variable_declaration", "annotation"})
_RESULT_TYPES = ("user_type", "nullable_type", "function_type", "parenthesized_type")


def qualify(definition: OutlineDefinition) -> str:
    """What a companion object holds is a member of its class."""
    *around, last = definition.scope
    kept = [one for one in around if one.node.type != "companion_object"]
    parts = (part.partition(":")[0].strip() for one in (*kept, last) for part in (one.owner, one.name))
    return ".".join(part for part in parts if part)


def _read_package(builder: FactsBuilder, node: Node) -> None:
    builder.module = builder.writer.dotted_text(part_of(node, -1)) or ""


def _read_import(builder: FactsBuilder, node: Node) -> None:
    """One name of a package, by another name if it says so, or all."""
    path = builder.writer.dotted_text(first_of_type(node, "qualified_identifier"))
    if not path:
        return
    line, alias = node.start_point.row + 1, first_of_type(node, "identifier")
    if has_child(node, "*"):
        builder.imports.append(Import(path, "*", "*", line))
        return
    module, _, name = path.rpartition(".")
    builder.imports.append(Import(module, name, builder.text(alias) if alias is not None else name, line))


def _read_base(builder: FactsBuilder, node: Node) -> None:
    """A class that is constructed is extended, all others are interfaces; in an interface, extended."""
    inner = part_of(node, 0)
    if inner is None or node.parent is None or node.parent.parent is None:
        return
    around = node.parent.parent
    kind = inner if inner.type == "user_type" else first_of_type(inner, "user_type")
    path = builder.writer.path(kind)
    if kind is None or not path or around.type == "object_literal":
        return
    scope, constructed = builder.scope(node), inner.type == "constructor_invocation"
    extends = constructed or has_child(around, "interface")
    builder.add_use("extends" if extends else "implements", path, kind, scope)
    builder.skip_reference(kind)
    if constructed:
        builder.add_use("calls", path, kind, scope)


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    if part_of(node, "type") is not None:
        builder.bind_result(builder.scope(node), find_type(node))


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """`T` stands for its bound."""
    name, bound = part_of(node, 0), find_type(node)
    if name is not None and name.type == "identifier":
        builder.bind(builder.scope(node), builder.text(name), builder.writer.path(bound) or "")


def _read_function(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    _bind_receiver(builder, scope, node)
    listed = list(children_of_type(node, "function_value_parameters", *_RESULT_TYPES))
    after = [at for at, each in enumerate(listed) if each.type == "function_value_parameters"]
    result = (
        next((each for each in listed[after[0] :] if each.type in _RESULT_TYPES), None) if after else None
    )
    builder.bind_result(scope, result)
    expression = part_of(first_of_type(node, "function_body"), -1)
    if result is None and expression is not None and expression.type != "block":
        builder.bind_all(scope, "@()", builder.writer.values(expression))


def _bind_receiver(builder: FactsBuilder, scope: str, node: Node) -> None:
    builder.bind_all(scope, "@receiver", builder.values_of_type(find_receiver(node)), declared=True)


def _read_property(builder: FactsBuilder, node: Node) -> None:
    """Properties of files and types are definitions; others are local variables."""
    scope = builder.scope(node)
    named = first_of_type(node, "variable_declaration", "multi_variable_declaration")
    if named is None:
        return
    value = find_value(node)
    if named.type == "multi_variable_declaration":
        path = builder.writer.path(value)
        for place, each in enumerate(children_of_type(named, "variable_declaration"), start=1):
            values = [("", f"{path}.component{place}()")] if path else []  # of `val (a, b) = pair`
            _bind_variable(builder, scope, each, values, local=True)
        return
    name = builder.text(named.named_children[0])
    if scope.rpartition(".")[2] == name and any(children_of_type(node, "getter")):
        _bind_receiver(builder, scope, node)
        builder.bind(scope, "@", "@()")  # a property with a getter is read like a field
        builder.bind_result(scope, find_type(named))
        return
    owner = _owner_of(builder, scope, node)
    if owner is not None:
        builder.add_definition(f"{owner}.{name}" if owner else name, "variable", node)
    at = scope if owner is None else owner
    _bind_variable(builder, at, named, builder.writer.values(value), local=owner is None)


def _owner_of(builder: FactsBuilder, scope: str, node: Node) -> str | None:
    """The type that a property belongs to, "" for the file; None for a local variable."""
    parent = node.parent
    if parent is not None and parent.type == "source_file":
        return ""
    of_type = parent is not None and parent.type in ("class_body", "enum_class_body")
    if parent is None or not of_type or scope not in builder.type_names:
        return None
    is_companion = parent.parent is not None and parent.parent.type == "companion_object"
    return parent_scope(scope) if is_companion else scope


def _bind_variable(builder: FactsBuilder, scope: str, named: Node, values: Values, *, local: bool) -> None:
    name, kind = builder.text(named.named_children[0]), find_type(named)
    if kind is not None:
        builder.bind_declared(scope, name, builder.values_of_type(kind), local=local)
    else:
        builder.bind_observed(scope, name, values, local=local)
        if local and any(first_segment(value) == name for _, value in values):  # `val parent = parent()`
            builder.bind(scope, name, f"@around.{name}")


def _read_class_parameter(builder: FactsBuilder, node: Node) -> None:
    """A parameter with `val` or `var` is a property; of data classes also a component."""
    scope, name = builder.scope(node), first_of_type(node, "identifier")
    if name is None:
        return
    text, values = builder.text(name), builder.values_of_type(find_type(node))
    builder.bind_declared(scope, text, values, local=False)
    if has_child(node, "val", "var"):
        builder.add_definition(f"{scope}.{text}", "variable", node)
        listed = enumerate(children_of_type(node.parent, "class_parameter"), start=1)
        place = next((at for at, each in listed if each.id == node.id), 0)
        builder.bind_all(scope, f"component{place}()", values, declared=True)


def _read_parameters(builder: FactsBuilder, node: Node) -> None:
    scope, many = builder.scope(node), False
    for each in node.named_children:
        if each.type == "parameter_modifiers":
            many = "vararg" in builder.text(each)
            continue
        name = part_of(each, 0)
        if each.type == "parameter" and name is not None:
            values = builder.values_of_type(find_type(each))
            builder.bind_declared(scope, builder.text(name), add_prefix("[]", values) if many else values)
        many = False


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    named = list(children_of_type(first_of_type(node, "lambda_parameters"), "variable_declaration"))
    handed = lambda_argument_values(builder.writer, node) if len(named) == 1 else []
    for each in named:
        _bind_variable(builder, builder.scope(node), each, handed, local=True)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    named = first_of_type(node, "variable_declaration")
    iterated = next((each for each in node.named_children if each.type not in _LOOP_HEADER_NODES), None)
    held, scope = element_values(builder.writer.values(iterated)), builder.scope(node)
    if named is not None:
        _bind_variable(builder, scope, named, held, local=True)
        return
    for several in children_of_type(node, "multi_variable_declaration"):
        for place, each in enumerate(children_of_type(several, "variable_declaration")):
            _bind_variable(builder, scope, each, held if place else [], local=True)


def _read_catch(builder: FactsBuilder, node: Node) -> None:
    name = part_of(node, 0)
    if name is not None and name.type == "identifier":
        values = builder.values_of_type(find_type(node))
        builder.bind_declared(builder.scope(node), builder.text(name), values)


def _read_type_check(builder: FactsBuilder, node: Node) -> None:
    """`x is Special` says more of x."""
    if node.type == "is_expression":
        _bind_narrowed(builder, node, part_of(node, "left"), part_of(node, "right"))
        return
    subject = part_of(first_of_type(node, "when_subject"), -1)
    for entry in children_of_type(node, "when_entry"):
        for condition in entry.children_by_field_name("condition"):
            if condition.type == "type_test":
                _bind_narrowed(builder, node, subject, part_of(condition, -1))


def _bind_narrowed(builder: FactsBuilder, node: Node, subject: Node | None, kind: Node | None) -> None:
    path = builder.writer.path(subject)
    if path and path.isidentifier():
        builder.bind_all(builder.scope(node), path, builder.values_of_type(kind), declared=True)


def _read_when_subject(builder: FactsBuilder, node: Node) -> None:
    named = first_of_type(node, "variable_declaration")
    if named is not None:
        values = builder.writer.values(part_of(node, -1))
        _bind_variable(builder, builder.scope(node), named, values, local=True)


EXTRACTION = ExtractionRules(
    is_private=has_private_modifier, expressions=EXPRESSIONS,
    handlers={
        "package": _read_package, "import": _read_import, "base": _read_base, "alias": _read_alias,
        "type.parameter": _read_type_parameter, "function": _read_function, "property": _read_property,
        "class.parameter": _read_class_parameter,
        "enum.entry": lambda builder, node: builder.add_enum_constant(node, part_of(node, 0)),
        "parameters": _read_parameters, "lambda": _read_lambda, "loop": _read_loop, "catch": _read_catch,
        "check": _read_type_check, "subject": _read_when_subject,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify=qualify,
)  # fmt: skip
