"""What Python's expressions and annotations hold: `[Store()]` and `list[Store]` both hold `Store()`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Value,
    Values,
    add_prefix,
    iterated_values,
    own_value,
    tuple_values,
)
from knowledge_pipeline.code_graph.facts_builder import ExpressionSyntax, PathWriter
from knowledge_pipeline.code_graph.languages.base import load_words
from knowledge_pipeline.syntax.grammars import children_of, part_of

_WORDS = load_words("python")

_TOKEN = re.compile(r"""[^\W\d][\w.]*|\.\.\.|[\[\],|]|(?:"[^"\n]*"|'[^'\n]*')""")
_MAX_TOKENS = 200
_MAX_DEPTH = 8

_WRAPPERS = _WORDS["wrappers"]
_COLLECTIONS = _WORDS["collections"]
_MAPPINGS = _WORDS["mappings"]
_TUPLES = frozenset({"tuple", "Tuple"})
_TYPE_OBJECTS = frozenset({"type", "Type"})
_CONTEXTS = frozenset({"ContextManager", "AbstractContextManager"})
_ASYNC_CONTEXTS = frozenset({"AsyncContextManager", "AbstractAsyncContextManager"})
_IGNORED_TYPES = frozenset({"None", "Any", "object", "NoReturn", "Never", "Literal", "LiteralString"})


@lru_cache(20_000)
def values_of_annotation(annotation: str) -> tuple[Value, ...]:
    """What an annotation says of a name, as (suffix, path): ("[]", "Store()") of `list[Store]`."""
    tokens = _TOKEN.findall(annotation)
    if len(tokens) > _MAX_TOKENS:
        return ()
    return tuple(dict.fromkeys(_parse_union(_TokenReader(tokens), 0)))


class _TokenReader:
    def __init__(self, tokens: list[str]) -> None:
        self.remaining = tokens[::-1]

    def next_is(self, token: str) -> bool:
        return bool(self.remaining) and self.remaining[-1] == token

    def take(self) -> str:
        return self.remaining.pop() if self.remaining else ""


def _parse_union(tokens: _TokenReader, depth: int) -> Iterator[Value]:
    """`A | B`, up to a comma, a closing bracket or the end."""
    yield from _parse_type(tokens, depth)
    while tokens.next_is("|"):
        tokens.take()
        yield from _parse_type(tokens, depth)


def _parse_type(tokens: _TokenReader, depth: int) -> Iterator[Value]:
    if not tokens.remaining or tokens.remaining[-1] in ",]|":
        return
    name = tokens.take()
    if name[0] in "\"'":
        yield from values_of_annotation(name[1:-1]) if depth < _MAX_DEPTH else ()
        return
    arguments = list(_parse_arguments(tokens, depth))
    if name != "[":
        yield from _type_values(name.rpartition(".")[2], name, arguments)


def _parse_arguments(tokens: _TokenReader, depth: int) -> Iterator[Values]:
    if not tokens.next_is("[") or depth >= _MAX_DEPTH:
        return
    tokens.take()
    while tokens.remaining and not tokens.next_is("]"):
        if tokens.next_is("["):  # the parameters of a Callable
            yield [part for argument in _parse_arguments(tokens, depth + 1) for part in argument]
        elif tokens.next_is("..."):
            tokens.take()
            yield [("...", "")]
        else:
            yield list(_parse_union(tokens, depth + 1))
        while tokens.remaining and not tokens.next_is("]") and tokens.take() != ",":
            pass
    tokens.take()


def _type_values(last: str, name: str, arguments: list[Values]) -> Iterator[Value]:
    if last in _IGNORED_TYPES:
        return
    if last == "Self":
        yield "", "@self"
    elif not arguments:
        yield "", f"{name}()"
    elif last in _WRAPPERS:
        kept = arguments[:1] if last == "Annotated" else arguments
        yield from (value for argument in kept for value in argument)
    elif last == "Coroutine":
        yield from arguments[-1]
    else:
        yield from _container_values(last, name, arguments)


def _container_values(last: str, name: str, arguments: list[Values]) -> Iterator[Value]:
    if last in _TUPLES:
        endless = arguments[1:2] == [[("...", "")]]
        for position, argument in enumerate(arguments[:1] if endless else arguments):
            yield from add_prefix("[]" if endless else f"[{position}]", argument)
        yield "", f"{name}()"
    elif last in _COLLECTIONS or last in _MAPPINGS:
        yield "", f"{name}()"
        yield from add_prefix("[]", arguments[0 if last in _COLLECTIONS else -1])
    elif last in _TYPE_OBJECTS:
        yield from ((suffix, value.removesuffix("()")) for suffix, value in arguments[0])
    elif last in _CONTEXTS:
        yield from add_prefix(".__enter__()", arguments[0])
    elif last in _ASYNC_CONTEXTS:
        yield from add_prefix(".__aenter__()", arguments[0])
    elif last == "Callable":
        yield from add_prefix("()", arguments[-1])
    else:
        yield "", f"{name}()"


