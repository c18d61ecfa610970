"""What expressions of JavaScript and TypeScript hold: parts of literals, and what calls hand on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer
from knowledge_pipeline.code_graph.languages.ecmascript.names import plain
from knowledge_pipeline.code_graph.languages.ecmascript.types import Values, promised, under
from knowledge_pipeline.code_graph.languages.ecmascript.value_steps import elements, results
from knowledge_pipeline.code_graph.languages.words import words

_MAX_PARTS = 100
_MAX_PLACES = 8
_UNSAFE = re.compile(r"[.()\[\]\s]")

# Calls that hand on their first argument, or what it holds.
_HAND_ON = words(
    """
    Object.freeze Object.seal Object.assign Object.create Object.preventExtensions Array.from
    Promise.resolve Promise.all Promise.race Promise.any Promise.allSettled structuredClone
    useCallback React.useCallback memo React.memo forwardRef React.forwardRef markRaw readonly
    shallowReadonly Object.values
    """
)
_RESULT = words("useMemo React.useMemo lazy React.lazy computed")
_STATES = words("useState React.useState")
_REFERENCES = words("useRef React.useRef createRef React.createRef")
_SAME_METHODS = words(
    """
    filter slice reverse sort concat toSorted toReversed values splice catch finally toArray fill
    """
)
_ELEMENT_METHODS = words("find findLast at pop shift")
_MAPPING_METHODS = words("map flatMap then")
TAKES_ELEMENT = words(
    "forEach map flatMap filter find findIndex findLast findLastIndex some every sort toSorted partition"
)
"""Methods of containers that give what they hold to the function that they are given."""


def arguments(node: Node) -> list[Node]:
    """What a call is given."""
    given = node.child_by_field_name("arguments")
    if given is None or given.type != "arguments":
        return []
    return [each for each in given.named_children if each.type != "comment"]


def imported(writer: Writer, node: Node) -> str | None:
    """The module of `require("./m")` or `import("./m")`; None for other expressions."""
    if node.type != "call_expression":
        return None
    called = node.child_by_field_name("function")
    if called is None or not (called.type == "import" or _is_require(writer, called)):
        return None
    given = arguments(node)
    return string(writer, given[0]) if given else None


def string(writer: Writer, node: Node | None) -> str | None:
    """What a string literal says."""
    if node is None or node.type not in ("string", "template_string"):
        return None
    text = writer.text(node)[1:-1] if node.end_byte - node.start_byte < 300 else ""
    return text if text and "${" not in text and "\n" not in text and "\t" not in text else None


def module_name(module: str) -> str:
    """The name by which a file knows a module that it loads within an expression."""
    return "require " + _UNSAFE.sub("·", module)


def bare(node: Node | None) -> Node | None:
    """An expression without what says nothing of its value: parentheses, `await`, `!`, `as const`."""
    for _ in range(10):
        if node is None or node.type not in _SAME:
            return node
        node = node.named_children[0] if node.named_child_count else None
    return node


def _is_require(writer: Writer, node: Node) -> bool:
    return (
        node.type == "identifier" and node.end_byte - node.start_byte == 7 and writer.text(node) == "require"
    )


def _called(writer: Writer, node: Node) -> str:
    called = node.child_by_field_name("function")
    small = called is not None and called.end_byte - called.start_byte < 60
    return writer.text(called) if called is not None and small else ""


def rewritten(writer: Writer, node: Node) -> str | None:
    """`require("./m")` as its module, `f.bind(x)` as `f`; None for other calls."""
    module = imported(writer, node)
    if module is not None:
        return module_name(module)
    called = node.child_by_field_name("function")
    if called is not None and called.type == "member_expression":
        method = called.child_by_field_name("property")
        name = writer.text(method) if method is not None and method.end_byte - method.start_byte < 10 else ""
        if name == "bind":
            return writer.path(called.child_by_field_name("object"))
    return None


def _of_call(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    called = node.child_by_field_name("function")
    if called is None:
        return
    name, given = _called(writer, node), arguments(node)
    if name in _HAND_ON and given:
        for each in given[:4] if name == "Object.assign" else given[:1]:
            yield from writer.values(each)
    elif name in _RESULT and given:
        yield from results(writer.values(given[0]))
    elif name in _STATES:
        yield from _stated(writer, node, given)
    elif name in _REFERENCES:
        held = _type_argument(writer, node)
        yield from under(".current", held or (writer.values(given[0]) if given else []))
    elif called.type == "member_expression":
        yield from _of_method(writer, called, given)


def _stated(writer: Writer, node: Node, given: list[Node]) -> Iterator[tuple[str, str]]:
    held = _type_argument(writer, node)
    yield from under("[0]", held or (writer.values(given[0]) if given else []))


def _of_method(writer: Writer, called: Node, given: list[Node]) -> Iterator[tuple[str, str]]:
    method, of = called.child_by_field_name("property"), called.child_by_field_name("object")
    name = writer.text(method) if method is not None and method.end_byte - method.start_byte < 20 else ""
    if name in _SAME_METHODS:
        path = writer.path(called)
        if path:
            yield "", f"{path}()"
        yield from (each for each in writer.values(of) if each[0])
    elif name in _ELEMENT_METHODS and of is not None:
        path = writer.path(called)
        if path:
            yield "", f"{path}()"
        yield from ((suffix, value) for suffix, value in elements(writer.values(of)) if suffix or not path)
    elif name in _MAPPING_METHODS and given and of is not None:
        held = results(writer.values(given[0]))
        yield from held if name == "then" else under("[]", held)


def _type_argument(writer: Writer, node: Node) -> Values:
    given = node.child_by_field_name("type_arguments")
    return promised(writer, given.named_children[0]) if given is not None and given.named_child_count else []


def _of_new(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    called = node.child_by_field_name("constructor")
    path, given = writer.path(node), node.child_by_field_name("type_arguments")
    if path:
        yield "", path
    if called is None or given is None or called.type != "identifier":
        return
    name, held = writer.text(called), given.named_children
    if name in ("Map", "WeakMap") and held:
        yield from under("[]", promised(writer, held[-1]))
        yield from under("[][1]", promised(writer, held[-1]))
    elif name in ("Set", "WeakSet", "Array") and held:
        yield from under("[]", promised(writer, held[0]))


def _of_object(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    for each in node.named_children[:_MAX_PARTS]:
        if each.type == "shorthand_property_identifier":
            name = writer.text(each)
            yield f".{name}", name
        elif each.type == "spread_element":
            yield from writer.values(each.named_children[0] if each.named_child_count else None)
        elif each.type in ("pair", "method_definition"):
            named = each.child_by_field_name("key") or each.child_by_field_name("name")
            key = plain(writer.text(named)) if named is not None else ""
            defined = writer.defined.get((each.start_byte, each.end_byte))
            if defined and key:
                yield f".{key}", f"@file.{defined}"
            elif key:
                yield from under(f".{key}", writer.values(each.child_by_field_name("value")))


def _of_array(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    parts = [each for each in node.named_children[:_MAX_PARTS] if each.type != "comment"]
    spread = any(each.type == "spread_element" for each in parts)
    for place, each in enumerate(parts):
        if each.type == "spread_element":
            held = elements(writer.values(each.named_children[0] if each.named_child_count else None))
            yield from under("[]", held)
        else:
            at = "[]" if spread or len(parts) > _MAX_PLACES else f"[{place}]"
            yield from under(at, writer.values(each))


def _of_function(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    """What a function without a name gives; one with a name is followed by it."""
    declared = promised(writer, node.child_by_field_name("return_type"))
    body = node.child_by_field_name("body")
    if declared:
        yield from under("()", declared)
    elif body is not None and body.type != "statement_block":
        yield from under("()", writer.values(body))
    elif body is not None:
        for each in body.named_children[-3:]:
            if each.type == "return_statement" and each.named_child_count:
                yield from under("()", writer.values(each.named_children[0]))


def _of_choice(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    sign = node.child_by_field_name("operator")
    if sign is not None and sign.type in ("&&", "||", "??"):
        left = writer.values(node.child_by_field_name("left")) if sign.type != "&&" else []
        yield from [*left, *writer.values(node.child_by_field_name("right"))]


def _of_cast(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    parts = node.named_children
    if node.type == "type_assertion":
        parts = parts[::-1]
    said: Values = []
    if node.type != "satisfies_expression" and len(parts) > 1:
        types = parts[1].named_children if parts[1].type == "type_arguments" else parts[1:2]
        said = [each for kind in types for each in promised(writer, kind)]
    yield from said or writer.values(parts[0] if parts else None)


def _written_cast(writer: Writer, node: Node) -> str | None:
    return next((value for suffix, value in _of_cast(writer, node) if not suffix), None)


_SAME = {
    "parenthesized_expression": 0,
    "await_expression": 0,
    "non_null_expression": 0,
    "instantiation_expression": 0,
    "assignment_expression": "right",
    "sequence_expression": -1,
}

EXPRESSIONS = Expressions(
    names=frozenset({"identifier", "this", "type_identifier", "shorthand_property_identifier"}),
    members={
        "member_expression": ("object", "property"),
        "nested_type_identifier": ("module", "name"),
        "nested_identifier": ("object", "property"),
    },
    calls={"call_expression": ("function",), "new_expression": ("constructor",)},
    indexes={"subscript_expression": ("object", "index")},
    same=_SAME,
    choices={"ternary_expression": ("consequence", "alternative")},
    contents={
        "call_expression": _of_call,
        "new_expression": _of_new,
        "object": _of_object,
        "array": _of_array,
        "arrow_function": _of_function,
        "function_expression": _of_function,
        "binary_expression": _of_choice,
        "as_expression": _of_cast,
        "satisfies_expression": _of_cast,
        "type_assertion": _of_cast,
    },
    written=dict.fromkeys(("as_expression", "satisfies_expression", "type_assertion"), _written_cast),
    rewrite=rewritten,
)
