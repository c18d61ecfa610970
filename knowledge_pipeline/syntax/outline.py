"""The definitions of a file as a tree: what is defined where, in what, and what it extends."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from tree_sitter import Node

from knowledge_pipeline.syntax.definition_names import body_start, head_start, name_of
from knowledge_pipeline.syntax.grammars import Syntax
from knowledge_pipeline.syntax.imports import Binding, bindings

TYPES = frozenset({"class", "interface", "struct", "enum", "trait", "impl", "object", "extension"})
"""Kinds whose functions are methods."""

CALLABLES = frozenset({"function", "method", "property"})
"""Kinds that do something."""

_KINDS = (*sorted(TYPES), *sorted(CALLABLES), "module", "constant", "global", "macro", "type")
_KEYWORD = re.compile(r"\b(interface|enum|struct|extension)\s+(?:class\s+)?$")
_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]")
_BETWEEN_BASES = re.compile(r"\b(?:extends|implements|with|public|private|protected|virtual)\b|[,+]")
_WORD = re.compile(r"\w+")
_SIGNATURE_END = re.compile(r"(?:=>|[\s{=:;])+$")
_MAX_SIGNATURE = 120
_MAX_SCOPE = 20
_MAX_BASES = 20


@dataclass(slots=True, eq=False)
class Definition:
    """One named thing that a file defines. Offsets leave its decorators and annotations off."""

    kind: str
    name: str
    start_char: int
    end_char: int
    body_char: int | None  # where the body starts; None: a declaration alone
    node: Node
    owner: str = ""  # a type named in the definition itself: Go's receiver, C++'s `Circle::`
    parent: Definition | None = None
    bases: list[str] = field(default_factory=list[str])

    @property
    def symbol(self) -> str:
        """The qualified name: "SessionStore.get"."""
        parts = chain.from_iterable((each.owner.replace("::", "."), each.name) for each in self.scope)
        return ".".join(part for part in parts if part)

    @property
    def label(self) -> str:
        """One step of an anchor: "method get", "impl Display for Job"."""
        of = f"{', '.join(self.bases)} for " if self.kind == "impl" and self.bases else ""
        owner = f"{self.owner}." if self.owner else ""
        return f"{self.kind} {of}{owner}{self.name}"

    @property
    def scope(self) -> list[Definition]:
        """The definitions around this one and itself, outermost first; the innermost twenty."""
        found: list[Definition] = [self]
        each = self.parent
        while each is not None and len(found) < _MAX_SCOPE:
            found.append(each)
            each = each.parent
        return found[::-1]

    @property
    def class_name(self) -> str | None:
        """The type that this is, or belongs to."""
        for each in reversed(self.scope):
            if each.kind in TYPES:
                return each.name
            if each.owner:
                return each.owner.rpartition("::")[2]
        return None


class Outline:
    """A file's definitions in the order of their starts, outer before inner, and its imports."""

    def __init__(self, syntax: Syntax) -> None:
        self.syntax = syntax
        self.definitions = _nested(_definitions(syntax))
        self._starts = [definition.start_char for definition in self.definitions]
        for node in syntax.captures.get("base", ()):
            if definition := self.innermost(syntax.start(node)):
                definition.bases = [*definition.bases, *base_names(syntax.slice(node))][:_MAX_BASES]
        self._decisions = sorted(map(syntax.start, syntax.captures.get("decision", ())))
        self.import_starts = {syntax.start(node) for node in syntax.captures.get("import", ())}
        self.bindings = tuple(self._bindings())
        self.export_list = frozenset(
            chain.from_iterable(map(self._exported, syntax.captures.get("export", ())))
        )

    def within(self, start_char: int, end_char: int) -> list[Definition]:
        """The definitions that start within a span."""
        first = bisect_left(self._starts, start_char)
        return self.definitions[first : bisect_left(self._starts, end_char, first)]

    def innermost(self, char: int) -> Definition | None:
        """The smallest definition around a character."""
        index = bisect_right(self._starts, char) - 1
        found = self.definitions[index] if index >= 0 else None
        while found is not None and found.end_char <= char:
            found = found.parent
        return found

    def decisions(self, start_char: int, end_char: int) -> int:
        """Branches that start within a span."""
        return bisect_left(self._decisions, end_char) - bisect_left(self._decisions, start_char)

    def signature(self, definition: Definition) -> str:
        """The head of a definition on one line, without annotations, at most 120 characters."""
        end = definition.body_char
        head = self.syntax.text[definition.start_char : definition.end_char if end is None else end][:1000]
        if end is None:
            head = head.split("{", 1)[0].split("\n", 1)[0]
        line = _SIGNATURE_END.sub("", " ".join(head.split()))
        return line if len(line) <= _MAX_SIGNATURE else f"{line[: _MAX_SIGNATURE - 1]}…"

    def _exported(self, node: Node) -> list[str]:
        """The names in a list of exports: a string of `__all__`, a key of `module.exports`."""
        if node.type != "object":
            return _WORD.findall(self.syntax.slice(node))
        keys = (
            child.child_by_field_name("key") or child.child_by_field_name("name") for child in node.children
        )
        named = (key or child for key, child in zip(keys, node.children, strict=True) if child.is_named)
        return [self.syntax.slice(key) for key in named]

    def _bindings(self) -> Iterator[Binding]:
        for node in self.syntax.captures.get("import", ()):
            yield from bindings(self.syntax.slice(node), self.syntax.language)


