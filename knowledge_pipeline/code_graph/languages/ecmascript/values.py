"""What expressions of JavaScript and TypeScript hold: parts of literals, and what calls hand on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter
from knowledge_pipeline.code_graph.languages.ecmascript.names import to_segment
from knowledge_pipeline.code_graph.languages.ecmascript.types import values_of_type
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import (
    Value,
    Values,
    add_prefix,
    called_values,
    iterated_values,
    own_value,
)
from knowledge_pipeline.syntax.nodes import part_of

_MAX_PARTS = 100
_MAX_TUPLE_PLACES = 8
_UNSAFE_CHARS = re.compile(r"[.()\[\]\s]")

# Calls that hand on their first argument, or what it holds.
_PASS_THROUGH_CALLS = split_words(
    """
    Object.freeze Object.seal Object.assign Object.create Object.preventExtensions Array.from
    Promise.resolve Promise.all Promise.race Promise.any Promise.allSettled structuredClone
    useCallback React.useCallback memo React.memo forwardRef React.forwardRef markRaw readonly
    shallowReadonly Object.values
    """
)
_MEMO_CALLS = split_words("useMemo React.useMemo lazy React.lazy computed")
_STATE_CALLS = split_words("useState React.useState")
_REF_CALLS = split_words("useRef React.useRef createRef React.createRef")
_SAME_METHODS = split_words(
    """
    filter slice reverse sort concat toSorted toReversed values splice catch finally toArray fill
    """
)
_ELEMENT_METHODS = split_words("find findLast at pop shift")
_MAPPING_METHODS = split_words("map flatMap then")
CALLBACK_METHODS = split_words(
    "forEach map flatMap filter find findIndex findLast findLastIndex some every sort toSorted partition"
)
"""Methods of containers that give what they hold to the function that they are given."""


def list_arguments(node: Node) -> list[Node]:
    """What a call is given."""
    given = part_of(node, "arguments")
    if given is None or given.type != "arguments":
        return []
    return [each for each in given.named_children if each.type != "comment"]


def imported_module(writer: PathWriter, node: Node) -> str | None:
    """The module of `require("./m")` or `import("./m")`; None for other expressions."""
    if node.type != "call_expression":
        return None
    called = part_of(node, "function")
    if called is None or not (called.type == "import" or _is_require(writer, called)):
        return None
    given = list_arguments(node)
    return string_value(writer, given[0]) if given else None


def string_value(writer: PathWriter, node: Node | None) -> str | None:
    """What a string literal says."""
    if node is None or node.type not in ("string", "template_string"):
        return None
    text = writer.text(node)[1:-1] if node.end_byte - node.start_byte < 300 else ""
    return text if text and "${" not in text and "\n" not in text and "\t" not in text else None


def loaded_module_name(module: str) -> str:
    """The name by which a file knows a module that it loads within an expression."""
    return "require " + _UNSAFE_CHARS.sub("·", module)


def unwrap_expression(node: Node | None) -> Node | None:
    """An expression without what says nothing of its value: parentheses, `await`, `!`, `as const`."""
    for _ in range(10):
        if node is None or node.type not in _TRANSPARENT_NODES:
            return node
        node = part_of(node, 0)
    return node


def _is_require(writer: PathWriter, node: Node) -> bool:
    return (
        node.type == "identifier" and node.end_byte - node.start_byte == 7 and writer.text(node) == "require"
    )


def rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`require("./m")` as its module, `f.bind(x)` as `f`; None for other calls."""
    module = imported_module(writer, node)
    if module is not None:
        return loaded_module_name(module)
    called = part_of(node, "function")
    if called is not None and called.type == "member_expression":
        method = part_of(called, "property")
        name = writer.short_text(method, 10)
        if name == "bind":
            return writer.path(part_of(called, "object"))
    return None


def _call_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    called = part_of(node, "function")
    if called is None:
        return
    name, given = writer.short_text(part_of(node, "function"), 60), list_arguments(node)
    if name in _PASS_THROUGH_CALLS and given:
        for each in given[:4] if name == "Object.assign" else given[:1]:
            yield from writer.values(each)
    elif name in _MEMO_CALLS and given:
        yield from called_values(writer.values(given[0]))
    elif name in _STATE_CALLS:
        held = _type_argument_values(writer, node)
        yield from add_prefix("[0]", held or (writer.values(given[0]) if given else []))
    elif name in _REF_CALLS:
        held = _type_argument_values(writer, node)
        yield from add_prefix(".current", held or (writer.values(given[0]) if given else []))
    elif called.type == "member_expression":
        yield from _method_values(writer, called, given)


