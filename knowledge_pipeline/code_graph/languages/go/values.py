"""What Go's types promise and its expressions hold."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, TypeSyntax
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Value, Values, add_prefix, own_value, tuple_values
from knowledge_pipeline.syntax.nodes import children_of, children_of_type, part_of

BUILTINS = split_words(
    """
    any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune
    string _ uint uint8 uint16 uint32 uint64 uintptr true false iota nil append cap clear close complex
    copy delete imag len make max min new panic print println real recover
    """
)


def _result_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """What several results promise: ("[0]", "Store()"), ("[1]", "error()")."""
    if node.type != "parameter_list":
        return None
    kinds = [
        part_of(each, "type")
        for each in children_of_type(node, "parameter_declaration")
        for _ in each.children_by_field_name("name") or [each]
    ]
    found = [writer.values_of_type(kind, depth + 1) for kind in kinds]
    if len(found) == 1:
        return found[0]
    return tuple_values(found)


TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"},
    arrays={
        "slice_type": "element", "array_type": "element", "implicit_length_array_type": "element",
        "map_type": "value", "channel_type": "value",
    },
    transparent={"pointer_type": 0, "parenthesized_type": 0, "type_elem": 0, "type_constraint": 0},
    functions={"function_type": "result"}, read_special=_result_values,
)  # fmt: skip


def _unary_path(writer: PathWriter, node: Node) -> str | None:
    """`&x` and `*x` are x; `<-x` is what it holds."""
    path = writer.path(part_of(node, "operand"))
    return f"{path}[]" if path and node.children[0].type == "<-" else path


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`new(T)` as `T()`, `append(x, y)` as `x`; None for other calls."""
    name, given = _callee_name(writer, node), _list_arguments(node)
    if name == "new" and given:
        return own_value(writer.values_of_type(given[0]))
    if name == "append" and given:
        return writer.path(given[0])
    return None


def _call_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    name, given = _callee_name(writer, node), _list_arguments(node)
    if name in ("make", "new") and given:
        yield from writer.values_of_type(given[0])
    elif name == "append" and given:
        yield from writer.values(given[0])
        for each in given[1:]:
            yield from add_prefix("[]", writer.values(each))


def _conversion_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    kind = part_of(node, "type")
    if kind is not None and kind.type in TYPES.arrays:
        yield from writer.values_of_type(kind)


def _unary_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    if node.children[0].type in ("&", "*"):
        yield from writer.values(part_of(node, "operand"))


def _callee_name(writer: PathWriter, node: Node) -> str:
    called = part_of(node, "function")
    return writer.text(called) if called is not None and called.type == "identifier" else ""


def _list_arguments(node: Node) -> list[Node]:
    return [each for each in children_of(part_of(node, "arguments")) if each.type != "comment"]


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "type_identifier", "package_identifier"}),
    members={"selector_expression": ("operand", "field")},
    calls={"call_expression": ("function",), "type_conversion_expression": ("type",)},
    indexes={"index_expression": ("operand", "index")},
    transparent={
        "parenthesized_expression": 0, "pointer_type": 0, "slice_expression": "operand",
        "generic_type": "type", "type_instantiation_expression": 0, "literal_element": 0,
    },
    casts={"composite_literal": "type", "type_assertion_expression": "type"},
    contents={
        "call_expression": _call_values, "type_conversion_expression": _conversion_values,
        "func_literal": lambda writer, node: add_prefix("()", writer.values_of_type(part_of(node, "result"))),
        "unary_expression": _unary_values,
    },
    path_writers={"qualified_type": PathWriter.dotted_text, "unary_expression": _unary_path},
    rewrite_call=_rewrite_call, types=TYPES,
)  # fmt: skip
