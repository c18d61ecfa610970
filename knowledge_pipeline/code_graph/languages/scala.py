"""Scala: what its files say, and how its names lead to definitions.

Source: https://www.scala-lang.org/files/archive/spec/2.13/ and https://docs.scala-lang.org/scala3/reference/
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Values, add_prefix, element_values, own_value
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    FactsBuilder,
    Handler,
    TypeSyntax,
    declares,
    gives,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words
from knowledge_pipeline.code_graph.languages.java import Java
from knowledge_pipeline.syntax.grammars import (
    children_of_type,
    first_of_type,
    has_child,
    has_type,
    iter_ancestors,
    part_of,
)
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("scala")

_CLAUSE = re.compile(r"((?:[\w$]+\s*\.\s*)*)(?:\{([^{}]*)\}|([\w$*]+(?:\s+as\s+\w+)?))")
_SELECTOR = re.compile(r"([\w$*]+)(?:\s*(?:=>|\bas\b)\s*(\w+))?")
_BODIES = ("template_body", "enum_body", "with_template_body")
_MAX_IMPORT_CHARS = 4_000


def _find_receiver(function: Node) -> Node | None:
    """The parameter as whose members functions are called: of an extension, or an implicit class."""
    around = function.parent
    if has_type(around, *_BODIES):
        around = around.parent
    if has_type(around, "extension_definition"):
        return first_of_type(part_of(around, "parameters"), "parameter")
    if has_type(around, "class_definition") and has_child(first_of_type(around, "modifiers"), "implicit"):
        return first_of_type(part_of(around, "class_parameters"), "class_parameter")
    return None


class ScalaReader(FactsBuilder):
    """Reads files of Scala."""

    def _access_path(self, node: Node) -> str | None:
        """`a.b`; `Store.this` as an instance of `Store`."""
        of, name = self.path(part_of(node, "value")), self.text(part_of(node, "field"))
        if not of or not name:
            return None
        return f"{of}()" if name == "this" else f"{of}.{name}"

    def _generic_path(self, node: Node) -> str | None:
        """`f[T]` is f; `x.asInstanceOf[T]` an instance of T."""
        called = part_of(node, "function")
        if self.text(part_of(called, "field")) != "asInstanceOf":
            return self.path(called)
        return own_value(self.values_of_type(part_of(part_of(node, "type_arguments"), 0)))

    def _wildcard_path(self, node: Node) -> str | None:
        """`_` of `xs.map(_.weigh())`: an element of `xs`."""
        inner = node
        for around in iter_ancestors(node):
            if around.type == "arguments":
                break
            inner = around
        values = self._lambda_argument_values(inner)
        return values[0][1] if values else None

    def _lambda_argument_values(self, argument: Node) -> Values:
        """What a function that is an argument is given by the one that it is handed to."""
        within = ("arguments", "block", "case_block", "case_clause")
        call = next((around for around in iter_ancestors(argument) if around.type not in within), None)
        called = part_of(call, "function") if has_type(call, "call_expression") else None
        if not has_type(called, "field_expression"):
            return []
        owner, method = part_of(called, "value"), part_of(called, "field")
        return self.handed_values(owner, method, _WORDS["callback_methods"])

    def _call_values(self, node: Node) -> Values:
        """What `List(item)` and `Some(item)` hold."""
        if self.short_text(part_of(node, "function"), 20) not in _WORDS["collection_factories"]:
            return []
        return add_prefix("[]", self.values(part_of(part_of(node, "arguments"), 0)))

    def _match_values(self, node: Node) -> Values:
        clauses = list(children_of_type(part_of(node, "body"), "case_clause"))[:20]
        return [value for clause in clauses for value in self.values(part_of(clause, -1))]

    expressions = ExpressionSyntax(
        names=frozenset({"identifier", "type_identifier"}),
        calls={
            "call_expression": ("function",), "instance_expression": (0,),
            "infix_expression": ("left", "operator"),
        },
        transparent={
            "parenthesized_expression": 0, "generic_type": "type", "method_value": 0,
            "ascription_expression": 0,
        },
        choices={"if_expression": ("consequence", "alternative")},
        contents={
            "call_expression": _call_values,
            "instance_expression": lambda reader, node: reader.values_of_type(part_of(node, 0)),
            "block": lambda reader, node: reader.values(part_of(node, -1)), "match_expression": _match_values,
        },
        path_writers={
            "stable_type_identifier": FactsBuilder.dotted_text, "stable_identifier": FactsBuilder.dotted_text,
            "field_expression": _access_path, "generic_function": _generic_path, "wildcard": _wildcard_path,
        },
        types=TypeSyntax(
            generic={"generic_type": "type_arguments"}, arrays={"repeated_parameter_type": "type"},
            transparent={"annotated_type": 0, "lazy_parameter_type": "type", "compound_type": "base"},
            functions={"function_type": "return_type"},
        ),
    )  # fmt: skip

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """What an extension holds belongs to what it is in."""
        if definition.kind == "extension":
            return ""
        around = (one for one in definition.scope if one.kind != "extension")
        return ".".join(part for one in around for part in (one.owner, one.name) if part)

    def _read_package(self, node: Node) -> None:
        """Clauses that follow each other lead further in."""
        part = "".join(self.text(part_of(node, "name")).split())
        self.module = ".".join(name for name in (self.module, part) if name)

    def _read_import(self, node: Node) -> None:
        scope, text = self.scope(node), self.text(node)[:_MAX_IMPORT_CHARS].removeprefix("import").strip()
        for path, group, single in _CLAUSE.findall(text):
            module = "".join(path.split()).rstrip(".")
            if not module or (scope and "." not in module):  # others are of values: `import context._`
                continue
            for name, alias in _SELECTOR.findall(group or single):
                if name in ("_", "*", "given") and alias != "_":
                    self.add_import(node, module, "*", "*", scope=scope)
                elif alias != "_":
                    self.add_import(node, module, name, alias or name, scope=scope)

    def _read_bases(self, node: Node) -> None:
        """The first is extended, those after `with` are mixed in."""
        scope = self.scope(node)
        if has_type(node.parent, "simple_enum_case", "full_enum_case"):
            return
        is_trait = has_type(node.parent, "trait_definition")
        kinds = [child for child in node.children_by_field_name("type") if child.is_named]
        for position, kind in enumerate(kinds):
            self.add_base("extends" if is_trait or position == 0 else "implements", kind, scope)
        if kinds and first_of_type(node, "arguments") is not None:
            self.add_use("calls", self.path(kinds[0]), kinds[0], scope)

    def _read_type_parameters(self, node: Node) -> None:
        """`T <: Base` stands for its bound."""
        scope = self.scope(node)
        for name in node.children_by_field_name("name"):
            self.bind(scope, self.text(name), "")
        for bound in node.children_by_field_name("bound"):
            name, kind = bound.prev_named_sibling, self.path(part_of(bound, "type"))
            if bound.type == "upper_bound" and kind and has_type(name, "identifier"):
                self.bind(scope, self.text(name), kind)

    def _read_function(self, node: Node) -> None:
        scope, result, receiver = self.scope(node), part_of(node, "return_type"), _find_receiver(node)
        self.bind_result(scope, result)
        if result is None:
            self.bind_all(scope, "@()", self.values(part_of(node, "body")))
        if part_of(node, "parameters") is None:
            self.bind(scope, "@", "@()")
        values = self.values_of_type(part_of(receiver, "type"))
        self.bind_all(scope, "@receiver", values, declared=True)
        if has_type(receiver, "parameter"):
            self.bind_declared(scope, self.text(part_of(receiver, "name")), values)

    def _read_value(self, node: Node) -> None:
        """Values of files and types are definitions; others are local variables."""
        scope, value = self.scope(node), part_of(node, "value")
        pattern = part_of(node, "pattern") or part_of(node, "name")
        of_type = has_type(node.parent, *_BODIES) and scope in self.type_names
        local = not (of_type or has_type(node.parent, "compilation_unit"))
        if has_type(pattern, "identifier"):
            if not local:
                self.add_variable(scope, self.text(pattern), node)
            self.bind_variable(scope, self.text(pattern), part_of(node, "type"), value, local=local)
            return
        path = self.path(value)
        for position, variable in enumerate(children_of_type(pattern, "identifier"), start=1):
            values = [("", f"{path}._{position}")] if path else []
            self.bind_observed(scope, self.text(variable), values, local=local)

    def _read_class_parameters(self, node: Node) -> None:
        """Parameters of a class are its values; those of case classes are seen by all."""
        scope, is_case = self.scope(node), has_child(node.parent, "case")
        for position, parameter in enumerate(children_of_type(node, "class_parameter"), 1):
            name = self.text(part_of(parameter, "name"))
            values = self.values_of_type(part_of(parameter, "type"))
            self.bind_declared(scope, name, values, local=False)
            if name and (is_case or has_child(parameter, "val", "var")):
                self.add_variable(scope, name, parameter)
                self.bind_all(scope, f"_{position}", values if is_case else (), declared=True)

    def _read_parameters(self, node: Node) -> None:
        if not has_type(node.parent, "extension_definition"):
            for parameter in children_of_type(node, "parameter"):
                name, values = part_of(parameter, "name"), self.values_of_type(part_of(parameter, "type"))
                self.bind_declared(self.scope(node), self.text(name), values)

    def _read_lambda(self, node: Node) -> None:
        parameters = part_of(node, "parameters")
        if has_type(parameters, "identifier"):
            bindings = [parameters]
        else:
            bindings = list(children_of_type(parameters, "binding"))
        handed = self._lambda_argument_values(node) if len(bindings) == 1 else []
        for parameter in bindings:
            name = self.text(part_of(parameter, "name") or parameter)
            self.bind_variable(self.scope(node), name, part_of(parameter, "type"), handed)

    def _read_enumerator(self, node: Node) -> None:
        """`x <- xs` is one of xs, `y = f(x)` that value."""
        name, values = part_of(node, 0), self.values(part_of(node, 1))
        if has_type(name, "identifier"):
            elements = element_values(values) if has_child(node, "<-") else values
            self.bind_observed(self.scope(node), self.text(name), elements)

    handlers: Mapping[str, Handler] = {
        "package": _read_package, "import": _read_import, "bases": _read_bases, "alias": gives("type"),
        "type.parameters": _read_type_parameters, "function": _read_function, "value": _read_value,
        "class.parameters": _read_class_parameters, "parameters": _read_parameters, "lambda": _read_lambda,
        "enum.case": lambda reader, node: reader.add_enum_constant(
            node, part_of(node, "name"), "()" if node.type == "full_enum_case" else ""
        ),
        "enumerator": _read_enumerator, "pattern": declares("pattern", "type"),
    }  # fmt: skip
    builtins = _WORDS["builtins"]
    sees_sibling_names = True


class Scala(PackageLanguage):
    """Scala 2 and 3, as https://docs.scala-lang.org says."""

    name = "scala"
    receiver_keywords: Mapping[str, str] = {"this": "@self", "super": "@super"}
    reader = ScalaReader
    builtins = ScalaReader.builtins
    nested_packages = True
    has_extensions = True
    calls_index = True
    call_method = "apply"
    element_accessors = ("iterator().next()",)
    container_methods: Mapping[str, str] = {
        **Java.container_methods, **_WORDS.by_word("container_methods")
    }  # fmt: skip
    common_methods = Java.common_methods | _WORDS["common_methods"]
    standard_prefixes = ("scala.", "java.", "javax.")
