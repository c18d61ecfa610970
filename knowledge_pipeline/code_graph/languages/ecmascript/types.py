"""TypeScript's types as the values that they promise: `Store[]` holds `Store()`.

What `Promise<Store>` promises is written as what `await` makes of it: `Store()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Writer
from knowledge_pipeline.code_graph.languages.words import words

_MAX_DEPTH = 8
_PARAMETERS = frozenset({"required_parameter", "optional_parameter"})
MAX_PARAMETERS = 5
"""So many parameters of a function are told to what it is given to."""

_WRAPPERS = words(
    """
    Promise PromiseLike Awaited Partial Required Readonly NonNullable NoInfer DeepPartial Pick Omit
    Extract Exclude MaybePromise Awaitable Mutable Writable Simplify Prettify WritableDraft Draft
    Immutable ThisType
    """
)
_HOLDERS = words(
    """
    Array ReadonlyArray Set ReadonlySet WeakSet Iterable Iterator IterableIterator AsyncIterable
    AsyncIterator AsyncIterableIterator Generator AsyncGenerator ArrayLike ReadableStream
    """
)
_MAPPINGS = words("Map ReadonlyMap WeakMap Record")
_REFERENCES = words("RefObject MutableRefObject Ref ForwardedRef LegacyRef")
_NOTHING = words("Function Object String Number Boolean Symbol Date RegExp bigint")

Values = list[tuple[str, str]]


def promised(writer: Writer, node: Node | None, depth: int = 0) -> Values:
    """What a type says of a name, as (suffix, path): ("[]", "Store()") of `Store[]`."""
    if node is None or depth > _MAX_DEPTH:
        return []
    kind = node.type
    if kind in _READERS:
        return list(_READERS[kind](writer, node, depth + 1))
    if kind in _PARTS:
        return [each for part in node.named_children for each in promised(writer, part, depth + 1)]
    return []


def under(prefix: str, values: Values) -> Values:
    """The values beneath a suffix."""
    return [(prefix + suffix, value) for suffix, value in values if value]


def _named(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    del depth
    name = "".join(writer.text(node).split())
    if len(name) < 100 and name not in _NOTHING:
        yield "", f"{name}()"


def _generic(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    named, given = node.child_by_field_name("name"), node.child_by_field_name("type_arguments")
    if named is None:
        return
    name, arguments = writer.text(named), given.named_children if given is not None else []
    arguments = [each for each in arguments if each.type != "comment"]
    if not arguments:
        yield from _named(writer, named, depth)
    elif name in _WRAPPERS:
        yield from promised(writer, arguments[0], depth)
    elif name in _HOLDERS:
        yield "", f"{name}()"
        yield from under("[]", promised(writer, arguments[0], depth))
    elif name in _MAPPINGS:
        held = promised(writer, arguments[-1], depth)
        yield "", f"{name}()"
        yield from under("[]", held)
        if name != "Record":
            yield from under("[][0]", promised(writer, arguments[0], depth))
            yield from under("[][1]", held)
    elif name in _REFERENCES:
        yield from under(".current", promised(writer, arguments[0], depth))
    elif name in ("ReturnType", "InstanceType"):
        yield from ((suffix, f"{value}()") for suffix, value in promised(writer, arguments[0], depth))
    else:
        yield from _named(writer, named, depth)


def _array(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    yield "", "Array()"
    yield from under("[]", promised(writer, _first(node), depth))


def _tuple(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    yield "", "Array()"
    for place, each in enumerate(node.named_children[:20]):
        rest = each.type == "rest_type"
        yield from under("" if rest else f"[{place}]", promised(writer, each, depth))


def _function(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    yield from under("()", promised(writer, node.child_by_field_name("return_type"), depth))
    yield from parameters(writer, node, depth)


def parameters(writer: Writer, node: Node, depth: int = 0) -> Iterator[tuple[str, str]]:
    """What a function gives to functions that it is given: (".@0.@1", "Store()")."""
    listed = node.child_by_field_name("parameters")
    given = [each for each in listed.named_children if each.type in _PARAMETERS] if listed is not None else []
    given = [each for each in given if not _is_this(each)]
    for place, each in enumerate(given[:MAX_PARAMETERS]):
        yield from under(f".@{place}", promised(writer, each.child_by_field_name("type"), depth))


def _is_this(parameter: Node) -> bool:
    pattern = parameter.child_by_field_name("pattern")
    return pattern is not None and pattern.type == "this"


def _constructor(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    made = promised(writer, node.child_by_field_name("type"), depth)
    yield from ((suffix, value.removesuffix("()")) for suffix, value in made if not suffix)


def _query(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    del depth
    path = writer.path(_first(node))
    if path:
        yield "", path


def _lookup(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    """`Store["rows"]`, `Stores[number]`."""
    parts = node.named_children
    key = writer.text(parts[-1]).strip("\"'`") if len(parts) > 1 else ""
    step = "[]" if key == "number" else f".{key}" if key.isidentifier() else ""
    for suffix, value in promised(writer, parts[0], depth) if step else ():
        if suffix.startswith(step):
            yield suffix[len(step) :], value
        elif not suffix:
            yield "", value + step


def _object(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    for each in node.named_children[:60]:
        named = each.child_by_field_name("name")
        key = writer.text(named).strip("\"'`") if named is not None else ""
        if not key.isidentifier():
            continue
        if each.type == "property_signature":
            declared = each.child_by_field_name("type")
            yield from under(f".{key}", promised(writer, declared, depth))
        elif each.type == "method_signature":
            result = each.child_by_field_name("return_type")
            yield from under(f".{key}()", promised(writer, result, depth))


def _choice(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    for part in ("consequence", "alternative"):
        yield from promised(writer, node.child_by_field_name(part), depth)


def _own(writer: Writer, node: Node, depth: int) -> Iterator[tuple[str, str]]:
    del writer, node, depth
    yield "", "@self"


def _first(node: Node) -> Node | None:
    return next((each for each in node.named_children if each.type != "comment"), None)


_PARTS = words(
    """
    type_annotation union_type intersection_type parenthesized_type readonly_type optional_type
    rest_type flow_maybe_type constraint default_type asserts opting_type_annotation
    omitting_type_annotation adding_type_annotation
    """
)
_READERS: dict[str, Callable[[Writer, Node, int], Iterator[tuple[str, str]]]] = {
    "type_identifier": _named,
    "nested_type_identifier": _named,
    "generic_type": _generic,
    "array_type": _array,
    "tuple_type": _tuple,
    "function_type": _function,
    "constructor_type": _constructor,
    "type_query": _query,
    "lookup_type": _lookup,
    "object_type": _object,
    "conditional_type": _choice,
    "this_type": _own,
}
