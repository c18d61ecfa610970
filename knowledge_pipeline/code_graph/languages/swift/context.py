"""What Swift's context says: what `.fast` is a member of, and what a closure is given.

What a function's parameter is declared to be is bound to `@LABEL` in its scope, `@0` where it has
no label; what it hands to a closure to `@LABEL.@0`, and to `@closure.@0` if that may follow the call.
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import PathWriter, part_of
from knowledge_pipeline.code_graph.languages.declared_types import values_of_type
from knowledge_pipeline.code_graph.languages.swift.types import TYPES, find_result_type
from knowledge_pipeline.code_graph.languages.words import split_words

_MAX_UP = 12
_COMPARISON_SIDES = {"equality_expression": ("lhs", "rhs"), "comparison_expression": ("lhs", "rhs")}
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
        if kind in _COMPARISON_SIDES:
            sides = [around.child_by_field_name(side) for side in _COMPARISON_SIDES[kind]]
            return writer.path(
                next((each for each in sides if each is not None and each.id != inner.id), None)
            )
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
    call = _enclosing_call(closure)
    called = part_of(call, 0) if call is not None else None
    path = writer.path(called)
    if not path or called is None:
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
    """The label of an argument, or its place."""
    label = argument.child_by_field_name("name")
    if label is not None:
        return writer.text(label)
    of = argument.parent
    listed = of.named_children if of is not None else []
    return str(next((at for at, each in enumerate(listed[:20]) if each.id == argument.id), 0))


def _argument_path(writer: PathWriter, argument: Node) -> str | None:
    call = _enclosing_call(argument)
    path = writer.path(part_of(call, 0)) if call is not None else None
    return f"{path}.@{_argument_label(writer, argument)}" if path else None


def _assignment_path(writer: PathWriter, node: Node) -> str | None:
    return writer.path(node.child_by_field_name("target"))


def _property_path(writer: PathWriter, node: Node) -> str | None:
    declared = next((each for each in node.named_children if each.type == "type_annotation"), None)
    return _type_path(writer, declared)


def _result_path(writer: PathWriter, node: Node) -> str | None:
    """The result of the function around."""
    around: Node | None = node
    while around is not None and around.type not in _FUNCTION_NODES:
        around = around.parent
    if around is None or around.type == "lambda_literal":
        return None
    if around.type == "property_declaration":
        return _property_path(writer, around)
    return _type_path(writer, find_result_type(around))


def _type_path(writer: PathWriter, type_node: Node | None) -> str | None:
    return next((value for suffix, value in values_of_type(TYPES, writer, type_node) if not suffix), None)


_CALL_NODES = frozenset({"call_expression", "constructor_expression"})
_CALL_PART_NODES = frozenset({"value_argument", "value_arguments", "call_suffix", "constructor_suffix"})
_CONTEXT_PATHS = {
    "value_argument": _argument_path,
    "assignment": _assignment_path,
    "property_declaration": _property_path,
    "control_transfer_statement": _result_path,
    "function_body": _result_path,
    "computed_property": _result_path,
    "computed_getter": _result_path,
}
_FIRST_CHILD_NODES = frozenset({"call_expression", "navigation_expression", "postfix_expression"})
_TRANSPARENT_NODES = _FIRST_CHILD_NODES | {
    "nil_coalescing_expression",
    "ternary_expression",
    "tuple_expression",
    "try_expression",
    "await_expression",
    "statements",
}
