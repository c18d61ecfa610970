"""What Swift's declarations say: imports, bases, types of properties, parameters and results.

Source: https://docs.swift.org/swift-book/documentation/the-swift-programming-language/aboutthelanguagereference
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    children,
    declare,
    give,
    plain_text,
    promised,
    under,
)
from knowledge_pipeline.code_graph.languages.swift.context import handed_to
from knowledge_pipeline.code_graph.languages.swift.patterns import caught, conditions, looped, switched
from knowledge_pipeline.code_graph.languages.swift.properties import receive, required, stored_or_computed
from knowledge_pipeline.code_graph.languages.swift.types import TYPES, result_of, type_after
from knowledge_pipeline.code_graph.languages.swift.values import BUILTINS, EXPRESSIONS
from knowledge_pipeline.code_graph.languages.visibility import said_private
from knowledge_pipeline.syntax.outline import Definition


def named(each: Definition, around: str) -> str:
    """`Store.get`; a subscript has no other name than that."""
    name = "subscript" if each.node.type == "subscript_declaration" else each.name
    return f"{around}.{name}" if around else name


def _promised(reading: Reading, node: Node | None) -> Values:
    return promised(TYPES, reading.writer, node)


def _import(reading: Reading, node: Node) -> None:
    """A module brings all that it exports; `import struct Shop.Item` one thing."""
    path = plain_text(reading.writer, next(children(node, "identifier"), node))
    if not path:
        return
    line, exported = node.start_point.row + 1, "@_exported" in reading.text(node)
    module, _, name = path.rpartition(".")
    if module and any(each.type in _IMPORTED for each in node.children):
        reading.imports.append(Import(module, name, name, line, exported=exported))
        return
    reading.imports.append(Import(path, "*", "*", line, exported=exported))
    reading.imports.append(Import(path, "", path, line))


_IMPORTED = frozenset({"struct", "class", "enum", "protocol", "typealias", "func", "let", "var"})


def _base(reading: Reading, node: Node) -> None:
    """What a type extends or conforms to: which of both, the kind of what is named says."""
    kind, scope = node.child_by_field_name("inherits_from"), reading.scope(node)
    path = reading.writer.path(kind)
    around = node.parent
    if kind is None or not path or around is None:
        return
    if scope not in reading.types:  # an extension of another file's type
        reading.use("references", path, kind, "")
    else:
        extends = around.type == "protocol_declaration" or _is_first_of_class(around, node)
        reading.use("extends" if extends else "implements", path, kind, scope)
    reading.skip(kind)


def _is_first_of_class(around: Node, node: Node) -> bool:
    declared = around.child_by_field_name("declaration_kind")
    first = next(children(around, "inheritance_specifier"), None)
    return declared is not None and declared.type == "class" and first is not None and first.id == node.id


def _alias(reading: Reading, node: Node) -> None:
    names = node.children_by_field_name("name")
    for suffix, value in _promised(reading, names[-1]) if len(names) > 1 else ():
        reading.bind(reading.scope(node), "@()" + suffix, value, declared=True)


def _bound(reading: Reading, node: Node) -> None:
    """`T: Item` stands for its bound."""
    name = node.child_by_field_name("constrained_type") or part_of(node, 0)
    kinds = node.children_by_field_name("name")
    kind = kinds[-1] if kinds and kinds[-1].type != "type_identifier" else None
    text = plain_text(reading.writer, name) if name is not None else None
    if name is not None and text and text.isidentifier():
        reading.skip(name)
        reading.bind(reading.scope(node), text, reading.writer.path(kind) or "")


def _function(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    receive(reading, scope, node)
    if node.type == "init_declaration":
        reading.bind(scope, "@()", "@class()", declared=True)
    for suffix, value in _promised(reading, result_of(node)):
        reading.bind(scope, "@()" + suffix, value, declared=True)
    listed = list(children(node, "parameter"))
    for place, each in enumerate(listed):
        _parameter(reading, scope, each, place, last=place == len(listed) - 1)


def _parameter(reading: Reading, scope: str, node: Node, place: int, *, last: bool) -> None:
    name, kind = node.child_by_field_name("name"), type_after(node)
    if name is None:
        return
    values = _promised(reading, kind)
    if any(each.type == "..." for each in node.children) or reading.text(node).endswith("..."):
        values = under("[]", values)
    text, outer = reading.text(name), node.child_by_field_name("external_name")
    declare(reading, scope, text, values)
    label = reading.text(outer) if outer is not None else text
    key = str(place) if label == "_" else label
    for suffix, value in values:
        if value.removesuffix("()") not in BUILTINS:
            reading.bind(scope, f"@{key}{suffix}", value, declared=True)
    for suffix, value in _given(reading, kind):
        reading.bind(scope, f"@{key}{suffix}", value, declared=True)
        if last:
            reading.bind(scope, f"@closure{suffix}", value, declared=True)


def _given(reading: Reading, kind: Node | None) -> Iterator[tuple[str, str]]:
    """What a function hands to a closure that it is given: (".@0", "Item()")."""
    if kind is not None and kind.type == "optional_type":
        kind = kind.child_by_field_name("wrapped")
    if kind is not None and kind.type == "tuple_type":
        kind = part_of(part_of(kind, 0) or kind, -1)
    given = kind.child_by_field_name("params") if kind is not None and kind.type == "function_type" else None
    for place, item in enumerate(children(given, "tuple_type_item")):
        yield from under(f".@{place}", _promised(reading, part_of(item, -1)))


def _entry(reading: Reading, node: Node) -> None:
    """The cases of an enum: instances of it, and what goes with them."""
    scope = reading.scope(node)
    name = ""
    for at, each in enumerate(node.children):
        if node.field_name_for_child(at) == "name" and scope in reading.types:
            name = reading.text(each).strip("`")
            reading.define(f"{scope}.{name}", "variable", each)
            reading.bind(scope, name, "@class()", declared=True)
        elif each.type == "enum_type_parameters" and name:
            reading.bind(scope, f"{name}()", "@class()", declared=True)
            for place, kind in enumerate(each.children_by_field_name("name")):
                for suffix, value in _promised(reading, kind):
                    reading.bind(scope, f"{name}@{place}{suffix}", value, declared=True)


def _lambda(reading: Reading, node: Node) -> None:
    scope, kind = reading.scope(node), node.child_by_field_name("type")
    listed = next(children(kind, "lambda_function_type_parameters"), None)
    for place, each in enumerate(children(listed, "lambda_parameter")):
        name, declared = each.child_by_field_name("name"), type_after(each)
        if name is None or reading.text(name) == "_":
            continue
        if declared is not None:
            declare(reading, scope, reading.text(name), _promised(reading, declared))
            continue
        handed = handed_to(reading.writer, node, place)
        give(reading, scope, reading.text(name), [("", handed)] if handed else [])


def _implicit(reading: Reading, node: Node) -> None:
    """`.fast` refers to what it names; `.custom(…)` is read as a call."""
    around = node.parent
    if around is None or around.type != "call_expression":
        reading.use("references", reading.writer.path(node), node)


EXTRACTION = Extraction(
    expressions=EXPRESSIONS,
    handlers={
        "import": _import,
        "base": _base,
        "alias": _alias,
        "bound": _bound,
        "function": _function,
        "property": stored_or_computed,
        "requirement": required,
        "entry": _entry,
        "lambda": _lambda,
        "implicit": _implicit,
        "loop": looped,
        "conditions": conditions,
        "switch": switched,
        "catch": caught,
    },
    builtins=BUILTINS,
    hides_siblings=True,
    named=named,
    parts=frozenset({"extension"}),
    private=said_private,
)
