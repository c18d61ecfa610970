"""The definitions of a file as a tree: what is defined where, in what, and what it extends."""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from cachetools import LRUCache
from tree_sitter import Node

from knowledge_pipeline.languages import GRAPH_LANGUAGES
from knowledge_pipeline.syntax.definition_names import body_start, head_start, name_of
from knowledge_pipeline.syntax.grammars import SyntaxTree, parse
from knowledge_pipeline.syntax.imports import parse_import

TYPE_KINDS = frozenset({"class", "interface", "struct", "enum", "trait", "impl", "object", "extension"})
"""Kinds whose functions are methods."""

CALLABLE_KINDS = frozenset({"function", "method", "property"})
"""Kinds that do something."""

STATEMENT_KINDS = frozenset({"block", "table", "view", "index", "trigger"})
"""Kinds of languages that declare rather than do: HCL's blocks, what SQL creates."""

_KINDS = (
    *sorted(TYPE_KINDS),
    *sorted(CALLABLE_KINDS),
    *sorted(STATEMENT_KINDS),
    "stage",
    "module",
    "constant",
    "global",
    "macro",
    "type",
)
_KEYWORD = re.compile(r"\b(interface|enum|struct|extension)\s+(?:class\s+)?$")
_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]")
_BETWEEN_BASES = re.compile(r"\b(?:extends|implements|with|public|private|protected|virtual)\b|[,+]")
_WORD = re.compile(r"\w+")
_SIGNATURE_END = re.compile(r"(?<![\s{=:;])(?:=>|[\s{=:;])++$")
_MAX_SIGNATURE = 120
_MAX_SCOPE = 20
_MAX_BASES = 20
_MAX_KEPT_CHARS = 1_000_000  # of texts whose outlines are kept: a tree takes about thirty bytes for each


@dataclass(slots=True, eq=False)
class OutlineDefinition:
    """One named thing that a file defines. Offsets leave its decorators and annotations off."""

    kind: str
    name: str
    start_char: int
    end_char: int
    body_start_char: int | None  # where the body starts; None: a declaration alone
    node: Node
    owner: str = ""  # a type named in the definition itself: Go's receiver, C++'s `Circle::`
    parent: OutlineDefinition | None = None
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
    def scope(self) -> list[OutlineDefinition]:
        """The definitions around this one and itself, outermost first; the innermost twenty."""
        found: list[OutlineDefinition] = [self]
        each = self.parent
        while each is not None and len(found) < _MAX_SCOPE:
            found.append(each)
            each = each.parent
        return found[::-1]

    @property
    def class_name(self) -> str | None:
        """The type that this is, or belongs to."""
        for each in reversed(self.scope):
            if each.kind in TYPE_KINDS:
                return each.name
            if each.owner:
                return each.owner.rpartition("::")[2]
        return None


class Outline:
    """A file's definitions in the order of their starts, outer before inner, and its imports."""

    def __init__(self, tree: SyntaxTree) -> None:
        self.tree = tree
        self.definitions = _nest_definitions(_iter_definitions(tree))
        self._starts = [definition.start_char for definition in self.definitions]
        for node in tree.captures.get("base", ()):
            if definition := self.innermost_definition(tree.start(node)):
                definition.bases = [*definition.bases, *parse_base_names(tree.slice(node))][:_MAX_BASES]
        self._decisions = sorted(map(tree.start, tree.captures.get("decision", ())))
        self.attribute_ids = {node.id for node in tree.captures.get("attribute", ())}
        self.import_starts = {tree.start(node) for node in tree.captures.get("import", ())}
        statements = (tree.slice(node) for node in tree.captures.get("import", ()))
        self.bindings = tuple(chain.from_iterable(parse_import(each, tree.language) for each in statements))
        self.export_list = frozenset(
            chain.from_iterable(map(self._exported_names, tree.captures.get("export", ())))
        )

    def definitions_within(self, start_char: int, end_char: int) -> list[OutlineDefinition]:
        """The definitions that start within a span."""
        first = bisect_left(self._starts, start_char)
        return self.definitions[first : bisect_left(self._starts, end_char, first)]

    def innermost_definition(self, offset_char: int) -> OutlineDefinition | None:
        """The smallest definition around a character."""
        index = bisect_right(self._starts, offset_char) - 1
        found = self.definitions[index] if index >= 0 else None
        while found is not None and found.end_char <= offset_char:
            found = found.parent
        return found

    def count_decisions(self, start_char: int, end_char: int) -> int:
        """Branches that start within a span."""
        return bisect_left(self._decisions, end_char) - bisect_left(self._decisions, start_char)

    def signature(self, definition: OutlineDefinition) -> str:
        """The head of a definition on one line, without annotations, at most 120 characters."""
        end = definition.body_start_char
        head = self.tree.text[definition.start_char : definition.end_char if end is None else end][:1000]
        if end is None:
            head = head if definition.kind == "stage" else head.split("{", 1)[0]  # FROM image:${TAG}
            head = head.split("\n", 1)[0]
        line = _SIGNATURE_END.sub("", " ".join(head.split()))
        return line if len(line) <= _MAX_SIGNATURE else f"{line[: _MAX_SIGNATURE - 1]}…"

    def _exported_names(self, node: Node) -> list[str]:
        """The names in a list of exports: a string of `__all__`, a key of `module.exports`."""
        if node.type != "object":
            return _WORD.findall(self.tree.slice(node))
        keys = (
            child.child_by_field_name("key") or child.child_by_field_name("name") for child in node.children
        )
        named = (key or child for key, child in zip(keys, node.children, strict=True) if child.is_named)
        return [self.tree.slice(key) for key in named]


