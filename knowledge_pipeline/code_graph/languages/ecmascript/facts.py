"""What statements of JavaScript and TypeScript say: bindings, declared types, fields, uses."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.ecmascript.classes import (
    of_alias,
    of_field,
    of_heritage,
    of_member,
    of_property,
    of_signature,
    of_super,
    of_type_name,
    of_type_parameter,
)
from knowledge_pipeline.code_graph.languages.ecmascript.functions import (
    hand,
    of_function,
    of_return,
    of_yield,
)
from knowledge_pipeline.code_graph.languages.ecmascript.imports import (
    of_assignment,
    of_call,
    of_export,
    of_import,
    required,
    take_required,
)
from knowledge_pipeline.code_graph.languages.ecmascript.names import named, plain
from knowledge_pipeline.code_graph.languages.ecmascript.patterns import give, names_in
from knowledge_pipeline.code_graph.languages.ecmascript.types import MAX_PARAMETERS, promised
from knowledge_pipeline.code_graph.languages.ecmascript.value_steps import elements, results
from knowledge_pipeline.code_graph.languages.ecmascript.values import (
    EXPRESSIONS,
    TAKES_ELEMENT,
    arguments,
    bare,
)
from knowledge_pipeline.code_graph.languages.visibility import not_exported
from knowledge_pipeline.code_graph.languages.words import words

BUILTINS = words(
    """
    Object Array Promise Map Set WeakMap WeakSet WeakRef Proxy Reflect JSON Math Date RegExp Symbol
    String Number Boolean BigInt Function Error TypeError RangeError SyntaxError ReferenceError
    EvalError URIError AggregateError Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array
    Int32Array Uint32Array Float32Array Float64Array BigInt64Array BigUint64Array ArrayBuffer
    SharedArrayBuffer DataView Atomics Intl WebAssembly globalThis console parseInt parseFloat isNaN
    isFinite encodeURIComponent decodeURIComponent encodeURI decodeURI escape unescape eval require
    setTimeout clearTimeout setInterval clearInterval setImmediate clearImmediate queueMicrotask
    structuredClone requestAnimationFrame cancelAnimationFrame fetch window document navigator
    location history process Buffer URL URLSearchParams AbortController AbortSignal Event EventTarget
    Headers Request Response FormData Blob File TextEncoder TextDecoder ReadableStream WritableStream
    TransformStream performance crypto localStorage sessionStorage undefined NaN Infinity arguments
    Partial Required Readonly Record Pick Omit Exclude Extract NonNullable Parameters ReturnType
    InstanceType ConstructorParameters Awaited ReadonlyArray ReadonlyMap ReadonlySet PromiseLike
    Iterable Iterator IterableIterator AsyncIterable AsyncIterator AsyncIterableIterator Generator
    AsyncGenerator ArrayLike PropertyKey ThisType Uppercase Lowercase Capitalize Uncapitalize NoInfer
    HTMLElement Element Node NodeJS JSX PropertyDescriptor TemplateStringsArray module exports
    """
)
_MAX_CHAIN = 8  # a = b = c
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function"})
_HOLDERS = _FUNCTIONS | {"object"}


def _variable(reading: Reading, node: Node) -> None:
    target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if target is None:
        return
    if take_required(reading, target, value):
        return
    scope = reading.scope(target)
    declared = node.child_by_field_name("type")
    is_function = (node.start_byte, node.end_byte) in reading.writer.defined
    if declared is not None:
        _declared(reading, scope, node, declared, is_function=is_function)
    if value is not None and not is_function:
        give(reading, scope, target, reading.writer.values(value))
        _define_object(reading, scope, target, value)
    elif value is None and declared is None:
        give(reading, scope, target, [])


def _declared(reading: Reading, scope: str, node: Node, declared: Node, *, is_function: bool) -> None:
    """What `const f: Handler = …` says of the variable, of what it gives, and of its parameters."""
    target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    values = promised(reading.writer, declared)
    if is_function:
        for suffix, path in results(values):
            reading.bind(scope, "@()" + suffix, path, declared=True)
    elif target is not None:
        give(reading, scope, target, values, declared=True)
    if value is not None:
        hand(reading, value, values)


def _define_object(reading: Reading, scope: str, target: Node, value: Node) -> None:
    """A local object with functions of its own is a definition, for they are named after it."""
    literal = bare(value)
    if not scope or target.type != "identifier" or literal is None or literal.type != "object":
        return
    defined = reading.writer.defined
    if any((each.start_byte, each.end_byte) in defined for each in literal.named_children):
        reading.define(f"{scope}.{reading.text(target)}", "variable", target)


def _global(reading: Reading, node: Node) -> None:
    target = node.child_by_field_name("name")
    value = node.child_by_field_name("value")
    if target is None or (node.start_byte, node.end_byte) in reading.writer.defined:
        return
    if required(reading, value)[0] is not None:
        return  # an import
    scope = reading.scope(target)
    for each in names_in(target):
        name = plain(reading.text(each))
        reading.define(f"{scope}.{name}" if scope else name, "variable", node)


def _assignment(reading: Reading, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return
    value: Node = right
    for _ in range(_MAX_CHAIN):
        if value.type != "assignment_expression":
            break
        value = value.child_by_field_name("right") or value
    defines = (node.start_byte, node.end_byte) in reading.writer.defined
    if defines:
        reading.skip(left)
    if of_assignment(reading, left, value) or defines:
        return
    give(reading, reading.scope(node), left, reading.writer.values(value))


def _loop(reading: Reading, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None:
        return
    sign = node.child_by_field_name("operator")
    of = sign is not None and sign.type == "of"
    give(reading, reading.scope(node), left, elements(reading.writer.values(right)) if of else [])


def _decorator(reading: Reading, node: Node) -> None:
    """A decorator without arguments is called, too."""
    named = node.named_children[0] if node.named_child_count else None
    if named is not None and named.type in ("identifier", "member_expression"):
        reading.use("calls", reading.writer.path(named), named)
        reading.skip(named)


def _element(reading: Reading, node: Node) -> None:
    """`<Button/>` calls Button; `<div>` is the browser's."""
    named = node.child_by_field_name("name")
    if named is None:
        return
    path = reading.writer.path(named) or ""
    reading.skip(named)
    if "." in path or not path[:1].islower():
        reading.use("calls", path, named)


