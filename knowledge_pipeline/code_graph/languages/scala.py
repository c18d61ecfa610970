"""Scala: what its files say, and how its names lead to definitions.

Source: https://www.scala-lang.org/files/archive/spec/2.13/ and https://docs.scala-lang.org/scala3/reference/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import, Values, add_prefix, element_values, own_value
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    ExtractionRules,
    FactsBuilder,
    PathWriter,
    TypeSyntax,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words
from knowledge_pipeline.code_graph.languages.java import COLLECTION_METHODS, COMMON_METHODS
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.syntax.grammars import children_of_type, first_of_type, has_child, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("scala")

TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"},
    arrays={"repeated_parameter_type": "type"},
    transparent={"annotated_type": 0, "lazy_parameter_type": "type", "compound_type": "base"},
    functions={"function_type": "return_type"},
)
BUILTINS = _WORDS["builtins"]
_CALLBACK_METHODS = _WORDS["callback_methods"]


def _access_path(writer: PathWriter, node: Node) -> str | None:
    """`a.b`; `Store.this` as an instance of `Store`."""
    of, name = writer.path(part_of(node, "value")), writer.text(part_of(node, "field"))
    if not of or not name:
        return None
    return f"{of}()" if name == "this" else f"{of}.{name}"


def _generic_path(writer: PathWriter, node: Node) -> str | None:
    """`f[T]` is f; `x.asInstanceOf[T]` an instance of T."""
    called = part_of(node, "function")
    if writer.text(part_of(called, "field")) != "asInstanceOf":
        return writer.path(called)
    return own_value(writer.values_of_type(part_of(part_of(node, "type_arguments"), 0)))


def _wildcard_path(writer: PathWriter, node: Node) -> str | None:
    """`_` of `xs.map(_.weigh())`: an element of `xs`."""
    around, inner = node.parent, node
    while around is not None and around.type != "arguments":
        around, inner = around.parent, around
    values = _lambda_argument_values(writer, inner)
    return values[0][1] if values else None


def _lambda_argument_values(writer: PathWriter, argument: Node) -> Values:
    """What a function that is an argument is given by the one that it is handed to."""
    call = argument.parent
    while call is not None and call.type in ("arguments", "block", "case_block", "case_clause"):
        call = call.parent
    called = part_of(call, "function") if call is not None and call.type == "call_expression" else None
    if called is None or called.type != "field_expression":
        return []
    return writer.handed_values(part_of(called, "value"), part_of(called, "field"), _CALLBACK_METHODS)


def _call_values(writer: PathWriter, node: Node) -> Values:
    """What `List(item)` and `Some(item)` hold."""
    if writer.short_text(part_of(node, "function"), 20) not in _COLLECTION_FACTORIES:
        return []
    return add_prefix("[]", writer.values(part_of(part_of(node, "arguments"), 0)))


_COLLECTION_FACTORIES = _WORDS["collection_factories"]


def _match_values(writer: PathWriter, node: Node) -> Values:
    clauses = list(children_of_type(part_of(node, "body"), "case_clause"))[:20]
    return [value for clause in clauses for value in writer.values(part_of(clause, -1))]


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "type_identifier"}),
    calls={
        "call_expression": ("function",), "instance_expression": (0,),
        "infix_expression": ("left", "operator"),
    },
    transparent={
        "parenthesized_expression": 0, "generic_type": "type", "method_value": 0, "ascription_expression": 0,
    },
    choices={"if_expression": ("consequence", "alternative")},
    contents={
        "call_expression": _call_values,
        "instance_expression": lambda writer, node: writer.values_of_type(part_of(node, 0)),
        "block": lambda writer, node: writer.values(part_of(node, -1)), "match_expression": _match_values,
    },
    path_writers={
        "stable_type_identifier": PathWriter.dotted_text, "stable_identifier": PathWriter.dotted_text,
        "field_expression": _access_path, "generic_function": _generic_path, "wildcard": _wildcard_path,
    },
    types=TYPES,
)  # fmt: skip


_CLAUSE = re.compile(r"((?:[\w$]+\s*\.\s*)*)(?:\{([^{}]*)\}|([\w$*]+(?:\s+as\s+\w+)?))")
_SELECTOR = re.compile(r"([\w$*]+)(?:\s*(?:=>|\bas\b)\s*(\w+))?")
_BODIES = frozenset({"template_body", "enum_body", "with_template_body"})
_MAX_IMPORT_CHARS = 4_000


def _qualify(definition: OutlineDefinition) -> str:
    """What an extension holds belongs to what it is in."""
    if definition.kind == "extension":
        return ""
    parts = (part for one in definition.scope if one.kind != "extension" for part in (one.owner, one.name))
    return ".".join(part for part in parts if part)


def _read_package(builder: FactsBuilder, node: Node) -> None:
    """Clauses that follow each other lead further in."""
    part = "".join(builder.text(part_of(node, "name")).split())
    builder.module = f"{builder.module}.{part}" if builder.module and part else builder.module or part


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


def _read_bases(builder: FactsBuilder, node: Node) -> None:
    """The first is extended, those after `with` are mixed in."""
    around = node.parent
    if around is not None and around.type in ("simple_enum_case", "full_enum_case"):
        return
    scope = builder.scope(node)
    is_trait = around is not None and around.type == "trait_definition"
    kinds = [child for child in node.children_by_field_name("type") if child.is_named]
    for position, kind in enumerate(kinds):
        path = builder.writer.path(kind)
        builder.add_use("extends" if is_trait or position == 0 else "implements", path, kind, scope)
        builder.skip_reference(kind)
    if kinds and any(children_of_type(node, "arguments")):
        builder.add_use("calls", builder.writer.path(kinds[0]), kinds[0], scope)


def _read_type_parameters(builder: FactsBuilder, node: Node) -> None:
    """`T <: Base` stands for its bound."""
    scope = builder.scope(node)
    for name in node.children_by_field_name("name"):
        builder.bind(scope, builder.text(name), "")
    for bound in node.children_by_field_name("bound"):
        name, kind = bound.prev_named_sibling, builder.writer.path(part_of(bound, "type"))
        if bound.type == "upper_bound" and kind and name is not None and name.type == "identifier":
            builder.bind(scope, builder.text(name), kind)


def _read_function(builder: FactsBuilder, node: Node) -> None:
    scope, result = builder.scope(node), part_of(node, "return_type")
    builder.bind_result(scope, result)
    if result is None:
        builder.bind_all(scope, "@()", builder.writer.values(part_of(node, "body")))
    if part_of(node, "parameters") is None:
        builder.bind(scope, "@", "@()")
    receiver = _find_receiver(node)
    if receiver is None:
        return
    values = builder.values_of_type(part_of(receiver, "type"))
    builder.bind_all(scope, "@receiver", values, declared=True)
    name = part_of(receiver, "name")
    if name is not None and receiver.type == "parameter":
        builder.bind_declared(scope, builder.text(name), values)


def _find_receiver(function: Node) -> Node | None:
    """The parameter as whose members functions are called: of an extension, or an implicit class."""
    around = function.parent
    if around is not None and around.type in _BODIES:
        around = around.parent
    if around is not None and around.type == "extension_definition":
        return first_of_type(part_of(around, "parameters"), "parameter")
    if around is None or around.type != "class_definition":
        return None
    is_implicit = has_child(first_of_type(around, "modifiers"), "implicit")
    return first_of_type(part_of(around, "class_parameters"), "class_parameter") if is_implicit else None


def _read_value(builder: FactsBuilder, node: Node) -> None:
    """Values of files and types are definitions; others are local variables."""
    scope, around = builder.scope(node), node.parent
    of_file = around is not None and around.type == "compilation_unit"
    of_type = around is not None and around.type in _BODIES and scope in builder.type_names
    pattern = part_of(node, "pattern") or part_of(node, "name")
    kind, value = part_of(node, "type"), part_of(node, "value")
    local = not (of_file or of_type)
    if pattern is None:
        return
    if pattern.type != "identifier":
        path = builder.writer.path(value)
        for position, variable in enumerate(children_of_type(pattern, "identifier"), start=1):
            values = [("", f"{path}._{position}")] if path else []
            builder.bind_observed(scope, builder.text(variable), values, local=local)
        return
    name = builder.text(pattern)
    if not local:
        builder.add_definition(f"{scope}.{name}" if scope else name, "variable", node)
    if kind is not None:
        builder.bind_declared(scope, name, builder.values_of_type(kind), local=local)
    else:
        builder.bind_observed(scope, name, builder.writer.values(value), local=local)


def _read_class_parameters(builder: FactsBuilder, node: Node) -> None:
    """Parameters of a class are its values; those of case classes are seen by all."""
    scope, is_case = builder.scope(node), has_child(node.parent, "case")
    for position, parameter in enumerate(children_of_type(node, "class_parameter"), 1):
        text = builder.text(part_of(parameter, "name"))
        values = builder.values_of_type(part_of(parameter, "type"))
        if not text:
            continue
        builder.bind_declared(scope, text, values, local=False)
        if is_case or has_child(parameter, "val", "var"):
            builder.add_definition(f"{scope}.{text}", "variable", parameter)
            builder.bind_all(scope, f"_{position}", values if is_case else (), declared=True)


def _read_parameters(builder: FactsBuilder, node: Node) -> None:
    if node.parent is not None and node.parent.type == "extension_definition":
        return
    for parameter in children_of_type(node, "parameter"):
        name, values = part_of(parameter, "name"), builder.values_of_type(part_of(parameter, "type"))
        builder.bind_declared(builder.scope(node), builder.text(name), values)


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    scope, parameters = builder.scope(node), part_of(node, "parameters")
    if parameters is None:
        return
    is_name = parameters.type == "identifier"
    bindings = [parameters] if is_name else list(children_of_type(parameters, "binding"))
    for parameter in bindings:
        name, kind = part_of(parameter, "name") or parameter, part_of(parameter, "type")
        if kind is not None:
            builder.bind_declared(scope, builder.text(name), builder.values_of_type(kind))
        else:
            handed = _lambda_argument_values(builder.writer, node) if len(bindings) == 1 else []
            builder.bind_observed(scope, builder.text(name), handed)


def _read_enumerator(builder: FactsBuilder, node: Node) -> None:
    """`x <- xs` is one of xs, `y = f(x)` that value."""
    name, values = part_of(node, 0), builder.writer.values(part_of(node, 1))
    if name is not None and name.type == "identifier":
        elements = element_values(values) if has_child(node, "<-") else values
        builder.bind_observed(builder.scope(node), builder.text(name), elements)


def _read_pattern(builder: FactsBuilder, node: Node) -> None:
    name, kind = part_of(node, "pattern"), part_of(node, "type")
    if name is not None and name.type == "identifier":
        builder.bind_declared(builder.scope(node), builder.text(name), builder.values_of_type(kind))


EXTRACTION = ExtractionRules(
    is_private=has_private_modifier, expressions=EXPRESSIONS,
    handlers={
        "package": _read_package, "import": _read_import, "bases": _read_bases,
        "alias": lambda builder, node: builder.bind_result(builder.scope(node), part_of(node, "type")),
        "type.parameters": _read_type_parameters, "function": _read_function, "value": _read_value,
        "class.parameters": _read_class_parameters, "parameters": _read_parameters, "lambda": _read_lambda,
        "enum.case": lambda builder, node: builder.add_enum_constant(
            node, part_of(node, "name"), "()" if node.type == "full_enum_case" else ""
        ),
        "enumerator": _read_enumerator, "pattern": _read_pattern,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify=_qualify,
)  # fmt: skip


class Scala(PackageLanguage):
    """Scala 2 and 3, as https://docs.scala-lang.org says."""

    name = "scala"
    receiver_keywords: Mapping[str, str] = {"this": "@self", "super": "@super"}
    builtins = BUILTINS
    nested_packages = True
    has_extensions = True
    calls_index = True
    call_method = "apply"
    element_accessors = ("iterator().next()",)
    container_methods = COLLECTION_METHODS | _WORDS.by_word("container_methods")
    common_methods = COMMON_METHODS | _WORDS["common_methods"]
    standard_prefixes = ("scala.", "java.", "javax.")
