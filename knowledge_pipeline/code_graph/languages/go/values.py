"""What Go's types promise and its expressions hold."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, part_of
from knowledge_pipeline.code_graph.languages.declared_types import (
    TypeSyntax,
    Values,
    add_prefix,
    children_of_type,
    dotted_text,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.words import split_words

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
        each.child_by_field_name("type")
        for each in children_of_type(node, "parameter_declaration")
        for _ in each.children_by_field_name("name") or [each]
    ]
    found = [values_of_type(TYPES, writer, kind, depth + 1) for kind in kinds]
    if len(found) == 1:
        return found[0]
    return [value for place, values in enumerate(found) for value in add_prefix(f"[{place}]", values)]


TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"},
    arrays={
        "slice_type": "element",
        "array_type": "element",
        "implicit_length_array_type": "element",
        "map_type": "value",
        "channel_type": "value",
    },
    transparent={"pointer_type": 0, "parenthesized_type": 0, "type_elem": 0, "type_constraint": 0},
    functions={"function_type": "result"},
    read_special=_result_values,
)


def _typed_path(writer: PathWriter, node: Node) -> str | None:
    return _own_value(values_of_type(TYPES, writer, node.child_by_field_name("type")))


def _literal_path(writer: PathWriter, node: Node) -> str | None:
    """`Store{…}` is a `Store()`."""
    return _own_value(values_of_type(TYPES, writer, node.child_by_field_name("type")))


def _own_value(values: Values) -> str | None:
    return next((value for suffix, value in values if not suffix), None)


def _unary_path(writer: PathWriter, node: Node) -> str | None:
    """`&x` and `*x` are x; `<-x` is what it holds."""
    path = writer.path(node.child_by_field_name("operand"))
    return f"{path}[]" if path and node.children[0].type == "<-" else path


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`new(T)` as `T()`, `append(x, y)` as `x`; None for other calls."""
    name, given = _callee_name(writer, node), _list_arguments(node)
    if name == "new" and given:
        return _own_value(values_of_type(TYPES, writer, given[0]))
    if name == "append" and given:
        return writer.path(given[0])
    return None


def _call_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    name, given = _callee_name(writer, node), _list_arguments(node)
    if name in ("make", "new") and given:
        yield from values_of_type(TYPES, writer, given[0])
    elif name == "append" and given:
        yield from writer.values(given[0])
        for each in given[1:]:
            yield from ((f"[]{suffix}", value) for suffix, value in writer.values(each))


def _conversion_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in TYPES.arrays:
        yield from values_of_type(TYPES, writer, kind)


def _typed_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    yield from values_of_type(TYPES, writer, node.child_by_field_name("type"))


def _function_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    yield from add_prefix("()", values_of_type(TYPES, writer, node.child_by_field_name("result")))


def _unary_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    if node.children[0].type in ("&", "*"):
        yield from writer.values(node.child_by_field_name("operand"))


def _callee_name(writer: PathWriter, node: Node) -> str:
    called = node.child_by_field_name("function")
    return writer.text(called) if called is not None and called.type == "identifier" else ""


def _list_arguments(node: Node) -> list[Node]:
    given = node.child_by_field_name("arguments")
    return [each for each in given.named_children if each.type != "comment"] if given is not None else []


def _first_path(writer: PathWriter, node: Node) -> str | None:
    return writer.path(part_of(node, 0))


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "type_identifier", "package_identifier"}),
    members={"selector_expression": ("operand", "field")},
    calls={"call_expression": ("function",), "type_conversion_expression": ("type",)},
    indexes={"index_expression": ("operand", "index")},
    transparent={
        "parenthesized_expression": 0,
        "pointer_type": 0,
        "slice_expression": "operand",
        "generic_type": "type",
        "type_instantiation_expression": 0,
        "literal_element": 0,
    },
    contents={
        "call_expression": _call_values,
        "type_conversion_expression": _conversion_values,
        "composite_literal": _typed_values,
        "type_assertion_expression": _typed_values,
        "func_literal": _function_values,
        "unary_expression": _unary_values,
    },
    path_writers={
        "qualified_type": dotted_text,
        "type_assertion_expression": _typed_path,
        "composite_literal": _literal_path,
        "unary_expression": _unary_path,
    },
    rewrite_call=_rewrite_call,
)
