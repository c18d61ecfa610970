"""What Rust's `use`, `extern crate` and `mod` bring."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.rust.values import absolute_path
from knowledge_pipeline.code_graph.languages.words import split_scoped_name
from knowledge_pipeline.syntax.nodes import children_of_type, part_of


def read_import(builder: FactsBuilder, node: Node) -> None:
    """What a `use` takes, each of a group by itself; another crate."""
    exported = any(children_of_type(node, "visibility_modifier"))
    scope, line = builder.scope(node), node.start_point.row + 1
    if node.type == "extern_crate_declaration":
        name = builder.text(part_of(node, "name"))
        local = builder.text(part_of(node, "alias")) or name
        builder.imports.append(Import(name, "", local, line, scope, exported))
        return
    for parts, local in _iter_use_paths(builder, part_of(node, "argument"), [], 0):
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
    path = part_of(node, "path")
    if node.type == "scoped_use_list":
        parts = split_scoped_name(builder.text(path))
        for each in children_of_type(part_of(node, "list"), *_USE_NODES):
            yield from _iter_use_paths(builder, each, [*prefix, *parts], depth + 1)
    elif node.type == "use_list":
        for each in children_of_type(node, *_USE_NODES):
            yield from _iter_use_paths(builder, each, prefix, depth + 1)
    elif node.type == "use_wildcard":
        parts = split_scoped_name(builder.text(part_of(node, 0)))
        if prefix or parts:
            yield [*prefix, *parts, "*"], "*"
    elif node.type == "use_as_clause":
        alias = builder.text(part_of(node, "alias"))
        for parts, _ in _iter_use_paths(builder, path, prefix, depth + 1):
            yield parts, alias if alias != "_" else ""
    elif parts := split_scoped_name(builder.text(node)):
        parts = prefix if parts == ["self"] and prefix else [*prefix, *parts]
        yield parts, parts[-1]


_USE_NODES = (
    "scoped_use_list", "use_list", "use_wildcard", "use_as_clause", "scoped_identifier", "identifier", "self",
    "crate", "super",
)  # fmt: skip


def read_module(builder: FactsBuilder, node: Node) -> None:
    """`mod a;` is another file."""
    name = part_of(node, "name")
    if name is None or part_of(node, "body") is not None:
        return
    path = absolute_path(node, ["self", builder.text(name)], builder.writer, "self")
    exported = any(children_of_type(node, "visibility_modifier"))
    scope, line = builder.scope(node).rpartition(".")[0], node.start_point.row + 1
    builder.imports.append(Import(path, "", builder.text(name), line, scope, exported))
