"""What Python's functions say: parameters, results, decorators that change what a call gives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_scope
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.python.types import values_of_annotation
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import add_prefix, iterated_values
from knowledge_pipeline.syntax.nodes import has_child, part_of

_PROPERTY_DECORATORS = split_words("property cached_property hybrid_property abstractproperty getter setter")
_CONTEXT_MANAGERS = {"contextmanager": "__enter__", "asynccontextmanager": "__aenter__"}
_NAME = re.compile(r"[^\W\d][\w.]*")


def bind_annotation(
    builder: FactsBuilder, scope: str, path: str | None, annotation: Node, prefix: str = ""
) -> None:
    """Bind a path to what an annotation promises, or to something unknown."""
    values = add_prefix(prefix, values_of_annotation(builder.text(annotation)))
    builder.bind_name(scope, path, values, declared=True)


def read_definition(builder: FactsBuilder, node: Node) -> None:
    """Parameters, receiver and declared result of a function, and what its decorators make of it."""
    parameters = part_of(node, "parameters")
    if parameters is None or not parameters.parent:
        return
    scope = builder.scope(parameters)
    marks = set(iter_decorators(builder, node))
    names = list(bind_parameters(builder, scope, parameters))
    if parent_scope(scope) in builder.type_names and "staticmethod" not in marks and names:
        is_class = "classmethod" in marks or scope.endswith((".__new__", ".__init_subclass__"))
        builder.bind(scope, names[0], "@class" if is_class else "@self", declared=True)
    result = values_of_annotation(builder.text(part_of(node, "return_type")))
    builder.bind_all(scope, "@()", result, declared=True)
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
        named = part_of(each, "name") or (
            each.named_children[0] if each.named_child_count and each.type != "identifier" else each
        )
        name = builder.text(named)
        held = "[]" if name.startswith("*") else ""
        name = name.strip("*( ")
        if not name.isidentifier():
            continue
        builder.skip_reference(part_of(named, 0) or named)
        declared = part_of(each, "type")
        if declared is not None:
            bind_annotation(builder, scope, name, declared, held)
        builder.bind_name(scope, name, builder.writer.values(part_of(each, "value")))
        yield name


def read_lambda(builder: FactsBuilder, node: Node) -> None:
    """The parameters of a lambda."""
    list(bind_parameters(builder, builder.scope(node), node))


def read_return(builder: FactsBuilder, node: Node) -> None:
    """What a function gives."""
    builder.bind_all(builder.scope(node), "@()", builder.writer.values(part_of(node, 0)))


def read_yield(builder: FactsBuilder, node: Node) -> None:
    """What a generator gives when it is iterated."""
    values = builder.writer.values(part_of(node, 0))
    held = iterated_values(values) if has_child(node, "from") else values
    builder.bind_all(builder.scope(node), "@()[]", held)
