"""PHP: what its files say, and how its names lead to definitions.

Variables keep their "$"; properties have none. Source: https://www.php.net/manual/en/langref.php
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import, Value, Values, add_prefix, element_values
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    ExtractionRules,
    FactsBuilder,
    PathWriter,
    TypeSyntax,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words, split_words
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.code_graph.project import Layout, climb_path
from knowledge_pipeline.syntax.grammars import children_of, children_of_type, first_of_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("php")

BUILTINS = _WORDS["builtins"]
_REQUIRED_FILE = re.compile(r"""['"]/?([^'"\s]+\.(?:php|inc))['"]""")
_PLACE_NODES = split_words("member_access_expression scoped_property_access_expression subscript_expression")
_NAME_NODES = split_words("name qualified_name relative_scope namespace_name variable_name")


def _to_dotted(text: str) -> str:
    """`\\App\\Store` as `App.Store`."""
    return ".".join(part.strip() for part in text.split("\\") if part.strip())


def _qualify(definition: OutlineDefinition) -> str:
    """Names of the definitions around, without namespaces."""
    return ".".join(one.name.replace("\\", "") for one in definition.scope if one.kind != "module")


def _special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    if node.type == "union_type":
        return [one for child in node.named_children for one in writer.values_of_type(child, depth + 1)]
    return [] if node.type in ("primitive_type", "bottom_type") else None


_TYPES = TypeSyntax(
    transparent={"named_type": 0, "optional_type": 0, "intersection_type": 0},
    read_special=_special_type_values,
)


def _qualified_path(writer: PathWriter, node: Node) -> str | None:
    return _to_dotted(writer.short_text(node, 160)) or None


def _new_path(writer: PathWriter, node: Node) -> str | None:
    of = part_of(node, 0)
    path = writer.path(of) if of is not None and of.type in _NAME_NODES else None
    return f"{path}()" if path else None


def _class_constant_path(writer: PathWriter, node: Node) -> str | None:
    of, name = writer.path(part_of(node, 0)), part_of(node, 1)
    if of is None or name is None or name.type != "name":
        return None
    return of if writer.text(name) == "class" else f"{of}.{writer.text(name)}"


def _static_path(writer: PathWriter, node: Node) -> str | None:
    of, name = writer.path(part_of(node, "scope")), part_of(node, "name")
    return f"{of}.{writer.text(name).lstrip('$')}" if of and name is not None else None


def _array_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    for element in children_of_type(node, "array_element_initializer"):
        yield from add_prefix("[]", writer.values(part_of(element, -1)))


EXPRESSIONS = ExpressionSyntax(
    names=split_words("name variable_name relative_scope"),
    members={
        "member_access_expression": ("object", "name"),
        "nullsafe_member_access_expression": ("object", "name"),
    },
    calls={
        "function_call_expression": ("function",), "member_call_expression": ("object", "name"),
        "nullsafe_member_call_expression": ("object", "name"), "scoped_call_expression": ("scope", "name"),
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
    types=_TYPES,
)  # fmt: skip


def _read_namespace(builder: FactsBuilder, node: Node) -> None:
    module = _to_dotted(builder.text(part_of(node, "name")))
    namespaces = builder.settings.get("namespaces", "").split()
    if module and module not in namespaces:
        builder.settings["namespaces"] = " ".join([*namespaces, module])
        builder.module = builder.module or module


def _read_import(builder: FactsBuilder, node: Node) -> None:
    prefix = _to_dotted(builder.text(first_of_type(node, "namespace_name")))
    for clause in children_of_type(part_of(node, "body") or node, "namespace_use_clause"):
        imported = _to_dotted(builder.text(first_of_type(clause, "qualified_name", "name", "namespace_name")))
        module, _, name = ".".join(part for part in (prefix, imported) if part).rpartition(".")
        local = builder.text(part_of(clause, "alias")) or name
        if name:
            builder.imports.append(Import(module, name, local, clause.start_point.row + 1))


def _read_require(builder: FactsBuilder, node: Node) -> None:
    match = _REQUIRED_FILE.search(builder.text(node)[:300])
    if match:
        builder.imports.append(Import(match[1], "", "", node.start_point.row + 1))


def _read_bases(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    kind = "implements" if node.type == "class_interface_clause" else "extends"
    for name in children_of_type(node, "name", "qualified_name"):
        builder.add_use(kind, builder.writer.path(name), name, scope)


def _read_field(builder: FactsBuilder, node: Node) -> None:
    """Properties are definitions, also those that the constructor's parameters make."""
    scope, promoted = builder.scope(node), node.type == "property_promotion_parameter"
    if promoted:
        scope = scope.rpartition(".")[0]
    if scope not in builder.type_names:
        return
    for element in [node] if promoted else children_of_type(node, "property_element"):
        name = part_of(element, "name")
        if name is not None:
            text = builder.text(name).lstrip("$&")
            builder.add_definition(f"{scope}.{text}", "variable", node)
            builder.bind_declared(scope, text, builder.values_of_type(part_of(node, "type")), local=False)


def _read_constant(builder: FactsBuilder, node: Node) -> None:
    if node.type == "enum_case":
        builder.add_enum_constant(node, part_of(node, "name"))


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    name, values = part_of(node, "name"), builder.values_of_type(part_of(node, "type"))
    if node.type == "variadic_parameter":
        values = add_prefix("[]", values)
    if name is not None:
        builder.skip_reference(name)
        builder.bind_declared(builder.scope(node), builder.text(name), values)


def _read_catch(builder: FactsBuilder, node: Node) -> None:
    kinds = children_of(part_of(node, "type"))
    values = [value for kind in kinds for value in builder.values_of_type(kind)]
    builder.bind_declared(builder.scope(node), builder.text(part_of(node, "name")), values)


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is None or right is None:
        return
    scope, values = builder.scope(node), builder.writer.values(right)
    if left.type == "variable_name":
        name = builder.text(left)
        builder.bind_observed(scope, name, [one for one in values if not one[1].startswith(name)])
    elif left.type in _PLACE_NODES:
        builder.bind_all(scope, builder.writer.path(left), values)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    of, target = part_of(node, 0), part_of(node, 1)
    if target is not None and target.type == "pair":
        target = part_of(target, -1)
    if target is not None and target.type == "variable_name":
        elements = element_values(builder.writer.values(of))
        builder.bind_observed(builder.scope(node), builder.text(target), elements)


def _read_new(builder: FactsBuilder, node: Node) -> None:
    of = part_of(node, 0)
    if of is not None and of.type in _NAME_NODES:
        builder.add_use("calls", builder.writer.path(of), of)


def _read_return(builder: FactsBuilder, node: Node) -> None:
    builder.bind_all(builder.scope(node), "@()", builder.writer.values(part_of(node, 0)))


EXTRACTION = ExtractionRules(
    is_private=has_private_modifier, expressions=EXPRESSIONS,
    handlers={
        "namespace": _read_namespace, "import": _read_import, "require": _read_require, "bases": _read_bases,
        "function": lambda builder, node: builder.bind_result(
            builder.scope(node), part_of(node, "return_type")
        ),
        "field": _read_field, "constant": _read_constant,
        "parameter": _read_parameter, "caught": _read_catch, "assignment": _read_assignment,
        "loop": _read_loop, "new": _read_new, "return": _read_return,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify=_qualify,
)  # fmt: skip


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
    builtins = BUILTINS
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
