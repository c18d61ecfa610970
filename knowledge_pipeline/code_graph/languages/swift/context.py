"""What Swift's context says: what `.fast` is a member of, and what a closure is given.

What a function's parameter is declared to be is bound to `@LABEL` in its scope, `@0` where it has
no label; what it hands to a closure to `@LABEL.@0`, and to `@closure.@0` if that may follow the call.
"""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import PathReader, PathWriter
from knowledge_pipeline.code_graph.languages.swift.types import find_result_type
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import own_value
from knowledge_pipeline.syntax.nodes import children_of, first_of_type, part_of

_MAX_UP = 12
_COMPARISONS = ("equality_expression", "comparison_expression")
_CALLBACK_METHODS = split_words(
    """
    map forEach filter compactMap flatMap first last contains allSatisfy min max sorted sort reduce partition
    drop prefix firstIndex lastIndex removeAll mapValues compactMapValues flatMapValues sink assign
    """
)
_FUNCTION_NODES = frozenset(
    {"function_declaration", "property_declaration", "subscript_declaration", "lambda_literal"}
)


def expected_path(writer: PathWriter, node: Node) -> str | None:
    """A path that is worth what is expected where a node stands."""
    inner = node
    for _ in range(_MAX_UP):
        around = inner.parent
        if around is None:
            return None
        kind = around.type
        if kind in _COMPARISONS:
            sides = [part_of(around, side) for side in ("lhs", "rhs")]
            other = next((each for each in sides if each is not None and each.id != inner.id), None)
            return writer.path(other)
        if kind in _CONTEXT_PATHS:
            return _CONTEXT_PATHS[kind](writer, around)
        if kind not in _TRANSPARENT_NODES or (
            kind in _FIRST_CHILD_NODES and around.children[0].id != inner.id
        ):
            return None
        inner = around
    return None


def closure_argument_path(writer: PathWriter, closure: Node, position: int) -> str | None:
    """What a closure is given by the function that it is an argument of."""
    around = closure.parent
    key = "closure"
    if around is not None and around.type == "value_argument":
        key = _argument_label(writer, around)
    elif (label := closure.prev_named_sibling) is not None and label.type == "simple_identifier":
        key = writer.text(label)
    path = writer.path(part_of(_enclosing_call(closure), 0))
    if not path:
        return None
    of, _, name = path.rpartition(".")
    if of and name in _CALLBACK_METHODS:
        return f"{of}[]" if not position else None
    return f"{path}.@{key}.@{position}"


def _enclosing_call(node: Node) -> Node | None:
    around = node.parent
    while around is not None and around.type in _CALL_PART_NODES:
        around = around.parent
    return around if around is not None and around.type in _CALL_NODES else None


def _argument_label(writer: PathWriter, argument: Node) -> str:
    label = part_of(argument, "name")
    if label is not None:
        return writer.text(label)
    listed = enumerate(children_of(argument.parent)[:20])
    return str(next((at for at, each in listed if each.id == argument.id), 0))


def _argument_path(writer: PathWriter, argument: Node) -> str | None:
    path = writer.path(part_of(_enclosing_call(argument), 0))
    return f"{path}.@{_argument_label(writer, argument)}" if path else None


def _property_path(writer: PathWriter, node: Node) -> str | None:
    return own_value(writer.values_of_type(first_of_type(node, "type_annotation")))


def _result_path(writer: PathWriter, node: Node) -> str | None:
    """The result of the function around."""
    around: Node | None = node
    while around is not None and around.type not in _FUNCTION_NODES:
        around = around.parent
    if around is None or around.type == "lambda_literal":
        return None
    if around.type == "property_declaration":
        return _property_path(writer, around)
    return own_value(writer.values_of_type(find_result_type(around)))


_CALL_NODES = frozenset({"call_expression", "constructor_expression"})
_CALL_PART_NODES = frozenset({"value_argument", "value_arguments", "call_suffix", "constructor_suffix"})
_CONTEXT_PATHS: Mapping[str, PathReader] = {
    "value_argument": _argument_path, "assignment": lambda writer, node: writer.path(part_of(node, "target")),
    "property_declaration": _property_path, "control_transfer_statement": _result_path,
    "function_body": _result_path, "computed_property": _result_path, "computed_getter": _result_path,
}  # fmt: skip
_FIRST_CHILD_NODES = frozenset({"call_expression", "navigation_expression", "postfix_expression"})
_TRANSPARENT_NODES = _FIRST_CHILD_NODES | {
    "nil_coalescing_expression", "ternary_expression", "tuple_expression", "try_expression",
    "await_expression", "statements",
}  # fmt: skip
