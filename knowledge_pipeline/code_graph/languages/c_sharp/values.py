"""What C#'s types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, part_of
from knowledge_pipeline.code_graph.languages.declared_types import (
    TypeSyntax,
    Values,
    children_of_type,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.words import split_words

TYPES = TypeSyntax(
    generic={"generic_name": "type_argument_list"},
    arrays={"array_type": "type"},
    transparent={"nullable_type": "type", "ref_type": "type", "scoped_type": "type"},
    ignored=frozenset({"var", "dynamic", "object"}),
)

_CALLBACK_METHODS = split_words(
    """
    Where Select SelectMany Any All First FirstOrDefault Last LastOrDefault Single SingleOrDefault OrderBy
    OrderByDescending ThenBy GroupBy ToDictionary ToLookup Sum Max Min Average Count TakeWhile SkipWhile
    ForEach Find FindAll Exists RemoveAll TrueForAll ContinueWith MaxBy MinBy DistinctBy Aggregate
    """
)


def values_of_type_name(writer: PathWriter, node: Node | None) -> Values:
    """What a type promises. Its names are those of types: a property may have the name of its type."""
    return [
        (suffix, f"@type.{value}" if value[0] != "@" else value)
        for suffix, value in values_of_type(TYPES, writer, node)
    ]


def lambda_argument_values(writer: PathWriter, node: Node) -> Values:
    """What a method of a collection hands to a lambda: one of its elements."""
    call = node.parent.parent.parent if node.parent is not None and node.parent.parent is not None else None
    called = call.child_by_field_name("function") if call is not None else None
    if called is None or called.type != "member_access_expression":
        return []
    name, of = called.child_by_field_name("name"), called.child_by_field_name("expression")
    path = writer.path(of)
    known = name is not None and writer.path(name) in _CALLBACK_METHODS
    return [("", f"{path}[]")] if path and known else []


def _generic_path(writer: PathWriter, node: Node) -> str | None:
    return writer.path(part_of(node, 0))


def _qualified_path(writer: PathWriter, node: Node) -> str | None:
    parts = [writer.path(node.child_by_field_name(part)) for part in ("qualifier", "name")]
    return ".".join(part for part in parts if part) or None


def _access_path(writer: PathWriter, node: Node) -> str | None:
    of, name = writer.path(node.child_by_field_name("expression")), node.child_by_field_name("name")
    member = writer.path(name)
    return f"{of}.{member}" if of and member else None


def _conditional_path(writer: PathWriter, node: Node) -> str | None:
    """`a?.b`: the part after the question mark knows what is before it."""
    return writer.path(part_of(node, -1))


def _binding_path(writer: PathWriter, node: Node) -> str | None:
    """`.b` of `a?.b` as `a.b`."""
    name = writer.path(node.child_by_field_name("name"))
    around, inner = node.parent, node
    while around is not None and around.type != "conditional_access_expression":
        around, inner = around.parent, around
    condition = around.child_by_field_name("condition") if around is not None else None
    of = writer.path(condition) if condition is not None and condition.id != inner.id else None
    return f"{of}.{name}" if of and name else None


def _indexed_path(writer: PathWriter, node: Node) -> str | None:
    path = writer.path(node.child_by_field_name("expression"))
    return f"{path}[]" if path else None


def _cast_path(writer: PathWriter, node: Node) -> str | None:
    values = _cast_values(writer, node)
    return next((value for suffix, value in values if not suffix), None)


def _cast_values(writer: PathWriter, node: Node) -> Values:
    return values_of_type_name(writer, node.child_by_field_name("type") or node.child_by_field_name("right"))


def _binary_path(writer: PathWriter, node: Node) -> str | None:
    """`a ?? b` is a."""
    return writer.path(node.child_by_field_name("left")) if _is_null_coalescing(node) else None


def _binary_values(writer: PathWriter, node: Node) -> Values:
    sides = ("left", "right") if _is_null_coalescing(node) else ()
    return [value for side in sides for value in writer.values(node.child_by_field_name(side))]


def _is_null_coalescing(node: Node) -> bool:
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type == "??"


def _array_values(writer: PathWriter, node: Node) -> Values:
    kind = next(children_of_type(node, "array_type"), None)
    return values_of_type_name(writer, kind)


def _new_values(writer: PathWriter, node: Node) -> Values:
    """`new List<Item>()` holds items, too."""
    return values_of_type_name(writer, node.child_by_field_name("type"))


def _await_path(writer: PathWriter, node: Node) -> str | None:
    """What a task gives."""
    path = writer.path(part_of(node, 0))
    return f"{path}[]" if path else None


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "this", "base"}),
    members={},
    calls={"invocation_expression": ("function",), "object_creation_expression": ("type",)},
    indexes={},
    transparent={
        "parenthesized_expression": 0,
        "postfix_unary_expression": 0,
        "checked_expression": 0,
        "nullable_type": "type",
        "ref_expression": 0,
    },
    choices={"conditional_expression": ("consequence", "alternative")},
    contents={
        "binary_expression": _binary_values,
        "cast_expression": _cast_values,
        "as_expression": _cast_values,
        "array_creation_expression": _array_values,
        "object_creation_expression": _new_values,
    },
    path_writers={
        "generic_name": _generic_path,
        "qualified_name": _qualified_path,
        "alias_qualified_name": lambda writer, node: writer.path(node.child_by_field_name("name")),
        "member_access_expression": _access_path,
        "conditional_access_expression": _conditional_path,
        "member_binding_expression": _binding_path,
        "element_access_expression": _indexed_path,
        "cast_expression": _cast_path,
        "as_expression": _cast_path,
        "binary_expression": _binary_path,
        "await_expression": _await_path,
    },
)
