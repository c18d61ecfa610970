"""What Scala's declarations say: packages, imports, types of values, parameters and results.

Source: https://www.scala-lang.org/files/archive/spec/2.13/ and https://docs.scala-lang.org/scala3/reference/
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    children,
    declare,
    elements,
    give,
    promised,
)
from knowledge_pipeline.code_graph.languages.scala.values import BUILTINS, EXPRESSIONS, TYPES, handed_to
from knowledge_pipeline.code_graph.languages.visibility import said_private
from knowledge_pipeline.syntax.outline import Definition

_CLAUSE = re.compile(r"((?:[\w$]+\s*\.\s*)*)(?:\{([^{}]*)\}|([\w$*]+(?:\s+as\s+\w+)?))")
_SELECTOR = re.compile(r"([\w$*]+)(?:\s*(?:=>|\bas\b)\s*(\w+))?")
_BODIES = frozenset({"template_body", "enum_body", "with_template_body"})
_MAX_IMPORT = 4_000


def qualified(each: Definition) -> str:
    """What an extension holds belongs to what it is in."""
    if each.kind == "extension":
        return ""
    parts = (part for one in each.scope if one.kind != "extension" for part in (one.owner, one.name))
    return ".".join(part for part in parts if part)


def _package(reading: Reading, node: Node) -> None:
    """Clauses that follow each other lead further in."""
    name = node.child_by_field_name("name")
    if name is not None:
        part = "".join(reading.text(name).split())
        reading.module = f"{reading.module}.{part}" if reading.module else part


def _import(reading: Reading, node: Node) -> None:
    scope, line = reading.scope(node), node.start_point.row + 1
    text = reading.text(node)[:_MAX_IMPORT].removeprefix("import").strip()
    for module, name, local in _imported(text):
        if module and (not scope or "." in module):  # others are of values: `import context._`
            reading.imports.append(Import(module, name, local, line, scope))


def _imported(text: str) -> Iterator[tuple[str, str, str]]:
    """Module, name and local name of all that an import takes."""
    for path, group, single in _CLAUSE.findall(text):
        module = "".join(path.split()).rstrip(".")
        for name, alias in _SELECTOR.findall(group or single):
            if alias == "_":
                continue
            star = name in ("_", "*", "given")
            yield (module, "*", "*") if star else (module, name, alias or name)


def _promised(reading: Reading, node: Node | None) -> Values:
    return promised(TYPES, reading.writer, node)


def _bases(reading: Reading, node: Node) -> None:
    """The first is extended, those after `with` are mixed in."""
    around = node.parent
    if around is not None and around.type in ("simple_enum_case", "full_enum_case"):
        return
    scope = reading.scope(node)
    is_trait = around is not None and around.type == "trait_definition"
    kinds = [each for each in node.children_by_field_name("type") if each.is_named]
    for place, each in enumerate(kinds):
        path = reading.writer.path(each)
        reading.use("extends" if is_trait or place == 0 else "implements", path, each, scope)
        reading.skip(each)
    if kinds and any(children(node, "arguments")):
        reading.use("calls", reading.writer.path(kinds[0]), kinds[0], scope)


def _alias(reading: Reading, node: Node) -> None:
    for suffix, value in _promised(reading, node.child_by_field_name("type")):
        reading.bind(reading.scope(node), "@()" + suffix, value, declared=True)


def _type_parameters(reading: Reading, node: Node) -> None:
    """`T <: Base` stands for its bound."""
    scope = reading.scope(node)
    for name in node.children_by_field_name("name"):
        reading.bind(scope, reading.text(name), "")
    for bound in node.children_by_field_name("bound"):
        name, kind = bound.prev_named_sibling, reading.writer.path(bound.child_by_field_name("type"))
        if bound.type == "upper_bound" and kind and name is not None and name.type == "identifier":
            reading.bind(scope, reading.text(name), kind)


def _function(reading: Reading, node: Node) -> None:
    scope, result = reading.scope(node), node.child_by_field_name("return_type")
    if result is not None:
        for suffix, value in _promised(reading, result):
            reading.bind(scope, "@()" + suffix, value, declared=True)
    else:
        for suffix, value in reading.writer.values(node.child_by_field_name("body")):
            reading.bind(scope, "@()" + suffix, value)
    if node.child_by_field_name("parameters") is None:
        reading.bind(scope, "@", "@()")
    receiver = _receiver(node)
    if receiver is None:
        return
    values = _promised(reading, receiver.child_by_field_name("type"))
    for suffix, value in values:
        reading.bind(scope, "@receiver" + suffix, value, declared=True)
    name = receiver.child_by_field_name("name")
    if name is not None and receiver.type == "parameter":
        declare(reading, scope, reading.text(name), values)


def _receiver(function: Node) -> Node | None:
    """The parameter as whose members functions are called: of an extension, or an implicit class."""
    around = function.parent
    if around is not None and around.type in _BODIES:
        around = around.parent
    if around is None:
        return None
    if around.type == "extension_definition":
        given = around.child_by_field_name("parameters")
        return next(children(given, "parameter"), None)
    modifiers = next(children(around, "modifiers"), None)
    if around.type == "class_definition" and modifiers is not None and "implicit" in _words(modifiers):
        return next(children(around.child_by_field_name("class_parameters"), "class_parameter"), None)
    return None


def _words(node: Node) -> list[str]:
    return [each.type for each in node.children]


def _value(reading: Reading, node: Node) -> None:
    """Values of files and types are definitions; others are local variables."""
    scope, around = reading.scope(node), node.parent
    of_file = around is not None and around.type == "compilation_unit"
    of_type = around is not None and around.type in _BODIES and scope in reading.types
    pattern = node.child_by_field_name("pattern") or node.child_by_field_name("name")
    kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    local = not (of_file or of_type)
    if pattern is None:
        return
    if pattern.type != "identifier":
        for place, each in enumerate(children(pattern, "identifier")):
            path = reading.writer.path(value)
            give(
                reading,
                scope,
                reading.text(each),
                [("", f"{path}._{place + 1}")] if path else [],
                local=local,
            )
        return
    name = reading.text(pattern)
    if not local:
        reading.define(f"{scope}.{name}" if scope else name, "variable", node)
    if kind is not None:
        declare(reading, scope, name, _promised(reading, kind), local=local)
    else:
        give(reading, scope, name, reading.writer.values(value), local=local)


def _class_parameters(reading: Reading, node: Node) -> None:
    """Parameters of a class are its values; those of case classes are seen by all."""
    scope, around = reading.scope(node), node.parent
    is_case = around is not None and any(each.type == "case" for each in around.children)
    for place, each in enumerate(children(node, "class_parameter"), 1):
        name = each.child_by_field_name("name")
        if name is None:
            continue
        text, values = reading.text(name), _promised(reading, each.child_by_field_name("type"))
        declare(reading, scope, text, values, local=False)
        if is_case or any(one.type in ("val", "var") for one in each.children):
            reading.define(f"{scope}.{text}", "variable", each)
            for suffix, value in values if is_case else ():
                reading.bind(scope, f"_{place}{suffix}", value, declared=True)


def _parameters(reading: Reading, node: Node) -> None:
    if node.parent is not None and node.parent.type == "extension_definition":
        return
    for each in children(node, "parameter"):
        name = each.child_by_field_name("name")
        if name is not None:
            values = _promised(reading, each.child_by_field_name("type"))
            declare(reading, reading.scope(node), reading.text(name), values)


def _lambda(reading: Reading, node: Node) -> None:
    scope, given = reading.scope(node), node.child_by_field_name("parameters")
    if given is None:
        return
    named = [given] if given.type == "identifier" else list(children(given, "binding"))
    for each in named:
        name, kind = each.child_by_field_name("name") or each, each.child_by_field_name("type")
        if kind is not None:
            declare(reading, scope, reading.text(name), _promised(reading, kind))
        else:
            handed = handed_to(reading.writer, node) if len(named) == 1 else []
            give(reading, scope, reading.text(name), handed)


def _enum_case(reading: Reading, node: Node) -> None:
    scope, name = reading.scope(node), node.child_by_field_name("name")
    if name is not None and scope in reading.types:
        reading.define(f"{scope}.{reading.text(name)}", "variable", node)
        path = reading.text(name) + ("()" if node.type == "full_enum_case" else "")
        reading.bind(scope, path, "@class()", declared=True)


def _enumerator(reading: Reading, node: Node) -> None:
    """`x <- xs` is one of xs, `y = f(x)` that value."""
    name, value = part_of(node, 0), part_of(node, 1)
    if name is None or name.type != "identifier":
        return
    values = reading.writer.values(value)
    taken = any(each.type == "<-" for each in node.children)
    give(reading, reading.scope(node), reading.text(name), elements(values) if taken else values)


def _pattern(reading: Reading, node: Node) -> None:
    name, kind = node.child_by_field_name("pattern"), node.child_by_field_name("type")
    if name is not None and name.type == "identifier":
        declare(reading, reading.scope(node), reading.text(name), _promised(reading, kind))


EXTRACTION = Extraction(
    private=said_private,
    expressions=EXPRESSIONS,
    handlers={
        "package": _package,
        "import": _import,
        "bases": _bases,
        "alias": _alias,
        "type.parameters": _type_parameters,
        "function": _function,
        "value": _value,
        "class.parameters": _class_parameters,
        "parameters": _parameters,
        "lambda": _lambda,
        "enum.case": _enum_case,
        "enumerator": _enumerator,
        "pattern": _pattern,
    },
    builtins=BUILTINS,
    hides_siblings=True,
    qualified=qualified,
)
