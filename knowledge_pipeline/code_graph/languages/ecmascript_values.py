"""What expressions and types of JavaScript and TypeScript hold, and what definitions are called.

`Store[]` holds `Store()`; what `Promise<Store>` promises is written as what `await` makes of it: `Store()`.
A function within an object literal has the name of what holds the object: `retry` of `const client = {
http: { retry() {} } }` is "client.http.retry".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Value,
    Values,
    add_prefix,
    called_values,
    iterated_values,
    own_value,
    parent_scope,
)
from knowledge_pipeline.code_graph.facts_builder import VARIABLE_KINDS, ExpressionSyntax, PathWriter
from knowledge_pipeline.code_graph.languages.base import load_words, split_words
from knowledge_pipeline.syntax.grammars import children_of, part_of
from knowledge_pipeline.syntax.outline import TYPE_KINDS, OutlineDefinition

_WORDS = load_words("ecmascript")

_MAX_DEPTH = 8
_PARAMETERS = frozenset({"required_parameter", "optional_parameter"})
MAX_PARAMETERS = 5
"""So many parameters of a function are told to what it is given to."""

_WRAPPERS = _WORDS["wrappers"]
_COLLECTIONS = _WORDS["collections"]
_MAPPING_TYPES = split_words("Map ReadonlyMap WeakMap Record")
_REF_TYPES = split_words("RefObject MutableRefObject Ref ForwardedRef LegacyRef")
_IGNORED_TYPES = split_words("Function Object String Number Boolean Symbol Date RegExp bigint")


def values_of_type(writer: PathWriter, node: Node | None, depth: int = 0) -> Values:
    """What a type says of a name, as (suffix, path): ("[]", "Store()") of `Store[]`."""
    if node is None or depth > _MAX_DEPTH:
        return []
    kind = node.type
    if kind in _READERS:
        return list(_READERS[kind](writer, node, depth + 1))
    if kind in _COMPOSITE_NODES:
        return [value for part in node.named_children for value in values_of_type(writer, part, depth + 1)]
    return []


def _named_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    del depth
    name = "".join(writer.text(node).split())
    if len(name) < 100 and name not in _IGNORED_TYPES:
        yield "", f"{name}()"


def _generic_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    name_node = part_of(node, "name")
    if name_node is None:
        return
    name, arguments = writer.text(name_node), children_of(part_of(node, "type_arguments"))
    arguments = [argument for argument in arguments if argument.type != "comment"]
    if not arguments:
        yield from _named_values(writer, name_node, depth)
    elif name in _WRAPPERS:
        yield from values_of_type(writer, arguments[0], depth)
    elif name in _COLLECTIONS:
        yield "", f"{name}()"
        yield from add_prefix("[]", values_of_type(writer, arguments[0], depth))
    elif name in _MAPPING_TYPES:
        elements = values_of_type(writer, arguments[-1], depth)
        yield "", f"{name}()"
        yield from add_prefix("[]", elements)
        if name != "Record":
            yield from add_prefix("[][0]", values_of_type(writer, arguments[0], depth))
            yield from add_prefix("[][1]", elements)
    elif name in _REF_TYPES:
        yield from add_prefix(".current", values_of_type(writer, arguments[0], depth))
    elif name in ("ReturnType", "InstanceType"):
        yield from ((suffix, f"{value}()") for suffix, value in values_of_type(writer, arguments[0], depth))
    else:
        yield from _named_values(writer, name_node, depth)


def _array_type_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    yield "", "Array()"
    yield from add_prefix("[]", values_of_type(writer, _first_child(node), depth))


def _tuple_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    yield "", "Array()"
    for position, child in enumerate(node.named_children[:20]):
        rest = child.type == "rest_type"
        yield from add_prefix("" if rest else f"[{position}]", values_of_type(writer, child, depth))


def _function_type_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    yield from add_prefix("()", values_of_type(writer, part_of(node, "return_type"), depth))
    yield from callback_parameter_values(writer, node, depth)


def callback_parameter_values(writer: PathWriter, node: Node, depth: int = 0) -> Iterator[Value]:
    """What a function gives to functions that it is given: (".@0.@1", "Store()")."""
    listed = [child for child in children_of(part_of(node, "parameters")) if child.type in _PARAMETERS]
    patterns = ((child, part_of(child, "pattern")) for child in listed)
    parameters = [child for child, pattern in patterns if pattern is None or pattern.type != "this"]
    for position, parameter in enumerate(parameters[:MAX_PARAMETERS]):
        yield from add_prefix(f".@{position}", values_of_type(writer, part_of(parameter, "type"), depth))


def _constructor_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    results = values_of_type(writer, part_of(node, "type"), depth)
    yield from ((suffix, value.removesuffix("()")) for suffix, value in results if not suffix)


def _type_query_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    del depth
    path = writer.path(_first_child(node))
    if path:
        yield "", path


def _lookup_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    """`Store["rows"]`, `Stores[number]`."""
    parts = node.named_children
    key = writer.text(parts[-1]).strip("\"'`") if len(parts) > 1 else ""
    step = "[]" if key == "number" else f".{key}" if key.isidentifier() else ""
    for suffix, value in values_of_type(writer, parts[0], depth) if step else ():
        if suffix.startswith(step):
            yield suffix[len(step) :], value
        elif not suffix:
            yield "", value + step


def _object_type_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    for child in node.named_children[:60]:
        name_node = part_of(child, "name")
        key = writer.text(name_node).strip("\"'`") if name_node is not None else ""
        if not key.isidentifier():
            continue
        if child.type == "property_signature":
            declared = part_of(child, "type")
            yield from add_prefix(f".{key}", values_of_type(writer, declared, depth))
        elif child.type == "method_signature":
            result = part_of(child, "return_type")
            yield from add_prefix(f".{key}()", values_of_type(writer, result, depth))


def _conditional_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    for part in ("consequence", "alternative"):
        yield from values_of_type(writer, part_of(node, part), depth)


def _first_child(node: Node) -> Node | None:
    return next((child for child in node.named_children if child.type != "comment"), None)


_COMPOSITE_NODES = split_words(
    """
    type_annotation union_type intersection_type parenthesized_type readonly_type optional_type
    rest_type flow_maybe_type constraint default_type asserts opting_type_annotation
    omitting_type_annotation adding_type_annotation
    """
)
_READERS: dict[str, Callable[[PathWriter, Node, int], Iterator[Value]]] = {
    "type_identifier": _named_values, "nested_type_identifier": _named_values,
    "generic_type": _generic_values, "array_type": _array_type_values, "tuple_type": _tuple_values,
    "function_type": _function_type_values, "constructor_type": _constructor_values,
    "type_query": _type_query_values, "lookup_type": _lookup_values, "object_type": _object_type_values,
    "conditional_type": _conditional_values, "this_type": lambda writer, node, depth: iter([("", "@self")]),
}  # fmt: skip


_MAX_STEPS = 12
_MAX_NAME_PARTS = 19
_NAME_TRANSPARENT_NODES = split_words(
    """
    object arguments call_expression new_expression as_expression satisfies_expression array
    parenthesized_expression non_null_expression await_expression ternary_expression
    """
)
_FIELDS = frozenset({"public_field_definition", "field_definition"})
_NOT_OWNERS = frozenset({"module", "exports", "prototype", "this", "window", "self", "globalThis"})
_IDENTIFIERS = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_UNSAFE_NAME_CHARS = re.compile(r"[.()\[\]]")


def to_segment(name: str) -> str:
    """A name as one segment of a path: `[Symbol.iterator]` is "@@iterator"."""
    name = " ".join(name.split()).strip("\"'`")[:80]
    if name.startswith("["):
        return "@@" + _UNSAFE_NAME_CHARS.sub("_", name.strip("[]").rpartition(".")[2].strip("\"'`"))
    return _UNSAFE_NAME_CHARS.sub("_", name)


def qualify_within(definition: OutlineDefinition, enclosing: str) -> str:
    """The qualified name of a definition, by that of the definition around it; of its last twenty parts."""
    parent = definition.parent
    # what holds a function names it, by `_list_holder_names`
    while parent is not None and parent.kind in VARIABLE_KINDS:
        parent, enclosing = parent.parent, parent_scope(enclosing)
    parts = enclosing.split(".")[-_MAX_NAME_PARTS:] if enclosing else []
    node = definition.node
    of = part_of(part_of(node, "left"), "object") if node.type == "assignment_expression" else None
    if of is not None and of.type == "this":
        outer = parent.parent if parent is not None else None
        parts = parts[:-1] if outer is not None and outer.kind in TYPE_KINDS else parts
    else:
        parts += _list_holder_names(node)
    owner = [to_segment(definition.owner)] if definition.owner else []
    return ".".join(part for part in (*parts, *owner, to_segment(definition.name)) if part)


def _list_holder_names(node: Node) -> list[str]:
    """The names of what holds a function of an object literal, outermost first."""
    around = node.parent if node.type in ("pair", "method_definition") else None
    if around is None or around.type != "object":
        return []
    return list(_iter_enclosing_names(around))[::-1]


def _iter_enclosing_names(node: Node) -> Iterator[str]:
    for _ in range(_MAX_STEPS):
        around = node.parent
        if around is None or around.type not in _NAME_TRANSPARENT_NODES | _NAMING_NODES:
            return
        name, goes_on = _naming_of(around)
        if name:
            yield to_segment(name)
        if not goes_on:
            return
        node = around


_NAMING_NODES = frozenset(
    {"pair", "variable_declarator", "assignment_expression", "export_statement", *_FIELDS}
)


def _naming_of(node: Node) -> tuple[str, bool]:
    """The name that a node gives to what it holds, and whether what is around it gives one, too."""
    if node.type in _NAME_TRANSPARENT_NODES:
        return "", True
    if node.type == "export_statement":
        return "default", False
    field = "key" if node.type == "pair" else "left" if node.type == "assignment_expression" else "name"
    name_node = part_of(node, field) or part_of(node, "property")
    if name_node is None or name_node.type in ("object_pattern", "array_pattern"):
        return "", False
    text = (name_node.text or b"").decode(errors="replace")[:200]
    if node.type == "assignment_expression":
        owners = [word for word in _IDENTIFIERS.findall(text) if word not in _NOT_OWNERS]
        text = owners[-1] if owners else ""
    return text, node.type == "pair"


_MAX_PARTS = 100
_MAX_TUPLE_PLACES = 8
_UNSAFE_CHARS = re.compile(r"[.()\[\]\s]")

# Calls that hand on their first argument, or what it holds.
_PASS_THROUGH_CALLS = _WORDS["pass_through_calls"]
_MEMO_CALLS = split_words("useMemo React.useMemo lazy React.lazy computed")
_HOLDER_CALLS = _WORDS.by_word("holder_calls")
_SAME_METHODS = _WORDS["same_methods"]
_ELEMENT_METHODS = split_words("find findLast at pop shift")
_MAPPING_METHODS = split_words("map flatMap then")
CALLBACK_METHODS = _WORDS["callback_methods"]
"""Methods of containers that give what they hold to the function that they are given."""


def list_arguments(node: Node) -> list[Node]:
    """What a call is given."""
    arguments = part_of(node, "arguments")
    if arguments is None or arguments.type != "arguments":
        return []
    return [child for child in arguments.named_children if child.type != "comment"]


def imported_module(writer: PathWriter, node: Node) -> str | None:
    """The module of `require("./m")` or `import("./m")`; None for other expressions."""
    if node.type != "call_expression":
        return None
    called = part_of(node, "function")
    is_name = called is not None and called.type == "identifier"
    is_require = is_name and writer.short_text(called, len("require") + 1) == "require"
    if called is None or not (called.type == "import" or is_require):
        return None
    arguments = list_arguments(node)
    return string_value(writer, arguments[0]) if arguments else None


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


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`require("./m")` as its module, `f.bind(x)` as `f`; None for other calls."""
    module = imported_module(writer, node)
    if module is not None:
        return loaded_module_name(module)
    called = part_of(node, "function")
    if called is None or called.type != "member_expression":
        return None
    is_bind = writer.short_text(part_of(called, "property"), 10) == "bind"
    return writer.path(part_of(called, "object")) if is_bind else None


