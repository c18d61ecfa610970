"""Java: what its files say, and how its names lead to definitions.

Source: https://docs.oracle.com/javase/specs/jls/se21/html/
"""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Values, add_prefix, element_values, last_segment, parent_scope
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    FactsBuilder,
    Handler,
    TypeSyntax,
    declares,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words
from knowledge_pipeline.syntax.grammars import (
    ancestor_of_type,
    children_of,
    children_of_type,
    first_of_type,
    part_of,
)

_WORDS = load_words("java")


class JavaReader(FactsBuilder):
    """Reads files of Java."""

    def _access_path(self, node: Node) -> str | None:
        """`a.b`; `Outer.this` as an instance of `Outer`."""
        of, field = self.path(part_of(node, "object")), part_of(node, "field")
        if of is None or field is None:
            return None
        return f"{of}()" if field.type == "this" else f"{of}.{self.text(field)}"

    def _scoped_path(self, node: Node) -> str | None:
        """`Map.Entry`, its annotations and arguments left out."""
        parts = [self.path(child) for child in node.named_children if "annotation" not in child.type]
        return ".".join(part for part in parts if part) or None

    expressions = ExpressionSyntax(
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
            "scoped_identifier": FactsBuilder.dotted_text,
        },
        implicit_receiver="@around.",
        types=TypeSyntax(
            generic={"generic_type": "type_arguments"}, arrays={"array_type": "element"},
            transparent={"annotated_type": -1, "wildcard": -1}, ignored=frozenset({"var"}),
        ),
    )  # fmt: skip

    def _read_package(self, node: Node) -> None:
        self.module = self.dotted_text(first_of_type(node, "scoped_identifier", "identifier")) or ""

    def _read_import(self, node: Node) -> None:
        path = self.dotted_text(first_of_type(node, "scoped_identifier", "identifier"))
        if path and first_of_type(node, "asterisk") is not None:
            self.add_import(node, path, "*", "*")
        elif path:
            module, _, name = path.rpartition(".")
            self.add_import(node, module, name, name)

    def _read_bases(self, node: Node) -> None:
        """What a type extends or implements. An interface extends interfaces."""
        kind = "implements" if node.type == "super_interfaces" else "extends"
        for child in children_of(first_of_type(node, "type_list") or node):
            self.add_base(kind, child, self.scope(node))

    def _read_type_parameter(self, node: Node) -> None:
        name, bound = first_of_type(node, "type_identifier"), part_of(first_of_type(node, "type_bound"), 0)
        self.bind(self.scope(node), self.text(name), self.path(bound) or "")

    def _read_method(self, node: Node) -> None:
        scope = self.scope(node)
        if node.type == "annotation_type_element_declaration":
            scope = f"{scope}.{self.text(part_of(node, 'name'))}"
            self.add_definition(scope, "method", node)
        self.bind_result(scope, part_of(node, "type"))

    def _read_field(self, node: Node) -> None:
        scope = self.scope(node)
        for declarator in children_of_type(node, "variable_declarator"):
            name = self._bind_declarator(node, declarator, local=False)
            if name and scope in self.type_names:
                self.add_definition(f"{scope}.{name}", "variable", declarator)

    def _read_local(self, node: Node) -> None:
        for declarator in children_of_type(node, "variable_declarator"):
            self._bind_declarator(node, declarator)

    def _bind_declarator(self, node: Node, declarator: Node, *, local: bool = True) -> str | None:
        scope, kind, name = self.scope(node), part_of(node, "type"), self.path(part_of(declarator, "name"))
        if self.text(kind) == "var" or part_of(declarator, "dimensions") is None:
            kind = None if self.text(kind) == "var" else kind
            self.bind_variable(scope, name, kind, part_of(declarator, "value"), local=local)
        else:
            self.bind_declared(scope, name, add_prefix("[]", self.values_of_type(kind)), local=local)
        return name

    def _read_record(self, node: Node) -> None:
        """A component of a record is a field, and a method that gives it."""
        for parameter in children_of_type(
            part_of(node, "parameters"), "formal_parameter", "spread_parameter"
        ):
            scope, (name, values) = self.scope(parameter), self._parameter_values(parameter)
            if name:
                self.bind_declared(scope, name, values, local=False)
                self.add_definition(f"{scope}.{name}", "method", parameter)
                self.bind_all(f"{scope}.{name}", "@()", values, declared=True)

    def _parameter_values(self, node: Node) -> tuple[str | None, Values]:
        if node.type == "formal_parameter":
            return self.path(part_of(node, "name")), self.values_of_type(part_of(node, "type"))
        name = self.path(part_of(first_of_type(node, "variable_declarator"), "name"))
        kinds = (
            part for part in node.named_children if part.type not in ("modifiers", "variable_declarator")
        )
        return name, add_prefix("[]", self.values_of_type(next(kinds, None)))

    def _read_parameter(self, node: Node) -> None:
        scope, listed = self.scope(node), node.parent
        if listed is not None and listed.parent is not None and listed.parent.type == "record_declaration":
            return
        if node.type == "catch_formal_parameter":
            caught = children_of(first_of_type(node, "catch_type"))
            values = [value for kind in caught for value in self.values_of_type(kind)]
            self.bind_declared(scope, self.path(part_of(node, "name")), values)
        else:
            self.bind_declared(scope, *self._parameter_values(node))

    def _read_lambda(self, node: Node) -> None:
        parameters, call = part_of(node, "parameters"), node.parent.parent if node.parent else None
        handed: Values = []
        if call is not None and call.type == "method_invocation":
            owner, method = part_of(call, "object"), part_of(call, "name")
            handed = self.handed_values(owner, method, _WORDS["callback_methods"])
        is_name = parameters is not None and parameters.type == "identifier"
        for name in [parameters] if is_name else children_of_type(parameters, "identifier"):
            self.bind_observed(self.scope(node), self.text(name), handed)

    def _read_loop(self, node: Node) -> None:
        kind, elements = part_of(node, "type"), element_values(self.values(part_of(node, "value")))
        kind = None if self.text(kind) == "var" else kind
        self.bind_variable(self.scope(node), self.path(part_of(node, "name")), kind, elements)

    def _read_resource(self, node: Node) -> None:
        if part_of(node, "name") is not None:
            self._bind_declarator(node, node)

    def _read_pattern(self, node: Node) -> None:
        kind, name = part_of(node, 0), part_of(node, -1)
        if kind is not None and name is not None and name.type == "identifier" and kind.id != name.id:
            self.skip_reference(name)
            self.bind_declared(self.scope(node), self.text(name), self.values_of_type(kind))

    def _read_method_reference(self, node: Node) -> None:
        of, name = part_of(node, 0), part_of(node, -1)
        path = self.path(of)
        if path and of is not None and name is not None and name.type == "identifier" and name.id != of.id:
            self.add_use("references", f"{path}.{self.text(name)}", node)

    def _read_constructor_call(self, node: Node) -> None:
        """`super(…)` calls what the class extends, `this(…)` the class itself."""
        called = part_of(node, "constructor")
        if called is not None and called.type == "this":
            self.add_use("calls", last_segment(parent_scope(self.scope(node))), node)
        elif called is not None:
            extended = part_of(ancestor_of_type(node, "class_declaration"), "superclass")
            self.add_use("calls", self.path(part_of(extended, 0)), node)

    handlers: Mapping[str, Handler] = {
        "package": _read_package, "import": _read_import, "bases": _read_bases,
        "type.parameter": _read_type_parameter, "method": _read_method, "field": _read_field,
        "local": _read_local,
        "enum.constant": lambda reader, node: reader.add_enum_constant(node, part_of(node, "name")),
        "record": _read_record, "parameter": _read_parameter, "lambda": _read_lambda, "loop": _read_loop,
        "resource": _read_resource, "check": declares("name", "right"), "pattern": _read_pattern,
        "method.reference": _read_method_reference, "constructed": _read_constructor_call,
    }  # fmt: skip
    builtins = _WORDS["builtins"]
    sees_sibling_names = True


class Java(PackageLanguage):
    """Java, as its specification says, chapters 6 to 9: https://docs.oracle.com/javase/specs/."""

    name = "java"
    receiver_keywords: Mapping[str, str] = {"this": "@self", "super": "@super"}
    reader = JavaReader
    builtins = JavaReader.builtins
    constructors_named_after_type = True
    container_methods = _WORDS.by_word("container_methods")  # of optionals, suppliers and futures, too
    element_accessors = ("iterator().next()", "get()")
    common_methods = _WORDS["common_methods"]
    standard_prefixes = ("java.", "javax.")
