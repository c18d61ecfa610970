"""Gathers the uses, bindings, imports and definitions of one file into its facts.

Tables say for each language which of its nodes are names, members, calls and types. Functions of the
language read what tables cannot say: arguments, as of `cast(T, x)`, and the parts of a literal.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Binding,
    Definition,
    FileFacts,
    Import,
    SymbolKind,
    Use,
    UseKind,
    Value,
    Values,
    add_prefix,
    first_segment,
    last_segment,
    own_value,
    parent_scope,
)
from knowledge_pipeline.syntax.grammars import SyntaxTree, first_of_type, part_of
from knowledge_pipeline.syntax.outline import TYPE_KINDS, Outline, OutlineDefinition

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
        values = self._compute_values(node)
        self._depth -= 1
        return values

    def values_of_type(self, node: Node | None, depth: int = 0) -> Values:
        """The values that a type promises: ("[]", "Store()") for `List<Store>`."""
        types = self.expressions.types
        if node is None or depth > _MAX_TYPE_DEPTH:
            return []
        values = types.read_special(self, node, depth) if types.read_special is not None else None
        if values is not None:
            return values
        kind = node.type
        for table, suffix in ((types.transparent, ""), (types.arrays, "[]"), (types.functions, "()")):
            if kind in table:
                return add_prefix(suffix, self.values_of_type(part_of(node, table[kind]), depth + 1))
        path = self.path(node)
        values = [("", f"{types.prefix}{path}()")] if path and path not in types.ignored else []
        if kind in types.generic:
            contents = first_of_type(node, types.generic[kind])
            values += add_prefix("[]", self.values_of_type(part_of(contents, -1), depth + 1))
        return values

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
        if kind in table.contents and (values := list(table.contents[kind](self, node))):
            return values
        if kind in table.casts and (values := self.values_of_type(part_of(node, table.casts[kind]))):
            return values
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


VARIABLE_KINDS = frozenset({"constant", "global"})
_KINDS: Mapping[str, SymbolKind] = {
    **dict.fromkeys(TYPE_KINDS, "class"), "interface": "interface", "trait": "interface",
    "function": "function", "macro": "function", "method": "method", "property": "method", "module": "module",
    "constant": "variable", "type": "type",
}  # fmt: skip

_LINE_END = re.compile("\n")

Captures = Mapping[str, list[Node]]
"""What the queries found, by capture."""

Handler = Callable[["FactsBuilder", Node], None]
"""Reads one captured node."""


@dataclass(frozen=True)
class ExtractionRules:
    """How a language's files are read: its expressions, and what to do with captures of its own."""

    expressions: ExpressionSyntax
    handlers: Mapping[str, Handler]  # by capture
    builtins: frozenset[str] = frozenset()  # names that no file defines; not facts unless one does
    sees_sibling_names: bool = False  # names of other files are seen without import: keep all that hide one
    qualify: Callable[[OutlineDefinition], str] | None = None  # a definition's name, if not its `symbol`
    qualify_within: Callable[[OutlineDefinition, str], str] | None = None  # the same, by the name around it
    symbol_kind: Callable[[OutlineDefinition], SymbolKind | None] | None = None  # where it is special
    type_part_kinds: frozenset[str] = frozenset()  # kinds that only add to types: Rust's "impl"
    is_private: Callable[[FactsBuilder, Node, str], bool] | None = None  # whether others cannot name it
    finish: Callable[[FactsBuilder, Captures], None] | None = None  # after all captures

    @classmethod
    def definitions_only(cls) -> ExtractionRules:
        """The rules of a language of which nothing but definitions is read."""
        return cls(ExpressionSyntax(frozenset()), {})


_UseKey = tuple[UseKind, str, str, int]


