"""What Python's expressions hold: parts of literals, and what calls of the language hand on."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer
from knowledge_pipeline.code_graph.languages.python.types import promised
from knowledge_pipeline.code_graph.languages.words import words

_MAX_PARTS = 100

# Calls that hand on their first argument, or what it holds.
_HAND_ON = words(
    """
    list tuple set frozenset sorted reversed iter aiter deque collections.deque copy.copy
    copy.deepcopy copy deepcopy partial functools.partial dataclasses.replace replace asyncio.run
    asyncio.create_task asyncio.ensure_future asyncio.wait_for asyncio.shield cached lru_cache
    functools.wraps inspect.unwrap weakref.proxy types.MappingProxyType MappingProxyType dict
    staticmethod classmethod filterfalse
    """
)
_ELEMENT = frozenset({"next", "anext", "max", "min", "random.choice"})
_SECOND = frozenset({"filter"})
_CAST = frozenset({"cast", "typing.cast", "t.cast"})
_DEFAULTS = frozenset({"field", "dataclasses.field", "Field", "attr.ib", "attrs.field", "attrib"})


def _arguments(node: Node) -> list[Node]:
    """Positional arguments of a call; of `f(x for x in y)`, the generator."""
    given = node.child_by_field_name("arguments")
    if given is None:
        return []
    if given.type != "argument_list":
        return [given]
    return [each for each in given.named_children if each.type not in ("keyword_argument", "comment")]


def _named(writer: Writer, node: Node, name: str) -> Node | None:
    given = node.child_by_field_name("arguments")
    for each in given.named_children if given is not None else ():
        key = each.child_by_field_name("name") if each.type == "keyword_argument" else None
        if key is not None and writer.text(key) == name:
            return each.child_by_field_name("value")
    return None


def rewritten(writer: Writer, node: Node) -> str | None:
    """`getattr(x, "y")` as `x.y`, `cast(T, x)` as `T()`, `next(x)` as `x[]`; None for other calls."""
    called = node.child_by_field_name("function")
    name = writer.text(called) if called is not None and called.end_byte - called.start_byte < 40 else ""
    if name in _HAND_ON and (given := _arguments(node)):
        return writer.path(given[0])
    if name in _ELEMENT and (given := _arguments(node)):
        path = writer.path(given[0])
        return path and f"{path}[]"
    if name == "getattr" and len(given := _arguments(node)) >= 2:
        path, attribute = writer.path(given[0]), writer.text(given[1])[1:-1]
        return f"{path}.{attribute}" if path and attribute.isidentifier() else None
    if name in _CAST and (given := _arguments(node)):
        return next((value for suffix, value in promised(writer.text(given[0])) if not suffix), None)
    return None


def _of_call(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    called = node.child_by_field_name("function")
    if called is None or called.end_byte - called.start_byte > 60:
        return
    name, given = writer.text(called), _arguments(node)
    if name in _HAND_ON and given:
        yield from writer.values(given[0])
    elif name in _ELEMENT and given:
        yield from _elements(writer, given[0])
    elif name in _SECOND and len(given) > 1:
        yield from writer.values(given[1])
    elif name in _CAST and given:
        yield from promised(writer.text(given[0]))
    elif name == "enumerate" and given:
        yield from (("[][1]" + suffix, value) for suffix, value in _elements(writer, given[0]))
    elif name == "zip":
        for place, each in enumerate(given):
            yield from ((f"[][{place}]" + suffix, value) for suffix, value in _elements(writer, each))
    elif name == "map" and given:
        yield from (("[]" + suffix, f"{value}()") for suffix, value in writer.values(given[0]) if not suffix)
    elif name.endswith("defaultdict") and given:
        yield from (("[]", f"{value}()") for suffix, value in writer.values(given[0]) if not suffix)
    elif name in _DEFAULTS:
        yield from _of_field(writer, node)
    elif name.endswith(".items") and not given:
        of = writer.path(called)
        if of:
            yield from (("", f"{of}()"), ("[][1]", of.removesuffix(".items") + "[]"))
    elif name.endswith((".enter_context", "closing", "nullcontext")) and given:
        yield from _of_context(writer, name, given[0])


def _of_field(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    factory = _named(writer, node, "default_factory") or _named(writer, node, "factory")
    if factory is not None:
        yield from ((suffix, f"{value}()") for suffix, value in writer.values(factory) if not suffix)
    else:
        yield from writer.values(_named(writer, node, "default"))


def _of_context(writer: Writer, name: str, given: Node) -> Iterator[tuple[str, str]]:
    for suffix, value in writer.values(given):
        if name.endswith(".enter_context"):
            yield suffix, f"{value}.__enter__()"
        else:
            yield ".__enter__()" + suffix, value


def _elements(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    """What an expression gives when it is iterated."""
    return of_elements(writer.values(node))


def of_elements(values: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What is held by values: from under `[]`, else by indexing the value."""
    for suffix, value in values:
        if suffix.startswith("["):
            yield suffix[suffix.index("]") + 1 :], value
        elif not suffix:
            yield "", f"{value}[]"


def of_place(values: list[tuple[str, str]], place: int) -> Iterator[tuple[str, str]]:
    """What is held by values in one place of a tuple."""
    for suffix, value in values:
        if suffix.startswith(("[]", f"[{place}]")):
            yield suffix[suffix.index("]") + 1 :], value
        elif not suffix:
            yield "", f"{value}[{place}]"


def _of_list(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    for each in node.named_children[:_MAX_PARTS]:
        if each.type == "list_splat":
            yield from (("[]" + suffix, value) for suffix, value in _elements(writer, each.named_children[0]))
        else:
            yield from (("[]" + suffix, value) for suffix, value in writer.values(each))


def _of_tuple(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    parts = node.named_children[:_MAX_PARTS]
    if any(each.type == "list_splat" for each in parts):
        yield from _of_list(writer, node)
        return
    for place, each in enumerate(parts):
        yield from ((f"[{place}]" + suffix, value) for suffix, value in writer.values(each))


def _of_dictionary(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    for each in node.named_children[:_MAX_PARTS]:
        if each.type == "pair":
            held = writer.values(each.child_by_field_name("value"))
            yield from (("[]" + suffix, value) for suffix, value in held)
        elif each.type == "dictionary_splat":
            yield from writer.values(each.named_children[0])


def _of_comprehension(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    body = node.child_by_field_name("body")
    if body is not None and body.type == "pair":
        body = body.child_by_field_name("value")
    yield from (("[]" + suffix, value) for suffix, value in writer.values(body))


def _of_lambda(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    body = node.child_by_field_name("body")
    yield from (("()" + suffix, value) for suffix, value in writer.values(body))


EXPRESSIONS = Expressions(
    names=frozenset({"identifier"}),
    members={"attribute": ("object", "attribute")},
    calls={"call": ("function",)},
    indexes={"subscript": ("value", "subscript")},
    same={"parenthesized_expression": 0, "await": 0, "named_expression": "value", "as_pattern": 0},
    choices={"conditional_expression": (0, 2), "boolean_operator": ("left", "right")},
    contents={
        "call": _of_call,
        "list": _of_list,
        "set": _of_list,
        "tuple": _of_tuple,
        "expression_list": _of_tuple,
        "dictionary": _of_dictionary,
        "list_comprehension": _of_comprehension,
        "set_comprehension": _of_comprehension,
        "generator_expression": _of_comprehension,
        "dictionary_comprehension": _of_comprehension,
        "lambda": _of_lambda,
    },
    rewrite=rewritten,
)
