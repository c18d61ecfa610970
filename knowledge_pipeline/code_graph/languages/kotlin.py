"""Kotlin: what its files say, and how its names lead to definitions.

Source: https://kotlinlang.org/spec/
"""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Values,
    add_prefix,
    element_values,
    first_segment,
    parent_scope,
)
from knowledge_pipeline.code_graph.facts_builder import ExpressionSyntax, FactsBuilder, Handler, TypeSyntax
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words
from knowledge_pipeline.code_graph.languages.java import Java
from knowledge_pipeline.syntax.grammars import (
    ancestor_of_type,
    children_of_type,
    first_of_type,
    has_child,
    has_type,
    iter_ancestors,
    part_of,
)
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("kotlin")

_TYPE_NODES = ("user_type", "nullable_type", "function_type", "parenthesized_type", "non_nullable_type")
_SELF_RETURNING = frozenset({"also", "apply", "takeIf", "takeUnless", "onEach"})
_SELF_CALLBACKS = frozenset({"let", "also", "takeIf", "takeUnless"})


def _find_type(node: Node) -> Node | None:
    """The type that stands after a name."""
    return first_of_type(node, *_TYPE_NODES)


def _find_receiver(function: Node) -> Node | None:
    """`Item` of `fun Item.heavy()`."""
    ends = ("identifier", "variable_declaration", ":", "function_value_parameters")
    first = next((child for child in function.children if child.type in (*_TYPE_NODES, *ends)), None)
    return first if has_type(first, *_TYPE_NODES) else None


def _find_value(node: Node) -> Node | None:
    """What a property is given; of `by lazy { … }` the last expression."""
    delegate = first_of_type(node, "property_delegate")
    if delegate is None:
        last = part_of(node, -1)
        return None if has_type(last, "variable_declaration", "getter", "setter") else last
    given = part_of(part_of(part_of(delegate, 0), -1), 0)
    return part_of(given, -1) if has_type(given, "lambda_literal") else None


_LOOP_HEADER_NODES = frozenset({"label", "variable_declaration", "multi_variable_declaration", "annotation"})


