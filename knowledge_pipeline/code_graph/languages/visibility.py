"""Whether others can name a definition, as far as languages let one write that.

Functions `(builder, node, name)`: the node of a definition and its qualified name.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import last_segment
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.base import split_words
from knowledge_pipeline.syntax.grammars import children_of_type, part_of

_MODIFIERS = (
    "modifiers", "modifier", "visibility_modifier", "access_modifier", "accessibility_modifier",
    "method_modifiers",
)  # fmt: skip
_MAX_UP = 3
_BODIES = ("body", "block", "list", "file", "program", "compilation_unit", "template_body", "statements")
_VISIBILITY_KEYWORDS = frozenset({"private", "public", "protected"})


def has_private_modifier(builder: FactsBuilder, node: Node, name: str) -> bool:
    """`private` stands among its modifiers; Swift's `private(set)` is something else."""
    return any(
        word.split("[")[0] in ("private", "fileprivate")
        for of in _iter_declaration_nodes(node)
        for modifier in children_of_type(of, *_MODIFIERS)
        for word in builder.text(modifier)[:200].split()
    )


def is_lower_case(builder: FactsBuilder, node: Node, name: str) -> bool:
    """Go's rule: what starts with no capital letter is of its package."""
    return not last_segment(name)[:1].isupper()


def is_underscored(builder: FactsBuilder, node: Node, name: str) -> bool:
    """Python's custom: `_name`, but not `__name__`."""
    last = last_segment(name)
    return last.startswith("_") and not (last.startswith("__") and last.endswith("__"))


def lacks_pub(builder: FactsBuilder, node: Node, name: str) -> bool:
    """Rust's: without `pub`, unless a trait says that it is there; `pub(crate)` is of the crate."""
    if node.type not in _RUST_ITEM_NODES or (around := _enclosing_item(node)) is None:
        return False
    if around.type == "trait_item" or part_of(around, "trait") is not None:
        return False
    return "pub" not in map(builder.text, children_of_type(node, "visibility_modifier"))


_RUST_ITEM_NODES = split_words(
    """
    function_item struct_item enum_item union_item trait_item type_item const_item static_item mod_item
    field_declaration
    """
)


def is_not_exported(builder: FactsBuilder, node: Node, name: str) -> bool:
    """In a module of JavaScript or TypeScript: neither exported nor in such a thing; `private`, `#name`."""
    if "." in name:
        return last_segment(name).startswith("#") or has_private_modifier(builder, node, name)
    listed = builder.shared_state.get("exports")
    if listed is None:
        listed = builder.shared_state["exports"] = _collect_exports(builder)
    if not listed or name in listed:
        return False
    around: Node | None = node
    while around is not None and around.type != "program":
        if around.type == "export_statement":
            return False
        around = around.parent
    return True


def follows_private(builder: FactsBuilder, node: Node, name: str) -> bool:
    """Ruby's: a method after `private`, or that it names."""
    body = node.parent
    if body is None or node.type != "method":
        return False
    if body.type == "argument_list":  # `private def get`
        called = part_of(body.parent, "method") if body.parent is not None else None
        return called is not None and builder.text(called) in ("private", "private_class_method")
    methods = builder.shared_state.setdefault("private methods", {})
    if body.id not in methods:
        methods[body.id] = _find_private_methods(builder, body)
    return node.start_byte in methods[body.id]


def _find_private_methods(builder: FactsBuilder, body: Node) -> set[int]:
    """Where the private methods of a class start."""
    starts: dict[str, int] = {}
    hidden: set[int] = set()
    is_private = False
    for child in body.named_children:
        if child.type == "method":
            starts[builder.text(part_of(child, "name") or child)] = child.start_byte
            hidden.update([child.start_byte] if is_private else [])
        elif child.type == "identifier" and builder.text(child) in _VISIBILITY_KEYWORDS:
            is_private = builder.text(child) == "private"
        elif child.type == "call" and builder.text(child)[:8] == "private ":
            symbols = children_of_type(part_of(child, "arguments"), "simple_symbol")
            methods = (starts.get(builder.text(symbol).lstrip(":")) for symbol in symbols)
            hidden.update(start for start in methods if start is not None)
    return hidden


def _iter_declaration_nodes(node: Node) -> Iterator[Node]:
    """A definition's node, and those around it as far as its declaration goes."""
    around: Node | None = node
    for _ in range(_MAX_UP):
        if around is None or around.type.endswith(_BODIES):
            return
        yield around
        around = around.parent


def _enclosing_item(node: Node) -> Node | None:
    around = node.parent
    return around.parent if around is not None and around.parent is not None else around


def _collect_exports(builder: FactsBuilder) -> set[str]:
    """The names that a module exports by themselves, and "default"; nothing for what exports nothing."""
    names: set[str] = set()
    for statement in children_of_type(builder.syntax.root, "export_statement"):
        names.add("default")
        value = part_of(statement, "value")
        nodes = [value] if value is not None and value.type == "identifier" else []
        for clause in children_of_type(statement, "export_clause"):
            parts = (part_of(one, "name") for one in children_of_type(clause, "export_specifier"))
            nodes += [part for part in parts if part is not None]
        nodes += list(children_of_type(statement, "identifier"))
        names.update(map(builder.text, nodes))
    return names
