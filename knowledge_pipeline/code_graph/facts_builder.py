"""Gathers the uses, bindings, imports and definitions of one file into its facts.

Tables say for each language which of its nodes are names, members, calls and types. Functions of the
language read what tables cannot say: arguments, as of `cast(T, x)`, and the parts of a literal.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from typing import Any

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    CHAIN,
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
    split_steps,
)
from knowledge_pipeline.syntax.grammars import SyntaxTree, first_of_type, has_type, part_of
from knowledge_pipeline.syntax.outline import TYPE_KINDS, Outline, OutlineDefinition

_MAX_PATH = 160
_MAX_DEPTH = 16
_MAX_TYPE_DEPTH = 6
_DIGITS = re.compile(r"\d{1,2}")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")

Part = str | int  # a field of a node, or the position of one of its named children

PathReader = Callable[[Any, Node], str | None]
"""A reader's method that writes an expression as a path: `((Store) x)` as `Store()`."""

ContentsReader = Callable[[Any, Node], Iterable[Value]]
"""A reader's method that says what an expression holds: ("[]", "Store()") for `[Store()]`."""

Handler = Callable[[Any, Node], None]  # a reader's method that reads one captured node


def _table() -> Any:
    return field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class TypeSyntax:
    """What the nodes of a language's types are.

    Of several type arguments the last counts as what is held: it is what `Map.get`, `Function.apply`
    and `Future.get` give.
    """

    generic: Mapping[str, str] = _table()  # node: where its arguments are
    arrays: Mapping[str, Part] = _table()  # node: its elements' type
    transparent: Mapping[str, Part] = _table()  # node: the type within
    functions: Mapping[str, Part] = _table()  # node: its result
    ignored: frozenset[str] = frozenset()  # names that say nothing: "var"
    prefix: str = ""  # goes before the names of types: "@type."


@dataclass(frozen=True)
class ExpressionSyntax:
    """What the nodes of a language's expressions are."""

    names: frozenset[str]  # leaves that stand for themselves
    members: Mapping[str, tuple[str, str]] = _table()  # node: its object, its member
    calls: Mapping[str, tuple[Part, ...]] = _table()  # node: what is called, or an object and its method
    indexes: Mapping[str, tuple[str, str]] = _table()  # node: what is indexed, by what
    suffixed: Mapping[str, tuple[Part, str]] = _table()  # node: a part, and what the node adds to its path
    transparent: Mapping[str, Part] = _table()  # node: the part that it has the value of
    choices: Mapping[str, tuple[Part, ...]] = _table()  # node: the parts of which it has the value of one
    casts: Mapping[str, Part] = _table()  # node: the type that its value has
    default_operator: str = ""  # of a binary_expression that gives its left side, or else its right: "??"
    contents: Mapping[str, ContentsReader] = _table()
    path_writers: Mapping[str, PathReader] = _table()
    implicit_receiver: str = ""  # goes before a method that is called without an object: "@around."
    types: TypeSyntax = TypeSyntax()


class ExpressionReader:
    """Writes the expressions of one file as paths and values; a part that many share is written once."""

    expressions = ExpressionSyntax(frozenset())

    def __init__(self, syntax: SyntaxTree) -> None:
        self.syntax = syntax
        self.definition_names: Mapping[tuple[int, int], str] = {}  # by a definition's first and last byte
        self._path_cache: dict[tuple[int, int], str | None] = {}
        self._depth = 0

    def _rewrite_call(self, node: Node) -> str | None:
        """Another path for a call."""
        return None

    def _is_call(self, node: Node) -> bool:
        """Whether a node of `ExpressionSyntax.calls` is one: not Swift's `rows[0]`."""
        return True

    def _special_type_values(self, node: Node, depth: int) -> Values | None:
        """What a type promises of which tables cannot say it; None for others."""
        return None

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
        """The path of an expression; None for what is not a place, `CHAIN` for what is nested too deep."""
        if node is None:
            return None
        if node.type in self.expressions.names:
            return self.syntax.slice(node)
        key = (node.start_byte, node.end_byte)
        if key not in self._path_cache:
            if self._depth > _MAX_DEPTH:
                return CHAIN
            self._depth += 1
            path = self._compute_path(node)
            self._depth -= 1
            self._path_cache[key] = (
                self._bind_long_path(node, path) if path and len(path) > _MAX_PATH else path
            )
        return self._path_cache[key]

    def _bind_long_path(self, node: Node, path: str) -> str:
        """A path from the last member on, of what a name of its own stands for: chains have no end."""
        steps = split_steps(path)
        last = max((at for at, step in enumerate(steps) if step[0] == "."), default=0)
        tail = "".join(steps[last:])
        is_followed = last and len(tail) <= _MAX_PATH
        return self._bind_chain(node, "".join(steps[:last])) + tail if is_followed else CHAIN

    def _bind_chain(self, node: Node, path: str) -> str:
        """A name for the value of the first part of a chain, by which the rest goes on."""
        return CHAIN

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
        if (special := self._special_type_values(node, depth)) is not None:
            return special
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
            if node.end_byte - node.start_byte <= _MAX_PATH and _DOTTED.fullmatch(text := self.text(node)):
                return text
            of, member = (part_of(node, part) for part in table.members[kind])
            return _append_suffix(self.path(of), f".{self.text(member)}") if member else None
        if kind in table.calls:
            return self._rewrite_call(node) or _append_suffix(self.callee(node), "()")
        if kind in table.indexes:
            of, by = (node.child_by_field_name(part) for part in table.indexes[kind])
            key = self.text(by) if by is not None and by.end_byte - by.start_byte <= 2 else ""
            return _append_suffix(self.path(of), f"[{key}]" if _DIGITS.fullmatch(key) else "[]")
        if kind in table.transparent:
            return self.path(part_of(node, table.transparent[kind]))
        return None

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