class FactsBuilder:
    """One file while it is read."""

    def __init__(self, path: str, syntax: SyntaxTree, outline: Outline, extraction: ExtractionRules) -> None:
        self.path = path
        self.syntax = syntax
        self.outline = outline
        self.extraction = extraction
        self.writer = PathWriter(syntax, extraction.expressions)
        self.module = ""
        self.settings: dict[str, str] = {}
        self.imports: list[Import] = []
        self._definitions: dict[tuple[str, int], Definition] = {}
        self.skipped_bytes: set[int] = set()  # bytes at which names start that refer to nothing
        self.local_variables: set[tuple[str, str]] = set()  # naming one refers to nothing
        self.outer_scopes: dict[tuple[str, str], str] = {}  # a scope's name is one of another scope
        self._bindings: dict[tuple[str, str, str], bool] = {}
        self._uses: dict[_UseKey, None] = {}
        self._line_ends = [match.start() for match in _LINE_END.finditer(syntax.text)]
        self._names = _qualify_names(outline, extraction)
        self._private_names: set[str] = set()  # what others cannot name
        self.shared_state: dict[str, Any] = {}  # what the handlers of a language keep for each other
        self.writer.definition_names = {
            (definition.node.start_byte, definition.node.end_byte): self._names[id(definition)]
            for definition in outline.definitions
        }
        self.type_names = {
            self._names[id(definition)]
            for definition in outline.definitions
            if definition.kind in TYPE_KINDS and definition.kind not in extraction.type_part_kinds
        }
        self._starts, self._scopes = _build_scope_spans(outline, self._names)
        for definition in outline.definitions:
            self._add_outline_definition(definition)

    def scope(self, node: Node) -> str:
        """The qualified name of the definition around a node; "" in none."""
        return self._scopes[bisect_right(self._starts, self.syntax.start(node)) - 1]

    def name(self, definition: OutlineDefinition) -> str:
        """The qualified name of a definition."""
        return self._names[id(definition)]

    def text(self, node: Node | None) -> str:
        """The text of a node."""
        return self.writer.text(node)

    def values_of_type(self, node: Node | None) -> Values:
        """The values that a type promises."""
        return self.writer.values_of_type(node)

    def bind(self, scope: str, path: str | None, value: str, *, declared: bool = False) -> None:
        """Note what a path stands for within a scope."""
        if path and value != path:
            key = (scope, path, value)
            self._bindings[key] = declared or self._bindings.get(key, False)

    def bind_all(
        self, scope: str, path: str | None, values: Iterable[Value], *, declared: bool = False
    ) -> None:
        """Note all values of a path."""
        for suffix, value in values if path else ():
            self.bind(scope, f"{path}{suffix}", value, declared=declared)

    def bind_result(self, scope: str, node: Node | None) -> None:
        """Note what the declared type of a function's result promises."""
        self.bind_all(scope, "@()", self.values_of_type(node), declared=True)

    def bind_name(
        self, scope: str, path: str | None, values: Values, *, declared: bool = False, local: bool = False
    ) -> None:
        """Note all values of a path, and if it has none itself, that it hides what has its name.

        A variable that is `local` is not referred to by naming it.
        """
        if not path:
            return
        self.bind_all(scope, path, values, declared=declared)
        if own_value(values) is None:
            self.bind(scope, path, "")
        if local:
            self.local_variables.add((scope, path))

    def bind_declared(self, scope: str, path: str | None, values: Values, *, local: bool = True) -> None:
        """Note what the type of a variable promises; a type of the same name is one from around it."""
        values = [
            (suffix, f"@around.{value}" if first_segment(value) == path else value)
            for suffix, value in values
        ]
        self.bind_name(scope, path, values, declared=True, local=local)

    def bind_observed(self, scope: str, path: str | None, values: Values, *, local: bool = True) -> None:
        """Note the values that a variable is given."""
        self.bind_name(scope, path, values, local=local)

    def add_use(self, kind: UseKind, path: str | None, node: Node, scope: str | None = None) -> None:
        """Note that something is called, named or extended where a node starts."""
        if path:
            at = self.scope(node) if scope is None else scope
            self._uses[kind, path, at, node.start_point.row + 1] = None

    def add_definition(self, name: str, kind: SymbolKind, node: Node) -> None:
        """Note a definition that the outline leaves out, as a variable of a module."""
        first, last = node.start_point.row + 1, node.end_point.row + 1
        signature = " ".join(self.text(node)[:200].split())[:120]
        definition = Definition(name, kind, first, last, signature, self._is_exported(name, node))
        self._definitions.setdefault((name, first), definition)

    def add_enum_constant(self, node: Node, name: Node | None, suffix: str = "") -> None:
        """Note a constant of an enumeration: a definition, and an instance of its type."""
        scope = self.scope(node)
        if name is not None and scope in self.type_names:
            self.add_definition(f"{scope}.{self.text(name)}", "variable", node)
            self.bind(scope, self.text(name) + suffix, "@class()", declared=True)

    def skip_reference(self, node: Node) -> None:
        """A name that is not referred to where it stands: it is given a value there."""
        self.skipped_bytes.add(node.start_byte)

    def build_facts(self) -> FileFacts:
        """What was read; hints that can hide nothing, and uses of what the language has, left out."""
        names = {definition.name.rpartition(".")[2] for definition in self._definitions.values()}
        names.update(imported.local for imported in self.imports)
        names.update(first_segment(path) for _, path, value in self._bindings if value)
        unknown = {
            (scope, path)
            for scope, path, value in self._bindings
            if not value and first_segment(path) == path
        }
        silent = unknown - {(scope, first_segment(name)) for scope, name, value in self._bindings if value}
        defined = (
            (parent_scope(definition.name), last_segment(definition.name))
            for definition in self._definitions.values()
        )
        silent.difference_update(defined)
        everything = self.extraction.sees_sibling_names or any(
            imported.name == "*" for imported in self.imports
        )
        hiding = {key for key in silent if everything or key[1] in names}
        bindings = tuple(
            self._move_to_outer_scope(binding)
            for binding in (Binding(*key, declared) for key, declared in self._bindings.items())
            if binding.value or (binding.scope, binding.path) in hiding
        )
        silent |= self.local_variables
        uses = (Use(*use) for use in self._uses if not self._is_redundant_use(use, silent, names))
        imports = tuple(sorted(self.imports, key=lambda imported: imported.line))
        definitions, language = tuple(self._definitions.values()), self.syntax.language
        return FileFacts(
            self.path, language, self.module, definitions, imports, bindings, tuple(uses), self.settings
        )

    def _move_to_outer_scope(self, binding: Binding) -> Binding:
        """The binding in the scope that its name is declared to be of."""
        scope = self.outer_scopes.get((binding.scope, first_segment(binding.path)), binding.scope)
        return binding._replace(scope=scope) if scope != binding.scope else binding

    def _is_redundant_use(self, use: _UseKey, unbound: set[tuple[str, str]], known_names: set[str]) -> bool:
        kind, path, scope, _ = use
        if kind == "references" and (scope, path) in unbound:
            return True
        is_builtin = path in self.extraction.builtins and path not in known_names
        return is_builtin and kind in ("calls", "references")

    def _add_outline_definition(self, entry: OutlineDefinition) -> None:
        if not self.name(entry) or entry.kind in self.extraction.type_part_kinds:
            return  # all names are in it, or it only adds to a type
        first = bisect_left(self._line_ends, entry.start_char) + 1
        last = max(first, bisect_left(self._line_ends, entry.end_char - 1) + 1)
        signature = self.outline.signature(entry)
        special = self.extraction.symbol_kind(entry) if self.extraction.symbol_kind is not None else None
        kind = special or _KINDS.get(entry.kind, "variable")
        exported = self._is_exported(self.name(entry), entry.node)
        definition = Definition(self.name(entry), kind, first, last, signature, exported)
        self._definitions.setdefault((definition.name, first), definition)

    def _is_exported(self, name: str, node: Node) -> bool:
        """Whether others can name a definition, and what it is in."""
        is_private = self.extraction.is_private
        if is_private and (parent_scope(name) in self._private_names or is_private(self, node, name)):
            self._private_names.add(name)
            return False
        return True


