"""What statements of JavaScript and TypeScript say: bindings, declared types, fields, uses."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.graph.languages.ecmascript_functions import hand, of_function, of_return, of_yield
from knowledge_pipeline.graph.languages.ecmascript_imports import (
    of_assignment,
    of_call,
    of_export,
    of_import,
    required,
    take_required,
)
from knowledge_pipeline.graph.languages.ecmascript_names import named, plain
from knowledge_pipeline.graph.languages.ecmascript_patterns import give, names_in
from knowledge_pipeline.graph.languages.ecmascript_types import MAX_PARAMETERS, parameters, promised, under
from knowledge_pipeline.graph.languages.ecmascript_values import (
    EXPRESSIONS,
    TAKES_ELEMENT,
    arguments,
    bare,
    elements,
    results,
)
from knowledge_pipeline.graph.languages.words import words
from knowledge_pipeline.graph.reading import Extraction, Reading
from knowledge_pipeline.syntax.outline import TYPES

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
_BIGINT_BYTES = 6
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


def _heritage(reading: Reading, node: Node) -> None:
    """`extends A.B<C> implements D`, of classes and interfaces."""
    scope = reading.scope(node)
    if node.type == "extends_type_clause":
        _bases(reading, scope, node.children_by_field_name("type"), "extends")
        return
    for clause in node.named_children:
        if clause.type == "extends_clause":
            _bases(reading, scope, clause.children_by_field_name("value"), "extends")
        elif clause.type == "implements_clause":
            _bases(reading, scope, clause.named_children, "implements")
        else:
            _bases(reading, scope, [clause], "extends")


def _bases(reading: Reading, scope: str, bases: list[Node], kind: str) -> None:
    for each in bases:
        named = each.child_by_field_name("name") if each.type == "generic_type" else each
        named = bare(named)
        if named is None or named.type not in _NAMES:
            continue
        path = "".join((reading.writer.path(named) or "").split())
        reading.use("extends" if kind == "extends" else "implements", path, named, scope)
        reading.skip(named)


_NAMES = frozenset({"identifier", "type_identifier", "member_expression", "nested_type_identifier"})


def _super(reading: Reading, node: Node) -> None:
    """`super(…)` calls what the class extends."""
    around = reading.outline.innermost(reading.syntax.start(node))
    while around is not None and around.kind not in TYPES:
        around = around.parent
    body = around.node if around is not None else None
    if body is not None and body.type == "variable_declarator":
        body = body.child_by_field_name("value")
    heritage = next((each for each in body.children if each.type == "class_heritage"), None) if body else None
    if heritage is None or not heritage.named_child_count:
        return
    clause = heritage.named_children[0]
    base = clause.child_by_field_name("value") if clause.type == "extends_clause" else clause
    reading.use("calls", reading.writer.path(base), node)


def _field(reading: Reading, node: Node) -> None:
    named = node.child_by_field_name("name") or node.child_by_field_name("property")
    if named is None:
        return
    scope, name = reading.scope(node), plain(reading.text(named))
    declared, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    if (node.start_byte, node.end_byte) in reading.writer.defined or scope not in reading.types:
        return
    reading.define(f"{scope}.{name}", "variable", node)
    for suffix, path in promised(reading.writer, declared):
        reading.bind(scope, name + suffix, path, declared=True)
    for suffix, path in reading.writer.values(value):
        reading.bind(scope, name + suffix, path)


def _type_name(reading: Reading, node: Node) -> None:
    """`bigint` is TypeScript's own, though its grammar takes it for a name."""
    if node.end_byte - node.start_byte == _BIGINT_BYTES and reading.text(node) == "bigint":
        reading.skip(node)


def _property(reading: Reading, node: Node) -> None:
    """A property that an interface, or a type of an object, declares."""
    named = node.child_by_field_name("name")
    scope = reading.scope(node)
    if named is None or not scope:
        return
    name = plain(reading.text(named))
    reading.define(f"{scope}.{name}", "variable", node)
    for suffix, path in promised(reading.writer, node.child_by_field_name("type")):
        reading.bind(scope, name + suffix, path, declared=True)


def _signature(reading: Reading, node: Node) -> None:
    """What an interface says of its instances when they are called: `(store: Store): Rows`."""
    scope = reading.scope(node)
    if scope not in reading.types:
        return
    for suffix, path in under("()", promised(reading.writer, node.child_by_field_name("return_type"))):
        reading.bind(scope, f"@call{suffix}", path, declared=True)
    for suffix, path in parameters(reading.writer, node):
        reading.bind(scope, suffix[1:], path, declared=True)


def _member(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    reading.define(f"{scope}.{plain(reading.text(node))}", "variable", node)


def _alias(reading: Reading, node: Node) -> None:
    """What a name for a type stands for; one for a type of an object is itself what has its members."""
    value, scope = node.child_by_field_name("value"), reading.scope(node)
    if value is None or not scope:
        return
    parts = value.named_children if value.type == "intersection_type" else [value]
    if any(each.type == "object_type" for each in parts):
        reading.bind(scope, "@()", "@", declared=True)
    for each in parts:
        for suffix, path in promised(reading.writer, each) if each.type != "object_type" else ():
            reading.bind(scope, "@()" + suffix, path, declared=True)


def _parameter(reading: Reading, node: Node) -> None:
    """A type's parameter is what it extends, as far as is known."""
    named, limit = node.child_by_field_name("name"), node.child_by_field_name("constraint")
    if named is None:
        return
    scope, name = reading.scope(node), reading.text(named)
    found = [value for suffix, value in promised(reading.writer, limit) if not suffix]
    for each in found:
        if each.endswith("()"):
            reading.bind(scope, name, each[:-2], declared=True)
        else:
            reading.bind(scope, f"{name}()", each, declared=True)
    if not found:
        reading.bind(scope, name, "")


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
        "heritage": _heritage,
        "super": _super,
        "field": _field,
        "property": _property,
        "member": _member,
        "alias": _alias,
        "typename": _type_name,
        "parameter": _parameter,
        "decorator": _decorator,
        "element": _element,
        "invoked": _invoked,
        "made": _made,
        "signature": _signature,
    },
    builtins=BUILTINS,
    named=named,
)
