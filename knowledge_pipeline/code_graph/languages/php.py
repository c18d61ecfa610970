"""PHP: what its files say, and how its names lead to definitions.

Variables keep their "$"; properties have none. Source: https://www.php.net/manual/en/langref.php
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Value, Values, add_prefix, element_values, parent_scope
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    FactsBuilder,
    Handler,
    TypeSyntax,
    gives,
    returns,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words
from knowledge_pipeline.code_graph.project import Layout, climb_path
from knowledge_pipeline.syntax.grammars import children_of, children_of_type, first_of_type, has_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("php")

_REQUIRED_FILE = re.compile(r"""['"]/?([^'"\s]+\.(?:php|inc))['"]""")
_PLACE_NODES = ("member_access_expression", "scoped_property_access_expression", "subscript_expression")
_NAME_NODES = ("name", "qualified_name", "relative_scope", "namespace_name", "variable_name")


def _to_dotted(text: str) -> str:
    """`\\App\\Store` as `App.Store`."""
    return ".".join(part.strip() for part in text.split("\\") if part.strip())


class PhpReader(FactsBuilder):
    """Reads files of PHP."""

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """Names of the definitions around, without namespaces."""
        return ".".join(one.name.replace("\\", "") for one in definition.scope if one.kind != "module")

    def _special_type_values(self, node: Node, depth: int) -> Values | None:
        if node.type == "union_type":
            return [one for child in node.named_children for one in self.values_of_type(child, depth + 1)]
        return [] if node.type in ("primitive_type", "bottom_type") else None

    def _qualified_path(self, node: Node) -> str | None:
        return _to_dotted(self.short_text(node, 160)) or None

    def _new_path(self, node: Node) -> str | None:
        of = part_of(node, 0)
        path = self.path(of) if has_type(of, *_NAME_NODES) else None
        return f"{path}()" if path else None

    def _class_constant_path(self, node: Node) -> str | None:
        of, name = self.path(part_of(node, 0)), part_of(node, 1)
        if of is None or not has_type(name, "name"):
            return None
        return of if self.text(name) == "class" else f"{of}.{self.text(name)}"

    def _static_path(self, node: Node) -> str | None:
        of, name = self.path(part_of(node, "scope")), part_of(node, "name")
        return f"{of}.{self.text(name).lstrip('$')}" if of and name is not None else None

    def _array_values(self, node: Node) -> Iterator[Value]:
        for element in children_of_type(node, "array_element_initializer"):
            yield from add_prefix("[]", self.values(part_of(element, -1)))

    expressions = ExpressionSyntax(
        names=frozenset({"name", "variable_name", "relative_scope"}),
        members={
            "member_access_expression": ("object", "name"),
            "nullsafe_member_access_expression": ("object", "name"),
        },
        calls={
            "function_call_expression": ("function",), "member_call_expression": ("object", "name"),
            "nullsafe_member_call_expression": ("object", "name"),
            "scoped_call_expression": ("scope", "name"),
        },
        suffixed={"subscript_expression": (0, "[]")},
        transparent={"parenthesized_expression": 0, "clone_expression": 0, "assignment_expression": "right"},
        choices={"conditional_expression": ("body", "alternative")},
        contents={"array_creation_expression": _array_values},
        path_writers={
            "qualified_name": _qualified_path, "namespace_name": _qualified_path,
            "object_creation_expression": _new_path, "class_constant_access_expression": _class_constant_path,
            "scoped_property_access_expression": _static_path,
        },
        types=TypeSyntax(transparent={"named_type": 0, "optional_type": 0, "intersection_type": 0}),
    )  # fmt: skip

    def _read_namespace(self, node: Node) -> None:
        module = _to_dotted(self.text(part_of(node, "name")))
        namespaces = self.settings.get("namespaces", "").split()
        if module and module not in namespaces:
            self.settings["namespaces"] = " ".join([*namespaces, module])
            self.module = self.module or module

    def _read_import(self, node: Node) -> None:
        prefix = _to_dotted(self.text(first_of_type(node, "namespace_name")))
        for clause in children_of_type(part_of(node, "body") or node, "namespace_use_clause"):
            imported = self.text(first_of_type(clause, "qualified_name", "name", "namespace_name"))
            path = ".".join(part for part in (prefix, _to_dotted(imported)) if part)
            module, _, name = path.rpartition(".")
            if name:
                self.add_import(clause, module, name, self.text(part_of(clause, "alias")) or name)

    def _read_require(self, node: Node) -> None:
        if match := _REQUIRED_FILE.search(self.text(node)[:300]):
            self.add_import(node, match[1], "", "")

    def _read_bases(self, node: Node) -> None:
        kind = "implements" if node.type == "class_interface_clause" else "extends"
        for name in children_of_type(node, "name", "qualified_name"):
            self.add_use(kind, self.path(name), name)

    def _read_field(self, node: Node) -> None:
        """Properties are definitions, also those that the constructor's parameters make."""
        scope, promoted = self.scope(node), node.type == "property_promotion_parameter"
        scope = parent_scope(scope) if promoted else scope
        if scope not in self.type_names:
            return
        for element in [node] if promoted else children_of_type(node, "property_element"):
            if name := self.text(part_of(element, "name")).lstrip("$&"):
                self.add_variable(scope, name, node)
                self.bind_declared(scope, name, self.values_of_type(part_of(node, "type")), local=False)

    def _read_constant(self, node: Node) -> None:
        if node.type == "enum_case":
            self.add_enum_constant(node, part_of(node, "name"))

    def _read_parameter(self, node: Node) -> None:
        name, values = part_of(node, "name"), self.values_of_type(part_of(node, "type"))
        if node.type == "variadic_parameter":
            values = add_prefix("[]", values)
        if name is not None:
            self.skip_reference(name)
            self.bind_declared(self.scope(node), self.text(name), values)

    def _read_catch(self, node: Node) -> None:
        kinds = children_of(part_of(node, "type"))
        values = [value for kind in kinds for value in self.values_of_type(kind)]
        self.bind_declared(self.scope(node), self.text(part_of(node, "name")), values)

    def _read_loop(self, node: Node) -> None:
        of, target = part_of(node, 0), part_of(node, 1)
        target = part_of(target, -1) if has_type(target, "pair") else target
        if has_type(target, "variable_name"):
            self.bind_observed(self.scope(node), self.text(target), element_values(self.values(of)))

    def _read_new(self, node: Node) -> None:
        of = part_of(node, 0)
        if has_type(of, *_NAME_NODES):
            self.add_use("calls", self.path(of), of)

    handlers: Mapping[str, Handler] = {
        "namespace": _read_namespace, "import": _read_import, "require": _read_require, "bases": _read_bases,
        "function": gives("return_type"), "field": _read_field, "constant": _read_constant,
        "parameter": _read_parameter, "caught": _read_catch,
        "assignment": lambda reader, node: reader.bind_assigned(node, ("variable_name",), _PLACE_NODES),
        "loop": _read_loop, "new": _read_new, "return": returns(0),
    }  # fmt: skip
    builtins = _WORDS["builtins"]
    sees_sibling_names = True