class KotlinReader(FactsBuilder):
    """Reads files of Kotlin."""

    def _navigation_path(self, node: Node) -> str | None:
        path, name = self.path(part_of(node, 0)), part_of(node, -1)
        return f"{path}.{self.text(name)}" if path and has_type(name, "identifier") else None

    def _this_path(self, node: Node) -> str | None:
        """The instance; that of a type around by its name; an extension's receiver."""
        label = part_of(node, 0)
        if label is not None:
            return f"{self.text(label)}()"
        for around in iter_ancestors(node):
            if around.type in ("class_body", "source_file"):
                break
            if around.type in ("function_declaration", "property_declaration") and _find_receiver(around):
                return "@receiver"
        return "@self"

    def _identifier_path(self, node: Node) -> str | None:
        """`it` as what the function that it is given to hands to it."""
        text = self.text(node)
        if text != "it":
            return text
        literal = ancestor_of_type(node, "lambda_literal")
        values = self._lambda_argument_values(literal) if literal is not None else []
        return values[0][1] if values else text

    def _lambda_argument_values(self, literal: Node) -> Values:
        """What a lambda is given by the function that it is an argument of."""
        within = ("annotated_lambda", "value_argument", "value_arguments")
        call = next((around for around in iter_ancestors(literal) if around.type not in within), None)
        called = part_of(call, 0) if has_type(call, "call_expression") else None
        if not has_type(called, "navigation_expression"):
            return []
        owner, name = part_of(called, 0), part_of(called, -1)
        if self.text(name) in _SELF_CALLBACKS:
            path = self.path(owner)
            return [("", path)] if path else []
        return self.handed_values(owner, name, _WORDS["callback_methods"])

    def _rewrite_call(self, node: Node) -> str | None:
        """`x.also { … }` is x; None for other calls."""
        called = part_of(node, 0)
        returns_itself = self.text(part_of(called, -1)) in _SELF_RETURNING
        return (
            self.path(part_of(called, 0))
            if has_type(called, "navigation_expression") and returns_itself
            else None
        )

    def _call_values(self, node: Node) -> Values:
        """What `listOf<Item>(…)` and `listOf(item)` hold."""
        if self.short_text(part_of(node, 0), 40) not in _WORDS["collection_factories"]:
            return []
        kind = part_of(first_of_type(node, "type_arguments"), -1)
        if kind is not None:
            return add_prefix("[]", self.values_of_type(kind))
        first = part_of(first_of_type(node, "value_arguments"), 0)
        return add_prefix("[]", self.values(part_of(first, -1)))

    expressions = ExpressionSyntax(
        names=frozenset(), calls={"call_expression": (0,), "infix_expression": (0, 1)},
        suffixed={"index_expression": (0, "[]"), "unary_expression": ("argument", "")},
        transparent={"parenthesized_expression": 0}, casts={"as_expression": "right"}, default_operator="?:",
        contents={"call_expression": _call_values},
        path_writers={
            "identifier": _identifier_path,
            "user_type": lambda reader, node: (
                ".".join(map(reader.text, children_of_type(node, "identifier"))) or None
            ),
            "navigation_expression": _navigation_path, "this_expression": _this_path,
            "super_expression": lambda reader, node: "@super",
        },
        types=TypeSyntax(
            generic={"user_type": "type_arguments"}, functions={"function_type": -1},
            transparent={
                "nullable_type": 0, "type_projection": -1, "parenthesized_type": 0, "non_nullable_type": 0,
            },
        ),
    )  # fmt: skip

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """What a companion object holds is a member of its class."""
        *around, last = definition.scope
        kept = [one for one in around if one.node.type != "companion_object"]
        parts = (part.partition(":")[0].strip() for one in (*kept, last) for part in (one.owner, one.name))
        return ".".join(part for part in parts if part)

    def _read_package(self, node: Node) -> None:
        self.module = self.dotted_text(part_of(node, -1)) or ""

    def _read_import(self, node: Node) -> None:
        """One name of a package, by another name if it says so, or all."""
        path = self.dotted_text(first_of_type(node, "qualified_identifier"))
        if path and has_child(node, "*"):
            self.add_import(node, path, "*", "*")
        elif path:
            module, _, name = path.rpartition(".")
            self.add_import(node, module, name, self.text(first_of_type(node, "identifier")) or name)

    def _read_base(self, node: Node) -> None:
        """A class that is constructed is extended, all others are interfaces; in an interface, extended."""
        inner, around = part_of(node, 0), node.parent.parent if node.parent is not None else None
        kind = inner if has_type(inner, "user_type") else first_of_type(inner, "user_type")
        if kind is None or around is None or around.type == "object_literal" or not self.path(kind):
            return
        scope, constructed = self.scope(node), has_type(inner, "constructor_invocation")
        extends = constructed or has_child(around, "interface")
        self.add_base("extends" if extends else "implements", kind, scope)
        if constructed:
            self.add_use("calls", self.path(kind), kind, scope)

    def _read_alias(self, node: Node) -> None:
        if part_of(node, "type") is not None:
            self.bind_result(self.scope(node), _find_type(node))

    def _read_type_parameter(self, node: Node) -> None:
        name = part_of(node, 0)
        if has_type(name, "identifier"):
            self.bind(self.scope(node), self.text(name), self.path(_find_type(node)) or "")

    def _read_function(self, node: Node) -> None:
        scope, has_parameters, result = self.scope(node), False, None
        self._bind_receiver(scope, node)
        for child in node.named_children:
            has_parameters |= child.type == "function_value_parameters"
            if has_parameters and result is None and child.type in _TYPE_NODES[:4]:
                result = child
        self.bind_result(scope, result)
        expression = part_of(first_of_type(node, "function_body"), -1)
        if result is None and expression is not None and expression.type != "block":
            self.bind_all(scope, "@()", self.values(expression))

    def _bind_receiver(self, scope: str, node: Node) -> None:
        self.bind_all(scope, "@receiver", self.values_of_type(_find_receiver(node)), declared=True)

    def _read_property(self, node: Node) -> None:
        """Properties of files and types are definitions; others are local variables."""
        scope, value = self.scope(node), _find_value(node)
        declaration = first_of_type(node, "variable_declaration", "multi_variable_declaration")
        if declaration is None:
            return
        if declaration.type == "multi_variable_declaration":
            path, variables = self.path(value), children_of_type(declaration, "variable_declaration")
            for position, variable in enumerate(variables, start=1):
                values = [("", f"{path}.component{position}()")] if path else []  # of `val (a, b) = pair`
                self._bind_declaration(scope, variable, values)
            return
        name = self.text(declaration.named_children[0])
        if scope.rpartition(".")[2] == name and any(children_of_type(node, "getter")):
            self._bind_receiver(scope, node)
            self.bind(scope, "@", "@()")  # a property with a getter is read like a field
            self.bind_result(scope, _find_type(declaration))
            return
        owner = self._owner_of(scope, node)
        if owner is not None:
            self.add_definition(f"{owner}.{name}" if owner else name, "variable", node)
        at = scope if owner is None else owner
        self._bind_declaration(at, declaration, self.values(value), local=owner is None)

    def _owner_of(self, scope: str, node: Node) -> str | None:
        """The type that a property belongs to, "" for the file; None for a local variable."""
        parent = node.parent
        if has_type(parent, "source_file"):
            return ""
        if not has_type(parent, "class_body", "enum_class_body") or scope not in self.type_names:
            return None
        return parent_scope(scope) if has_type(parent.parent, "companion_object") else scope

    def _bind_declaration(self, scope: str, node: Node, values: Values, *, local: bool = True) -> None:
        name, kind = self.text(node.named_children[0]), _find_type(node)
        self.bind_variable(scope, name, kind, values, local=local)
        if kind is None and local and any(first_segment(value) == name for _, value in values):
            self.bind(scope, name, f"@around.{name}")  # `val parent = parent()`

    def _read_class_parameter(self, node: Node) -> None:
        """A parameter with `val` or `var` is a property; of data classes also a component."""
        scope, name = self.scope(node), first_of_type(node, "identifier")
        if name is None:
            return
        text, values = self.text(name), self.values_of_type(_find_type(node))
        self.bind_declared(scope, text, values, local=False)
        if has_child(node, "val", "var"):
            self.add_definition(f"{scope}.{text}", "variable", node)
            listed = enumerate(children_of_type(node.parent, "class_parameter"), start=1)
            position = next((at for at, parameter in listed if parameter.id == node.id), 0)
            self.bind_all(scope, f"component{position}()", values, declared=True)

    def _read_parameters(self, node: Node) -> None:
        many = False
        for child in node.named_children:
            if child.type == "parameter":
                values = self.values_of_type(_find_type(child))
                name = self.text(part_of(child, 0))
                self.bind_declared(self.scope(node), name, add_prefix("[]", values) if many else values)
            many = child.type == "parameter_modifiers" and "vararg" in self.text(child)

    def _read_lambda(self, node: Node) -> None:
        parameters = list(children_of_type(first_of_type(node, "lambda_parameters"), "variable_declaration"))
        handed = self._lambda_argument_values(node) if len(parameters) == 1 else []
        for parameter in parameters:
            self._bind_declaration(self.scope(node), parameter, handed)

    def _read_loop(self, node: Node) -> None:
        declaration, scope = first_of_type(node, "variable_declaration"), self.scope(node)
        iterated = (child for child in node.named_children if child.type not in _LOOP_HEADER_NODES)
        elements = element_values(self.values(next(iterated, None)))
        if declaration is not None:
            self._bind_declaration(scope, declaration, elements)
            return
        for several in children_of_type(node, "multi_variable_declaration"):
            for position, variable in enumerate(children_of_type(several, "variable_declaration")):
                self._bind_declaration(scope, variable, elements if position else [])

    def _read_catch(self, node: Node) -> None:
        name = part_of(node, 0)
        if has_type(name, "identifier"):
            self.bind_declared(self.scope(node), self.text(name), self.values_of_type(_find_type(node)))

    def _read_type_check(self, node: Node) -> None:
        """`x is Special` says more of x."""
        if node.type == "is_expression":
            self._bind_narrowed(node, part_of(node, "left"), part_of(node, "right"))
            return
        subject = part_of(first_of_type(node, "when_subject"), -1)
        for entry in children_of_type(node, "when_entry"):
            for condition in entry.children_by_field_name("condition"):
                if condition.type == "type_test":
                    self._bind_narrowed(node, subject, part_of(condition, -1))

    def _bind_narrowed(self, node: Node, subject: Node | None, kind: Node | None) -> None:
        path = self.path(subject)
        if path and path.isidentifier():
            self.bind_all(self.scope(node), path, self.values_of_type(kind), declared=True)

    def _read_when_subject(self, node: Node) -> None:
        declaration = first_of_type(node, "variable_declaration")
        if declaration is not None:
            self._bind_declaration(self.scope(node), declaration, self.values(part_of(node, -1)))

    handlers: Mapping[str, Handler] = {
        "package": _read_package, "import": _read_import, "base": _read_base, "alias": _read_alias,
        "type.parameter": _read_type_parameter, "function": _read_function, "property": _read_property,
        "class.parameter": _read_class_parameter,
        "enum.entry": lambda reader, node: reader.add_enum_constant(node, part_of(node, 0)),
        "parameters": _read_parameters, "lambda": _read_lambda, "loop": _read_loop, "catch": _read_catch,
        "check": _read_type_check, "subject": _read_when_subject,
    }  # fmt: skip
    builtins = _WORDS["builtins"]
    sees_sibling_names = True


class Kotlin(PackageLanguage):
    """Kotlin, as its specification says: https://kotlinlang.org/spec/."""

    name = "kotlin"
    reader = KotlinReader
    builtins = KotlinReader.builtins
    has_extensions = True
    receiver_in_scope = True
    private_to_file = True
    call_method = "invoke"
    element_accessors = ("iterator().next()", "get()")
    container_methods: Mapping[str, str] = {
        **Java.container_methods, **_WORDS.by_word("container_methods")
    }  # fmt: skip
    common_methods = Java.common_methods | _WORDS["common_methods"]
    standard_prefixes = ("kotlin.", "kotlinx.", "java.", "javax.")
