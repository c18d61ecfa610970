"""What C#'s types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, TypeSyntax
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Values
from knowledge_pipeline.syntax.nodes import first_of_type, part_of

TYPES = TypeSyntax(
    generic={"generic_name": "type_argument_list"},
    arrays={"array_type": "type"},
    transparent={"nullable_type": "type", "ref_type": "type", "scoped_type": "type"},
    ignored=frozenset({"var", "dynamic", "object"}),
    prefix="@type.",  # a property may have the name of its type
)

_CALLBACK_METHODS = split_words(
    """
    Where Select SelectMany Any All First FirstOrDefault Last LastOrDefault Single SingleOrDefault OrderBy
    OrderByDescending ThenBy GroupBy ToDictionary ToLookup Sum Max Min Average Count TakeWhile SkipWhile
    ForEach Find FindAll Exists RemoveAll TrueForAll ContinueWith MaxBy MinBy DistinctBy Aggregate
    """
)


def lambda_argument_values(writer: PathWriter, node: Node) -> Values:
    """What a lambda is given by the method that it is an argument of."""
    call = node.parent.parent.parent if node.parent is not None and node.parent.parent is not None else None
    called = part_of(call, "function")
    if called is None or called.type != "member_access_expression":
        return []
    return writer.handed_values(part_of(called, "expression"), part_of(called, "name"), _CALLBACK_METHODS)


def _qualified_path(writer: PathWriter, node: Node) -> str | None:
    parts = [writer.path(part_of(node, part)) for part in ("qualifier", "name")]
    return ".".join(part for part in parts if part) or None


def _access_path(writer: PathWriter, node: Node) -> str | None:
    of, member = (writer.path(part_of(node, part)) for part in ("expression", "name"))
    return f"{of}.{member}" if of and member else None


def _binding_path(writer: PathWriter, node: Node) -> str | None:
    """`.b` of `a?.b` as `a.b`."""
    name = writer.path(part_of(node, "name"))
    around, inner = node.parent, node
    while around is not None and around.type != "conditional_access_expression":
        around, inner = around.parent, around
    condition = part_of(around, "condition")
    of = writer.path(condition) if condition is not None and condition.id != inner.id else None
    return f"{of}.{name}" if of and name else None


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "this", "base"}),
    calls={"invocation_expression": ("function",), "object_creation_expression": ("type",)},
    suffixed={
        "generic_name": (0, ""), "alias_qualified_name": ("name", ""),
        "conditional_access_expression": (-1, ""),  # the part after `?` knows what is before it
        "element_access_expression": ("expression", "[]"),
        "await_expression": (0, "[]"),  # what a task gives
    },
    transparent={
        "parenthesized_expression": 0, "postfix_unary_expression": 0, "checked_expression": 0,
        "nullable_type": "type", "ref_expression": 0,
    },
    choices={"conditional_expression": ("consequence", "alternative")},
    casts={"cast_expression": "type", "as_expression": "right"}, default_operator="??",
    contents={
        "array_creation_expression": lambda writer, node: writer.values_of_type(
            first_of_type(node, "array_type")
        ),
        "object_creation_expression": lambda writer, node: writer.values_of_type(part_of(node, "type")),
    },
    path_writers={
        "qualified_name": _qualified_path, "member_access_expression": _access_path,
        "member_binding_expression": _binding_path,
    },
    types=TYPES,
)  # fmt: skip