_MODIFIERS = (
    "modifiers", "modifier", "visibility_modifier", "access_modifier", "accessibility_modifier",
    "method_modifiers",
)  # fmt: skip
_MAX_MODIFIERS = 12  # they begin a declaration, which may have thousands of names
_MAX_DECLARATION_NODES = 3  # of a definition and what is around it, as far as its declaration goes
_BODIES = ("body", "block", "list", "file", "program", "compilation_unit", "template_body", "statements")

_LINE_END = re.compile("\n")

Captures = Mapping[str, list[Node]]  # what the queries found, by capture


class FactsBuilder(ExpressionReader):
    """One file while it is read: a class of each language reads the nodes that its queries capture.

    Without such a class nothing but definitions is read.
    """

    handlers: Mapping[str, Handler] = {}
    builtins: frozenset[str] = frozenset()  # names that no file defines; not facts unless one does
    sees_sibling_names = False
    """Whether names of other files are seen without import, so that all that hide one are kept."""
    type_part_kinds: frozenset[str] = frozenset()  # kinds that only add to types: Rust's "impl"

    def __init__(self, path: str, outline: Outline) -> None:
        super().__init__(outline.tree)
        self.file_path = path
        self.outline = outline
        self.module = ""
        self.settings: dict[str, str] = {}
        self.imports: list[Import] = []
        self._definitions: dict[tuple[str, int], Definition] = {}
        self.skipped_bytes: set[int] = set()  # bytes at which names start that refer to nothing
        self.local_variables: set[tuple[str, str]] = set()  # naming one refers to nothing
        self.outer_scopes: dict[tuple[str, str], str] = {}  # a scope's name is one of another scope
        self._bindings: dict[tuple[str, str, str], bool] = {}
        self._uses: dict[tuple[UseKind, str, str, int], None] = {}
        self._line_ends = [match.start() for match in _LINE_END.finditer(self.syntax.text)]
        self._private_names: set[str] = set()  # what others cannot name
        self._names: dict[
            int, str
        ] = {}  # qualified, by the id of a definition: outer ones before those within
        for definition in outline.definitions:
            around = self._names[id(definition.parent)] if definition.parent is not None else ""
            self._names[id(definition)] = self._qualify(definition, around)
        self.definition_names = {
            (definition.node.start_byte, definition.node.end_byte): self._names[id(definition)]
            for definition in outline.definitions
        }
        self.type_names = {
            self._names[id(definition)]
            for definition in outline.definitions
            if definition.kind in TYPE_KINDS and definition.kind not in self.type_part_kinds
        }
        self._starts, self._scopes = _build_scope_spans(outline, self._names)
        for definition in outline.definitions:
            self._add_outline_definition(definition)

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """The qualified name of a definition, by that of the one around it."""
        return definition.symbol

    def _symbol_kind(self, definition: OutlineDefinition) -> SymbolKind | None:
        """The kind of a definition where it is special."""
        return None

    def _is_private(self, node: Node, name: str) -> bool:
        """Whether others cannot name a definition: `private` stands among its modifiers.

        Swift's `private(set)` is something else.
        """
        around: Node | None = node
        for _ in range(_MAX_DECLARATION_NODES):
            if around is None or around.type.endswith(_BODIES):
                return False
            first = (around.named_child(at) for at in range(min(around.named_child_count, _MAX_MODIFIERS)))
            for modifier in first:
                words = self.text(modifier)[:200].split() if has_type(modifier, *_MODIFIERS) else ()
                if any(word.split("[")[0] in ("private", "fileprivate") for word in words):
                    return True
            around = around.parent
        return False

    def _finish(self, captures: Captures) -> None:
        """Read what needs all captures, after each was read."""

    def read(self, captures: Captures) -> None:
        """Read all that the queries found."""
        self.skipped_bytes.update(node.start_byte for node in captures.get("skip", ()))
        called = self._add_calls(captures.get("call", ()))
        for capture, handler in self.handlers.items():
            for node in captures.get(capture, ()):
                handler(self, node)
        self._add_references(captures, called)
        self._finish(captures)

    def _add_calls(self, calls: Iterable[Node]) -> set[tuple[int, int]]:
        """Note all calls; gives where what they call starts and ends."""
        called: set[tuple[int, int]] = set()
        inner_first = sorted(calls, key=lambda node: (node.end_byte, -node.start_byte))
        for node in inner_first:  # each finds the path of what it goes on from
            callee = part_of(node, self.expressions.calls[node.type][-1])
            if callee is not None and self._is_call(node):
                called.add((callee.start_byte, callee.end_byte))
                self.add_use("calls", self.callee(node), callee)
        return called

    def _add_references(self, captures: Captures, callee_spans: set[tuple[int, int]]) -> None:
        """Note all names, each with the longest chain that starts with it, that are not called."""
        longest: dict[int, Node] = {}
        ends: set[int] = set()  # where a chain ends, its last name does: that refers to nothing alone
        for node in captures.get("chain", ()):
            longest.setdefault(node.start_byte, node)
            ends.add(node.end_byte)
        for name in _iter_outside_spans(captures.get("name", ()), captures.get("skip.all", ())):
            start = name.start_byte
            if start in self.skipped_bytes or (name.end_byte in ends and start not in longest):
                continue
            node = longest.get(start, name)
            if (start, node.end_byte) not in callee_spans:
                self.add_use("references", self.path(node), name)

    def scope(self, node: Node) -> str:
        """The qualified name of the definition around a node; "" in none."""
        return self._scopes[bisect_right(self._starts, self.syntax.start(node)) - 1]

    def scope_at(self, char: int, *, is_mark: bool = False) -> str:
        """The definition around a character; for a decorator or annotation, the one that it stands before."""
        position = bisect_right(self._starts, char) - 1
        scope = self._scopes[position]
        if is_mark and (not scope or scope in self.type_names):
            after = self._scopes[position + 1 : position + 2]
            return after[0] if after and after[0].startswith(scope) else scope
        return scope

    def name(self, definition: OutlineDefinition) -> str:
        """The qualified name of a definition."""
        return self._names[id(definition)]

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

    def _bind_chain(self, node: Node, path: str) -> str:
        scope = self.scope(node)
        digest = blake2b(f"{scope}\t{path}".encode(errors="replace"), digest_size=6).hexdigest()
        self.bind(scope, f"@in @{CHAIN}{digest}", path)
        return CHAIN + digest

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
        self.bind_name(scope, path, name_from_around(path, values), declared=True, local=local)

    def bind_variable(
        self,
        scope: str,
        path: str | None,
        kind: Node | None,
        value: Node | Values | None,
        *,
        local: bool = True,
    ) -> None:
        """Note what the type of a variable promises, or the value that it is given where none is written."""
        if kind is not None:
            self.bind_declared(scope, path, self.values_of_type(kind), local=local)
        else:
            values = value if isinstance(value, list) else self.values(value)
            self.bind_observed(scope, path, values, local=local)

    def bind_observed(self, scope: str, path: str | None, values: Values, *, local: bool = True) -> None:
        """Note the values that a variable is given."""
        self.bind_name(scope, path, values, local=local)

    def bind_alias(self, node: Node) -> None:
        """Note another name for a type, around the node that has it."""
        name, scope = self.text(part_of(node, "name")), parent_scope(self.scope(node))
        for suffix, value in self.values_of_type(part_of(node, "type")):
            if not suffix and first_segment(value) != name:
                self.bind(scope, name, value.removesuffix("()"))

    def bind_assigned(self, node: Node, names: tuple[str, ...], places: tuple[str, ...]) -> None:
        """Note what an assignment gives a variable, other than itself, or a place such as a field."""
        left, right = part_of(node, "left"), part_of(node, "right")
        if left is None or right is None:
            return
        scope, values = self.scope(node), self.values(right)
        if left.type in names:
            name = self.text(left)
            self.bind_observed(scope, name, [one for one in values if not one[1].startswith(name)])
        elif left.type in places:
            self.bind_all(scope, self.path(left), values)

    def add_use(self, kind: UseKind, path: str | None, node: Node, scope: str | None = None) -> None:
        """Note that something is called, named or extended where a node starts."""
        if path:
            at = self.scope(node) if scope is None else scope
            self._uses[kind, path, at, node.start_point.row + 1] = None

    def add_base(self, kind: UseKind, node: Node, scope: str) -> None:
        """Note what a type extends or implements; naming it there is no reference."""
        self.add_use(kind, self.path(node), node, scope)
        self.skip_reference(node)

    def add_import(
        self, node: Node, module: str, name: str, local: str, *, scope: str = "", exported: bool = False
    ) -> None:
        """Note what is taken from elsewhere where a node starts; see `Import`."""
        self.imports.append(Import(module, name, local, node.start_point.row + 1, scope, exported))

    def add_definition(self, name: str, kind: SymbolKind, node: Node) -> None:
        """Note a definition that the outline leaves out, as a variable of a module."""
        first, last = node.start_point.row + 1, node.end_point.row + 1
        signature = " ".join(self.text(node)[:200].split())[:120]
        definition = Definition(name, kind, first, last, signature, self._is_exported(name, node))
        self._definitions.setdefault((name, first), definition)

    def add_variable(self, scope: str, name: str, node: Node) -> None:
        """Note a variable of a file or a type."""
        self.add_definition(f"{scope}.{name}" if scope else name, "variable", node)

    def add_enum_constant(self, node: Node, name: Node | None, suffix: str = "") -> None:
        """Note a constant of an enumeration: a definition, and an instance of its type."""
        scope = self.scope(node)
        if name is not None and scope in self.type_names:
            self.add_variable(scope, self.text(name), node)
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
        everything = self.sees_sibling_names or any(imported.name == "*" for imported in self.imports)
        hiding = {key for key in silent if everything or key[1] in names}
        bindings = tuple(
            Binding(self.outer_scopes.get((scope, first_segment(path)), scope), path, value, declared)
            for (scope, path, value), declared in self._bindings.items()
            if value or (scope, path) in hiding
        )
        silent |= self.local_variables
        uses = (Use(*use) for use in self._uses if not self._is_redundant_use(use, silent, names))
        imports = tuple(sorted(self.imports, key=lambda imported: imported.line))
        definitions, language = tuple(self._definitions.values()), self.syntax.language
        return FileFacts(
            self.file_path, language, self.module, definitions, imports, bindings, tuple(uses), self.settings
        )

    def _is_redundant_use(
        self, use: tuple[UseKind, str, str, int], unbound: set[tuple[str, str]], known_names: set[str]
    ) -> bool:
        kind, path, scope, _ = use
        if kind == "references" and (scope, path) in unbound:
            return True
        is_builtin = path in self.builtins and path not in known_names
        return is_builtin and kind in ("calls", "references")

    def _add_outline_definition(self, entry: OutlineDefinition) -> None:
        if not self.name(entry) or entry.kind in self.type_part_kinds:
            return  # all names are in it, or it only adds to a type
        first = bisect_left(self._line_ends, entry.start_char) + 1
        last = max(first, bisect_left(self._line_ends, entry.end_char - 1) + 1)
        signature = self.outline.signature(entry)
        kind = self._symbol_kind(entry) or _KINDS.get(entry.kind, "variable")
        exported = self._is_exported(self.name(entry), entry.node)
        definition = Definition(self.name(entry), kind, first, last, signature, exported)
        self._definitions.setdefault((definition.name, first), definition)

    def _is_exported(self, name: str, node: Node) -> bool:
        """Whether others can name a definition, and what it is in."""
        if parent_scope(name) in self._private_names or self._is_private(node, name):
            self._private_names.add(name)
            return False
        return True


