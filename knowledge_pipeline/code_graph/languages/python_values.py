"""What Python's expressions and annotations hold: `[Store()]` and `list[Store]` both hold `Store()`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
from knowledge_pipeline.code_graph.facts_builder import ExpressionSyntax, FactsBuilder
from knowledge_pipeline.code_graph.languages.base import load_words
from knowledge_pipeline.syntax.grammars import children_of_type, has_type, part_of

_WORDS = load_words("python")

_TOKEN = re.compile(r"""[^\W\d][\w.]*|\.\.\.|[\[\],|]|(?:"[^"\n]*"|'[^'\n]*')""")
_MAX_TOKENS = 200
_MAX_DEPTH = 8
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
    elif last in _WORDS["wrappers"]:
        kept = arguments[:1] if last == "Annotated" else arguments
        yield from (value for argument in kept for value in argument)
    elif last == "Coroutine":
        yield from arguments[-1]
    elif last in ("tuple", "Tuple"):
        endless = arguments[1:2] == [[("...", "")]]
        for position, argument in enumerate(arguments[:1] if endless else arguments):
            yield from add_prefix("[]" if endless else f"[{position}]", argument)
        yield "", f"{name}()"
    elif last in ("type", "Type"):
        yield from ((suffix, value.removesuffix("()")) for suffix, value in arguments[0])
    elif last in ("ContextManager", "AbstractContextManager"):
        yield from add_prefix(".__enter__()", arguments[0])
    elif last in ("AsyncContextManager", "AbstractAsyncContextManager"):
        yield from add_prefix(".__aenter__()", arguments[0])
    elif last == "Callable":
        yield from add_prefix("()", arguments[-1])
    else:
        yield "", f"{name}()"
        if last in _WORDS["collections"]:
            yield from add_prefix("[]", arguments[0])
        elif last in _WORDS["mappings"]:
            yield from add_prefix("[]", arguments[-1])


_MAX_PARTS = 100

# Calls that hand on their first argument, or what it holds.
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


class PythonValues(FactsBuilder):
    """Reads the expressions of Python."""

    def _find_keyword_argument(self, node: Node, *names: str) -> Node | None:
        """The value of the first argument of some names."""
        for name in names:
            for argument in children_of_type(part_of(node, "arguments"), "keyword_argument"):
                if self.text(part_of(argument, "name")) == name:
                    return part_of(argument, "value")
        return None

    def _rewrite_call(self, node: Node) -> str | None:
        """`getattr(x, "y")` as `x.y`, `cast(T, x)` as `T()`, `next(x)` as `x[]`; None for other calls."""
        name, arguments = self.short_text(part_of(node, "function"), 40), _list_arguments(node)
        if not arguments:
            return None
        if name in _CAST_CALLS:
            return own_value(values_of_annotation(self.text(arguments[0])))
        if name in _WORDS["pass_through_calls"]:
            return self.path(arguments[0])
        attribute = self.text(arguments[1])[1:-1] if name == "getattr" and len(arguments) >= 2 else ""
        path = self.path(arguments[0]) if name in _ELEMENT_CALLS or attribute.isidentifier() else None
        return path and (f"{path}.{attribute}" if attribute else f"{path}[]")

    def _call_values(self, node: Node) -> Iterator[Value]:
        called = part_of(node, "function")
        name, arguments = self.short_text(called, 61), _list_arguments(node)
        first = arguments[0] if arguments else None
        if name in _WORDS["pass_through_calls"]:
            yield from self.values(first)
        elif name in _ELEMENT_CALLS:
            yield from iterated_values(self.values(first))
        elif name == "filter":
            yield from self.values(arguments[1] if len(arguments) > 1 else None)
        elif name in _CAST_CALLS:
            yield from values_of_annotation(self.text(first))
        elif name == "enumerate":
            yield from add_prefix("[][1]", iterated_values(self.values(first)))
        elif name == "zip":
            for position, argument in enumerate(arguments):
                yield from add_prefix(f"[][{position}]", iterated_values(self.values(argument)))
        elif arguments and (name == "map" or name.endswith("defaultdict")):
            yield from (("[]", f"{value}()") for suffix, value in self.values(first) if not suffix)
        elif name in _FIELD_CALLS:
            factory = self._find_keyword_argument(node, "default_factory", "factory")
            yield from ((suffix, f"{value}()") for suffix, value in self.values(factory) if not suffix)
            if factory is None:
                yield from self.values(self._find_keyword_argument(node, "default"))
        elif name.endswith(".items") and not arguments and (of := self.path(called)):
            yield from (("", f"{of}()"), ("[][1]", of.removesuffix(".items") + "[]"))
        elif name.endswith(".enter_context"):
            yield from ((suffix, f"{value}.__enter__()") for suffix, value in self.values(first))
        elif name.endswith(("closing", "nullcontext")):
            yield from add_prefix(".__enter__()", self.values(first))

    def _list_values(self, node: Node) -> Iterator[Value]:
        for child in node.named_children[:_MAX_PARTS]:
            is_splat = child.type == "list_splat"
            values = self.values(child.named_children[0] if is_splat else child)
            yield from add_prefix("[]", iterated_values(values) if is_splat else values)

    def _tuple_values(self, node: Node) -> Iterable[Value]:
        parts = node.named_children[:_MAX_PARTS]
        is_spread = any(part.type == "list_splat" for part in parts)
        return self._list_values(node) if is_spread else tuple_values(map(self.values, parts))

    def _dictionary_values(self, node: Node) -> Iterator[Value]:
        for child in node.named_children[:_MAX_PARTS]:
            if child.type == "pair":
                yield from add_prefix("[]", self.values(part_of(child, "value")))
            elif child.type == "dictionary_splat":
                yield from self.values(child.named_children[0])

    def _comprehension_values(self, node: Node) -> Values:
        body = part_of(node, "body")
        return add_prefix("[]", self.values(part_of(body, "value") if has_type(body, "pair") else body))

    expressions = ExpressionSyntax(
        names=frozenset({"identifier"}), members={"attribute": ("object", "attribute")},
        calls={"call": ("function",)}, indexes={"subscript": ("value", "subscript")},
        transparent={"parenthesized_expression": 0, "await": 0, "named_expression": "value", "as_pattern": 0},
        choices={"conditional_expression": (0, 2), "boolean_operator": ("left", "right")},
        contents={
            "call": _call_values, "list": _list_values, "set": _list_values, "tuple": _tuple_values,
            "expression_list": _tuple_values, "dictionary": _dictionary_values,
            "list_comprehension": _comprehension_values, "set_comprehension": _comprehension_values,
            "generator_expression": _comprehension_values, "dictionary_comprehension": _comprehension_values,
            "lambda": lambda reader, node: add_prefix("()", reader.values(part_of(node, "body"))),
        },
    )  # fmt: skip