def _call_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    called = part_of(node, "function")
    if called is None:
        return
    name, arguments = writer.short_text(called, 60), list_arguments(node)
    if name in _PASS_THROUGH_CALLS and arguments:
        for argument in arguments[:4] if name == "Object.assign" else arguments[:1]:
            yield from writer.values(argument)
    elif name in _MEMO_CALLS and arguments:
        yield from called_values(writer.values(arguments[0]))
    elif name in _HOLDER_CALLS:
        content = _type_argument_values(writer, node) or (writer.values(arguments[0]) if arguments else [])
        yield from add_prefix(_HOLDER_CALLS[name], content)
    elif called.type == "member_expression":
        yield from _method_values(writer, called, arguments)


def _method_values(writer: PathWriter, callee: Node, call_arguments: list[Node]) -> Iterator[Value]:
    method, of = part_of(callee, "property"), part_of(callee, "object")
    name = writer.short_text(method, 20)
    if name in _SAME_METHODS:
        path = writer.path(callee)
        if path:
            yield "", f"{path}()"
        yield from (value for value in writer.values(of) if value[0])
    elif name in _ELEMENT_METHODS and of is not None:
        path = writer.path(callee)
        if path:
            yield "", f"{path}()"
        yield from (
            (suffix, value) for suffix, value in iterated_values(writer.values(of)) if suffix or not path
        )
    elif name in _MAPPING_METHODS and call_arguments and of is not None:
        results = called_values(writer.values(call_arguments[0]))
        yield from results if name == "then" else add_prefix("[]", results)


