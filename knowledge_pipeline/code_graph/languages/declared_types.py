"""Declarations with types: what a name that they declare stands for.

`List<Store> rows` says that `rows` is a `List()`, and that what it holds, `rows[]`, is a `Store()`.
Of several type arguments the last is taken for what is held: it is what `Map.get`, `Function.apply`
and `Future.get` give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import first_segment
from knowledge_pipeline.code_graph.expression_paths import PathWriter, part_of
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder

Values = list[tuple[str, str]]
_MAX_DEPTH = 6


@dataclass(frozen=True)
class TypeSyntax:
    """What the nodes of a language's types are. Parts are fields, or indices of named children."""

    generic: Mapping[str, str]  # node: the type of the node with its arguments
    arrays: Mapping[str, str | int]  # node: its elements' type
    transparent: Mapping[str, str | int] = field(
        default_factory=dict[str, "str | int"]
    )  # node: the type within
    functions: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])  # node: its result
    ignored: frozenset[str] = frozenset()  # names that say nothing: "var"
    read_special: Callable[[PathWriter, Node, int], Values | None] | None = None  # for what tables cannot say


def values_of_type(types: TypeSyntax, writer: PathWriter, node: Node | None, depth: int = 0) -> Values:
    """What a type says of a name, as (suffix, path): ("[]", "Store()") of `List<Store>`."""
    if node is None or depth > _MAX_DEPTH:
        return []
    if types.read_special is not None and (found := types.read_special(writer, node, depth)) is not None:
        return found
    kind = node.type
    for table, prefix in ((types.transparent, ""), (types.arrays, "[]"), (types.functions, "()")):
        if kind in table:
            return add_prefix(prefix, values_of_type(types, writer, part_of(node, table[kind]), depth + 1))
    path = writer.path(node)
    found = [("", f"{path}()")] if path and path not in types.ignored else []
    if kind in types.generic:
        held = next((each for each in node.named_children if each.type == types.generic[kind]), None)
        arguments = held.named_children if held is not None else []
        if arguments:
            found += add_prefix("[]", values_of_type(types, writer, arguments[-1], depth + 1))
    return found


def add_prefix(prefix: str, values: Values) -> Values:
    """The values beneath a suffix."""
    return [(prefix + suffix, value) for suffix, value in values]


def element_values(values: Values) -> Values:
    """What values give that are iterated over."""
    return [
        (suffix.removeprefix("[]"), value) if suffix else ("", f"{value}[]")
        for suffix, value in values
        if not suffix or suffix.startswith("[]")
    ]


def bind_declared(
    builder: FactsBuilder, scope: str, path: str | None, values: Values, *, local: bool = True
) -> None:
    """Bind a path to what its type promises; hide what has its name where that is nothing."""
    if not path:
        return
    for suffix, value in values:
        known = f"@around.{value}" if first_segment(value) == path else value
        builder.bind(scope, path + suffix, known, declared=True)
    _bind_unknown(builder, scope, path, values, local=local)


def bind_observed(
    builder: FactsBuilder, scope: str, path: str | None, values: Values, *, local: bool = True
) -> None:
    """Bind a path to values that it is seen to have."""
    if not path:
        return
    for suffix, value in values:
        builder.bind(scope, path + suffix, value)
    _bind_unknown(builder, scope, path, values, local=local)


def _bind_unknown(builder: FactsBuilder, scope: str, path: str, values: Values, *, local: bool) -> None:
    if not any(not suffix for suffix, _ in values):
        builder.bind(scope, path, "")
    if local:
        builder.local_variables.add((scope, path))


def children_of_type(node: Node | None, *kinds: str) -> Iterator[Node]:
    """The named children of some types."""
    for each in node.named_children if node is not None else ():
        if each.type in kinds:
            yield each


def dotted_text(writer: PathWriter, node: Node) -> str | None:
    """A dotted name as it is written, without blanks; None for what is too long to be one."""
    return "".join(writer.text(node).split()) if node.end_byte - node.start_byte < 160 else None
