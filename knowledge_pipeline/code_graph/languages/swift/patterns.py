"""What Swift's patterns bind: `if let`, `case let .found(x)`, `for (a, b) in`, `catch let e as E`."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import first_segment
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.values import Values, element_values, own_value
from knowledge_pipeline.syntax.nodes import children_of_type, has_child, part_of

_MAX_DEPTH = 8


def bind_pattern(builder: FactsBuilder, scope: str, node: Node, values: Values, depth: int = 0) -> None:
    """Bind the names of a pattern to parts of what it is matched with."""
    if depth > _MAX_DEPTH:
        return
    kind = part_of(node, "name")
    if kind is not None:
        for each in _iter_names(node, depth):
            builder.bind_declared(scope, builder.text(each), builder.values_of_type(kind))
            builder.skip_reference(each)
        if has_child(node, "is"):
            # `case is Special` says more of what is switched over
            path = own_value(values)
            if path is not None and path.isidentifier():
                builder.bind_all(scope, path, builder.values_of_type(kind), declared=True)
        return
    case, inner = _find_case_name(node), list(children_of_type(node, "pattern"))
    if case is not None:
        for each, after in zip(node.children, node.children[1:], strict=False):
            if after.type == ":":
                builder.skip_reference(each)
        builder.skip_reference(case)
        _bind_case(builder, scope, case, inner, values, depth)
        return
    for each in _iter_bound_names(node, depth):
        _bind_name(builder, scope, each, values)
    for at, each in enumerate(inner):
        bind_pattern(builder, scope, each, _values_at_place(values, at, len(inner)), depth + 1)


def read_conditions(builder: FactsBuilder, node: Node) -> None:
    """`if let x = y`, `guard case let .found(x) = y`, `while let …`."""
    scope = builder.scope(node)
    waiting: list[Node] = []
    declared: Node | None = None
    for at, each in enumerate(node.children):
        field = node.field_name_for_child(at)
        if field == "bound_identifier" or each.type in ("pattern", "simple_identifier", "."):
            waiting.append(each)
        elif each.type == "type_annotation":
            declared = each
        elif each.type == "=" and at + 1 < len(node.children):
            _read_condition(builder, scope, waiting, declared, node.children[at + 1])
            waiting, declared = [], None
        elif waiting and waiting[0].type == ".":  # a comma between the patterns of a case: `.found(a, b)`
            continue
        elif each.type in (",", "case", "if", "guard", "while"):
            waiting, declared = [], None


def read_switch(builder: FactsBuilder, node: Node) -> None:
    """The patterns of a `switch`."""
    scope = builder.scope(node)
    values = builder.writer.values(part_of(node, "expr"))
    for entry in children_of_type(node, "switch_entry"):
        for each in children_of_type(entry, "switch_pattern"):
            for pattern in children_of_type(each, "pattern"):
                bind_pattern(builder, scope, pattern, values)


def read_loop(builder: FactsBuilder, node: Node) -> None:
    """`for item in items`, `for (key, value) in table`."""
    item, scope = part_of(node, "item"), builder.scope(node)
    if item is None:
        return
    held = element_values(builder.writer.values(part_of(node, "collection")))
    inner = list(children_of_type(item, "pattern"))
    if len(inner) == 2 and _find_case_name(item) is None and part_of(item, "name") is None:
        bind_pattern(builder, scope, inner[0], [], 1)
        bind_pattern(builder, scope, inner[1], held, 1)  # the value of a dictionary, or after a number
        return
    bind_pattern(builder, scope, item, held)


def read_catch(builder: FactsBuilder, node: Node) -> None:
    """`catch let problem as StoreError`; `error` where nothing is written."""
    scope, pattern = builder.scope(node), part_of(node, "error")
    if pattern is None:
        builder.bind_observed(scope, "error", [])
    else:
        bind_pattern(builder, scope, pattern, [])


def _read_condition(
    builder: FactsBuilder, scope: str, pending: list[Node], declared: Node | None, value: Node
) -> None:
    values = builder.writer.values(value)
    if pending and pending[0].type == "." and len(pending) > 1:
        builder.skip_reference(pending[1])
        inner = [each for each in pending[2:] if each.type == "pattern"]
        for label in pending[2:]:
            if label.type == "simple_identifier":
                builder.skip_reference(label)
        _bind_case(builder, scope, pending[1], inner, values, 0)
        return
    for each in pending:
        if each.type == "pattern":
            bind_pattern(builder, scope, each, values)
        elif declared is not None:
            builder.bind_declared(scope, builder.text(each), builder.values_of_type(declared))
        elif each.type == "simple_identifier":
            _bind_name(builder, scope, each, values)


def _bind_case(
    builder: FactsBuilder, scope: str, case: Node, patterns: list[Node], values: Values, depth: int
) -> None:
    """`.found(x)`: a case of the type that is matched, and what goes with it."""
    name = builder.text(case)
    of = own_value(values)
    if of and name not in ("some", "none"):
        builder.add_use("references", f"{of}.{name}", case)
    for at, each in enumerate(patterns):
        held = values if name == "some" else [("", f"{of}.{name}@{at}")] if of else []
        # a name alone, within a case that is matched by `let`, is bound, too
        only = each.named_children
        if len(only) == 1 and only[0].type == "simple_identifier" and _find_case_name(each) is None:
            _bind_name(builder, scope, only[0], held)
        else:
            bind_pattern(builder, scope, each, held, depth + 1)


def _find_case_name(pattern: Node) -> Node | None:
    """`found` of the pattern `.found(x)`."""
    for before, each in zip(pattern.children, pattern.children[1:], strict=False):
        if before.type == "." and each.type == "simple_identifier":
            return each
    return None


def _iter_bound_names(pattern: Node, depth: int) -> Iterator[Node]:
    """Names that a pattern itself binds; in a tuple, `a` of `let (a, b)`, too."""
    yield from pattern.children_by_field_name("bound_identifier")
    named = pattern.named_children
    is_name = len(named) == 1 and named[0].type == "simple_identifier"
    if depth and is_name and part_of(pattern, "bound_identifier") is None:
        yield named[0]


def _iter_names(pattern: Node, depth: int) -> Iterator[Node]:
    yield from pattern.children_by_field_name("bound_identifier")
    if depth <= _MAX_DEPTH:
        for each in children_of_type(pattern, "pattern"):
            yield from _iter_names(each, depth + 1)


def _bind_name(builder: FactsBuilder, scope: str, name: Node, values: Values) -> None:
    """Bind a name; where its value starts with the same name, to what that means around."""
    text = builder.text(name).strip("`")
    builder.skip_reference(name)
    if text in ("self", "_"):
        return
    known = [(suffix, f"@around.{path}" if first_segment(path) == text else path) for suffix, path in values]
    builder.bind_observed(scope, text, known)


def _values_at_place(values: Values, position: int, count: int) -> Values:
    if count == 1:
        return values
    step = f"[{position}]"
    known = [(suffix.removeprefix(step), path) for suffix, path in values if suffix.startswith(step)]
    return known + [("", path + step) for suffix, path in values if not suffix]
