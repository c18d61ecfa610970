"""What Python's expressions hold: parts of literals, and what calls of the language hand on."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter
from knowledge_pipeline.code_graph.languages.python.types import values_of_annotation
from knowledge_pipeline.code_graph.languages.words import split_words

_MAX_PARTS = 100

# Calls that hand on their first argument, or what it holds.
_PASS_THROUGH_CALLS = split_words(
    """
    list tuple set frozenset sorted reversed iter aiter deque collections.deque copy.copy
    copy.deepcopy copy deepcopy partial functools.partial dataclasses.replace replace asyncio.run
    asyncio.create_task asyncio.ensure_future asyncio.wait_for asyncio.shield cached lru_cache
    functools.wraps inspect.unwrap weakref.proxy types.MappingProxyType MappingProxyType dict
    staticmethod classmethod filterfalse
    """
)
_ELEMENT_CALLS = frozenset({"next", "anext", "max", "min", "random.choice"})
_SECOND_ARGUMENT_CALLS = frozenset({"filter"})
_CAST_CALLS = frozenset({"cast", "typing.cast", "t.cast"})
_FIELD_CALLS = frozenset({"field", "dataclasses.field", "Field", "attr.ib", "attrs.field", "attrib"})


def _list_arguments(node: Node) -> list[Node]:
    """Positional arguments of a call; of `f(x for x in y)`, the generator."""
    given = node.child_by_field_name("arguments")
    if given is None:
        return []
    if given.type != "argument_list":
        return [given]
    return [each for each in given.named_children if each.type not in ("keyword_argument", "comment")]


def _find_keyword_argument(writer: PathWriter, node: Node, name: str) -> Node | None:
    given = node.child_by_field_name("arguments")
    for each in given.named_children if given is not None else ():
        key = each.child_by_field_name("name") if each.type == "keyword_argument" else None
        if key is not None and writer.text(key) == name:
            return each.child_by_field_name("value")
    return None


def rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`getattr(x, "y")` as `x.y`, `cast(T, x)` as `T()`, `next(x)` as `x[]`; None for other calls."""
    called = node.child_by_field_name("function")
    name = writer.text(called) if called is not None and called.end_byte - called.start_byte < 40 else ""
    if name in _PASS_THROUGH_CALLS and (given := _list_arguments(node)):
        return writer.path(given[0])
    if name in _ELEMENT_CALLS and (given := _list_arguments(node)):
        path = writer.path(given[0])
        return path and f"{path}[]"
    if name == "getattr" and len(given := _list_arguments(node)) >= 2:
        path, attribute = writer.path(given[0]), writer.text(given[1])[1:-1]
        return f"{path}.{attribute}" if path and attribute.isidentifier() else None
    if name in _CAST_CALLS and (given := _list_arguments(node)):
        return next(
            (value for suffix, value in values_of_annotation(writer.text(given[0])) if not suffix), None
        )
    return None


def _call_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    called = node.child_by_field_name("function")
    if called is None or called.end_byte - called.start_byte > 60:
        return
    name, given = writer.text(called), _list_arguments(node)
    if name in _PASS_THROUGH_CALLS and given:
        yield from writer.values(given[0])
    elif name in _ELEMENT_CALLS and given:
        yield from _iterated_values(writer, given[0])
    elif name in _SECOND_ARGUMENT_CALLS and len(given) > 1:
        yield from writer.values(given[1])
    elif name in _CAST_CALLS and given:
        yield from values_of_annotation(writer.text(given[0]))
    elif name == "enumerate" and given:
        yield from (("[][1]" + suffix, value) for suffix, value in _iterated_values(writer, given[0]))
    elif name == "zip":
        for place, each in enumerate(given):
            yield from ((f"[][{place}]" + suffix, value) for suffix, value in _iterated_values(writer, each))
    elif name == "map" and given:
        yield from (("[]" + suffix, f"{value}()") for suffix, value in writer.values(given[0]) if not suffix)
    elif name.endswith("defaultdict") and given:
        yield from (("[]", f"{value}()") for suffix, value in writer.values(given[0]) if not suffix)
    elif name in _FIELD_CALLS:
        yield from _field_values(writer, node)
    elif name.endswith(".items") and not given:
        of = writer.path(called)
        if of:
            yield from (("", f"{of}()"), ("[][1]", of.removesuffix(".items") + "[]"))
    elif name.endswith((".enter_context", "closing", "nullcontext")) and given:
        yield from _context_values(writer, name, given[0])


