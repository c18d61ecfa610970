"""Functions of JavaScript and TypeScript: their parameters, and what they give."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_of
from knowledge_pipeline.code_graph.facts_builder import Reading
from knowledge_pipeline.code_graph.languages.ecmascript.names import plain
from knowledge_pipeline.code_graph.languages.ecmascript.patterns import give
from knowledge_pipeline.code_graph.languages.ecmascript.types import MAX_PARAMETERS, Values, promised
from knowledge_pipeline.code_graph.languages.ecmascript.value_steps import elements, taken
from knowledge_pipeline.code_graph.languages.ecmascript.values import bare
from knowledge_pipeline.code_graph.languages.words import words

_MAX_OBJECTS = 3  # within each other
_MAX_PROPERTIES = 40
_FUNCTIONS = words(
    """
    function_declaration generator_function_declaration function_expression generator_function
    arrow_function method_definition
    """
)


def of_function(reading: Reading, node: Node) -> None:
    """Bind a function's parameters, and its result if it is a definition."""
    body = node.child_by_field_name("body")
    parameters = node.child_by_field_name("parameters")
    scope = reading.scope(parameters or body or node)
    single = node.child_by_field_name("parameter")
    if single is not None:
        give(reading, reading.scope(single), single, [])
    is_known = is_definition(reading, node)
    reading.notes.setdefault("bodies", []).append((node.start_byte, node.end_byte, is_known))
    place = 0
    for each in parameters.named_children if parameters is not None else ():
        pattern = each.child_by_field_name("pattern") or each
        if pattern.type not in ("this", "comment"):
            values = _parameter(reading, scope, each, pattern)
            if is_known and values and pattern.type == "identifier" and place < MAX_PARAMETERS:
                reading.bind(scope, f"@{place}", reading.text(pattern))
            elif is_known and place < MAX_PARAMETERS:
                for suffix, value in values:
                    reading.bind(scope, f"@{place}{suffix}", value, declared=True)
            place += 1
    if is_known:
        _result(reading, scope, node, body)


def hand(reading: Reading, given: Node, values: Values, depth: int = 0) -> None:
    """Give the parameters of a function, or of those in an object, what a declared type says."""
    function = bare(given)
    if function is None or depth > _MAX_OBJECTS:
        return
    if function.type == "object":
        for each in function.named_children[:_MAX_PROPERTIES]:
            key = each.child_by_field_name("key") or each.child_by_field_name("name")
            value = each.child_by_field_name("value") if each.type == "pair" else each
            if key is not None and value is not None and key.type == "property_identifier":
                hand(reading, value, taken(values, f".{reading.text(key)}"), depth + 1)
    elif function.type in _FUNCTIONS:
        scope = reading.scope(function.child_by_field_name("body") or function)
        for place, each in enumerate(_untyped(function)):
            if each is not None:
                give(reading, scope, each, taken(values, f".@{place}"))


def _untyped(function: Node) -> Iterator[Node | None]:
    """Patterns of a function's parameters; None for those that declare a type."""
    single, several = function.child_by_field_name("parameter"), function.child_by_field_name("parameters")
    given = [single] if single is not None else several.named_children if several is not None else []
    for each in given[:MAX_PARAMETERS]:
        typed = each.child_by_field_name("type") is not None
        yield None if typed else each.child_by_field_name("pattern") or each


def of_return(reading: Reading, node: Node) -> None:
    """What the function gives that a statement returns from, if it is a definition."""
    value = node.named_children[0] if node.named_child_count else None
    if value is not None and _is_of_definition(reading, node):
        scope = reading.scope(node)
        for suffix, path in reading.writer.values(value):
            reading.bind(scope, "@()" + suffix, path)


def of_yield(reading: Reading, node: Node) -> None:
    """What a generator gives one by one."""
    value = node.named_children[0] if node.named_child_count else None
    values = reading.writer.values(value)
    scope = reading.scope(node)
    every = any(each.type == "*" for each in node.children)
    for suffix, path in elements(values) if every else values:
        reading.bind(scope, "@()[]" + suffix, path)


def is_definition(reading: Reading, node: Node) -> bool:
    """Whether a function has a name by which it is found."""
    spans = reading.notes.get("functions")
    if spans is None:
        spans = reading.notes["functions"] = set(_functions(reading))
    return (node.start_byte, node.end_byte) in spans


def _functions(reading: Reading) -> Iterator[tuple[int, int]]:
    """First and last bytes of functions that are definitions, or the values of such."""
    for each in reading.outline.definitions:
        value = each.node.child_by_field_name("value") or each.node.child_by_field_name("right") or each.node
        yield value.start_byte, value.end_byte


def _result(reading: Reading, scope: str, node: Node, body: Node | None) -> None:
    declared = node.child_by_field_name("return_type")
    for suffix, value in promised(reading.writer, declared):
        reading.bind(scope, "@()" + suffix, value, declared=True)
    if node.type == "arrow_function" and body is not None and body.type != "statement_block":
        for suffix, value in reading.writer.values(body):
            reading.bind(scope, "@()" + suffix, value)
    if any(each.type == "get" for each in node.children[:6]):
        reading.bind(scope, "@", "@()")


def _parameter(reading: Reading, scope: str, node: Node, pattern: Node) -> Values:
    """Bind a parameter; gives what its type promises."""
    declared = node.child_by_field_name("type")
    if pattern.type == "rest_pattern":
        pattern = pattern.named_children[0] if pattern.named_child_count else pattern
    values = promised(reading.writer, declared)
    if declared is not None:
        give(reading, scope, pattern, values, declared=True)
    given = node.child_by_field_name("value")
    if given is not None or not values:
        give(reading, scope, pattern, reading.writer.values(given))
    if any(
        each.type in ("accessibility_modifier", "readonly", "override_modifier") for each in node.children
    ):
        _parameter_field(reading, scope, node, pattern, values)
    return values


def _parameter_field(
    reading: Reading, scope: str, node: Node, pattern: Node, values: list[tuple[str, str]]
) -> None:
    """`constructor(private store: Store)` declares a field, too."""
    owner = parent_of(scope)
    if pattern.type != "identifier" or owner not in reading.types:
        return
    name = plain(reading.text(pattern))
    reading.define(f"{owner}.{name}", "variable", node)
    for suffix, value in values:
        reading.bind(owner, name + suffix, value, declared=True)


def _is_of_definition(reading: Reading, node: Node) -> bool:
    """Whether the innermost function around a node is a definition; asked after all functions were read."""
    if "spans" not in reading.notes:
        reading.notes["spans"] = _spans(reading.notes.get("bodies", []))
    starts, known = reading.notes["spans"]
    return known[bisect_right(starts, node.start_byte) - 1]


def _spans(bodies: list[tuple[int, int, bool]]) -> tuple[list[int], list[bool]]:
    """From which bytes on the innermost function is a definition, or none; functions in their order."""
    starts, known = [0], [False]
    around: list[tuple[int, bool]] = []

    def leave(before: int) -> None:
        while around and around[-1][0] <= before:
            starts.append(around.pop()[0])
            known.append(around[-1][1] if around else False)

    for start, end, is_known in bodies:
        leave(start)
        around.append((end, is_known))
        starts.append(start)
        known.append(is_known)
    leave(2**62)
    return starts, known
