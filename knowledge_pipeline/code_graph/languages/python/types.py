"""Python's annotations as the values that they promise: `list[Store]` holds `Store()`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Value, Values, add_prefix

_TOKEN = re.compile(r"""[^\W\d][\w.]*|\.\.\.|[\[\],|]|(?:"[^"\n]*"|'[^'\n]*')""")
_MAX_TOKENS = 200
_MAX_DEPTH = 8

_WRAPPERS = split_words(
    """
    Optional Union Annotated Final ClassVar Required NotRequired ReadOnly InitVar Awaitable Unpack
    Mapped
    """
)
_LAST_ARGUMENT_TYPES = frozenset({"Coroutine"})
_COLLECTIONS = split_words(
    """
    list List set Set frozenset FrozenSet deque Deque Sequence MutableSequence Iterable Iterator
    Collection Container AbstractSet MutableSet Generator AsyncIterator AsyncIterable AsyncGenerator
    Reversible KeysView ValuesView
    """
)
_MAPPINGS = split_words(
    """
    dict Dict Mapping MutableMapping DefaultDict defaultdict OrderedDict ChainMap WeakValueDictionary
    WeakKeyDictionary
    """
)
_TUPLES = frozenset({"tuple", "Tuple"})
_TYPE_OBJECTS = frozenset({"type", "Type"})
_CONTEXTS = frozenset({"ContextManager", "AbstractContextManager"})
_ASYNC_CONTEXTS = frozenset({"AsyncContextManager", "AbstractAsyncContextManager"})
_SELF_TYPES = frozenset({"Self"})
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
    arguments = [list(each) for each in _parse_arguments(tokens, depth)]
    if name != "[":
        yield from _type_values(name.rpartition(".")[2], name, arguments)


def _parse_arguments(tokens: _TokenReader, depth: int) -> Iterator[Values]:
    if not tokens.next_is("[") or depth >= _MAX_DEPTH:
        return
    tokens.take()
    while tokens.remaining and not tokens.next_is("]"):
        if tokens.next_is("["):  # the parameters of a Callable
            yield [part for each in _parse_arguments(tokens, depth + 1) for part in each]
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
    if last in _SELF_TYPES:
        yield "", "@self"
    elif not arguments:
        yield "", f"{name}()"
    elif last in _WRAPPERS:
        kept = arguments[:1] if last == "Annotated" else arguments
        yield from (value for argument in kept for value in argument)
    elif last in _LAST_ARGUMENT_TYPES:
        yield from arguments[-1]
    else:
        yield from _container_values(last, name, arguments)


def _container_values(last: str, name: str, arguments: list[Values]) -> Iterator[Value]:
    if last in _TUPLES:
        endless = arguments[1:2] == [[("...", "")]]
        for place, argument in enumerate(arguments[:1] if endless else arguments):
            yield from add_prefix("[]" if endless else f"[{place}]", argument)
        yield "", f"{name}()"
    elif last in _COLLECTIONS:
        yield "", f"{name}()"
        yield from add_prefix("[]", arguments[0])
    elif last in _MAPPINGS:
        yield "", f"{name}()"
        yield from add_prefix("[]", arguments[-1])
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
