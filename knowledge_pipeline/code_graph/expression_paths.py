"""Expressions and types as facts write them: an expression as a path, `self.lake.index().rows`.

Tables say for each language which of its nodes are names, members, calls and types. Functions of the
language read what tables cannot say: arguments, as of `cast(T, x)`, and the parts of a literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from knowledge_pipeline.code_graph.values import Value, Values, add_prefix, own_value
from knowledge_pipeline.syntax.grammars import SyntaxTree
from knowledge_pipeline.syntax.nodes import first_of_type, part_of

_MAX_PATH = 160
_MAX_DEPTH = 16
_MAX_TYPE_DEPTH = 6
_DIGITS = re.compile(r"\d{1,2}")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")

Part = str | int
"""A field of a node, or the position of one of its named children."""

PathReader = Callable[["PathWriter", Node], str | None]
"""Writes an expression as a path: `((Store) x)` as `Store()`."""

ContentsReader = Callable[["PathWriter", Node], Iterable[Value]]
"""What an expression holds: ("[]", "Store()") for `[Store()]`."""


@dataclass(frozen=True)
class TypeSyntax:
    """What the nodes of a language's types are.

    Of several type arguments the last counts as what is held: it is what `Map.get`, `Function.apply`
    and `Future.get` give.
    """

    generic: Mapping[str, str] = field(default_factory=dict[str, str])  # node: where its arguments are
    arrays: Mapping[str, Part] = field(default_factory=dict[str, Part])  # node: its elements' type
    transparent: Mapping[str, Part] = field(default_factory=dict[str, Part])  # node: the type within
    functions: Mapping[str, Part] = field(default_factory=dict[str, Part])  # node: its result
    ignored: frozenset[str] = frozenset()  # names that say nothing: "var"
    prefix: str = ""  # goes before the names of types: "@type."
    read_special: Callable[[PathWriter, Node, int], Values | None] | None = None  # what tables cannot say


@dataclass(frozen=True)
class ExpressionSyntax:
    """What the nodes of a language's expressions are."""

    names: frozenset[str]  # leaves that stand for themselves
    members: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Node: its object, its member."""
    calls: Mapping[str, tuple[Part, ...]] = field(default_factory=dict[str, tuple[Part, ...]])
    """Node: what is called; of two parts, an object (if any) and its method."""
    indexes: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Node: what is indexed, by what."""
    suffixed: Mapping[str, tuple[Part, str]] = field(default_factory=dict[str, tuple[Part, str]])
    """Node: a part, and what the node adds to its path."""
    transparent: Mapping[str, Part] = field(default_factory=dict[str, Part])
    """Node: the part that it has the value of."""
    choices: Mapping[str, tuple[Part, ...]] = field(default_factory=dict[str, tuple[Part, ...]])
    """Node: the parts of which it has the value of one."""
    casts: Mapping[str, Part] = field(default_factory=dict[str, Part])
    """Node: the type that its value has."""
    default_operator: str = ""  # of a binary_expression that gives its left side, or else its right: "??"
    contents: Mapping[str, ContentsReader] = field(default_factory=dict[str, ContentsReader])
    path_writers: Mapping[str, PathReader] = field(default_factory=dict[str, PathReader])
    rewrite_call: PathReader | None = None  # another path for a call
    is_call: Callable[[Node], bool] | None = None  # whether a node of `calls` is one: not Swift's `rows[0]`
    implicit_receiver: str = ""  # goes before a method that is called without an object: "@around."
    types: TypeSyntax = field(default_factory=TypeSyntax)


