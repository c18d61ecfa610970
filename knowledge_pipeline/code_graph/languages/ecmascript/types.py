"""TypeScript's types as the values that they promise: `Store[]` holds `Store()`.

What `Promise<Store>` promises is written as what `await` makes of it: `Store()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import PathWriter
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Value, Values, add_prefix
from knowledge_pipeline.syntax.nodes import children_of, part_of

_MAX_DEPTH = 8
_PARAMETERS = frozenset({"required_parameter", "optional_parameter"})
MAX_PARAMETERS = 5
"""So many parameters of a function are told to what it is given to."""

_WRAPPERS = split_words(
    """
    Promise PromiseLike Awaited Partial Required Readonly NonNullable NoInfer DeepPartial Pick Omit
    Extract Exclude MaybePromise Awaitable Mutable Writable Simplify Prettify WritableDraft Draft
    Immutable ThisType
    """
)
_COLLECTIONS = split_words(
    """
    Array ReadonlyArray Set ReadonlySet WeakSet Iterable Iterator IterableIterator AsyncIterable
    AsyncIterator AsyncIterableIterator Generator AsyncGenerator ArrayLike ReadableStream
    """
)
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
        return [each for part in node.named_children for each in values_of_type(writer, part, depth + 1)]
    return []


def _named_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    del depth
    name = "".join(writer.text(node).split())
    if len(name) < 100 and name not in _IGNORED_TYPES:
        yield "", f"{name}()"


def _generic_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    named, given = part_of(node, "name"), part_of(node, "type_arguments")
    if named is None:
        return
    name, arguments = writer.text(named), children_of(given)
    arguments = [each for each in arguments if each.type != "comment"]
    if not arguments:
        yield from _named_values(writer, named, depth)
    elif name in _WRAPPERS:
        yield from values_of_type(writer, arguments[0], depth)
    elif name in _COLLECTIONS:
        yield "", f"{name}()"
        yield from add_prefix("[]", values_of_type(writer, arguments[0], depth))
    elif name in _MAPPING_TYPES:
        held = values_of_type(writer, arguments[-1], depth)
        yield "", f"{name}()"
        yield from add_prefix("[]", held)
        if name != "Record":
            yield from add_prefix("[][0]", values_of_type(writer, arguments[0], depth))
            yield from add_prefix("[][1]", held)
    elif name in _REF_TYPES:
        yield from add_prefix(".current", values_of_type(writer, arguments[0], depth))
    elif name in ("ReturnType", "InstanceType"):
        yield from ((suffix, f"{value}()") for suffix, value in values_of_type(writer, arguments[0], depth))
    else:
        yield from _named_values(writer, named, depth)


def _array_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    yield "", "Array()"
    yield from add_prefix("[]", values_of_type(writer, _first_child(node), depth))


def _tuple_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    yield "", "Array()"
    for place, each in enumerate(node.named_children[:20]):
        rest = each.type == "rest_type"
        yield from add_prefix("" if rest else f"[{place}]", values_of_type(writer, each, depth))


def _function_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    yield from add_prefix("()", values_of_type(writer, part_of(node, "return_type"), depth))
    yield from callback_parameter_values(writer, node, depth)


def callback_parameter_values(writer: PathWriter, node: Node, depth: int = 0) -> Iterator[Value]:
    """What a function gives to functions that it is given: (".@0.@1", "Store()")."""
    listed = part_of(node, "parameters")
    given = [each for each in listed.named_children if each.type in _PARAMETERS] if listed is not None else []
    patterns = [part_of(each, "pattern") for each in given]
    given = [each for each, of in zip(given, patterns, strict=True) if of is None or of.type != "this"]
    for place, each in enumerate(given[:MAX_PARAMETERS]):
        yield from add_prefix(f".@{place}", values_of_type(writer, part_of(each, "type"), depth))


def _constructor_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    made = values_of_type(writer, part_of(node, "type"), depth)
    yield from ((suffix, value.removesuffix("()")) for suffix, value in made if not suffix)


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


def _object_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    for each in node.named_children[:60]:
        named = part_of(each, "name")
        key = writer.text(named).strip("\"'`") if named is not None else ""
        if not key.isidentifier():
            continue
        if each.type == "property_signature":
            declared = part_of(each, "type")
            yield from add_prefix(f".{key}", values_of_type(writer, declared, depth))
        elif each.type == "method_signature":
            result = part_of(each, "return_type")
            yield from add_prefix(f".{key}()", values_of_type(writer, result, depth))


def _conditional_values(writer: PathWriter, node: Node, depth: int) -> Iterator[Value]:
    for part in ("consequence", "alternative"):
        yield from values_of_type(writer, part_of(node, part), depth)


def _first_child(node: Node) -> Node | None:
    return next((each for each in node.named_children if each.type != "comment"), None)


_COMPOSITE_NODES = split_words(
    """
    type_annotation union_type intersection_type parenthesized_type readonly_type optional_type
    rest_type flow_maybe_type constraint default_type asserts opting_type_annotation
    omitting_type_annotation adding_type_annotation
    """
)
_READERS: dict[str, Callable[[PathWriter, Node, int], Iterator[Value]]] = {
    "type_identifier": _named_values, "nested_type_identifier": _named_values,
    "generic_type": _generic_values, "array_type": _array_values, "tuple_type": _tuple_values,
    "function_type": _function_values, "constructor_type": _constructor_values,
    "type_query": _type_query_values, "lookup_type": _lookup_values, "object_type": _object_values,
    "conditional_type": _conditional_values, "this_type": lambda writer, node, depth: iter([("", "@self")]),
}  # fmt: skip
