"""Whether others can name a definition, as far as languages let one write that.

Functions `(reading, node, name)`: the node of a definition and its qualified name.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import last_of
from knowledge_pipeline.code_graph.facts_builder import Reading
from knowledge_pipeline.code_graph.languages.declared_types import children
from knowledge_pipeline.code_graph.languages.words import words

_MODIFIERS = (
    "modifiers",
    "modifier",
    "visibility_modifier",
    "access_modifier",
    "accessibility_modifier",
    "method_modifiers",
)
_MAX_UP = 3
_BODIES = ("body", "block", "list", "file", "program", "compilation_unit", "template_body", "statements")
_CHANGES = frozenset({"private", "public", "protected"})


def said_private(reading: Reading, node: Node, name: str) -> bool:
    """`private` stands among its modifiers; Swift's `private(set)` is something else."""
    return any(
        word.split("[")[0] in ("private", "fileprivate")
        for of in _declaration(node)
        for each in children(of, *_MODIFIERS)
        for word in reading.text(each)[:200].split()
    )


def lower_case(reading: Reading, node: Node, name: str) -> bool:
    """Go's rule: what starts with no capital letter is of its package."""
    return not last_of(name)[:1].isupper()


def underscored(reading: Reading, node: Node, name: str) -> bool:
    """Python's custom: `_name`, but not `__name__`."""
    last = last_of(name)
    return last.startswith("_") and not (last.startswith("__") and last.endswith("__"))


def not_pub(reading: Reading, node: Node, name: str) -> bool:
    """Rust's: without `pub`, unless a trait says that it is there; `pub(crate)` is of the crate."""
    if node.type not in _RUST or (around := _item_around(node)) is None:
        return False
    if around.type == "trait_item" or around.child_by_field_name("trait") is not None:
        return False
    return all(reading.text(each) != "pub" for each in children(node, "visibility_modifier"))


_RUST = words(
    """
    function_item struct_item enum_item union_item trait_item type_item const_item static_item mod_item
    field_declaration
    """
)


def not_exported(reading: Reading, node: Node, name: str) -> bool:
    """In a module of JavaScript or TypeScript: neither exported nor in such a thing; `private`, `#name`."""
    if "." in name:
        return last_of(name).startswith("#") or said_private(reading, node, name)
    listed = reading.notes.get("exports")
    if listed is None:
        listed = reading.notes["exports"] = _exports(reading)
    if not listed or name in listed:
        return False
    around: Node | None = node
    while around is not None and around.type != "program":
        if around.type == "export_statement":
            return False
        around = around.parent
    return True


def after_private(reading: Reading, node: Node, name: str) -> bool:
    """Ruby's: a method after `private`, or that it names."""
    body = node.parent
    if body is None or node.type != "method":
        return False
    if body.type == "argument_list":  # `private def get`
        called = body.parent.child_by_field_name("method") if body.parent is not None else None
        return called is not None and reading.text(called) in ("private", "private_class_method")
    known = reading.notes.setdefault("private methods", {})
    if body.id not in known:
        known[body.id] = _hidden_in(reading, body)
    return node.start_byte in known[body.id]


def _hidden_in(reading: Reading, body: Node) -> set[int]:
    """Where the private methods of a class start."""
    starts: dict[str, int] = {}
    hidden: set[int] = set()
    is_private = False
    for each in body.named_children:
        if each.type == "method":
            starts[reading.text(each.child_by_field_name("name") or each)] = each.start_byte
            hidden.update([each.start_byte] if is_private else [])
        elif each.type == "identifier" and reading.text(each) in _CHANGES:
            is_private = reading.text(each) == "private"
        elif each.type == "call" and reading.text(each)[:8] == "private ":
            symbols = children(each.child_by_field_name("arguments"), "simple_symbol")
            named = (starts.get(reading.text(symbol).lstrip(":")) for symbol in symbols)
            hidden.update(start for start in named if start is not None)
    return hidden


def _declaration(node: Node) -> Iterator[Node]:
    """A definition's node, and those around it as far as its declaration goes."""
    around: Node | None = node
    for _ in range(_MAX_UP):
        if around is None or around.type.endswith(_BODIES):
            return
        yield around
        around = around.parent


def _item_around(node: Node) -> Node | None:
    around = node.parent
    return around.parent if around is not None and around.parent is not None else around


def _exports(reading: Reading) -> set[str]:
    """The names that a module exports by themselves, and "default"; nothing for what exports nothing."""
    found: set[str] = set()
    for each in children(reading.syntax.root, "export_statement"):
        found.add("default")
        value = each.child_by_field_name("value")
        named = [value] if value is not None and value.type == "identifier" else []
        for clause in children(each, "export_clause"):
            parts = (one.child_by_field_name("name") for one in children(clause, "export_specifier"))
            named += [part for part in parts if part is not None]
        named += list(children(each, "identifier"))
        found.update(reading.text(one) for one in named)
    return found
