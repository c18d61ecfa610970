"""What Python's calls put into parameters of functions of the same file: `run(job)` binds one to `job`.

Only parameters without a declared type are bound, and only where the call names the function by
scope alone: `run(…)`, `Store(…)`, `self.run(…)`, `Store.run(…)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_scope
from knowledge_pipeline.code_graph.facts_builder import Captures, FactsBuilder
from knowledge_pipeline.code_graph.languages.python.functions import iter_decorators
from knowledge_pipeline.syntax.nodes import part_of

_MAX_ARGUMENTS = 20
_PARAMETERS = frozenset({"identifier", "default_parameter", "typed_parameter", "typed_default_parameter"})
_POSITIONAL_END = frozenset({"list_splat_pattern", "keyword_separator"})
_RECEIVERS = frozenset({"self", "cls"})
_LITERAL_NODES = frozenset({"string", "integer", "float", "true", "false", "none", "concatenated_string"})


@dataclass(frozen=True, slots=True)
class OpenParameters:
    """The parameters of a function that can be given in order."""

    positional: list[str]
    has_receiver: bool  # whether the first one is the receiver
    untyped: frozenset[str]  # those without a declared type


def bind_call_arguments(builder: FactsBuilder, captures: Captures) -> None:
    """Bind parameters to the arguments of calls, and of decorators to what they decorate."""
    signatures = dict(_iter_signatures(builder, captures.get("def", ())))
    for node in captures.get("decorator", ()):
        _bind_decorated(builder, signatures, node)
    for node in captures.get("call", ()):
        called, given = part_of(node, "function"), part_of(node, "arguments")
        if called is None or given is None or not given.named_child_count:
            continue
        scope = builder.scope(node)
        name = _find_callee(builder, signatures, scope, builder.writer.path(called))
        if name is not None:
            _bind_arguments(builder, scope, name, signatures[name], list(_iter_arguments(given)))


def _iter_signatures(
    builder: FactsBuilder, definitions: Iterable[Node]
) -> Iterator[tuple[str, OpenParameters]]:
    """The functions with a parameter of which the type is not declared."""
    for node in definitions:
        parameters = part_of(node, "parameters")
        if parameters is None or not parameters.named_child_count:
            continue
        scope = builder.scope(parameters)
        bound = parent_scope(scope) in builder.type_names and "staticmethod" not in iter_decorators(
            builder, node
        )
        names: list[str] = []
        free = frozenset(_iter_untyped_parameters(builder, parameters, names))
        if free.difference(names[:bound]):
            yield scope, OpenParameters(names, bound, free)


def _iter_untyped_parameters(builder: FactsBuilder, parameters: Node, positional: list[str]) -> Iterator[str]:
    """The parameters without a declared type; all that can be given in order are put into `names`."""
    in_order = True
    for each in parameters.named_children:
        if each.type not in _PARAMETERS:
            in_order = in_order and each.type not in _POSITIONAL_END
            continue
        named = part_of(each, "name")
        inner = each.named_children[0] if each.named_child_count else each
        name = builder.text(named or inner)
        if in_order:
            positional.append(name)
        if part_of(each, "type") is None:
            yield name


def _iter_arguments(argument_list: Node) -> Iterator[tuple[Node | None, Node]]:
    """The names, if written, and the values of arguments; up to the first `*rest`."""
    for each in argument_list.named_children[:_MAX_ARGUMENTS]:
        if each.type in ("list_splat", "dictionary_splat"):
            return
        name = part_of(each, "name") if each.type == "keyword_argument" else None
        value = part_of(each, "value") if name is not None else each
        if value is not None and each.type != "comment":
            yield name, value


def _bind_arguments(
    builder: FactsBuilder,
    scope: str,
    name: str,
    signature: OpenParameters,
    call_arguments: list[tuple[Node | None, Node]],
) -> None:
    names = signature.positional[1:] if signature.has_receiver else signature.positional
    for place, (key, value) in enumerate(call_arguments):
        parameter = builder.text(key) if key is not None else names[place] if place < len(names) else ""
        if parameter not in signature.untyped or value.type in _LITERAL_NODES:
            continue
        builder.bind_all(scope, f"@in {name}@{parameter}", builder.writer.values(value))


def _bind_decorated(builder: FactsBuilder, signatures: dict[str, OpenParameters], node: Node) -> None:
    named, decorated = node.named_children[:1], node.parent
    definition = part_of(decorated, "definition")
    label = part_of(definition, "name")
    if not named or label is None or named[0].type != "identifier":
        return
    scope = builder.scope(node)
    name = _find_callee(builder, signatures, scope, builder.text(named[0]))
    if name is not None and (free := signatures[name].positional[:1]) and free[0] in signatures[name].untyped:
        builder.bind(scope, f"@in {name}@{free[0]}", builder.text(label))


def _find_callee(
    builder: FactsBuilder, signatures: dict[str, OpenParameters], scope: str, path: str | None
) -> str | None:
    """The function of the file that a path names, as scopes alone tell."""
    if path is None or "(" in path or "[" in path:
        return None
    head, _, rest = path.partition(".")
    if head in _RECEIVERS and rest:
        while scope and scope not in builder.type_names:
            scope = parent_scope(scope)
        return f"{scope}.{rest}" if f"{scope}.{rest}" in signatures else None
    while True:
        name = f"{scope}.{path}" if scope else path
        found = f"{name}.__init__" if name in builder.type_names else name
        if found in signatures:
            return found
        if not scope:
            return None
        scope = parent_scope(scope)
