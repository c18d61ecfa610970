"""What Java's declarations say: packages, imports, types of fields, parameters, variables and results.

Source: https://docs.oracle.com/javase/specs/jls/se21/html/
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import last_of, parent_of
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.declared_types import (
    children,
    declare,
    elements,
    give,
    plain_text,
    promised,
)
from knowledge_pipeline.code_graph.languages.java.values import BUILTINS, EXPRESSIONS, TYPES
from knowledge_pipeline.code_graph.languages.visibility import said_private
from knowledge_pipeline.code_graph.languages.words import words

_FIELDS = frozenset({"field_declaration", "constant_declaration"})


def _package(reading: Reading, node: Node) -> None:
    name = next(children(node, "scoped_identifier", "identifier"), None)
    if name is not None:
        reading.module = plain_text(reading.writer, name) or ""


def _import(reading: Reading, node: Node) -> None:
    named = next(children(node, "scoped_identifier", "identifier"), None)
    path = plain_text(reading.writer, named) if named is not None else None
    if not path:
        return
    line = node.start_point.row + 1
    if any(children(node, "asterisk")):
        reading.imports.append(Import(path, "*", "*", line))
    else:
        module, _, name = path.rpartition(".")
        reading.imports.append(Import(module, name, name, line))


def _bases(reading: Reading, node: Node) -> None:
    """What a type extends or implements. An interface extends interfaces."""
    scope = reading.scope(node)
    kind = "implements" if node.type == "super_interfaces" else "extends"
    listed = next(children(node, "type_list"), node)
    for each in listed.named_children:
        reading.use(kind, reading.writer.path(each), each, scope)
        reading.skip(each)


def _type_parameter(reading: Reading, node: Node) -> None:
    """`T` stands for its bound."""
    scope, name = reading.scope(node), next(children(node, "type_identifier"), None)
    bound = next(children(node, "type_bound"), None)
    if name is None:
        return
    found = reading.writer.path(bound.named_children[0]) if bound is not None else None
    reading.bind(scope, reading.text(name), found or "")


def _promised(reading: Reading, node: Node | None) -> list[tuple[str, str]]:
    return promised(TYPES, reading.writer, node)


def _method(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    name = node.child_by_field_name("name")
    if node.type == "annotation_type_element_declaration" and name is not None:
        scope = f"{scope}.{reading.text(name)}"
        reading.define(scope, "method", node)
    for suffix, value in _promised(reading, node.child_by_field_name("type")):
        reading.bind(scope, "@()" + suffix, value, declared=True)


def _field(reading: Reading, node: Node) -> None:
    """Fields are definitions."""
    scope = reading.scope(node)
    for each in children(node, "variable_declarator"):
        name = _declared(reading, scope, node, each, local=False)
        if name and scope in reading.types:
            reading.define(f"{scope}.{name}", "variable", each)


def _local(reading: Reading, node: Node) -> None:
    for each in children(node, "variable_declarator"):
        _declared(reading, reading.scope(node), node, each, local=True)


def _declared(reading: Reading, scope: str, node: Node, declarator: Node, *, local: bool) -> str | None:
    """Bind a variable to its type, or to its value where the type is left to it; gives its name."""
    name = reading.writer.path(declarator.child_by_field_name("name"))
    kind = node.child_by_field_name("type")
    if kind is not None and reading.text(kind) == "var":
        value = declarator.child_by_field_name("value")
        give(reading, scope, name, reading.writer.values(value), local=local)
    else:
        values = _promised(reading, kind)
        if declarator.child_by_field_name("dimensions") is not None:
            values = [("[]" + suffix, value) for suffix, value in values]
        declare(reading, scope, name, values, local=local)
    return name


def _enum_constant(reading: Reading, node: Node) -> None:
    scope, name = reading.scope(node), node.child_by_field_name("name")
    if name is not None and scope in reading.types:
        reading.define(f"{scope}.{reading.text(name)}", "variable", node)
        reading.bind(scope, reading.text(name), "@class()", declared=True)


def _record(reading: Reading, node: Node) -> None:
    """A component of a record is a field, and a method that gives it."""
    parameters = node.child_by_field_name("parameters")
    if parameters is None:
        return
    scope = reading.scope(parameters)
    for each in children(parameters, "formal_parameter", "spread_parameter"):
        name, values = _parameter_of(reading, each)
        if name:
            declare(reading, scope, name, values, local=False)
            reading.define(f"{scope}.{name}", "method", each)
            for suffix, value in values:
                reading.bind(f"{scope}.{name}", "@()" + suffix, value, declared=True)


def _parameter_of(reading: Reading, node: Node) -> tuple[str | None, list[tuple[str, str]]]:
    if node.type == "formal_parameter":
        name = reading.writer.path(node.child_by_field_name("name"))
        return name, _promised(reading, node.child_by_field_name("type"))
    declarator = next(children(node, "variable_declarator"), None)
    if declarator is None:
        return None, []
    kinds = [each for each in node.named_children if each.type not in ("modifiers", "variable_declarator")]
    values = _promised(reading, kinds[0] if kinds else None)
    name = reading.writer.path(declarator.child_by_field_name("name"))
    return name, [("[]" + suffix, value) for suffix, value in values]


def _parameter(reading: Reading, node: Node) -> None:
    scope, parent = reading.scope(node), node.parent
    if parent is not None and parent.parent is not None and parent.parent.type == "record_declaration":
        return
    if node.type == "catch_formal_parameter":
        caught = next(children(node, "catch_type"), None)
        name = reading.writer.path(node.child_by_field_name("name"))
        kinds = caught.named_children if caught is not None else []
        declare(reading, scope, name, [value for kind in kinds for value in _promised(reading, kind)])
        return
    declare(reading, scope, *_parameter_of(reading, node))


def _lambda(reading: Reading, node: Node) -> None:
    parameters = node.child_by_field_name("parameters")
    if parameters is None:
        return
    named = [parameters] if parameters.type == "identifier" else list(children(parameters, "identifier"))
    for each in named:
        give(reading, reading.scope(node), reading.text(each), _given(reading, node))


def _given(reading: Reading, node: Node) -> list[tuple[str, str]]:
    """What a method of a collection hands to a lambda: one of its elements."""
    call = node.parent.parent if node.parent is not None else None
    if call is None or call.type != "method_invocation" or node.parent is None:
        return []
    name = call.child_by_field_name("name")
    of = reading.writer.path(call.child_by_field_name("object"))
    if of is None or name is None or reading.text(name) not in _HANDS_OUT:
        return []
    return [("", f"{of}[]")]


def _loop(reading: Reading, node: Node) -> None:
    scope, name = reading.scope(node), reading.writer.path(node.child_by_field_name("name"))
    kind = node.child_by_field_name("type")
    if kind is not None and reading.text(kind) == "var":
        give(reading, scope, name, elements(reading.writer.values(node.child_by_field_name("value"))))
    else:
        declare(reading, scope, name, _promised(reading, kind))


def _resource(reading: Reading, node: Node) -> None:
    if node.child_by_field_name("name") is not None:
        _declared(reading, reading.scope(node), node, node, local=True)


def _check(reading: Reading, node: Node) -> None:
    name = reading.writer.path(node.child_by_field_name("name"))
    if name:
        declare(reading, reading.scope(node), name, _promised(reading, node.child_by_field_name("right")))


def _pattern(reading: Reading, node: Node) -> None:
    kind, name = part_of(node, 0), part_of(node, -1)
    if kind is not None and name is not None and name.type == "identifier" and kind.id != name.id:
        reading.skip(name)
        declare(reading, reading.scope(node), reading.text(name), _promised(reading, kind))


def _method_reference(reading: Reading, node: Node) -> None:
    of, name = part_of(node, 0), part_of(node, -1)
    path = reading.writer.path(of)
    if path and of is not None and name is not None and name.type == "identifier" and name.id != of.id:
        reading.use("references", f"{path}.{reading.text(name)}", node)


def _constructed(reading: Reading, node: Node) -> None:
    """`super(…)` calls what the class extends, `this(…)` the class itself."""
    called = node.child_by_field_name("constructor")
    if called is None:
        return
    scope = reading.scope(node)
    if called.type == "this":
        reading.use("calls", last_of(parent_of(scope)), node)
        return
    around = node.parent
    while around is not None and around.type != "class_declaration":
        around = around.parent
    extended = around.child_by_field_name("superclass") if around is not None else None
    if extended is not None:
        reading.use("calls", reading.writer.path(part_of(extended, 0)), node)


_HANDS_OUT = words(
    """
    forEach filter map mapToInt mapToLong mapToDouble mapToObj flatMap anyMatch allMatch noneMatch
    removeIf peek ifPresent ifPresentOrElse takeWhile dropWhile sort sorted min max forEachOrdered
    replaceAll thenAccept thenApply thenCompose computeIfPresent
    """
)

EXTRACTION = Extraction(
    private=said_private,
    expressions=EXPRESSIONS,
    handlers={
        "package": _package,
        "import": _import,
        "bases": _bases,
        "type.parameter": _type_parameter,
        "method": _method,
        "field": _field,
        "local": _local,
        "enum.constant": _enum_constant,
        "record": _record,
        "parameter": _parameter,
        "lambda": _lambda,
        "loop": _loop,
        "resource": _resource,
        "check": _check,
        "pattern": _pattern,
        "method.reference": _method_reference,
        "constructed": _constructed,
    },
    builtins=BUILTINS,
    hides_siblings=True,
)
