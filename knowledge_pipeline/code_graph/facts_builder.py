"""What is read of one file, gathered: uses, bindings, imports and definitions become its facts."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tree_sitter import Node

from knowledge_pipeline.code_graph import facts as told
from knowledge_pipeline.code_graph.access_paths import head_of, last_of, parent_of
from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer
from knowledge_pipeline.syntax.grammars import Syntax
from knowledge_pipeline.syntax.outline import TYPES, Definition, Outline

VARIABLES = frozenset({"constant", "global"})
_KINDS: Mapping[str, told.SymbolKind] = {
    **dict.fromkeys(TYPES, "class"),
    "interface": "interface",
    "trait": "interface",
    "function": "function",
    "macro": "function",
    "method": "method",
    "property": "method",
    "module": "module",
    "constant": "variable",
    "type": "type",
}

_LINE_END = re.compile("\n")

Captures = Mapping[str, list[Node]]
"""What the queries found, by capture."""

Handler = Callable[["Reading", Node], None]
"""Reads one captured node."""


@dataclass(frozen=True)
class Extraction:
    """How a language's files are read: its expressions, and what to do with captures of its own."""

    expressions: Expressions
    handlers: Mapping[str, Handler]  # by capture
    builtins: frozenset[str] = frozenset()  # names that no file defines; not facts unless one does
    hides_siblings: bool = False  # names of other files are seen without import: keep all that hide one
    qualified: Callable[[Definition], str] | None = None  # a definition's name, where `symbol` will not do
    kind: Callable[[Definition], told.SymbolKind | None] | None = None  # a definition's, where it is special
    parts: frozenset[str] = frozenset()  # kinds of the outline that only add to types: Rust's "impl"
    private: Callable[[Reading, Node, str], bool] | None = None  # whether others cannot name it
    named: Callable[[Definition, str], str] | None = None  # the same, by the name of what is around it
    finish: Callable[[Reading, Captures], None] | None = None  # after all captures

    @classmethod
    def of_definitions(cls) -> Extraction:
        """That of a language of which nothing but definitions is read."""
        return cls(Expressions(frozenset(), {}, {}, {}), {})


_Use = tuple[told.UseKind, str, str, int]