def _qualify_names(outline: Outline, extraction: ExtractionRules) -> dict[int, str]:
    """The qualified names of definitions, outer ones before those within."""
    names: dict[int, str] = {}
    for definition in outline.definitions:
        if extraction.qualify_within is not None:
            name = extraction.qualify_within(
                definition, names[id(definition.parent)] if definition.parent is not None else ""
            )
        else:
            name = extraction.qualify(definition) if extraction.qualify is not None else definition.symbol
        names[id(definition)] = name
    return names


def _build_scope_spans(outline: Outline, names: dict[int, str]) -> tuple[list[int], list[str]]:
    """Characters from which on one scope holds, and those scopes."""
    starts, scopes = [0], [""]
    around: list[OutlineDefinition] = []

    def enter(position: int, name: str) -> None:
        if starts[-1] == position:
            scopes[-1] = name
        else:
            starts.append(position)
            scopes.append(name)

    def leave_until(position: float) -> None:
        while around and around[-1].end_char <= position:
            ended = around.pop()
            enter(ended.end_char, names[id(around[-1])] if around else "")

    for definition in outline.definitions:
        if definition.kind not in VARIABLE_KINDS:
            leave_until(definition.start_char)
            enter(definition.start_char, names[id(definition)])
            around.append(definition)
    leave_until(inf)
    return starts, scopes
