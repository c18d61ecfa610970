"""What Swift's context says: what `.fast` is a member of, and what a closure is given.

What a function's parameter is declared to be is bound to `@LABEL` in its scope, `@0` where it has
no label; what it hands to a closure to `@LABEL.@0`, and to `@closure.@0` if that may follow the call.
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Writer, part_of
from knowledge_pipeline.code_graph.languages.declared_types import promised
from knowledge_pipeline.code_graph.languages.swift.types import TYPES, result_of
from knowledge_pipeline.code_graph.languages.words import words

_MAX_UP = 12
_OTHER_SIDE = {"equality_expression": ("lhs", "rhs"), "comparison_expression": ("lhs", "rhs")}
_HANDS_OUT = words(
    """
    map forEach filter compactMap flatMap first last contains allSatisfy min max sorted sort reduce partition
    drop prefix firstIndex lastIndex removeAll mapValues compactMapValues flatMapValues sink assign
    """
)
_OF_FUNCTION = frozenset(
    {"function_declaration", "property_declaration", "subscript_declaration", "lambda_literal"}
)


def expected(writer: Writer, node: Node) -> str | None:
    """A path that is worth what is expected where a node stands."""
    inner = node
    for _ in range(_MAX_UP):
        around = inner.parent
        if around is None:
            return None
        kind = around.type
        if kind in _OTHER_SIDE:
            sides = [around.child_by_field_name(side) for side in _OTHER_SIDE[kind]]
            return writer.path(
                next((each for each in sides if each is not None and each.id != inner.id), None)
            )
        if kind in _ENDS:
            return _ENDS[kind](writer, around)
        if kind not in _PASSED or (kind in _FIRST and around.children[0].id != inner.id):
            return None
        inner = around
    return None


def handed_to(writer: Writer, closure: Node, place: int) -> str | None:
    """What a closure is given by the function that it is an argument of."""
    around = closure.parent
    key = "closure"
    if around is not None and around.type == "value_argument":
        key = _label(writer, around)
    elif (label := closure.prev_named_sibling) is not None and label.type == "simple_identifier":
        key = writer.text(label)
    call = _call_around(closure)
    called = part_of(call, 0) if call is not None else None
    path = writer.path(called)
    if not path or called is None:
        return None
    of, _, name = path.rpartition(".")
    if of and name in _HANDS_OUT:
        return f"{of}[]" if not place else None
    return f"{path}.@{key}.@{place}"


def _call_around(node: Node) -> Node | None:
    around = node.parent
    while around is not None and around.type in _OF_CALL:
        around = around.parent
    return around if around is not None and around.type in _CALLS else None


def _label(writer: Writer, argument: Node) -> str:
    """The label of an argument, or its place."""
    label = argument.child_by_field_name("name")
    if label is not None:
        return writer.text(label)
    of = argument.parent
    listed = of.named_children if of is not None else []
    return str(next((at for at, each in enumerate(listed[:20]) if each.id == argument.id), 0))


def _of_argument(writer: Writer, argument: Node) -> str | None:
    call = _call_around(argument)
    path = writer.path(part_of(call, 0)) if call is not None else None
    return f"{path}.@{_label(writer, argument)}" if path else None


def _of_assignment(writer: Writer, node: Node) -> str | None:
    return writer.path(node.child_by_field_name("target"))


def _of_property(writer: Writer, node: Node) -> str | None:
    declared = next((each for each in node.named_children if each.type == "type_annotation"), None)
    return _promised(writer, declared)


def _of_result(writer: Writer, node: Node) -> str | None:
    """The result of the function around."""
    around: Node | None = node
    while around is not None and around.type not in _OF_FUNCTION:
        around = around.parent
    if around is None or around.type == "lambda_literal":
        return None
    if around.type == "property_declaration":
        return _of_property(writer, around)
    return _promised(writer, result_of(around))


def _promised(writer: Writer, kind: Node | None) -> str | None:
    return next((value for suffix, value in promised(TYPES, writer, kind) if not suffix), None)


_CALLS = frozenset({"call_expression", "constructor_expression"})
_OF_CALL = frozenset({"value_argument", "value_arguments", "call_suffix", "constructor_suffix"})
_ENDS = {
    "value_argument": _of_argument,
    "assignment": _of_assignment,
    "property_declaration": _of_property,
    "control_transfer_statement": _of_result,
    "function_body": _of_result,
    "computed_property": _of_result,
    "computed_getter": _of_result,
}
_FIRST = frozenset({"call_expression", "navigation_expression", "postfix_expression"})
_PASSED = _FIRST | {
    "nil_coalescing_expression",
    "ternary_expression",
    "tuple_expression",
    "try_expression",
    "await_expression",
    "statements",
}