_MAX_PARTS = 100

# Calls that hand on their first argument, or what it holds.
_PASS_THROUGH_CALLS = _WORDS["pass_through_calls"]
_ELEMENT_CALLS = frozenset({"next", "anext", "max", "min", "random.choice"})
_CAST_CALLS = frozenset({"cast", "typing.cast", "t.cast"})
_FIELD_CALLS = frozenset({"field", "dataclasses.field", "Field", "attr.ib", "attrs.field", "attrib"})


def _list_arguments(node: Node) -> list[Node]:
    """Positional arguments of a call; of `f(x for x in y)`, the generator."""
    arguments = part_of(node, "arguments")
    if arguments is None:
        return []
    if arguments.type != "argument_list":
        return [arguments]
    return [child for child in arguments.named_children if child.type not in ("keyword_argument", "comment")]


def _find_keyword_argument(writer: PathWriter, node: Node, name: str) -> Node | None:
    for argument in children_of(part_of(node, "arguments")):
        if argument.type == "keyword_argument" and writer.text(part_of(argument, "name")) == name:
            return part_of(argument, "value")
    return None


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`getattr(x, "y")` as `x.y`, `cast(T, x)` as `T()`, `next(x)` as `x[]`; None for other calls."""
    name, arguments = writer.short_text(part_of(node, "function"), 40), _list_arguments(node)
    if name in _PASS_THROUGH_CALLS and arguments:
        return writer.path(arguments[0])
    if name in _ELEMENT_CALLS and arguments:
        path = writer.path(arguments[0])
        return path and f"{path}[]"
    if name == "getattr" and len(arguments) >= 2:
        path, attribute = writer.path(arguments[0]), writer.text(arguments[1])[1:-1]
        return f"{path}.{attribute}" if path and attribute.isidentifier() else None
    if name in _CAST_CALLS and arguments:
        return own_value(values_of_annotation(writer.text(arguments[0])))
    return None


def _call_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    called = part_of(node, "function")
    name, arguments = writer.short_text(called, 61), _list_arguments(node)
    if name in _PASS_THROUGH_CALLS and arguments:
        yield from writer.values(arguments[0])
    elif name in _ELEMENT_CALLS and arguments:
        yield from iterated_values(writer.values(arguments[0]))
    elif name == "filter" and len(arguments) > 1:
        yield from writer.values(arguments[1])
    elif name in _CAST_CALLS and arguments:
        yield from values_of_annotation(writer.text(arguments[0]))
    elif name == "enumerate" and arguments:
        yield from add_prefix("[][1]", iterated_values(writer.values(arguments[0])))
    elif name == "zip":
        for position, argument in enumerate(arguments):
            yield from add_prefix(f"[][{position}]", iterated_values(writer.values(argument)))
    elif arguments and (name == "map" or name.endswith("defaultdict")):
        yield from (("[]", f"{value}()") for suffix, value in writer.values(arguments[0]) if not suffix)
    elif name in _FIELD_CALLS:
        factories = (_find_keyword_argument(writer, node, name) for name in ("default_factory", "factory"))
        factory = next((node for node in factories if node is not None), None)
        if factory is not None:
            yield from ((suffix, f"{value}()") for suffix, value in writer.values(factory) if not suffix)
        else:
            yield from writer.values(_find_keyword_argument(writer, node, "default"))
    elif name.endswith(".items") and not arguments:
        of = writer.path(called)
        if of:
            yield from (("", f"{of}()"), ("[][1]", of.removesuffix(".items") + "[]"))
    elif name.endswith((".enter_context", "closing", "nullcontext")) and arguments:
        for suffix, value in writer.values(arguments[0]):
            if name.endswith(".enter_context"):
                yield suffix, f"{value}.__enter__()"
            else:
                yield ".__enter__()" + suffix, value


def _list_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    for child in node.named_children[:_MAX_PARTS]:
        if child.type == "list_splat":
            yield from add_prefix("[]", iterated_values(writer.values(child.named_children[0])))
        else:
            yield from add_prefix("[]", writer.values(child))


def _tuple_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    parts = node.named_children[:_MAX_PARTS]
    if any(part.type == "list_splat" for part in parts):
        yield from _list_values(writer, node)
        return
    yield from tuple_values(map(writer.values, parts))


def _dictionary_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    for child in node.named_children[:_MAX_PARTS]:
        if child.type == "pair":
            yield from add_prefix("[]", writer.values(part_of(child, "value")))
        elif child.type == "dictionary_splat":
            yield from writer.values(child.named_children[0])


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
    rewrite_call=_rewrite_call,
)  # fmt: skip
