"""What definitions of JavaScript and TypeScript are called.

A function within an object literal has the name of what holds the object: `retry` of
`const client = { http: { retry() {} } }` is "client.http.retry".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_scope
from knowledge_pipeline.code_graph.facts_builder import VARIABLE_KINDS
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.syntax.nodes import part_of
from knowledge_pipeline.syntax.outline import TYPE_KINDS, OutlineDefinition

_MAX_STEPS = 12
_MAX_PARTS = 19
_TRANSPARENT_NODES = split_words(
    """
    object arguments call_expression new_expression as_expression satisfies_expression array
    parenthesized_expression non_null_expression await_expression ternary_expression
    """
)
_FIELDS = frozenset({"public_field_definition", "field_definition"})
_NOT_OWNERS = frozenset({"module", "exports", "prototype", "this", "window", "self", "globalThis"})
_WORDS = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_UNSAFE_CHARS = re.compile(r"[.()\[\]]")


def to_segment(name: str) -> str:
    """A name as one segment of a path: `[Symbol.iterator]` is "@@iterator"."""
    name = " ".join(name.split()).strip("\"'`")[:80]
    if name.startswith("["):
        return "@@" + _UNSAFE_CHARS.sub("_", name.strip("[]").rpartition(".")[2].strip("\"'`"))
    return _UNSAFE_CHARS.sub("_", name)


def qualify_within(definition: OutlineDefinition, enclosing: str) -> str:
    """The qualified name of a definition, by that of the definition around it; of its last twenty parts."""
    parent = definition.parent
    while (
        parent is not None and parent.kind in VARIABLE_KINDS
    ):  # what holds a function names it, by `_holders`
        parent, enclosing = parent.parent, parent_scope(enclosing)
    parts = enclosing.split(".")[-_MAX_PARTS:] if enclosing else []
    if _is_this_assignment(definition.node):
        outer = parent.parent if parent is not None else None
        parts = parts[:-1] if outer is not None and outer.kind in TYPE_KINDS else parts
    else:
        parts += _list_holder_names(definition.node)
    owner = [to_segment(definition.owner)] if definition.owner else []
    return ".".join(part for part in (*parts, *owner, to_segment(definition.name)) if part)


def _is_this_assignment(node: Node) -> bool:
    if node.type != "assignment_expression":
        return False
    left = part_of(node, "left")
    of = part_of(left, "object")
    return of is not None and of.type == "this"


def _list_holder_names(node: Node) -> list[str]:
    """The names of what holds a function of an object literal, outermost first."""
    around = node.parent if node.type in ("pair", "method_definition") else None
    if around is None or around.type != "object":
        return []
    return list(_iter_enclosing_names(around))[::-1]


def _iter_enclosing_names(node: Node) -> Iterator[str]:
    for _ in range(_MAX_STEPS):
        around = node.parent
        if around is None or around.type not in _TRANSPARENT_NODES | _NAMING_NODES:
            return
        name, goes_on = _naming_of(around)
        if name:
            yield to_segment(name)
        if not goes_on:
            return
        node = around


_NAMING_NODES = frozenset(
    {"pair", "variable_declarator", "assignment_expression", "export_statement", *_FIELDS}
)


def _naming_of(node: Node) -> tuple[str, bool]:
    """The name that a node gives to what it holds, and whether what is around it gives one, too."""
    if node.type in _TRANSPARENT_NODES:
        return "", True
    if node.type == "export_statement":
        return "default", False
    field = "key" if node.type == "pair" else "left" if node.type == "assignment_expression" else "name"
    named = part_of(node, field) or part_of(node, "property")
    if named is None or named.type in ("object_pattern", "array_pattern"):
        return "", False
    text = (named.text or b"").decode(errors="replace")[:200]
    if node.type == "assignment_expression":
        owners = [each for each in _WORDS.findall(text) if each not in _NOT_OWNERS]
        text = owners[-1] if owners else ""
    return text, node.type == "pair"