def _method_values(writer: PathWriter, callee: Node, call_arguments: list[Node]) -> Iterator[Value]:
    method, of = part_of(callee, "property"), part_of(callee, "object")
    name = writer.short_text(method, 20)
    if name in _SAME_METHODS:
        path = writer.path(callee)
        if path:
            yield "", f"{path}()"
        yield from (each for each in writer.values(of) if each[0])
    elif name in _ELEMENT_METHODS and of is not None:
        path = writer.path(callee)
        if path:
            yield "", f"{path}()"
        yield from (
            (suffix, value) for suffix, value in iterated_values(writer.values(of)) if suffix or not path
        )
    elif name in _MAPPING_METHODS and call_arguments and of is not None:
        held = called_values(writer.values(call_arguments[0]))
        yield from held if name == "then" else add_prefix("[]", held)


def _type_argument_values(writer: PathWriter, node: Node) -> Values:
    given = part_of(node, "type_arguments")
    return (
        values_of_type(writer, given.named_children[0])
        if given is not None and given.named_child_count
        else []
    )


def _new_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    called = part_of(node, "constructor")
    path, given = writer.path(node), part_of(node, "type_arguments")
    if path:
        yield "", path
    if called is None or given is None or called.type != "identifier":
        return
    name, held = writer.text(called), given.named_children
    if name in ("Map", "WeakMap") and held:
        yield from add_prefix("[]", values_of_type(writer, held[-1]))
        yield from add_prefix("[][1]", values_of_type(writer, held[-1]))
    elif name in ("Set", "WeakSet", "Array") and held:
        yield from add_prefix("[]", values_of_type(writer, held[0]))


def _object_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    for each in node.named_children[:_MAX_PARTS]:
        if each.type == "shorthand_property_identifier":
            name = writer.text(each)
            yield f".{name}", name
        elif each.type == "spread_element":
            yield from writer.values(part_of(each, 0))
        elif each.type in ("pair", "method_definition"):
            named = part_of(each, "key") or part_of(each, "name")
            key = to_segment(writer.text(named)) if named is not None else ""
            defined = writer.definition_names.get((each.start_byte, each.end_byte))
            if defined and key:
                yield f".{key}", f"@file.{defined}"
            elif key:
                yield from add_prefix(f".{key}", writer.values(part_of(each, "value")))


def _array_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    parts = [each for each in node.named_children[:_MAX_PARTS] if each.type != "comment"]
    spread = any(each.type == "spread_element" for each in parts)
    for place, each in enumerate(parts):
        if each.type == "spread_element":
            held = iterated_values(writer.values(part_of(each, 0)))
            yield from add_prefix("[]", held)
        else:
            at = "[]" if spread or len(parts) > _MAX_TUPLE_PLACES else f"[{place}]"
            yield from add_prefix(at, writer.values(each))


def _function_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    """What a function without a name gives; one with a name is followed by it."""
    declared = values_of_type(writer, part_of(node, "return_type"))
    body = part_of(node, "body")
    if declared:
        yield from add_prefix("()", declared)
    elif body is not None and body.type != "statement_block":
        yield from add_prefix("()", writer.values(body))
    elif body is not None:
        for each in body.named_children[-3:]:
            if each.type == "return_statement" and each.named_child_count:
                yield from add_prefix("()", writer.values(each.named_children[0]))


def _choice_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    sign = part_of(node, "operator")
    if sign is not None and sign.type in ("&&", "||", "??"):
        left = writer.values(part_of(node, "left")) if sign.type != "&&" else []
        yield from [*left, *writer.values(part_of(node, "right"))]


def _cast_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    parts = node.named_children
    if node.type == "type_assertion":
        parts = parts[::-1]
    said: Values = []
    if node.type != "satisfies_expression" and len(parts) > 1:
        types = parts[1].named_children if parts[1].type == "type_arguments" else parts[1:2]
        said = [each for kind in types for each in values_of_type(writer, kind)]
    yield from said or writer.values(parts[0] if parts else None)


_TRANSPARENT_NODES = {
    "parenthesized_expression": 0, "await_expression": 0, "non_null_expression": 0,
    "instantiation_expression": 0, "assignment_expression": "right", "sequence_expression": -1,
}  # fmt: skip

EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "this", "type_identifier", "shorthand_property_identifier"}),
    members={
        "member_expression": ("object", "property"), "nested_type_identifier": ("module", "name"),
        "nested_identifier": ("object", "property"),
    },
    calls={"call_expression": ("function",), "new_expression": ("constructor",)},
    indexes={"subscript_expression": ("object", "index")}, transparent=_TRANSPARENT_NODES,
    choices={"ternary_expression": ("consequence", "alternative")},
    contents={
        "call_expression": _call_values, "new_expression": _new_values, "object": _object_values,
        "array": _array_values, "arrow_function": _function_values, "function_expression": _function_values,
        "binary_expression": _choice_values, "as_expression": _cast_values,
        "satisfies_expression": _cast_values, "type_assertion": _cast_values,
    },
    path_writers=dict.fromkeys(
        ("as_expression", "satisfies_expression", "type_assertion"),
        lambda writer, node: own_value(_cast_values(writer, node)),
    ),
    rewrite_call=rewrite_call,
)  # fmt: skip
