"""Functions of JavaScript and TypeScript: their parameters, and what they give."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.graph.languages.ecmascript_names import plain
from knowledge_pipeline.graph.languages.ecmascript_patterns import give
from knowledge_pipeline.graph.languages.ecmascript_types import promised
from knowledge_pipeline.graph.languages.ecmascript_values import elements
from knowledge_pipeline.graph.languages.words import words
from knowledge_pipeline.graph.paths import parent_of
from knowledge_pipeline.graph.reading import Reading

_MAX_STEPS = 60
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
    for each in parameters.named_children if parameters is not None else ():
        _parameter(reading, scope, each)
    if is_definition(reading, node):
        _result(reading, scope, node, body)


def of_return(reading: Reading, node: Node) -> None:
    """What the function gives that a statement returns from, if it is a definition."""
    value = node.named_children[0] if node.named_child_count else None
    function = _function_around(node) if value is not None else None
    if function is not None and is_definition(reading, function):
        scope = reading.scope(function.child_by_field_name("body") or function)
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
    defined = reading.writer.defined
    if (node.start_byte, node.end_byte) in defined:
        return True
    around = node.parent
    for _ in range(2):
        if around is None:
            return False
        if around.end_byte == node.end_byte and (around.start_byte, around.end_byte) in defined:
            return True
        around = around.parent
    return False


def _result(reading: Reading, scope: str, node: Node, body: Node | None) -> None:
    declared = node.child_by_field_name("return_type")
    for suffix, value in promised(reading.writer, declared):
        reading.bind(scope, "@()" + suffix, value, declared=True)
    if node.type == "arrow_function" and body is not None and body.type != "statement_block":
        for suffix, value in reading.writer.values(body):
            reading.bind(scope, "@()" + suffix, value)
    if any(each.type == "get" for each in node.children[:6]):
        reading.bind(scope, "@", "@()")


def _parameter(reading: Reading, scope: str, node: Node) -> None:
    pattern = node.child_by_field_name("pattern") or node
    declared = node.child_by_field_name("type")
    if pattern.type == "this":
        return
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


def _function_around(node: Node) -> Node | None:
    around = node.parent
    for _ in range(_MAX_STEPS):
        if around is None or around.type in _FUNCTIONS:
            return around
        around = around.parent
    return None
