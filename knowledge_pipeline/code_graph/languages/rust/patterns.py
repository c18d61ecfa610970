"""Rust's patterns: which names they give to which parts of a value."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import first_segment
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Values, element_values, values_at
from knowledge_pipeline.syntax.nodes import part_of

_WRAPPER_VARIANTS = split_words("Some Ok Option.Some Result.Ok")
_TRANSPARENT_NODES = split_words("ref_pattern mut_pattern reference_pattern match_pattern")
_MAX_DEPTH = 8


def bind_pattern(
    builder: FactsBuilder, node: Node | None, values: Values, *, declared: bool = False, depth: int = 0
) -> None:
    """Give the names of a pattern what the value's parts are."""
    if node is None or depth > _MAX_DEPTH:
        return
    kind = node.type
    if kind in ("identifier", "shorthand_field_identifier"):
        name = builder.text(node)
        if name[:1].isupper() or name == "_":  # a constant, or a variant
            return
        builder.skip_reference(node)
        scope = builder.scope(node)
        if declared:
            builder.bind_declared(scope, name, values)
        else:
            builder.bind_observed(scope, name, [each for each in values if first_segment(each[1]) != name])
    elif kind in _TRANSPARENT_NODES:
        inner = [each for each in node.named_children if each.type != "mutable_specifier"]
        bind_pattern(builder, inner[0] if inner else None, values, declared=declared, depth=depth + 1)
    elif kind == "tuple_pattern":
        for place, each in enumerate(node.named_children):
            found = values_at(values, f"[{place}]")
            bind_pattern(builder, each, found, declared=declared, depth=depth + 1)
    elif kind == "tuple_struct_pattern":
        of = builder.writer.path(part_of(node, "type"))
        inner = element_values(values) if of in _WRAPPER_VARIANTS else []
        for each in node.named_children[1:]:
            bind_pattern(builder, each, inner, declared=declared, depth=depth + 1)
    elif kind == "struct_pattern":
        _bind_fields(builder, node, depth)
    elif kind == "or_pattern":
        for each in node.named_children:
            bind_pattern(builder, each, values, declared=declared, depth=depth + 1)
    elif kind == "captured_pattern":
        bind_pattern(builder, part_of(node, 0), values, declared=declared, depth=depth + 1)


def _bind_fields(builder: FactsBuilder, node: Node, depth: int) -> None:
    """`Point { x, y: Some(z) }` gives fields of a `Point`."""
    of = builder.writer.path(part_of(node, "type"))
    for each in node.named_children:
        name = part_of(each, "name") if each.type == "field_pattern" else None
        if name is None:
            continue
        values = [("", f"{of}().{builder.text(name)}")] if of else []
        bind_pattern(builder, part_of(each, "pattern") or name, values, depth=depth + 1)
