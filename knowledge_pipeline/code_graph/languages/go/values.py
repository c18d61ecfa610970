"""What Go's types promise and its expressions hold."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer, part_of
from knowledge_pipeline.code_graph.languages.declared_types import (
    Types,
    Values,
    children,
    plain_text,
    promised,
    under,
)
from knowledge_pipeline.code_graph.languages.words import words

BUILTINS = words(
    """
    any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune
    string _ uint uint8 uint16 uint32 uint64 uintptr true false iota nil append cap clear close complex
    copy delete imag len make max min new panic print println real recover
    """
)


def _results(writer: Writer, node: Node, depth: int) -> Values | None:
    """What several results promise: ("[0]", "Store()"), ("[1]", "error()")."""
    if node.type != "parameter_list":
        return None
    kinds = [
        each.child_by_field_name("type")
        for each in children(node, "parameter_declaration")
        for _ in each.children_by_field_name("name") or [each]
    ]
    found = [promised(TYPES, writer, kind, depth + 1) for kind in kinds]
    if len(found) == 1:
        return found[0]
    return [value for place, values in enumerate(found) for value in under(f"[{place}]", values)]


TYPES = Types(
    generic={"generic_type": "type_arguments"},
    arrays={
        "slice_type": "element",
        "array_type": "element",
        "implicit_length_array_type": "element",
        "map_type": "value",
        "channel_type": "value",
    },
    same={"pointer_type": 0, "parenthesized_type": 0, "type_elem": 0, "type_constraint": 0},
    functions={"function_type": "result"},
    own=_results,
)


def _assertion(writer: Writer, node: Node) -> str | None:
    return _one(promised(TYPES, writer, node.child_by_field_name("type")))


def _literal(writer: Writer, node: Node) -> str | None:
    """`Store{…}` is a `Store()`."""
    return _one(promised(TYPES, writer, node.child_by_field_name("type")))


def _one(values: Values) -> str | None:
    return next((value for suffix, value in values if not suffix), None)


def _unary(writer: Writer, node: Node) -> str | None:
    """`&x` and `*x` are x; `<-x` is what it holds."""
    path = writer.path(node.child_by_field_name("operand"))
    return f"{path}[]" if path and node.children[0].type == "<-" else path


def _called(writer: Writer, node: Node) -> str | None:
    """`new(T)` as `T()`, `append(x, y)` as `x`; None for other calls."""
    name, given = _name_of(writer, node), _arguments(node)
    if name == "new" and given:
        return _one(promised(TYPES, writer, given[0]))
    if name == "append" and given:
        return writer.path(given[0])
    return None


def _of_call(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    name, given = _name_of(writer, node), _arguments(node)
    if name in ("make", "new") and given:
        yield from promised(TYPES, writer, given[0])
    elif name == "append" and given:
        yield from writer.values(given[0])
        for each in given[1:]:
            yield from ((f"[]{suffix}", value) for suffix, value in writer.values(each))


def _of_conversion(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in TYPES.arrays:
        yield from promised(TYPES, writer, kind)


def _of_typed(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    yield from promised(TYPES, writer, node.child_by_field_name("type"))


def _of_function(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    yield from under("()", promised(TYPES, writer, node.child_by_field_name("result")))


def _of_unary(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    if node.children[0].type in ("&", "*"):
        yield from writer.values(node.child_by_field_name("operand"))


def _name_of(writer: Writer, node: Node) -> str:
    called = node.child_by_field_name("function")
    return writer.text(called) if called is not None and called.type == "identifier" else ""


def _arguments(node: Node) -> list[Node]:
    given = node.child_by_field_name("arguments")
    return [each for each in given.named_children if each.type != "comment"] if given is not None else []


def _first(writer: Writer, node: Node) -> str | None:
    return writer.path(part_of(node, 0))


EXPRESSIONS = Expressions(
    names=frozenset({"identifier", "type_identifier", "package_identifier"}),
    members={"selector_expression": ("operand", "field")},
    calls={"call_expression": ("function",), "type_conversion_expression": ("type",)},
    indexes={"index_expression": ("operand", "index")},
    same={
        "parenthesized_expression": 0,
        "pointer_type": 0,
        "slice_expression": "operand",
        "generic_type": "type",
        "type_instantiation_expression": 0,
        "literal_element": 0,
    },
    contents={
        "call_expression": _of_call,
        "type_conversion_expression": _of_conversion,
        "composite_literal": _of_typed,
        "type_assertion_expression": _of_typed,
        "func_literal": _of_function,
        "unary_expression": _of_unary,
    },
    written={
        "qualified_type": plain_text,
        "type_assertion_expression": _assertion,
        "composite_literal": _literal,
        "unary_expression": _unary,
    },
    rewrite=_called,
)
