"""What Rust's `use`, `extern crate` and `mod` bring."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Reading
from knowledge_pipeline.code_graph.languages.declared_types import children
from knowledge_pipeline.code_graph.languages.rust.values import placed, scoped


def imported(reading: Reading, node: Node) -> None:
    """What a `use` takes, each of a group by itself; another crate."""
    exported = any(children(node, "visibility_modifier"))
    scope, line = reading.scope(node), node.start_point.row + 1
    if node.type == "extern_crate_declaration":
        name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
        if name is not None:
            text = reading.text(name)
            local = reading.text(alias) if alias is not None else text
            reading.imports.append(Import(text, "", local, line, scope, exported))
        return
    for parts, local in _taken(reading, node.child_by_field_name("argument"), [], 0):
        if parts[0][:1].isupper():
            parts = ["self", *parts]
        path = placed(node, parts, reading.writer, "self")
        module, _, name = path.rpartition(".")
        if not module:
            module, name = name, ""
        reading.imports.append(Import(module, name, "*" if name == "*" else local, line, scope, exported))


def _taken(
    reading: Reading, node: Node | None, before: list[str], depth: int
) -> Iterator[tuple[list[str], str]]:
    """The paths of a `use`, with their local names."""
    if node is None or depth > 12:
        return
    path = node.child_by_field_name("path")
    if node.type == "scoped_use_list":
        parts = (scoped(reading.text(path)) or []) if path is not None else []
        for each in children(node.child_by_field_name("list"), *_USED):
            yield from _taken(reading, each, [*before, *parts], depth + 1)
    elif node.type == "use_list":
        for each in children(node, *_USED):
            yield from _taken(reading, each, before, depth + 1)
    elif node.type == "use_wildcard":
        inner = part_of(node, 0)
        parts = (scoped(reading.text(inner)) or []) if inner is not None else []
        if before or parts:
            yield [*before, *parts, "*"], "*"
    elif node.type == "use_as_clause":
        alias = node.child_by_field_name("alias")
        for parts, _ in _taken(reading, path, before, depth + 1):
            yield parts, reading.text(alias) if alias is not None and reading.text(alias) != "_" else ""
    elif parts := scoped(reading.text(node)):
        parts = before if parts == ["self"] and before else [*before, *parts]
        yield parts, parts[-1]


_USED = (
    "scoped_use_list", "use_list", "use_wildcard", "use_as_clause", "scoped_identifier", "identifier", "self",
    "crate", "super",
)  # fmt: skip


def module(reading: Reading, node: Node) -> None:
    """`mod a;` is another file."""
    name = node.child_by_field_name("name")
    if name is None or node.child_by_field_name("body") is not None:
        return
    path = placed(node, ["self", reading.text(name)], reading.writer, "self")
    exported = any(children(node, "visibility_modifier"))
    scope = reading.scope(node).rpartition(".")[0]
    line = node.start_point.row + 1
    reading.imports.append(Import(path, "", reading.text(name), line, scope, exported))
