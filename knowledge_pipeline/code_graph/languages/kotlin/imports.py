"""How Kotlin's files name their package, what they import, and what they define."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.declared_types import children_of_type, dotted_text
from knowledge_pipeline.syntax.outline import OutlineDefinition


def qualify(definition: OutlineDefinition) -> str:
    """What a companion object holds is a member of its class."""
    *around, last = definition.scope
    kept = [one for one in around if one.node.type != "companion_object"]
    parts = (part.partition(":")[0].strip() for one in (*kept, last) for part in (one.owner, one.name))
    return ".".join(part for part in parts if part)


def read_package(builder: FactsBuilder, node: Node) -> None:
    """The package that the file is of."""
    name = part_of(node, -1)
    builder.module = (dotted_text(builder.writer, name) or "") if name is not None else ""


def read_import(builder: FactsBuilder, node: Node) -> None:
    """One name of a package, by another name if it says so, or all."""
    named = next(children_of_type(node, "qualified_identifier"), None)
    path = dotted_text(builder.writer, named) if named is not None else None
    if not path:
        return
    line, alias = node.start_point.row + 1, next(children_of_type(node, "identifier"), None)
    if any(each.type == "*" for each in node.children):
        builder.imports.append(Import(path, "*", "*", line))
        return
    module, _, name = path.rpartition(".")
    builder.imports.append(Import(module, name, builder.text(alias) if alias is not None else name, line))
