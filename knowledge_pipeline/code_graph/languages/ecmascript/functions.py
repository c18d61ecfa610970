"""Functions of JavaScript and TypeScript: their parameters, and what they give."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_scope
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.ecmascript.names import to_segment
from knowledge_pipeline.code_graph.languages.ecmascript.patterns import bind_pattern
from knowledge_pipeline.code_graph.languages.ecmascript.types import MAX_PARAMETERS, values_of_type
from knowledge_pipeline.code_graph.languages.ecmascript.values import unwrap_expression
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Values, iterated_values, step_values
from knowledge_pipeline.syntax.nodes import children_of, has_child, part_of

_MAX_OBJECTS = 3  # within each other
_MAX_PROPERTIES = 40
_FUNCTION_NODES = split_words(
    """
    function_declaration generator_function_declaration function_expression generator_function
    arrow_function method_definition
    """
)


def read_function(builder: FactsBuilder, node: Node) -> None:
    """Bind a function's parameters, and its result if it is a definition."""
    body, parameters, single = (part_of(node, each) for each in ("body", "parameters", "parameter"))
    scope = builder.scope(parameters or body or node)
    if single is not None:
        bind_pattern(builder, builder.scope(single), single, [])
    is_known = is_definition(builder, node)
    builder.shared_state.setdefault("bodies", []).append((node.start_byte, node.end_byte, is_known))
    place = 0
    for each in children_of(parameters):
        pattern = part_of(each, "pattern") or each
        if pattern.type not in ("this", "comment"):
            values = _bind_parameter(builder, scope, each, pattern)
            if is_known and values and pattern.type == "identifier" and place < MAX_PARAMETERS:
                builder.bind(scope, f"@{place}", builder.text(pattern))
            elif is_known and place < MAX_PARAMETERS:
                builder.bind_all(scope, f"@{place}", values, declared=True)
            place += 1
    if is_known:
        declared = part_of(node, "return_type")
        builder.bind_all(scope, "@()", values_of_type(builder.writer, declared), declared=True)
        if node.type == "arrow_function" and body is not None and body.type != "statement_block":
            builder.bind_all(scope, "@()", builder.writer.values(body))
        if any(each.type == "get" for each in node.children[:6]):
            builder.bind(scope, "@", "@()")


def bind_callback_parameters(builder: FactsBuilder, argument: Node, values: Values, depth: int = 0) -> None:
    """Give the parameters of a function, or of those in an object, what a declared type says."""
    function = unwrap_expression(argument)
    if function is None or depth > _MAX_OBJECTS:
        return
    if function.type == "object":
        for each in function.named_children[:_MAX_PROPERTIES]:
            key = part_of(each, "key") or part_of(each, "name")
            value = part_of(each, "value") if each.type == "pair" else each
            if key is not None and value is not None and key.type == "property_identifier":
                inner = step_values(values, f".{builder.text(key)}")
                bind_callback_parameters(builder, value, inner, depth + 1)
    elif function.type in _FUNCTION_NODES:
        scope = builder.scope(part_of(function, "body") or function)
        for place, each in enumerate(_iter_untyped_patterns(function)):
            if each is not None:
                bind_pattern(builder, scope, each, step_values(values, f".@{place}"))


def _iter_untyped_patterns(function: Node) -> Iterator[Node | None]:
    """Patterns of a function's parameters; None for those that declare a type."""
    single, several = part_of(function, "parameter"), part_of(function, "parameters")
    given = [single] if single is not None else children_of(several)
    for each in given[:MAX_PARAMETERS]:
        typed = part_of(each, "type") is not None
        yield None if typed else part_of(each, "pattern") or each


def read_return(builder: FactsBuilder, node: Node) -> None:
    """What the function gives that a statement returns from, if it is a definition."""
    value = part_of(node, 0)
    if value is not None and _returns_from_definition(builder, node):
        builder.bind_all(builder.scope(node), "@()", builder.writer.values(value))


def read_yield(builder: FactsBuilder, node: Node) -> None:
    """What a generator gives one by one."""
    values = builder.writer.values(part_of(node, 0))
    held = iterated_values(values) if has_child(node, "*") else values
    builder.bind_all(builder.scope(node), "@()[]", held)


def is_definition(builder: FactsBuilder, node: Node) -> bool:
    """Whether a function has a name by which it is found."""
    spans = builder.shared_state.get("functions")
    if spans is None:
        spans = builder.shared_state["functions"] = set(_iter_definition_spans(builder))
    return (node.start_byte, node.end_byte) in spans


def _iter_definition_spans(builder: FactsBuilder) -> Iterator[tuple[int, int]]:
    """First and last bytes of functions that are definitions, or the values of such."""
    for each in builder.outline.definitions:
        value = part_of(each.node, "value") or part_of(each.node, "right") or each.node
        yield value.start_byte, value.end_byte


def _bind_parameter(builder: FactsBuilder, scope: str, node: Node, pattern: Node) -> Values:
    """Bind a parameter; gives what its type promises."""
    declared = part_of(node, "type")
    if pattern.type == "rest_pattern":
        pattern = part_of(pattern, 0) or pattern
    values = values_of_type(builder.writer, declared)
    if declared is not None:
        bind_pattern(builder, scope, pattern, values, declared=True)
    given = part_of(node, "value")
    if given is not None or not values:
        bind_pattern(builder, scope, pattern, builder.writer.values(given))
    is_field = has_child(node, "accessibility_modifier", "readonly", "override_modifier")
    owner = parent_scope(scope)  # `constructor(private store: Store)` declares a field, too
    if is_field and pattern.type == "identifier" and owner in builder.type_names:
        name = to_segment(builder.text(pattern))
        builder.add_definition(f"{owner}.{name}", "variable", node)
        builder.bind_all(owner, name, values, declared=True)
    return values


def _returns_from_definition(builder: FactsBuilder, node: Node) -> bool:
    """Whether the innermost function around a node is a definition; asked after all functions were read."""
    if "spans" not in builder.shared_state:
        builder.shared_state["spans"] = _build_function_spans(builder.shared_state.get("bodies", []))
    starts, known = builder.shared_state["spans"]
    return known[bisect_right(starts, node.start_byte) - 1]


def _build_function_spans(bodies: list[tuple[int, int, bool]]) -> tuple[list[int], list[bool]]:
    """From which bytes on the innermost function is a definition, or none; functions in their order."""
    starts, known = [0], [False]
    around: list[tuple[int, bool]] = []

    def leave(offset: int) -> None:
        while around and around[-1][0] <= offset:
            starts.append(around.pop()[0])
            known.append(around[-1][1] if around else False)

    for start, end, is_known in bodies:
        leave(start)
        around.append((end, is_known))
        starts.append(start)
        known.append(is_known)
    leave(2**62)
    return starts, known