def _field_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    factory = _find_keyword_argument(writer, node, "default_factory") or _find_keyword_argument(
        writer, node, "factory"
    )
    if factory is not None:
        yield from ((suffix, f"{value}()") for suffix, value in writer.values(factory) if not suffix)
    else:
        yield from writer.values(_find_keyword_argument(writer, node, "default"))


def _context_values(writer: PathWriter, name: str, argument: Node) -> Iterator[tuple[str, str]]:
    for suffix, value in writer.values(argument):
        if name.endswith(".enter_context"):
            yield suffix, f"{value}.__enter__()"
        else:
            yield ".__enter__()" + suffix, value


def _iterated_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    """What an expression gives when it is iterated."""
    return element_values(writer.values(node))


def element_values(values: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What is held by values: from under `[]`, else by indexing the value."""
    for suffix, value in values:
        if suffix.startswith("["):
            yield suffix[suffix.index("]") + 1 :], value
        elif not suffix:
            yield "", f"{value}[]"


def place_values(values: list[tuple[str, str]], position: int) -> Iterator[tuple[str, str]]:
    """What is held by values in one place of a tuple."""
    for suffix, value in values:
        if suffix.startswith(("[]", f"[{position}]")):
            yield suffix[suffix.index("]") + 1 :], value
        elif not suffix:
            yield "", f"{value}[{position}]"


def _list_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    for each in node.named_children[:_MAX_PARTS]:
        if each.type == "list_splat":
            yield from (
                ("[]" + suffix, value) for suffix, value in _iterated_values(writer, each.named_children[0])
            )
        else:
            yield from (("[]" + suffix, value) for suffix, value in writer.values(each))


def _tuple_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    parts = node.named_children[:_MAX_PARTS]
    if any(each.type == "list_splat" for each in parts):
        yield from _list_values(writer, node)
        return
    for place, each in enumerate(parts):
        yield from ((f"[{place}]" + suffix, value) for suffix, value in writer.values(each))


def _dictionary_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    for each in node.named_children[:_MAX_PARTS]:
        if each.type == "pair":
            held = writer.values(each.child_by_field_name("value"))
            yield from (("[]" + suffix, value) for suffix, value in held)
        elif each.type == "dictionary_splat":
            yield from writer.values(each.named_children[0])


def _comprehension_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    body = node.child_by_field_name("body")
    if body is not None and body.type == "pair":
        body = body.child_by_field_name("value")
    yield from (("[]" + suffix, value) for suffix, value in writer.values(body))


def _lambda_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    body = node.child_by_field_name("body")
    yield from (("()" + suffix, value) for suffix, value in writer.values(body))


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier"}),
    members={"attribute": ("object", "attribute")},
    calls={"call": ("function",)},
    indexes={"subscript": ("value", "subscript")},
    transparent={"parenthesized_expression": 0, "await": 0, "named_expression": "value", "as_pattern": 0},
    choices={"conditional_expression": (0, 2), "boolean_operator": ("left", "right")},
    contents={
        "call": _call_values,
        "list": _list_values,
        "set": _list_values,
        "tuple": _tuple_values,
        "expression_list": _tuple_values,
        "dictionary": _dictionary_values,
        "list_comprehension": _comprehension_values,
        "set_comprehension": _comprehension_values,
        "generator_expression": _comprehension_values,
        "dictionary_comprehension": _comprehension_values,
        "lambda": _lambda_values,
    },
    rewrite_call=rewrite_call,
)
