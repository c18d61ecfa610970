"""What Python's calls put into parameters of functions of the same file: `run(job)` binds one to `job`.

Only parameters without a declared type are bound, and only where the call names the function by
scope alone: `run(…)`, `Store(…)`, `self.run(…)`, `Store.run(…)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_of
from knowledge_pipeline.code_graph.facts_builder import Captures, Reading
from knowledge_pipeline.code_graph.languages.python.functions import decorators

_MAX_ARGUMENTS = 20
_PARAMETERS = frozenset({"identifier", "default_parameter", "typed_parameter", "typed_default_parameter"})
_AFTER_ORDER = frozenset({"list_splat_pattern", "keyword_separator"})
_RECEIVERS = frozenset({"self", "cls"})
_UNTOLD = frozenset({"string", "integer", "float", "true", "false", "none", "concatenated_string"})


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function that can be given in order."""

    names: list[str]
    bound: bool  # whether the first one is the receiver
    open: frozenset[str]  # those without a declared type


def hand_over(reading: Reading, captures: Captures) -> None:
    """Bind parameters to the arguments of calls, and of decorators to what they decorate."""
    signatures = dict(_signatures(reading, captures.get("def", ())))
    for node in captures.get("decorator", ()):
        _decorate(reading, signatures, node)
    for node in captures.get("call", ()):
        called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if called is None or given is None or not given.named_child_count:
            continue
        scope = reading.scope(node)
        name = _callee(reading, signatures, scope, reading.writer.path(called))
        if name is not None:
            _give(reading, scope, name, signatures[name], list(_arguments(given)))


def _signatures(reading: Reading, definitions: Iterable[Node]) -> Iterator[tuple[str, Signature]]:
    """The functions with a parameter of which the type is not declared."""
    for node in definitions:
        parameters = node.child_by_field_name("parameters")
        if parameters is None or not parameters.named_child_count:
            continue
        scope = reading.scope(parameters)
        bound = parent_of(scope) in reading.types and "staticmethod" not in decorators(reading, node)
        names: list[str] = []
        free = frozenset(_open(reading, parameters, names))
        if free.difference(names[:bound]):
            yield scope, Signature(names, bound, free)


def _open(reading: Reading, parameters: Node, names: list[str]) -> Iterator[str]:
    """The parameters without a declared type; all that can be given in order are put into `names`."""
    in_order = True
    for each in parameters.named_children:
        if each.type not in _PARAMETERS:
            in_order = in_order and each.type not in _AFTER_ORDER
            continue
        named = each.child_by_field_name("name")
        inner = each.named_children[0] if each.named_child_count else each
        name = reading.text(named or inner)
        if in_order:
            names.append(name)
        if each.child_by_field_name("type") is None:
            yield name


def _arguments(given: Node) -> Iterator[tuple[Node | None, Node]]:
    """The names, if written, and the values of arguments; up to the first `*rest`."""
    for each in given.named_children[:_MAX_ARGUMENTS]:
        if each.type in ("list_splat", "dictionary_splat"):
            return
        name = each.child_by_field_name("name") if each.type == "keyword_argument" else None
        value = each.child_by_field_name("value") if name is not None else each
        if value is not None and each.type != "comment":
            yield name, value


def _give(
    reading: Reading, scope: str, name: str, signature: Signature, given: list[tuple[Node | None, Node]]
) -> None:
    names = signature.names[1:] if signature.bound else signature.names
    for place, (key, value) in enumerate(given):
        parameter = reading.text(key) if key is not None else names[place] if place < len(names) else ""
        if parameter not in signature.open or value.type in _UNTOLD:
            continue
        for suffix, path in reading.writer.values(value):
            reading.bind(scope, f"@in {name}@{parameter}{suffix}", path)


def _decorate(reading: Reading, signatures: dict[str, Signature], node: Node) -> None:
    named, decorated = node.named_children[:1], node.parent
    definition = decorated.child_by_field_name("definition") if decorated is not None else None
    label = definition.child_by_field_name("name") if definition is not None else None
    if not named or label is None or named[0].type != "identifier":
        return
    scope = reading.scope(node)
    name = _callee(reading, signatures, scope, reading.text(named[0]))
    if name is not None and (free := signatures[name].names[:1]) and free[0] in signatures[name].open:
        reading.bind(scope, f"@in {name}@{free[0]}", reading.text(label))


def _callee(reading: Reading, signatures: dict[str, Signature], scope: str, path: str | None) -> str | None:
    """The function of the file that a path names, as scopes alone tell."""
    if path is None or "(" in path or "[" in path:
        return None
    head, _, rest = path.partition(".")
    if head in _RECEIVERS and rest:
        while scope and scope not in reading.types:
            scope = parent_of(scope)
        return f"{scope}.{rest}" if f"{scope}.{rest}" in signatures else None
    while True:
        name = f"{scope}.{path}" if scope else path
        found = f"{name}.__init__" if name in reading.types else name
        if found in signatures:
            return found
        if not scope:
            return None
        scope = parent_of(scope)
