"""Rust's patterns: which names they give to which parts of a value."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import head_of
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts_builder import Reading
from knowledge_pipeline.code_graph.languages.declared_types import Values, declare, elements, give
from knowledge_pipeline.code_graph.languages.words import words

_HOLDS = words("Some Ok Option.Some Result.Ok")
_SAME = words("ref_pattern mut_pattern reference_pattern match_pattern")
_MAX_DEPTH = 8


def matched(
    reading: Reading, node: Node | None, values: Values, *, declared: bool = False, depth: int = 0
) -> None:
    """Give the names of a pattern what the value's parts are."""
    if node is None or depth > _MAX_DEPTH:
        return
    kind = node.type
    if kind == "identifier" or kind == "shorthand_field_identifier":
        _named(reading, node, values, declared=declared)
    elif kind in _SAME:
        inner = [each for each in node.named_children if each.type != "mutable_specifier"]
        matched(reading, inner[0] if inner else None, values, declared=declared, depth=depth + 1)
    elif kind == "tuple_pattern":
        for place, each in enumerate(node.named_children):
            found = _under(values, f"[{place}]")
            matched(reading, each, found, declared=declared, depth=depth + 1)
    elif kind == "tuple_struct_pattern":
        of = reading.writer.path(node.child_by_field_name("type"))
        inner = elements(values) if of in _HOLDS else []
        for each in node.named_children[1:]:
            matched(reading, each, inner, declared=declared, depth=depth + 1)
    elif kind == "struct_pattern":
        _fields(reading, node, depth)
    elif kind == "or_pattern":
        for each in node.named_children:
            matched(reading, each, values, declared=declared, depth=depth + 1)
    elif kind == "captured_pattern":
        matched(reading, part_of(node, 0), values, declared=declared, depth=depth + 1)


def _fields(reading: Reading, node: Node, depth: int) -> None:
    """`Point { x, y: Some(z) }` gives fields of a `Point`."""
    of = reading.writer.path(node.child_by_field_name("type"))
    for each in node.named_children:
        name = each.child_by_field_name("name") if each.type == "field_pattern" else None
        if name is None:
            continue
        values = [("", f"{of}().{reading.text(name)}")] if of else []
        matched(reading, each.child_by_field_name("pattern") or name, values, depth=depth + 1)


def _named(reading: Reading, node: Node, values: Values, *, declared: bool) -> None:
    name = reading.text(node)
    if name[:1].isupper() or name == "_":  # a constant, or a variant
        return
    reading.skip(node)
    scope = reading.scope(node)
    if declared:
        declare(reading, scope, name, values)
    else:
        give(reading, scope, name, [each for each in values if head_of(each[1]) != name])


def _under(values: Values, place: str) -> Values:
    found = [(suffix.removeprefix(place), value) for suffix, value in values if suffix.startswith(place)]
    return found or [("", value + place) for suffix, value in values if not suffix]
