"""Declarations with types: what a name that they declare stands for.

`List<Store> rows` says that `rows` is a `List()`, and that what it holds, `rows[]`, is a `Store()`.
Of several type arguments the last is taken for what is held: it is what `Map.get`, `Function.apply`
and `Future.get` give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import head_of
from knowledge_pipeline.code_graph.expression_paths import Writer, part_of
from knowledge_pipeline.code_graph.facts_builder import Reading

Values = list[tuple[str, str]]
_MAX_DEPTH = 6


@dataclass(frozen=True)
class Types:
    """What the nodes of a language's types are. Parts are fields, or indices of named children."""

    generic: Mapping[str, str]  # node: the type of the node with its arguments
    arrays: Mapping[str, str | int]  # node: its elements' type
    same: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])  # node: the type within
    functions: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])  # node: its result
    skipped: frozenset[str] = frozenset()  # names that say nothing: "var"
    own: Callable[[Writer, Node, int], Values | None] | None = None  # for what tables cannot say


def promised(types: Types, writer: Writer, node: Node | None, depth: int = 0) -> Values:
    """What a type says of a name, as (suffix, path): ("[]", "Store()") of `List<Store>`."""
    if node is None or depth > _MAX_DEPTH:
        return []
    if types.own is not None and (found := types.own(writer, node, depth)) is not None:
        return found
    kind = node.type
    for table, prefix in ((types.same, ""), (types.arrays, "[]"), (types.functions, "()")):
        if kind in table:
            return under(prefix, promised(types, writer, part_of(node, table[kind]), depth + 1))
    path = writer.path(node)
    found = [("", f"{path}()")] if path and path not in types.skipped else []
    if kind in types.generic:
        held = next((each for each in node.named_children if each.type == types.generic[kind]), None)
        arguments = held.named_children if held is not None else []
        if arguments:
            found += under("[]", promised(types, writer, arguments[-1], depth + 1))
    return found


def under(prefix: str, values: Values) -> Values:
    """The values beneath a suffix."""
    return [(prefix + suffix, value) for suffix, value in values]


def elements(values: Values) -> Values:
    """What values give that are iterated over."""
    return [
        (suffix.removeprefix("[]"), value) if suffix else ("", f"{value}[]")
        for suffix, value in values
        if not suffix or suffix.startswith("[]")
    ]


def declare(reading: Reading, scope: str, path: str | None, values: Values, *, local: bool = True) -> None:
    """Bind a path to what its type promises; hide what has its name where that is nothing."""
    if not path:
        return
    for suffix, value in values:
        known = f"@around.{value}" if head_of(value) == path else value
        reading.bind(scope, path + suffix, known, declared=True)
    _hide(reading, scope, path, values, local=local)


def give(reading: Reading, scope: str, path: str | None, values: Values, *, local: bool = True) -> None:
    """Bind a path to values that it is seen to have."""
    if not path:
        return
    for suffix, value in values:
        reading.bind(scope, path + suffix, value)
    _hide(reading, scope, path, values, local=local)


def _hide(reading: Reading, scope: str, path: str, values: Values, *, local: bool) -> None:
    if not any(not suffix for suffix, _ in values):
        reading.bind(scope, path, "")
    if local:
        reading.locals.add((scope, path))


def children(node: Node | None, *kinds: str) -> Iterator[Node]:
    """The named children of some types."""
    for each in node.named_children if node is not None else ():
        if each.type in kinds:
            yield each


def plain_text(writer: Writer, node: Node) -> str | None:
    """A dotted name as it is written, without blanks; None for what is too long to be one."""
    return "".join(writer.text(node).split()) if node.end_byte - node.start_byte < 160 else None