def _type_argument_values(writer: PathWriter, node: Node) -> Values:
    arguments = part_of(node, "type_arguments")
    return (
        values_of_type(writer, arguments.named_children[0])
        if arguments is not None and arguments.named_child_count
        else []
    )


def _new_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    called = part_of(node, "constructor")
    path, arguments = writer.path(node), part_of(node, "type_arguments")
    if path:
        yield "", path
    if called is None or arguments is None or called.type != "identifier":
        return
    name, types = writer.text(called), arguments.named_children
    if name in ("Map", "WeakMap") and types:
        yield from add_prefix("[]", values_of_type(writer, types[-1]))
        yield from add_prefix("[][1]", values_of_type(writer, types[-1]))
    elif name in ("Set", "WeakSet", "Array") and types:
        yield from add_prefix("[]", values_of_type(writer, types[0]))


def _object_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    for child in node.named_children[:_MAX_PARTS]:
        if child.type == "shorthand_property_identifier":
            name = writer.text(child)
            yield f".{name}", name
        elif child.type == "spread_element":
            yield from writer.values(part_of(child, 0))
        elif child.type in ("pair", "method_definition"):
            key_node = part_of(child, "key") or part_of(child, "name")
            key = to_segment(writer.text(key_node)) if key_node is not None else ""
            defined = writer.definition_names.get((child.start_byte, child.end_byte))
            if defined and key:
                yield f".{key}", f"@file.{defined}"
            elif key:
                yield from add_prefix(f".{key}", writer.values(part_of(child, "value")))


def _array_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    parts = [child for child in node.named_children[:_MAX_PARTS] if child.type != "comment"]
    spread = any(part.type == "spread_element" for part in parts)
    for position, part in enumerate(parts):
        if part.type == "spread_element":
            yield from add_prefix("[]", iterated_values(writer.values(part_of(part, 0))))
        else:
            at = "[]" if spread or len(parts) > _MAX_TUPLE_PLACES else f"[{position}]"
            yield from add_prefix(at, writer.values(part))


def _function_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    """What a function without a name gives; one with a name is followed by it."""
    declared = values_of_type(writer, part_of(node, "return_type"))
    body = part_of(node, "body")
    if declared:
        yield from add_prefix("()", declared)
    elif body is not None and body.type != "statement_block":
        yield from add_prefix("()", writer.values(body))
    elif body is not None:
        for child in body.named_children[-3:]:
            if child.type == "return_statement" and child.named_child_count:
                yield from add_prefix("()", writer.values(child.named_children[0]))


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
        said = [value for kind in types for value in values_of_type(writer, kind)]
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
    rewrite_call=_rewrite_call,
)  # fmt: skip
