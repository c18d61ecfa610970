"""What statements of JavaScript and TypeScript say: bindings, declared types, fields, uses."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.ecmascript.classes import (
    read_call_signature,
    read_enum_member,
    read_field,
    read_heritage,
    read_property,
    read_super_call,
    read_type_alias,
    read_type_name,
    read_type_parameter,
)
from knowledge_pipeline.code_graph.languages.ecmascript.functions import (
    bind_callback_parameters,
    read_function,
    read_return,
    read_yield,
)
from knowledge_pipeline.code_graph.languages.ecmascript.imports import (
    find_required_module,
    read_dynamic_import,
    read_export,
    read_export_assignment,
    read_import,
    read_require_declaration,
)
from knowledge_pipeline.code_graph.languages.ecmascript.names import qualify_within, to_segment
from knowledge_pipeline.code_graph.languages.ecmascript.patterns import bind_pattern, iter_declared_names
from knowledge_pipeline.code_graph.languages.ecmascript.types import MAX_PARAMETERS, values_of_type
from knowledge_pipeline.code_graph.languages.ecmascript.values import (
    CALLBACK_METHODS,
    EXPRESSIONS,
    list_arguments,
    unwrap_expression,
)
from knowledge_pipeline.code_graph.languages.visibility import is_not_exported
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Values, called_values, iterated_values
from knowledge_pipeline.syntax.nodes import part_of

BUILTINS = split_words(
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
_MAX_CHAINED_ASSIGNMENTS = 8  # a = b = c
_FUNCTION_NODES = frozenset({"arrow_function", "function_expression", "generator_function"})
_CALLBACK_NODES = _FUNCTION_NODES | {"object"}


def _read_variable(builder: FactsBuilder, node: Node) -> None:
    target, value = part_of(node, "name"), part_of(node, "value")
    if target is None or read_require_declaration(builder, target, value):
        return
    scope, declared = builder.scope(target), part_of(node, "type")
    is_function = (node.start_byte, node.end_byte) in builder.writer.definition_names
    if declared is not None:  # `const f: Handler = …`: the variable, what it gives, and its parameters
        values = values_of_type(builder.writer, declared)
        if is_function:
            builder.bind_all(scope, "@()", called_values(values), declared=True)
        else:
            bind_pattern(builder, scope, target, values, declared=True)
        if value is not None:
            bind_callback_parameters(builder, value, values)
    if value is not None and not is_function:
        bind_pattern(builder, scope, target, builder.writer.values(value))
        # a local object with functions of its own is a definition, for they are named after it
        literal = unwrap_expression(value)
        if not scope or target.type != "identifier" or literal is None or literal.type != "object":
            return
        defined = builder.writer.definition_names
        if any((each.start_byte, each.end_byte) in defined for each in literal.named_children):
            builder.add_definition(f"{scope}.{builder.text(target)}", "variable", target)
    elif value is None and declared is None:
        bind_pattern(builder, scope, target, [])


def _read_global(builder: FactsBuilder, node: Node) -> None:
    target = part_of(node, "name")
    if target is None or (node.start_byte, node.end_byte) in builder.writer.definition_names:
        return
    if find_required_module(builder, part_of(node, "value"))[0] is not None:
        return  # an import
    scope = builder.scope(target)
    for each in iter_declared_names(target):
        name = to_segment(builder.text(each))
        builder.add_definition(f"{scope}.{name}" if scope else name, "variable", node)


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is None or right is None:
        return
    value: Node = right
    for _ in range(_MAX_CHAINED_ASSIGNMENTS):
        if value.type != "assignment_expression":
            break
        value = part_of(value, "right") or value
    defines = (node.start_byte, node.end_byte) in builder.writer.definition_names
    if defines:
        builder.skip_reference(left)
    if read_export_assignment(builder, left, value) or defines:
        return
    bind_pattern(builder, builder.scope(node), left, builder.writer.values(value))


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is None:
        return
    sign = part_of(node, "operator")
    is_iteration = sign is not None and sign.type == "of"
    held = iterated_values(builder.writer.values(right)) if is_iteration else []
    bind_pattern(builder, builder.scope(node), left, held)


def _read_decorator(builder: FactsBuilder, node: Node) -> None:
    """A decorator without arguments is called, too."""
    named = part_of(node, 0)
    if named is not None and named.type in ("identifier", "member_expression"):
        builder.add_use("calls", builder.writer.path(named), named)
        builder.skip_reference(named)


def _read_jsx_element(builder: FactsBuilder, node: Node) -> None:
    """`<Button/>` calls Button; `<div>` is the browser's."""
    named = part_of(node, "name")
    if named is None:
        return
    path = builder.writer.path(named) or ""
    builder.skip_reference(named)
    if "." in path or not path[:1].islower():
        builder.add_use("calls", path, named)


def _read_call(builder: FactsBuilder, node: Node) -> None:
    read_dynamic_import(builder, node)
    called, given = part_of(node, "function"), list_arguments(node)
    if called is None or not given:
        return
    _bind_callbacks(builder, called, given)
    if called.type != "member_expression":
        return
    name, of = builder.writer.short_text(part_of(called, "property"), 24), part_of(called, "object")
    if name in ("push", "unshift", "add", "set"):
        call_arguments = given[1 if name == "set" else 0 :]
        path = builder.writer.path(of)
        if call_arguments and path:
            added = call_arguments[0]
            builder.bind_all(builder.scope(added), f"{path}[]", builder.writer.values(added))
    elif given[0].type in _FUNCTION_NODES and (name in CALLBACK_METHODS or name == "then"):
        values = builder.writer.values(of)
        _bind_first_parameter(builder, given[0], values if name == "then" else iterated_values(values))


def _bind_callbacks(builder: FactsBuilder, callee: Node | None, call_arguments: list[Node]) -> None:
    """What is called says with its types what it gives to functions that it is given."""
    for place, each in enumerate(call_arguments[:MAX_PARAMETERS]):
        if each.type in _CALLBACK_NODES and (path := builder.writer.path(callee)):
            bind_callback_parameters(builder, each, [("", f"{path}.@{place}")])


def _read_new(builder: FactsBuilder, node: Node) -> None:
    _bind_callbacks(builder, part_of(node, "constructor"), list_arguments(node))


def _bind_first_parameter(builder: FactsBuilder, function: Node, values: Values) -> None:
    """Give the first parameter of a function values, where it declares no type."""
    target = part_of(function, "parameter") or part_of(part_of(function, "parameters"), 0)
    if target is None or part_of(target, "type") is not None:
        return
    bind_pattern(builder, builder.scope(function), part_of(target, "pattern") or target, values)


EXTRACTION = ExtractionRules(
    is_private=is_not_exported, expressions=EXPRESSIONS,
    handlers={
        "import": read_import, "export": read_export, "global": _read_global, "variable": _read_variable,
        "assignment": _read_assignment, "loop": _read_loop, "function": read_function, "return": read_return,
        "yield": read_yield, "heritage": read_heritage, "super": read_super_call, "field": read_field,
        "property": read_property, "member": read_enum_member, "alias": read_type_alias,
        "typename": read_type_name, "parameter": read_type_parameter, "decorator": _read_decorator,
        "element": _read_jsx_element, "invoked": _read_call, "made": _read_new,
        "signature": read_call_signature,
    },
    builtins=BUILTINS, qualify_within=qualify_within,
)  # fmt: skip