class Php(PackageLanguage):
    """PHP, as its manual says: https://www.php.net/manual/en/language.namespaces.rules.php.

    Classes are found by the namespaces that files declare, which is where PSR-4 looks, too.
    """

    name = "php"
    receiver_keywords: Mapping[str, str] = {
        "$this": "@self",
        "self": "@class",
        "static": "@class",
        "parent": "@super",
    }
    reader = PhpReader
    builtins = PhpReader.builtins
    members_in_scope = False
    members_in_body = False
    element_accessors = ("getIterator()[]", "current()", "offsetGet()")
    call_method = "__invoke"
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A namespace; a file that is required."""
        if not name.endswith((".php", ".inc")):
            return super().find_modules(name, path, layout)
        return tuple(file for file in climb_path(path, name) if file in layout.paths)[:1]

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the namespace that define a name; of none, as functions are looked up."""
        return super().find_siblings(name, path, layout) or super().find_siblings(name, "/", layout)

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`Psr\\Log\\LoggerInterface`; a file that is not there is nothing."""
        if module.endswith((".php", ".inc")):
            return ""
        return "\\".join([*module.split("."), name]).strip("\\")

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`App\\Store::get`; the namespace for a file."""
        module = layout.facts(path).module.replace(".", "\\")
        return "\\".join(part for part in (module, name.replace(".", "::")) if part) or path