def _invoked(reading: Reading, node: Node) -> None:
    of_call(reading, node)
    called, given = node.child_by_field_name("function"), arguments(node)
    if called is None or not given:
        return
    _hand_on(reading, called, given)
    if called.type != "member_expression":
        return
    method, of = called.child_by_field_name("property"), called.child_by_field_name("object")
    name = reading.text(method) if method is not None and method.end_byte - method.start_byte < 24 else ""
    if name in ("push", "unshift", "add", "set"):
        _added(reading, of, given[1 if name == "set" else 0 :])
    elif given[0].type in _FUNCTIONS and (name in TAKES_ELEMENT or name == "then"):
        values = reading.writer.values(of)
        _hand(reading, given[0], values if name == "then" else elements(values))


def _hand_on(reading: Reading, called: Node | None, given: list[Node]) -> None:
    """What is called says with its types what it gives to functions that it is given."""
    functions = [(place, each) for place, each in enumerate(given[:MAX_PARAMETERS]) if each.type in _HOLDERS]
    path = reading.writer.path(called) if functions else None
    for place, each in functions if path else ():
        hand(reading, each, [("", f"{path}.@{place}")])


def _made(reading: Reading, node: Node) -> None:
    _hand_on(reading, node.child_by_field_name("constructor"), arguments(node))


def _added(reading: Reading, of: Node | None, given: list[Node]) -> None:
    path = reading.writer.path(of) if given else None
    for suffix, value in reading.writer.values(given[0]) if path else ():
        reading.bind(reading.scope(given[0]), f"{path}[]{suffix}", value)


def _hand(reading: Reading, function: Node, values: list[tuple[str, str]]) -> None:
    """Give the first parameter of a function values, where it declares no type."""
    single, several = function.child_by_field_name("parameter"), function.child_by_field_name("parameters")
    target = single or (
        several.named_children[0] if several is not None and several.named_child_count else None
    )
    if target is None or target.child_by_field_name("type") is not None:
        return
    pattern = target.child_by_field_name("pattern") or target
    give(reading, reading.scope(function), pattern, values)


EXTRACTION = Extraction(
    private=not_exported,
    expressions=EXPRESSIONS,
    handlers={
        "import": of_import,
        "export": of_export,
        "global": _global,
        "variable": _variable,
        "assignment": _assignment,
        "loop": _loop,
        "function": of_function,
        "return": of_return,
        "yield": of_yield,
        "heritage": of_heritage,
        "super": of_super,
        "field": of_field,
        "property": of_property,
        "member": of_member,
        "alias": of_alias,
        "typename": of_type_name,
        "parameter": of_type_parameter,
        "decorator": _decorator,
        "element": _element,
        "invoked": _invoked,
        "made": _made,
        "signature": of_signature,
    },
    builtins=BUILTINS,
    named=named,
)
