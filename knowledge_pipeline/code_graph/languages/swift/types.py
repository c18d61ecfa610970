"""What Swift's types promise."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import PathWriter, TypeSyntax
from knowledge_pipeline.code_graph.values import Values, tuple_values
from knowledge_pipeline.syntax.nodes import children_of_type, first_of_type, part_of

_MAX_PARTS = 8


def _special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """`Self`, metatypes, tuples and compositions; None for all others."""
    if node.type == "user_type":
        names = [writer.text(each) for each in children_of_type(node, "type_identifier")]
        if names == ["Self"]:
            return [("", "@class()")]
        if len(names) > 1 and names[-1] in ("Type", "Protocol"):
            return [("", ".".join(names[:-1]))]
        if names == ["Optional"] and (held := first_of_type(node, "type_arguments")) is not None:
            return writer.values_of_type(part_of(held, 0), depth + 1)
        return None
    if node.type == "tuple_type":
        items = [part_of(each, -1) for each in children_of_type(node, "tuple_type_item")][:_MAX_PARTS]
        if len(items) == 1:
            return writer.values_of_type(items[0], depth + 1)
        return tuple_values(writer.values_of_type(each, depth + 1) for each in items)
    if node.type == "protocol_composition_type":
        parts = node.named_children[:_MAX_PARTS]
        return [value for each in parts for value in writer.values_of_type(each, depth + 1)]
    return None


TYPES = TypeSyntax(
    generic={"user_type": "type_arguments"}, arrays={"array_type": "name", "dictionary_type": -1},
    transparent={
        "optional_type": "wrapped", "opaque_type": 0, "existential_type": 0, "type_annotation": "name",
        "metatype": 0,
    },
    functions={"function_type": -1}, read_special=_special_type_values,
)  # fmt: skip


def find_result_type(function: Node) -> Node | None:
    """The type that a function gives: it has the same field as its name."""
    names = function.children_by_field_name("name")
    has_name = function.type != "subscript_declaration"
    return names[-1] if len(names) > has_name else None


def find_parameter_type(node: Node) -> Node | None:
    """The type of a parameter: what is named last."""
    names = node.children_by_field_name("name")
    return names[-1] if len(names) > 1 else None