_kept: LRUCache[tuple[str, str], Outline] = LRUCache(
    _MAX_KEPT_CHARS, getsizeof=lambda each: len(each.tree.text)
)
_kept_lock = threading.Lock()


def open_outline(text: str, language: str) -> Outline | None:
    """The outline of a text in a language of `GRAMMARS`; None where no sensible tree can be had.

    A file is cut, then its facts are read for the code graph: it is parsed once for both, as the outline is
    kept until it is asked for the second time.
    """
    key = language, text
    with _kept_lock:
        known = _kept.pop(key, None)
    if known is not None:
        return known
    syntax = parse(text, language)
    if syntax is None:
        return None
    outline = Outline(syntax)
    if language in GRAPH_LANGUAGES and len(text) <= _MAX_KEPT_CHARS:
        with _kept_lock:
            _kept[key] = outline
    return outline


def parse_base_names(clause: str) -> list[str]:
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


def _iter_definitions(tree: SyntaxTree) -> Iterator[OutlineDefinition]:
    for kind in _KINDS:
        for node in tree.captures.get(kind, ()):
            owner, name = name_of(tree, node)
            if name:
                start_char, end_char = head_start(tree, node), tree.end(node)
                body_char = body_start(tree, node)
                yield OutlineDefinition(
                    _refine_kind(kind, tree, node), name, start_char, end_char, body_char, node, owner
                )


def _refine_kind(kind: str, tree: SyntaxTree, node: Node) -> str:
    """Swift and Kotlin call interfaces, enums and structs class declarations."""
    named = node.child_by_field_name("name") if kind == "class" else None
    if named is None:
        return kind
    keyword = _KEYWORD.search(tree.text[tree.start(node) : tree.start(named)])
    return keyword[1] if keyword else kind


def _nest_definitions(definitions: Iterator[OutlineDefinition]) -> list[OutlineDefinition]:
    """Sort definitions and hang each into the one around it."""
    kept: list[OutlineDefinition] = []
    around: list[OutlineDefinition] = []
    for definition in sorted(definitions, key=lambda one: (one.start_char, -one.end_char)):
        while around and around[-1].end_char <= definition.start_char:
            around.pop()
        parent = around[-1] if around else None
        if parent is not None and (_is_same_definition(parent, definition) or _is_local(parent, definition)):
            continue
        definition.kind = "constant" if definition.kind == "global" else definition.kind
        definition.parent = parent
        in_type = definition.owner or (parent is not None and parent.kind in TYPE_KINDS)
        if definition.kind == "function" and in_type:
            definition.kind = "method"
        kept.append(definition)
        around.append(definition)
    return kept


def _is_local(parent: OutlineDefinition, definition: OutlineDefinition) -> bool:
    """Whether a variable is nobody's business outside of what it is in."""
    in_function = parent.kind in CALLABLE_KINDS and definition.kind in ("constant", "global")
    if parent.kind == definition.kind == "block":  # a setting of the outer one
        return True
    return in_function or (parent.kind in TYPE_KINDS and definition.kind == "global")


def _is_same_definition(outer: OutlineDefinition, inner: OutlineDefinition) -> bool:
    """Whether both name one thing: `typedef struct list {…} list_t`, or a node captured twice."""
    if (outer.start_char, outer.end_char) == (inner.start_char, inner.end_char):
        return True
    return outer.node.type == "type_definition" and outer.body_start_char == inner.body_start_char