class PathWriter:
    """Writes the expressions of one file; a part that many share is written once."""

    def __init__(self, syntax: SyntaxTree, expressions: ExpressionSyntax) -> None:
        self.syntax = syntax
        self.expressions = expressions
        self.definition_names: Mapping[tuple[int, int], str] = {}  # by a definition's first and last byte
        self._path_cache: dict[tuple[int, int], str | None] = {}
        self._depth = 0

    def text(self, node: Node | None) -> str:
        """The text of a node."""
        return self.syntax.slice(node) if node is not None else ""

    def short_text(self, node: Node | None, limit: int) -> str:
        """The text of a node; nothing if it has as many bytes as the limit, or more."""
        return self.text(node) if node is not None and node.end_byte - node.start_byte < limit else ""

    def dotted_text(self, node: Node | None) -> str | None:
        """A dotted name without blanks; None for what is too long to be one."""
        return "".join(self.short_text(node, _MAX_PATH).split()) or None

    def path(self, node: Node | None) -> str | None:
        """The path of an expression; None for what is not a place, or is too long to be followed."""
        if node is None or self._depth > _MAX_DEPTH:
            return None
        if node.type in self.expressions.names:
            return self.syntax.slice(node)
        key = (node.start_byte, node.end_byte)
        if key not in self._path_cache:
            self._depth += 1
            path = self._compute_path(node)
            self._depth -= 1
            self._path_cache[key] = path if path is not None and len(path) <= _MAX_PATH else None
        return self._path_cache[key]

    def values(self, node: Node | None) -> Values:
        """The values that an expression may have, and what it holds."""
        if node is None or self._depth > _MAX_DEPTH:
            return []
        self._depth += 1
        found = self._compute_values(node)
        self._depth -= 1
        return found

    def values_of_type(self, node: Node | None, depth: int = 0) -> Values:
        """The values that a type promises: ("[]", "Store()") for `List<Store>`."""
        types = self.expressions.types
        if node is None or depth > _MAX_TYPE_DEPTH:
            return []
        found = types.read_special(self, node, depth) if types.read_special is not None else None
        if found is not None:
            return found
        kind = node.type
        for table, suffix in ((types.transparent, ""), (types.arrays, "[]"), (types.functions, "()")):
            if kind in table:
                return add_prefix(suffix, self.values_of_type(part_of(node, table[kind]), depth + 1))
        path = self.path(node)
        found = [("", f"{types.prefix}{path}()")] if path and path not in types.ignored else []
        if kind in types.generic:
            held = first_of_type(node, types.generic[kind])
            found += add_prefix("[]", self.values_of_type(part_of(held, -1), depth + 1))
        return found

    def handed_values(self, owner: Node | None, method: Node | None, callbacks: frozenset[str]) -> Values:
        """What a method of a collection hands to a function that it is given: one of the elements."""
        path = self.path(owner)
        return [("", f"{path}[]")] if path and self.text(method) in callbacks else []

    def callee(self, node: Node) -> str | None:
        """The path of what a call calls."""
        parts = [part_of(node, part) for part in self.expressions.calls[node.type]]
        if len(parts) == 1:
            return self.path(parts[0])
        owner, name = parts[0], parts[-1]
        if name is None:
            return None
        if owner is None:
            return self.expressions.implicit_receiver + self.text(name)
        return _append_suffix(self.path(owner), f".{self.text(name)}")

    def _compute_path(self, node: Node) -> str | None:
        table, kind = self.expressions, node.type
        if kind in table.path_writers:
            return table.path_writers[kind](self, node)
        if self._has_default(node):
            return self.path(part_of(node, "left"))
        if kind in table.casts:
            return own_value(self.values_of_type(part_of(node, table.casts[kind])))
        if kind in table.suffixed:
            part, suffix = table.suffixed[kind]
            return _append_suffix(self.path(part_of(node, part)), suffix)
        if kind in table.members:
            return self._member_path(node, *table.members[kind])
        if kind in table.calls:
            other = table.rewrite_call(self, node) if table.rewrite_call else None
            return other or _append_suffix(self.callee(node), "()")
        if kind in table.indexes:
            of, by = (node.child_by_field_name(part) for part in table.indexes[kind])
            key = self.text(by) if by is not None and by.end_byte - by.start_byte <= 2 else ""
            return _append_suffix(self.path(of), f"[{key}]" if _DIGITS.fullmatch(key) else "[]")
        if kind in table.transparent:
            return self.path(part_of(node, table.transparent[kind]))
        return None

    def _member_path(self, node: Node, object_field: str, member_field: str) -> str | None:
        if node.end_byte - node.start_byte <= _MAX_PATH and _DOTTED.fullmatch(text := self.text(node)):
            return text
        member = node.child_by_field_name(member_field)
        return (
            _append_suffix(self.path(node.child_by_field_name(object_field)), f".{self.text(member)}")
            if member
            else None
        )

    def _has_default(self, node: Node) -> bool:
        if not self.expressions.default_operator or node.type != "binary_expression":
            return False
        operator = part_of(node, "operator")
        return operator is not None and operator.type == self.expressions.default_operator

    def _compute_values(self, node: Node) -> Values:
        table, kind = self.expressions, node.type
        if kind in table.contents and (found := list(table.contents[kind](self, node))):
            return found
        if kind in table.casts and (found := self.values_of_type(part_of(node, table.casts[kind]))):
            return found
        choices = ("left", "right") if self._has_default(node) else table.choices.get(kind)
        if choices:
            parts = (part_of(node, part) for part in choices)
            return [value for part in parts for value in self.values(part)]
        if kind in table.transparent:
            return self.values(part_of(node, table.transparent[kind]))
        path = self.path(node)
        return [("", path)] if path else []


def _append_suffix(path: str | None, suffix: str) -> str | None:
    return None if path is None else path + suffix
