"""What is bound where a value is taken apart: `const { a, b: [c] } = value`."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.values import Values, step_values
from knowledge_pipeline.syntax.nodes import part_of

_MAX_DEPTH = 6
_NAME_NODES = frozenset({"identifier", "shorthand_property_identifier_pattern"})
_PLACE_NODES = frozenset({"member_expression", "subscript_expression"})


def bind_pattern(
    builder: FactsBuilder, scope: str, target: Node, values: Values, *, declared: bool = False, depth: int = 0
) -> None:
    """Bind a target to values; the parts of a pattern to the parts of theirs."""
    kind = target.type
    if depth > _MAX_DEPTH:
        return
    if kind in _NAME_NODES or kind in _PLACE_NODES:
        path = builder.text(target) if kind in _NAME_NODES else builder.writer.path(target)
        builder.bind_name(scope, path, values, declared=declared)
        return
    for part, inner in _iter_parts(builder, target, values):
        bind_pattern(builder, scope, part, inner, declared=declared, depth=depth + 1)


def iter_declared_names(target: Node, depth: int = 0) -> Iterator[Node]:
    """The names that a pattern declares."""
    if target.type in _NAME_NODES:
        yield target
        return
    if depth > _MAX_DEPTH:
        return
    for each in target.named_children:
        if target.type == "pair_pattern" and each == part_of(target, "key"):
            continue
        if target.type in ("assignment_pattern", "object_assignment_pattern"):
            each = part_of(target, "left") or each
            yield from iter_declared_names(each, depth + 1)
            return
        yield from iter_declared_names(each, depth + 1)


def _iter_parts(builder: FactsBuilder, target: Node, values: Values) -> Iterator[tuple[Node, Values]]:
    kind = target.type
    if kind == "object_pattern":
        yield from _iter_properties(builder, target, values)
    elif kind == "array_pattern":
        for place, each in enumerate(target.named_children[:20]):
            yield each, [] if each.type == "rest_pattern" else step_values(values, f"[{place}]")
    elif kind in ("assignment_pattern", "object_assignment_pattern"):
        left = part_of(target, "left")
        if left is not None:
            yield left, values + builder.writer.values(part_of(target, "right"))
    elif kind in ("rest_pattern", "parenthesized_expression", "non_null_expression"):
        yield from ((each, values) for each in target.named_children[:1])


def _iter_properties(builder: FactsBuilder, target: Node, values: Values) -> Iterator[tuple[Node, Values]]:
    for each in target.named_children[:60]:
        if each.type == "shorthand_property_identifier_pattern":
            yield each, step_values(values, f".{builder.text(each)}")
        elif each.type == "object_assignment_pattern":
            left = part_of(each, "left")
            name = builder.text(left)
            yield each, step_values(values, f".{name}")
        elif each.type == "pair_pattern":
            key, value = part_of(each, "key"), part_of(each, "value")
            if key is not None and value is not None:
                yield (
                    value,
                    step_values(values, f".{builder.text(key)}") if key.type.endswith("identifier") else [],
                )
        elif each.type == "rest_pattern":
            yield each, [value for value in values if value[0][:1] in ("", ".")]
