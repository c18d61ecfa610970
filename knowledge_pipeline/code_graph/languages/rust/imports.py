"""What Rust's `use`, `extern crate` and `mod` bring."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.declared_types import children_of_type
from knowledge_pipeline.code_graph.languages.rust.values import absolute_path, split_scoped_name


def read_import(builder: FactsBuilder, node: Node) -> None:
    """What a `use` takes, each of a group by itself; another crate."""
    exported = any(children_of_type(node, "visibility_modifier"))
    scope, line = builder.scope(node), node.start_point.row + 1
    if node.type == "extern_crate_declaration":
        name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
        if name is not None:
            text = builder.text(name)
            local = builder.text(alias) if alias is not None else text
            builder.imports.append(Import(text, "", local, line, scope, exported))
        return
    for parts, local in _iter_use_paths(builder, node.child_by_field_name("argument"), [], 0):
        if parts[0][:1].isupper():
            parts = ["self", *parts]
        path = absolute_path(node, parts, builder.writer, "self")
        module, _, name = path.rpartition(".")
        if not module:
            module, name = name, ""
        builder.imports.append(Import(module, name, "*" if name == "*" else local, line, scope, exported))


def _iter_use_paths(
    builder: FactsBuilder, node: Node | None, prefix: list[str], depth: int
) -> Iterator[tuple[list[str], str]]:
    """The paths of a `use`, with their local names."""
    if node is None or depth > 12:
        return
    path = node.child_by_field_name("path")
    if node.type == "scoped_use_list":
        parts = (split_scoped_name(builder.text(path)) or []) if path is not None else []
        for each in children_of_type(node.child_by_field_name("list"), *_USE_NODES):
            yield from _iter_use_paths(builder, each, [*prefix, *parts], depth + 1)
    elif node.type == "use_list":
        for each in children_of_type(node, *_USE_NODES):
            yield from _iter_use_paths(builder, each, prefix, depth + 1)
    elif node.type == "use_wildcard":
        inner = part_of(node, 0)
        parts = (split_scoped_name(builder.text(inner)) or []) if inner is not None else []
        if prefix or parts:
            yield [*prefix, *parts, "*"], "*"
    elif node.type == "use_as_clause":
        alias = node.child_by_field_name("alias")
        for parts, _ in _iter_use_paths(builder, path, prefix, depth + 1):
            yield parts, builder.text(alias) if alias is not None and builder.text(alias) != "_" else ""
    elif parts := split_scoped_name(builder.text(node)):
        parts = prefix if parts == ["self"] and prefix else [*prefix, *parts]
        yield parts, parts[-1]


_USE_NODES = (
    "scoped_use_list", "use_list", "use_wildcard", "use_as_clause", "scoped_identifier", "identifier", "self",
    "crate", "super",
)  # fmt: skip


def read_module(builder: FactsBuilder, node: Node) -> None:
    """`mod a;` is another file."""
    name = node.child_by_field_name("name")
    if name is None or node.child_by_field_name("body") is not None:
        return
    path = absolute_path(node, ["self", builder.text(name)], builder.writer, "self")
    exported = any(children_of_type(node, "visibility_modifier"))
    scope = builder.scope(node).rpartition(".")[0]
    line = node.start_point.row + 1
    builder.imports.append(Import(path, "", builder.text(name), line, scope, exported))
