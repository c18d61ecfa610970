"""What Python's functions say: parameters, results, decorators that change what a call gives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_scope
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.python.types import values_of_annotation
from knowledge_pipeline.code_graph.languages.python.values import element_values

Values = list[tuple[str, str]]

_PROPERTY_DECORATORS = (
    "property",
    "cached_property",
    "hybrid_property",
    "abstractproperty",
    "getter",
    "setter",
)
_CONTEXT_MANAGERS = {"contextmanager": "__enter__", "asynccontextmanager": "__aenter__"}
_NAME = re.compile(r"[^\W\d][\w.]*")


def bind_annotation(
    builder: FactsBuilder, scope: str, path: str | None, annotation: Node, prefix: str = ""
) -> None:
    """Bind a path to what an annotation promises; to something unknown where it says nothing."""
    if path is None:
        return
    values = values_of_annotation(builder.text(annotation))
    for suffix, value in values:
        builder.bind(scope, path + prefix + suffix, value, declared=True)
    if not any(suffix == prefix == "" for suffix, _ in values):
        builder.bind(scope, path, "")


def bind_values(builder: FactsBuilder, scope: str, path: str | None, values: Values) -> None:
    """Bind a path to values; to something unknown where there is none."""
    if path is None:
        return
    for suffix, value in values:
        builder.bind(scope, path + suffix, value)
    if not any(not suffix for suffix, _ in values):
        builder.bind(scope, path, "")


def read_definition(builder: FactsBuilder, node: Node) -> None:
    """Parameters, receiver and declared result of a function, and what its decorators make of it."""
    parameters = node.child_by_field_name("parameters")
    if parameters is None or not parameters.parent:
        return
    scope = builder.scope(parameters)
    marks = set(iter_decorators(builder, node))
    names = list(bind_parameters(builder, scope, parameters))
    if parent_scope(scope) in builder.type_names and "staticmethod" not in marks and names:
        is_class = "classmethod" in marks or scope.endswith((".__new__", ".__init_subclass__"))
        builder.bind(scope, names[0], "@class" if is_class else "@self", declared=True)
    result = node.child_by_field_name("return_type")
    if result is not None:
        for suffix, value in values_of_annotation(builder.text(result)):
            builder.bind(scope, "@()" + suffix, value, declared=True)
    if marks.intersection(_PROPERTY_DECORATORS):
        builder.bind(scope, "@", "@()")
    for mark in marks.intersection(_CONTEXT_MANAGERS):
        builder.bind(scope, f"@().{_CONTEXT_MANAGERS[mark]}()", "@()[]")


def iter_decorators(builder: FactsBuilder, node: Node) -> Iterator[str]:
    """Last names of a definition's decorators."""
    parent = node.parent
    if parent is None or parent.type != "decorated_definition":
        return
    for each in parent.children:
        if each.type == "decorator":
            found = _NAME.search(builder.text(each)[:200])
            yield found[0].rpartition(".")[2] if found else ""


def bind_parameters(builder: FactsBuilder, scope: str, parameters: Node) -> Iterator[str]:
    """Bind parameters to what their types and defaults promise; give their names."""
    for each in parameters.named_children:
        named = each.child_by_field_name("name") or (
            each.named_children[0] if each.named_child_count and each.type != "identifier" else each
        )
        name = builder.text(named)
        held = "[]" if name.startswith("*") else ""
        name = name.strip("*( ")
        if not name.isidentifier():
            continue
        builder.skip_reference(named.named_children[0] if named.named_child_count else named)
        declared = each.child_by_field_name("type")
        if declared is not None:
            bind_annotation(builder, scope, name, declared, held)
        default = each.child_by_field_name("value")
        bind_values(builder, scope, name, builder.writer.values(default))
        yield name


def read_lambda(builder: FactsBuilder, node: Node) -> None:
    """The parameters of a lambda."""
    list(bind_parameters(builder, builder.scope(node), node))


def read_return(builder: FactsBuilder, node: Node) -> None:
    """What a function gives."""
    value = node.named_children[0] if node.named_child_count else None
    scope = builder.scope(node)
    for suffix, path in builder.writer.values(value):
        builder.bind(scope, "@()" + suffix, path)


def read_yield(builder: FactsBuilder, node: Node) -> None:
    """What a generator gives when it is iterated."""
    value = node.named_children[0] if node.named_child_count else None
    values = builder.writer.values(value)
    is_from = any(each.type == "from" for each in node.children)
    scope = builder.scope(node)
    for suffix, path in element_values(values) if is_from else values:
        builder.bind(scope, "@()[]" + suffix, path)
