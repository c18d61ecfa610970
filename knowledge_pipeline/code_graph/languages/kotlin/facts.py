"""What Kotlin's declarations say: packages, imports, types of properties, parameters and results.

Source: https://kotlinlang.org/spec/
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import head_of, parent_of
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    children,
    declare,
    elements,
    give,
    promised,
    under,
)
from knowledge_pipeline.code_graph.languages.kotlin.imports import imported, package, qualified
from knowledge_pipeline.code_graph.languages.kotlin.values import (
    BUILTINS,
    EXPRESSIONS,
    TYPES,
    handed_to,
    receiver_of,
    type_of,
    value_of,
)
from knowledge_pipeline.code_graph.languages.visibility import said_private


def _promised(reading: Reading, node: Node | None) -> Values:
    return promised(TYPES, reading.writer, node)


def _base(reading: Reading, node: Node) -> None:
    """A class that is constructed is extended, all others are interfaces; in an interface, extended."""
    inner = part_of(node, 0)
    if inner is None or node.parent is None or node.parent.parent is None:
        return
    around = node.parent.parent
    kind = inner if inner.type == "user_type" else next(children(inner, "user_type"), None)
    path = reading.writer.path(kind)
    if kind is None or not path or around.type == "object_literal":
        return
    scope = reading.scope(node)
    is_interface = any(each.type == "interface" for each in around.children)
    constructed = inner.type == "constructor_invocation"
    reading.use("extends" if constructed or is_interface else "implements", path, kind, scope)
    reading.skip(kind)
    if constructed:
        reading.use("calls", path, kind, scope)


def _alias(reading: Reading, node: Node) -> None:
    name, scope = node.child_by_field_name("type"), reading.scope(node)
    for suffix, value in _promised(reading, type_of(node)) if name is not None else ():
        reading.bind(scope, "@()" + suffix, value, declared=True)


def _type_parameter(reading: Reading, node: Node) -> None:
    """`T` stands for its bound."""
    name, bound = part_of(node, 0), type_of(node)
    if name is not None and name.type == "identifier":
        reading.bind(reading.scope(node), reading.text(name), reading.writer.path(bound) or "")


def _function(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    _receive(reading, scope, node)
    body = next(children(node, "function_body"), None)
    result = _type_after(node, "function_value_parameters")
    for suffix, value in _promised(reading, result):
        reading.bind(scope, "@()" + suffix, value, declared=True)
    expression = part_of(body, -1) if body is not None else None
    if result is None and expression is not None and expression.type != "block":
        for suffix, value in reading.writer.values(expression):
            reading.bind(scope, "@()" + suffix, value)


def _receive(reading: Reading, scope: str, node: Node) -> None:
    receiver = receiver_of(node)
    for suffix, value in _promised(reading, receiver):
        reading.bind(scope, "@receiver" + suffix, value, declared=True)


def _type_after(node: Node, kind: str) -> Node | None:
    passed = False
    for each in node.named_children:
        if passed and each.type in ("user_type", "nullable_type", "function_type", "parenthesized_type"):
            return each
        passed = passed or each.type == kind
    return None


def _property(reading: Reading, node: Node) -> None:
    """Properties of files and types are definitions; others are local variables."""
    scope = reading.scope(node)
    named = next(children(node, "variable_declaration", "multi_variable_declaration"), None)
    if named is None:
        return
    value = value_of(node)
    if named.type == "multi_variable_declaration":
        for place, each in enumerate(children(named, "variable_declaration")):
            _declared(reading, scope, each, under("", _component(reading, value, place)), local=True)
        return
    name = reading.text(named.named_children[0])
    if scope.rpartition(".")[2] == name and any(children(node, "getter")):
        _computed(reading, node, named, scope)
        return
    owner = _owner(reading, scope, node)
    if owner is not None:
        reading.define(f"{owner}.{name}" if owner else name, "variable", node)
    _declared(
        reading,
        owner if owner is not None else scope,
        named,
        reading.writer.values(value),
        local=owner is None,
    )


def _owner(reading: Reading, scope: str, node: Node) -> str | None:
    """The type that a property belongs to, "" for the file; None for a local variable."""
    parent = node.parent
    if parent is not None and parent.type == "source_file":
        return ""
    if parent is None or parent.type not in ("class_body", "enum_class_body") or scope not in reading.types:
        return None
    return (
        parent_of(scope) if parent.parent is not None and parent.parent.type == "companion_object" else scope
    )


def _computed(reading: Reading, node: Node, named: Node, scope: str) -> None:
    """A property with a getter is read like a field."""
    _receive(reading, scope, node)
    reading.bind(scope, "@", "@()")
    for suffix, value in _promised(reading, type_of(named)):
        reading.bind(scope, "@()" + suffix, value, declared=True)


def _component(reading: Reading, value: Node | None, place: int) -> Values:
    """What `val (a, b) = pair` gives by place."""
    path = reading.writer.path(value)
    return [("", f"{path}.component{place + 1}()")] if path else []


def _declared(reading: Reading, scope: str, named: Node, values: Values, *, local: bool) -> None:
    name, kind = reading.text(named.named_children[0]), type_of(named)
    if kind is not None:
        declare(reading, scope, name, _promised(reading, kind), local=local)
    else:
        give(reading, scope, name, values, local=local)
        if local and any(head_of(value) == name for _, value in values):  # `val parent = parent()`
            reading.bind(scope, name, f"@around.{name}")


def _class_parameter(reading: Reading, node: Node) -> None:
    """A parameter with `val` or `var` is a property; of data classes also a component."""
    scope, name = reading.scope(node), next(children(node, "identifier"), None)
    if name is None:
        return
    text, values = reading.text(name), _promised(reading, type_of(node))
    declare(reading, scope, text, values, local=False)
    if any(each.type in ("val", "var") for each in node.children):
        reading.define(f"{scope}.{text}", "variable", node)
        listed = list(children(node.parent, "class_parameter"))
        for suffix, value in values:
            place = next(at for at, each in enumerate(listed, 1) if each.id == node.id)
            reading.bind(scope, f"component{place}(){suffix}", value, declared=True)


def _enum_entry(reading: Reading, node: Node) -> None:
    scope, name = reading.scope(node), part_of(node, 0)
    if name is not None and scope in reading.types:
        reading.define(f"{scope}.{reading.text(name)}", "variable", node)
        reading.bind(scope, reading.text(name), "@class()", declared=True)


def _parameters(reading: Reading, node: Node) -> None:
    scope, many = reading.scope(node), False
    for each in node.named_children:
        if each.type == "parameter_modifiers":
            many = "vararg" in reading.text(each)
            continue
        name = part_of(each, 0)
        if each.type == "parameter" and name is not None:
            values = _promised(reading, type_of(each))
            declare(reading, scope, reading.text(name), under("[]", values) if many else values)
        many = False


def _lambda(reading: Reading, node: Node) -> None:
    listed = next(children(node, "lambda_parameters"), None)
    named = list(children(listed, "variable_declaration"))
    handed = handed_to(reading.writer, node) if len(named) == 1 else []
    for each in named:
        _declared(reading, reading.scope(node), each, handed, local=True)


def _loop(reading: Reading, node: Node) -> None:
    named = next(children(node, "variable_declaration"), None)
    iterated = next((each for each in node.named_children if each.type not in _NOT_ITERATED), None)
    if named is not None:
        held = elements(reading.writer.values(iterated))
        _declared(reading, reading.scope(node), named, held, local=True)
        return
    for several in children(node, "multi_variable_declaration"):
        of = elements(reading.writer.values(iterated))
        for place, each in enumerate(children(several, "variable_declaration")):
            _declared(reading, reading.scope(node), each, of if place else [], local=True)


_NOT_ITERATED = frozenset({"label", "variable_declaration", "multi_variable_declaration", "annotation"})


def _catch(reading: Reading, node: Node) -> None:
    name = part_of(node, 0)
    if name is not None and name.type == "identifier":
        declare(reading, reading.scope(node), reading.text(name), _promised(reading, type_of(node)))


def _check(reading: Reading, node: Node) -> None:
    """`x is Special` says more of x."""
    if node.type == "is_expression":
        path = reading.writer.path(node.child_by_field_name("left"))
        _narrow(reading, node, path, node.child_by_field_name("right"))
        return
    subject = next(children(node, "when_subject"), None)
    path = reading.writer.path(part_of(subject, -1)) if subject is not None else None
    for entry in children(node, "when_entry"):
        for condition in entry.children_by_field_name("condition"):
            if condition.type == "type_test":
                _narrow(reading, node, path, part_of(condition, -1))


def _narrow(reading: Reading, node: Node, path: str | None, kind: Node | None) -> None:
    for suffix, value in _promised(reading, kind) if path and path.isidentifier() else ():
        reading.bind(reading.scope(node), f"{path}{suffix}", value, declared=True)


def _subject(reading: Reading, node: Node) -> None:
    named = next(children(node, "variable_declaration"), None)
    if named is not None:
        _declared(reading, reading.scope(node), named, reading.writer.values(part_of(node, -1)), local=True)


EXTRACTION = Extraction(
    private=said_private,
    expressions=EXPRESSIONS,
    handlers={
        "package": package,
        "import": imported,
        "base": _base,
        "alias": _alias,
        "type.parameter": _type_parameter,
        "function": _function,
        "property": _property,
        "class.parameter": _class_parameter,
        "enum.entry": _enum_entry,
        "parameters": _parameters,
        "lambda": _lambda,
        "loop": _loop,
        "catch": _catch,
        "check": _check,
        "subject": _subject,
    },
    builtins=BUILTINS,
    hides_siblings=True,
    qualified=qualified,
)
