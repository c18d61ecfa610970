"""What Swift's patterns bind: `if let`, `case let .found(x)`, `for (a, b) in`, `catch let e as E`."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import head_of
from knowledge_pipeline.code_graph.facts_builder import Reading
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    children,
    declare,
    elements,
    give,
    promised,
)
from knowledge_pipeline.code_graph.languages.swift.types import TYPES

_MAX_DEPTH = 8


def bind_pattern(reading: Reading, scope: str, node: Node, values: Values, depth: int = 0) -> None:
    """Bind the names of a pattern to parts of a value.

    Args:
        reading: the file.
        scope: in which the names are variables.
        node: a pattern.
        values: what it is matched with, as (suffix, path).
        depth: of patterns in patterns.
    """
    if depth > _MAX_DEPTH:
        return
    kind = node.child_by_field_name("name")
    if kind is not None:
        for each in _names_in(node, depth):
            declare(reading, scope, reading.text(each), promised(TYPES, reading.writer, kind))
            reading.skip(each)
        if any(each.type == "is" for each in node.children):
            _narrow(reading, scope, values, kind)
        return
    case, inner = _case_of(node), list(children(node, "pattern"))
    if case is not None:
        for each, after in zip(node.children, node.children[1:], strict=False):
            if after.type == ":":
                reading.skip(each)
        reading.skip(case)
        _match_case(reading, scope, case, inner, values, depth)
        return
    for each in _bound(node, depth):
        _give(reading, scope, each, values)
    for at, each in enumerate(inner):
        bind_pattern(reading, scope, each, _part(values, at, len(inner)), depth + 1)


def conditions(reading: Reading, node: Node) -> None:
    """`if let x = y`, `guard case let .found(x) = y`, `while let …`."""
    scope = reading.scope(node)
    waiting: list[Node] = []
    declared: Node | None = None
    for at, each in enumerate(node.children):
        field = node.field_name_for_child(at)
        if field == "bound_identifier" or each.type in ("pattern", "simple_identifier", "."):
            waiting.append(each)
        elif each.type == "type_annotation":
            declared = each
        elif each.type == "=" and at + 1 < len(node.children):
            _condition(reading, scope, waiting, declared, node.children[at + 1])
            waiting, declared = [], None
        elif each.type in (",", "case", "if", "guard", "while") and not _opened(waiting):
            waiting, declared = [], None


def switched(reading: Reading, node: Node) -> None:
    """The patterns of a `switch`."""
    scope = reading.scope(node)
    values = reading.writer.values(node.child_by_field_name("expr"))
    for entry in children(node, "switch_entry"):
        for each in children(entry, "switch_pattern"):
            for pattern in children(each, "pattern"):
                bind_pattern(reading, scope, pattern, values)


def looped(reading: Reading, node: Node) -> None:
    """`for item in items`, `for (key, value) in table`."""
    item, scope = node.child_by_field_name("item"), reading.scope(node)
    if item is None:
        return
    held = elements(reading.writer.values(node.child_by_field_name("collection")))
    inner = list(children(item, "pattern"))
    if len(inner) == 2 and _case_of(item) is None and item.child_by_field_name("name") is None:
        bind_pattern(reading, scope, inner[0], [], 1)
        bind_pattern(reading, scope, inner[1], held, 1)  # the value of a dictionary, or after a number
        return
    bind_pattern(reading, scope, item, held)


def caught(reading: Reading, node: Node) -> None:
    """`catch let problem as StoreError`; `error` where nothing is written."""
    scope, pattern = reading.scope(node), node.child_by_field_name("error")
    if pattern is None:
        give(reading, scope, "error", [])
    else:
        bind_pattern(reading, scope, pattern, [])


def _opened(waiting: list[Node]) -> bool:
    """Whether a comma is one between the patterns of a case: `.found(a, b)`."""
    return bool(waiting) and waiting[0].type == "."


def _condition(reading: Reading, scope: str, waiting: list[Node], declared: Node | None, value: Node) -> None:
    values = reading.writer.values(value)
    if waiting and waiting[0].type == "." and len(waiting) > 1:
        reading.skip(waiting[1])
        inner = [each for each in waiting[2:] if each.type == "pattern"]
        for label in waiting[2:]:
            if label.type == "simple_identifier":
                reading.skip(label)
        _match_case(reading, scope, waiting[1], inner, values, 0)
        return
    for each in waiting:
        if each.type == "pattern":
            bind_pattern(reading, scope, each, values)
        elif declared is not None:
            declare(reading, scope, reading.text(each), promised(TYPES, reading.writer, declared))
        elif each.type == "simple_identifier":
            _give(reading, scope, each, values)


def _match_case(
    reading: Reading, scope: str, case: Node, inner: list[Node], values: Values, depth: int
) -> None:
    """`.found(x)`: a case of the type that is matched, and what goes with it."""
    name = reading.text(case)
    of = next((path for suffix, path in values if not suffix), None)
    if of and name not in ("some", "none"):
        reading.use("references", f"{of}.{name}", case)
    for at, each in enumerate(inner):
        held = values if name == "some" else [("", f"{of}.{name}@{at}")] if of else []
        _inner(reading, scope, each, held, depth)


def _inner(reading: Reading, scope: str, pattern: Node, values: Values, depth: int) -> None:
    """A name alone, within a case that is matched by `let`, is bound, too."""
    only = pattern.named_children
    if len(only) == 1 and only[0].type == "simple_identifier" and _case_of(pattern) is None:
        _give(reading, scope, only[0], values)
    else:
        bind_pattern(reading, scope, pattern, values, depth + 1)


def _case_of(pattern: Node) -> Node | None:
    """`found` of the pattern `.found(x)`."""
    for before, each in zip(pattern.children, pattern.children[1:], strict=False):
        if before.type == "." and each.type == "simple_identifier":
            return each
    return None


def _bound(pattern: Node, depth: int) -> Iterator[Node]:
    """Names that a pattern itself binds; in a tuple, `a` of `let (a, b)`, too."""
    yield from pattern.children_by_field_name("bound_identifier")
    named = pattern.named_children
    is_name = len(named) == 1 and named[0].type == "simple_identifier"
    if depth and is_name and pattern.child_by_field_name("bound_identifier") is None:
        yield named[0]


def _names_in(pattern: Node, depth: int) -> Iterator[Node]:
    yield from pattern.children_by_field_name("bound_identifier")
    if depth <= _MAX_DEPTH:
        for each in children(pattern, "pattern"):
            yield from _names_in(each, depth + 1)


def _give(reading: Reading, scope: str, name: Node, values: Values) -> None:
    """Bind a name; where its value starts with the same name, to what that means around."""
    text = reading.text(name).strip("`")
    reading.skip(name)
    if text in ("self", "_"):
        return
    known = [(suffix, f"@around.{path}" if head_of(path) == text else path) for suffix, path in values]
    give(reading, scope, text, known)


def _part(values: Values, at: int, count: int) -> Values:
    """What a place in a tuple is worth."""
    if count == 1:
        return values
    told = [(suffix.removeprefix(f"[{at}]"), path) for suffix, path in values if suffix.startswith(f"[{at}]")]
    return told + [("", f"{path}[{at}]") for suffix, path in values if not suffix]


def _narrow(reading: Reading, scope: str, values: Values, kind: Node) -> None:
    """`case is Special` says more of what is switched over."""
    path = next((path for suffix, path in values if not suffix), "")
    if path.isidentifier():
        for suffix, value in promised(TYPES, reading.writer, kind):
            reading.bind(scope, path + suffix, value, declared=True)