def base_names(clause: str) -> list[str]:
    """The names in a clause that says what a type extends or implements, without their arguments."""
    text = clause.strip()
    text = text[1:-1] if text.startswith("(") and text.endswith(")") else text.lstrip("<: ")
    for _ in range(10):
        shorter = _NESTED.sub("", text)
        if shorter == text:
            break
        text = shorter
    words = (part.split() for part in _BETWEEN_BASES.split(text) if "=" not in part)
    return [part[0] for part in words if part and part[0][0] not in "'?*"]


def _definitions(syntax: Syntax) -> Iterator[Definition]:
    for kind in _KINDS:
        for node in syntax.captures.get(kind, ()):
            owner, name = name_of(syntax, node)
            if name:
                start_char, end_char = head_start(syntax, node), syntax.end(node)
                body_char = body_start(syntax, node)
                yield Definition(
                    _refined(kind, syntax, node), name, start_char, end_char, body_char, node, owner
                )


def _refined(kind: str, syntax: Syntax, node: Node) -> str:
    """Swift and Kotlin call interfaces, enums and structs class declarations."""
    named = node.child_by_field_name("name") if kind == "class" else None
    if named is None:
        return kind
    keyword = _KEYWORD.search(syntax.text[syntax.start(node) : syntax.start(named)])
    return keyword[1] if keyword else kind


def _nested(found: Iterator[Definition]) -> list[Definition]:
    """Sort definitions and hang each into the one around it."""
    kept: list[Definition] = []
    around: list[Definition] = []
    for definition in sorted(found, key=lambda one: (one.start_char, -one.end_char)):
        while around and around[-1].end_char <= definition.start_char:
            around.pop()
        parent = around[-1] if around else None
        if parent is not None and (_same(parent, definition) or _is_local(parent, definition)):
            continue
        definition.kind = "constant" if definition.kind == "global" else definition.kind
        definition.parent = parent
        in_type = definition.owner or (parent is not None and parent.kind in TYPES)
        if definition.kind == "function" and in_type:
            definition.kind = "method"
        kept.append(definition)
        around.append(definition)
    return kept


def _is_local(parent: Definition, definition: Definition) -> bool:
    """Whether a variable is nobody's business outside of what it is in."""
    in_function = parent.kind in CALLABLES and definition.kind in ("constant", "global")
    return in_function or (parent.kind in TYPES and definition.kind == "global")


def _same(outer: Definition, inner: Definition) -> bool:
    """Whether both name one thing: `typedef struct list {…} list_t`, or a node captured twice."""
    if (outer.start_char, outer.end_char) == (inner.start_char, inner.end_char):
        return True
    return outer.node.type == "type_definition" and outer.body_char == inner.body_char