def declares(name: Part, kind: Part) -> Handler:
    """A handler of nodes that give the type of a name."""

    def read(reader: FactsBuilder, node: Node) -> None:
        if has_type(part_of(node, name), "identifier"):
            values = reader.values_of_type(part_of(node, kind))
            reader.bind_declared(reader.scope(node), reader.text(part_of(node, name)), values)

    return read


def gives(result: Part) -> Handler:
    """A handler of functions, or other names of a type, that declare what they give."""
    return lambda reader, node: reader.bind_result(reader.scope(node), part_of(node, result))


def returns(value: Part) -> Handler:
    """A handler of statements that give the result of the function around them."""
    return lambda reader, node: reader.bind_all(
        reader.scope(node), "@()", reader.values(part_of(node, value))
    )


def name_from_around(name: str | None, values: Values) -> Values:
    """The values of a name; one that starts with the same name is what that means around."""
    return [(end, f"@around.{value}" if first_segment(value) == name else value) for end, value in values]


def _iter_outside_spans(names: Iterable[Node], spans: Iterable[Node]) -> Iterator[Node]:
    """The names that lie in none of the spans; both are in the order of the text."""
    waiting = iter(spans)
    span = next(waiting, None)
    for name in names:
        while span is not None and span.end_byte <= name.start_byte:
            span = next(waiting, None)
        if span is None or name.start_byte < span.start_byte:
            yield name


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
