"""What Python's expressions hold: parts of literals, and what calls of the language hand on."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter
from knowledge_pipeline.code_graph.languages.python.types import values_of_annotation
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Value, add_prefix, iterated_values, own_value, tuple_values
from knowledge_pipeline.syntax.nodes import children_of, part_of

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
    given = part_of(node, "arguments")
    if given is None:
        return []
    if given.type != "argument_list":
        return [given]
    return [each for each in given.named_children if each.type not in ("keyword_argument", "comment")]


def _find_keyword_argument(writer: PathWriter, node: Node, name: str) -> Node | None:
    for each in children_of(part_of(node, "arguments")):
        if each.type == "keyword_argument" and writer.text(part_of(each, "name")) == name:
            return part_of(each, "value")
    return None


def rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`getattr(x, "y")` as `x.y`, `cast(T, x)` as `T()`, `next(x)` as `x[]`; None for other calls."""
    name, given = writer.short_text(part_of(node, "function"), 40), _list_arguments(node)
    if name in _PASS_THROUGH_CALLS and given:
        return writer.path(given[0])
    if name in _ELEMENT_CALLS and given:
        path = writer.path(given[0])
        return path and f"{path}[]"
    if name == "getattr" and len(given) >= 2:
        path, attribute = writer.path(given[0]), writer.text(given[1])[1:-1]
        return f"{path}.{attribute}" if path and attribute.isidentifier() else None
    if name in _CAST_CALLS and given:
        return own_value(values_of_annotation(writer.text(given[0])))
    return None


def _call_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    called = part_of(node, "function")
    name, given = writer.short_text(called, 61), _list_arguments(node)
    if name in _PASS_THROUGH_CALLS and given:
        yield from writer.values(given[0])
    elif name in _ELEMENT_CALLS and given:
        yield from iterated_values(writer.values(given[0]))
    elif name in _SECOND_ARGUMENT_CALLS and len(given) > 1:
        yield from writer.values(given[1])
    elif name in _CAST_CALLS and given:
        yield from values_of_annotation(writer.text(given[0]))
    elif name == "enumerate" and given:
        yield from add_prefix("[][1]", iterated_values(writer.values(given[0])))
    elif name == "zip":
        for place, each in enumerate(given):
            yield from add_prefix(f"[][{place}]", iterated_values(writer.values(each)))
    elif name == "map" and given:
        yield from (("[]" + suffix, f"{value}()") for suffix, value in writer.values(given[0]) if not suffix)
    elif name.endswith("defaultdict") and given:
        yield from (("[]", f"{value}()") for suffix, value in writer.values(given[0]) if not suffix)
    elif name in _FIELD_CALLS:
        factories = (_find_keyword_argument(writer, node, name) for name in ("default_factory", "factory"))
        factory = next((each for each in factories if each is not None), None)
        if factory is not None:
            yield from ((suffix, f"{value}()") for suffix, value in writer.values(factory) if not suffix)
        else:
            yield from writer.values(_find_keyword_argument(writer, node, "default"))
    elif name.endswith(".items") and not given:
        of = writer.path(called)
        if of:
            yield from (("", f"{of}()"), ("[][1]", of.removesuffix(".items") + "[]"))
    elif name.endswith((".enter_context", "closing", "nullcontext")) and given:
        for suffix, value in writer.values(given[0]):
            if name.endswith(".enter_context"):
                yield suffix, f"{value}.__enter__()"
            else:
                yield ".__enter__()" + suffix, value


def _list_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    for each in node.named_children[:_MAX_PARTS]:
        if each.type == "list_splat":
            yield from add_prefix("[]", iterated_values(writer.values(each.named_children[0])))
        else:
            yield from add_prefix("[]", writer.values(each))


def _tuple_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    parts = node.named_children[:_MAX_PARTS]
    if any(each.type == "list_splat" for each in parts):
        yield from _list_values(writer, node)
        return
    yield from tuple_values(map(writer.values, parts))


def _dictionary_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    for each in node.named_children[:_MAX_PARTS]:
        if each.type == "pair":
            yield from add_prefix("[]", writer.values(part_of(each, "value")))
        elif each.type == "dictionary_splat":
            yield from writer.values(each.named_children[0])


def _comprehension_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    body = part_of(node, "body")
    if body is not None and body.type == "pair":
        body = part_of(body, "value")
    yield from add_prefix("[]", writer.values(body))


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier"}), members={"attribute": ("object", "attribute")},
    calls={"call": ("function",)}, indexes={"subscript": ("value", "subscript")},
    transparent={"parenthesized_expression": 0, "await": 0, "named_expression": "value", "as_pattern": 0},
    choices={"conditional_expression": (0, 2), "boolean_operator": ("left", "right")},
    contents={
        "call": _call_values, "list": _list_values, "set": _list_values, "tuple": _tuple_values,
        "expression_list": _tuple_values, "dictionary": _dictionary_values,
        "list_comprehension": _comprehension_values, "set_comprehension": _comprehension_values,
        "generator_expression": _comprehension_values, "dictionary_comprehension": _comprehension_values,
        "lambda": lambda writer, node: add_prefix("()", writer.values(part_of(node, "body"))),
    },
    rewrite_call=rewrite_call,
)  # fmt: skip