class Reading:
    """One file while it is read."""

    def __init__(self, path: str, syntax: Syntax, outline: Outline, extraction: Extraction) -> None:
        self.path = path
        self.syntax = syntax
        self.outline = outline
        self.extraction = extraction
        self.writer = Writer(syntax, extraction.expressions)
        self.module = ""
        self.settings: dict[str, str] = {}
        self.imports: list[told.Import] = []
        self._definitions: dict[tuple[str, int], told.Definition] = {}
        self.skipped: set[int] = set()  # bytes at which names start that refer to nothing
        self.locals: set[tuple[str, str]] = set()  # variables of functions: naming one refers to nothing
        self.elsewhere: dict[tuple[str, str], str] = {}  # a scope's name is one of another scope
        self._bindings: dict[tuple[str, str, str], bool] = {}
        self._uses: dict[_Use, None] = {}
        self._line_ends = [found.start() for found in _LINE_END.finditer(syntax.text)]
        self._names = _named(outline, extraction)
        self._hidden: set[str] = set()  # what others cannot name
        self.notes: dict[str, Any] = {}  # what the handlers of a language keep for each other
        self.writer.defined = {
            (each.node.start_byte, each.node.end_byte): self._names[id(each)] for each in outline.definitions
        }
        self.types = {
            self._names[id(each)]
            for each in outline.definitions
            if each.kind in TYPES and each.kind not in extraction.parts
        }
        self._starts, self._scopes = _spans(outline, self._names)
        for each in outline.definitions:
            self._define(each)

    def scope(self, node: Node) -> str:
        """The qualified name of the definition around a node; "" in none."""
        return self._scopes[bisect_right(self._starts, self.syntax.start(node)) - 1]

    def name(self, definition: Definition) -> str:
        """The qualified name of a definition."""
        return self._names[id(definition)]

    def text(self, node: Node) -> str:
        """A node's text."""
        return self.syntax.slice(node)

    def bind(self, scope: str, path: str | None, value: str, *, declared: bool = False) -> None:
        """Note what a path stands for within a scope."""
        if path and value != path:
            key = (scope, path, value)
            self._bindings[key] = declared or self._bindings.get(key, False)

    def bind_values(self, scope: str, path: str | None, node: Node | None) -> None:
        """Note what an expression gives a path; that it has a value, where none can be told."""
        if path is None:
            return
        values = self.writer.values(node)
        for suffix, value in values:
            self.bind(scope, path + suffix, value)
        if not values or values[0][0]:
            self.bind(scope, path, "")

    def use(self, kind: told.UseKind, path: str | None, node: Node, scope: str | None = None) -> None:
        """Note that something is called, named or extended where a node starts."""
        if path:
            at = self.scope(node) if scope is None else scope
            self._uses[kind, path, at, node.start_point.row + 1] = None

    def define(self, name: str, kind: told.SymbolKind, node: Node) -> None:
        """Note a definition that the outline leaves out, as a variable of a module."""
        first, last = node.start_point.row + 1, node.end_point.row + 1
        signature = " ".join(self.text(node)[:200].split())[:120]
        definition = told.Definition(name, kind, first, last, signature, self._is_exported(name, node))
        self._definitions.setdefault((name, first), definition)

    def skip(self, node: Node) -> None:
        """A name that is not referred to where it stands: it is given a value there."""
        self.skipped.add(node.start_byte)

    def facts(self) -> told.Facts:
        """What was read; hints that can hide nothing, and uses of what the language has, left out."""
        known = self._known()
        unknown = {
            (scope, path) for scope, path, value in self._bindings if not value and head_of(path) == path
        }
        silent = unknown - {(scope, head_of(name)) for scope, name, value in self._bindings if value}
        defined = ((parent_of(each.name), last_of(each.name)) for each in self._definitions.values())
        silent.difference_update(defined)
        bindings = (told.Binding(*key, declared) for key, declared in self._bindings.items())
        everything = self.extraction.hides_siblings or any(each.name == "*" for each in self.imports)
        hiding = {place for place in silent if everything or place[1] in known}
        bindings = tuple(
            self._moved(each) for each in bindings if each.value or (each.scope, each.path) in hiding
        )
        silent |= self.locals
        uses = (told.Use(*each) for each in self._uses if not self._says_nothing(each, silent, known))
        return told.Facts(
            self.path, self.syntax.language, self.module, tuple(self._definitions.values()),
            tuple(sorted(self.imports, key=lambda each: each.line)), bindings, tuple(uses), self.settings,
        )  # fmt: skip

    def _moved(self, each: told.Binding) -> told.Binding:
        """The binding in the scope that its name is declared to be of."""
        scope = self.elsewhere.get((each.scope, head_of(each.path))) if self.elsewhere else None
        return each if scope is None else told.Binding(scope, each.path, each.value, each.declared)

    def _says_nothing(self, use: _Use, silent: set[tuple[str, str]], known: set[str]) -> bool:
        kind, path, scope, _ = use
        if kind == "references" and (scope, path) in silent:
            return True
        return path in self.extraction.builtins and path not in known and kind in ("calls", "references")

    def _known(self) -> set[str]:
        """Names that mean something somewhere in the file."""
        found = {each.name.rpartition(".")[2] for each in self._definitions.values()}
        found.update(each.local for each in self.imports)
        found.update(head_of(path) for _, path, value in self._bindings if value)
        return found

    def _define(self, each: Definition) -> None:
        if not self.name(each) or each.kind in self.extraction.parts:  # what all names are in, or adds to
            return
        first = bisect_left(self._line_ends, each.start_char) + 1
        last = max(first, bisect_left(self._line_ends, each.end_char - 1) + 1)
        signature = self.outline.signature(each)
        special = self.extraction.kind(each) if self.extraction.kind is not None else None
        kind = special or _KINDS.get(each.kind, "variable")
        exported = self._is_exported(self.name(each), each.node)
        definition = told.Definition(self.name(each), kind, first, last, signature, exported)
        self._definitions.setdefault((definition.name, first), definition)

    def _is_exported(self, name: str, node: Node) -> bool:
        """Whether others can name a definition, and what it is in."""
        private = self.extraction.private
        if private is None or (parent_of(name) not in self._hidden and not private(self, node, name)):
            return True
        self._hidden.add(name)
        return False


def _named(outline: Outline, extraction: Extraction) -> dict[int, str]:
    """The qualified names of definitions, outer ones before those within."""
    if extraction.named is None:
        return {id(each): (extraction.qualified or _symbol)(each) for each in outline.definitions}
    names: dict[int, str] = {}
    for each in outline.definitions:
        names[id(each)] = extraction.named(each, names[id(each.parent)] if each.parent is not None else "")
    return names


def _symbol(definition: Definition) -> str:
    return definition.symbol


def _spans(outline: Outline, names: dict[int, str]) -> tuple[list[int], list[str]]:
    """Characters from which on one scope holds, and those scopes."""
    starts, scopes = [0], [""]
    for position, name in _changes(outline, names):
        if starts[-1] == position:
            scopes[-1] = name
        else:
            starts.append(position)
            scopes.append(name)
    return starts, scopes


def _changes(outline: Outline, names: dict[int, str]) -> Iterator[tuple[int, str]]:
    around: list[Definition] = []
    for each in outline.definitions:
        if each.kind in VARIABLES:
            continue
        while around and around[-1].end_char <= each.start_char:
            yield from _left(around, names)
        yield each.start_char, names[id(each)]
        around.append(each)
    while around:
        yield from _left(around, names)


def _left(around: list[Definition], names: dict[int, str]) -> Iterator[tuple[int, str]]:
    ended = around.pop()
    yield ended.end_char, names[id(around[-1])] if around else ""
