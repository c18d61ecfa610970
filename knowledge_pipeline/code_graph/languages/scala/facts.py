"""What Scala's declarations say: packages, imports, types of values, parameters and results.

Source: https://www.scala-lang.org/files/archive/spec/2.13/ and https://docs.scala-lang.org/scala3/reference/
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    bind_declared,
    bind_observed,
    children_of_type,
    element_values,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.scala.values import (
    BUILTINS,
    EXPRESSIONS,
    TYPES,
    lambda_argument_values,
)
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.syntax.outline import OutlineDefinition

_CLAUSE = re.compile(r"((?:[\w$]+\s*\.\s*)*)(?:\{([^{}]*)\}|([\w$*]+(?:\s+as\s+\w+)?))")
_SELECTOR = re.compile(r"([\w$*]+)(?:\s*(?:=>|\bas\b)\s*(\w+))?")
_BODIES = frozenset({"template_body", "enum_body", "with_template_body"})
_MAX_IMPORT_CHARS = 4_000


def qualify(definition: OutlineDefinition) -> str:
    """What an extension holds belongs to what it is in."""
    if definition.kind == "extension":
        return ""
    parts = (part for one in definition.scope if one.kind != "extension" for part in (one.owner, one.name))
    return ".".join(part for part in parts if part)


def _read_package(builder: FactsBuilder, node: Node) -> None:
    """Clauses that follow each other lead further in."""
    name = node.child_by_field_name("name")
    if name is not None:
        part = "".join(builder.text(name).split())
        builder.module = f"{builder.module}.{part}" if builder.module else part


def _read_import(builder: FactsBuilder, node: Node) -> None:
    scope, line = builder.scope(node), node.start_point.row + 1
    text = builder.text(node)[:_MAX_IMPORT_CHARS].removeprefix("import").strip()
    for module, name, local in _parse_import(text):
        if module and (not scope or "." in module):  # others are of values: `import context._`
            builder.imports.append(Import(module, name, local, line, scope))


def _parse_import(text: str) -> Iterator[tuple[str, str, str]]:
    """Module, name and local name of all that an import takes."""
    for path, group, single in _CLAUSE.findall(text):
        module = "".join(path.split()).rstrip(".")
        for name, alias in _SELECTOR.findall(group or single):
            if alias == "_":
                continue
            star = name in ("_", "*", "given")
            yield (module, "*", "*") if star else (module, name, alias or name)


def _values_of_type(builder: FactsBuilder, node: Node | None) -> Values:
    return values_of_type(TYPES, builder.writer, node)


def _read_bases(builder: FactsBuilder, node: Node) -> None:
    """The first is extended, those after `with` are mixed in."""
    around = node.parent
    if around is not None and around.type in ("simple_enum_case", "full_enum_case"):
        return
    scope = builder.scope(node)
    is_trait = around is not None and around.type == "trait_definition"
    kinds = [each for each in node.children_by_field_name("type") if each.is_named]
    for place, each in enumerate(kinds):
        path = builder.writer.path(each)
        builder.add_use("extends" if is_trait or place == 0 else "implements", path, each, scope)
        builder.skip_reference(each)
    if kinds and any(children_of_type(node, "arguments")):
        builder.add_use("calls", builder.writer.path(kinds[0]), kinds[0], scope)


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    for suffix, value in _values_of_type(builder, node.child_by_field_name("type")):
        builder.bind(builder.scope(node), "@()" + suffix, value, declared=True)


def _read_type_parameters(builder: FactsBuilder, node: Node) -> None:
    """`T <: Base` stands for its bound."""
    scope = builder.scope(node)
    for name in node.children_by_field_name("name"):
        builder.bind(scope, builder.text(name), "")
    for bound in node.children_by_field_name("bound"):
        name, kind = bound.prev_named_sibling, builder.writer.path(bound.child_by_field_name("type"))
        if bound.type == "upper_bound" and kind and name is not None and name.type == "identifier":
            builder.bind(scope, builder.text(name), kind)


def _read_function(builder: FactsBuilder, node: Node) -> None:
    scope, result = builder.scope(node), node.child_by_field_name("return_type")
    if result is not None:
        for suffix, value in _values_of_type(builder, result):
            builder.bind(scope, "@()" + suffix, value, declared=True)
    else:
        for suffix, value in builder.writer.values(node.child_by_field_name("body")):
            builder.bind(scope, "@()" + suffix, value)
    if node.child_by_field_name("parameters") is None:
        builder.bind(scope, "@", "@()")
    receiver = _find_receiver(node)
    if receiver is None:
        return
    values = _values_of_type(builder, receiver.child_by_field_name("type"))
    for suffix, value in values:
        builder.bind(scope, "@receiver" + suffix, value, declared=True)
    name = receiver.child_by_field_name("name")
    if name is not None and receiver.type == "parameter":
        bind_declared(builder, scope, builder.text(name), values)


def _find_receiver(function: Node) -> Node | None:
    """The parameter as whose members functions are called: of an extension, or an implicit class."""
    around = function.parent
    if around is not None and around.type in _BODIES:
        around = around.parent
    if around is None:
        return None
    if around.type == "extension_definition":
        given = around.child_by_field_name("parameters")
        return next(children_of_type(given, "parameter"), None)
    modifiers = next(children_of_type(around, "modifiers"), None)
    if around.type == "class_definition" and modifiers is not None and "implicit" in _modifiers_of(modifiers):
        return next(children_of_type(around.child_by_field_name("class_parameters"), "class_parameter"), None)
    return None


def _modifiers_of(node: Node) -> list[str]:
    return [each.type for each in node.children]


def _read_value(builder: FactsBuilder, node: Node) -> None:
    """Values of files and types are definitions; others are local variables."""
    scope, around = builder.scope(node), node.parent
    of_file = around is not None and around.type == "compilation_unit"
    of_type = around is not None and around.type in _BODIES and scope in builder.type_names
    pattern = node.child_by_field_name("pattern") or node.child_by_field_name("name")
    kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    local = not (of_file or of_type)
    if pattern is None:
        return
    if pattern.type != "identifier":
        for place, each in enumerate(children_of_type(pattern, "identifier")):
            path = builder.writer.path(value)
            bind_observed(
                builder,
                scope,
                builder.text(each),
                [("", f"{path}._{place + 1}")] if path else [],
                local=local,
            )
        return
    name = builder.text(pattern)
    if not local:
        builder.add_definition(f"{scope}.{name}" if scope else name, "variable", node)
    if kind is not None:
        bind_declared(builder, scope, name, _values_of_type(builder, kind), local=local)
    else:
        bind_observed(builder, scope, name, builder.writer.values(value), local=local)


def _read_class_parameters(builder: FactsBuilder, node: Node) -> None:
    """Parameters of a class are its values; those of case classes are seen by all."""
    scope, around = builder.scope(node), node.parent
    is_case = around is not None and any(each.type == "case" for each in around.children)
    for place, each in enumerate(children_of_type(node, "class_parameter"), 1):
        name = each.child_by_field_name("name")
        if name is None:
            continue
        text, values = builder.text(name), _values_of_type(builder, each.child_by_field_name("type"))
        bind_declared(builder, scope, text, values, local=False)
        if is_case or any(one.type in ("val", "var") for one in each.children):
            builder.add_definition(f"{scope}.{text}", "variable", each)
            for suffix, value in values if is_case else ():
                builder.bind(scope, f"_{place}{suffix}", value, declared=True)


def _read_parameters(builder: FactsBuilder, node: Node) -> None:
    if node.parent is not None and node.parent.type == "extension_definition":
        return
    for each in children_of_type(node, "parameter"):
        name = each.child_by_field_name("name")
        if name is not None:
            values = _values_of_type(builder, each.child_by_field_name("type"))
            bind_declared(builder, builder.scope(node), builder.text(name), values)


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    scope, given = builder.scope(node), node.child_by_field_name("parameters")
    if given is None:
        return
    named = [given] if given.type == "identifier" else list(children_of_type(given, "binding"))
    for each in named:
        name, kind = each.child_by_field_name("name") or each, each.child_by_field_name("type")
        if kind is not None:
            bind_declared(builder, scope, builder.text(name), _values_of_type(builder, kind))
        else:
            handed = lambda_argument_values(builder.writer, node) if len(named) == 1 else []
            bind_observed(builder, scope, builder.text(name), handed)


def _read_enum_case(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), node.child_by_field_name("name")
    if name is not None and scope in builder.type_names:
        builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
        path = builder.text(name) + ("()" if node.type == "full_enum_case" else "")
        builder.bind(scope, path, "@class()", declared=True)


def _read_enumerator(builder: FactsBuilder, node: Node) -> None:
    """`x <- xs` is one of xs, `y = f(x)` that value."""
    name, value = part_of(node, 0), part_of(node, 1)
    if name is None or name.type != "identifier":
        return
    values = builder.writer.values(value)
    taken = any(each.type == "<-" for each in node.children)
    bind_observed(
        builder, builder.scope(node), builder.text(name), element_values(values) if taken else values
    )


def _read_pattern(builder: FactsBuilder, node: Node) -> None:
    name, kind = node.child_by_field_name("pattern"), node.child_by_field_name("type")
    if name is not None and name.type == "identifier":
        bind_declared(builder, builder.scope(node), builder.text(name), _values_of_type(builder, kind))


EXTRACTION = ExtractionRules(
    is_private=has_private_modifier,
    expressions=EXPRESSIONS,
    handlers={
        "package": _read_package,
        "import": _read_import,
        "bases": _read_bases,
        "alias": _read_alias,
        "type.parameters": _read_type_parameters,
        "function": _read_function,
        "value": _read_value,
        "class.parameters": _read_class_parameters,
        "parameters": _read_parameters,
        "lambda": _read_lambda,
        "enum.case": _read_enum_case,
        "enumerator": _read_enumerator,
        "pattern": _read_pattern,
    },
    builtins=BUILTINS,
    sees_sibling_names=True,
    qualify=qualify,
)
