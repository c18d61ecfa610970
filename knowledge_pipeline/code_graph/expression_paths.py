"""An expression as the path that facts write for it: `self.lake.index().rows`.

Every language says with a table which of its nodes are names, members, calls; what is told
of an argument by a call (`cast(T, x)`), or of the parts of a literal, its own functions say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from knowledge_pipeline.syntax.grammars import SyntaxTree

_MAX_PATH = 160
_MAX_DEPTH = 16
_DIGITS = re.compile(r"\d{1,2}")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")

ContentsReader = Callable[["PathWriter", Node], Iterable[tuple[str, str]]]
"""What an expression holds: (suffix, path), as ("[]", "Store()") for `[Store()]`."""


@dataclass(frozen=True)
class ExpressionSyntax:
    """What the nodes of a language's expressions are. Parts are fields, or indices of named children."""

    names: frozenset[str]  # leaves that stand for themselves
    members: Mapping[str, tuple[str, str]]  # node: its object, its member
    calls: Mapping[str, tuple[str | int, ...]]  # what is called; two parts: an object (if any), a method
    indexes: Mapping[str, tuple[str, str]]  # node: what is indexed, by what
    transparent: Mapping[str, str | int] = field(
        default_factory=dict[str, "str | int"]
    )  # worth what its part is
    choices: Mapping[str, tuple[str | int, ...]] = field(
        default_factory=dict[str, "tuple[str | int, ...]"]
    )  # worth what one of its parts is
    contents: Mapping[str, ContentsReader] = field(default_factory=dict[str, ContentsReader])
    path_writers: Mapping[str, Callable[[PathWriter, Node], str | None]] = field(
        default_factory=dict[str, "Callable[[PathWriter, Node], str | None]"]
    )  # paths that a function writes: `((Store) x)` as `Store()`
    rewrite_call: Callable[[PathWriter, Node], str | None] | None = None  # another path for a call
    is_call: Callable[[Node], bool] | None = None  # whether a node of `calls` is one: not Swift's `rows[0]`
    implicit_receiver: str = ""  # goes before a method that is called without an object: "@around."


class PathWriter:
    """Writes the expressions of one file; a part that many share is written once."""

    def __init__(self, syntax: SyntaxTree, expressions: ExpressionSyntax) -> None:
        self.syntax = syntax
        self.expressions = expressions
        self.definition_names: Mapping[
            tuple[int, int], str
        ] = {}  # names of definitions, by their first and last byte
        self._path_cache: dict[tuple[int, int], str | None] = {}
        self._depth = 0

    def text(self, node: Node) -> str:
        """A node's text."""
        return self.syntax.slice(node)

    def path(self, node: Node | None) -> str | None:
        """The path of an expression; None for what is no place, or too long to be followed."""
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

    def values(self, node: Node | None) -> list[tuple[str, str]]:
        """What an expression may be worth, or hold: (suffix, path); "" as suffix for itself."""
        if node is None or self._depth > _MAX_DEPTH:
            return []
        self._depth += 1
        found = self._compute_values(node)
        self._depth -= 1
        return found

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

    def _compute_values(self, node: Node) -> list[tuple[str, str]]:
        table, kind = self.expressions, node.type
        if kind in table.contents and (found := list(table.contents[kind](self, node))):
            return found
        if kind in table.choices:
            parts = (part_of(node, part) for part in table.choices[kind])
            return [value for part in parts for value in self.values(part)]
        if kind in table.transparent:
            return self.values(part_of(node, table.transparent[kind]))
        path = self.path(node)
        return [("", path)] if path else []


def part_of(node: Node, part: str | int) -> Node | None:
    """A part by its field, or by its place among the named children."""
    if isinstance(part, str):
        return node.child_by_field_name(part)
    named = node.named_children
    return named[part] if -len(named) <= part < len(named) else None


def _append_suffix(path: str | None, suffix: str) -> str | None:
    return None if path is None else path + suffix
