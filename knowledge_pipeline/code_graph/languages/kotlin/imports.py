"""How Kotlin's files name their package, what they import, and what they define."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Reading
from knowledge_pipeline.code_graph.languages.declared_types import children, plain_text
from knowledge_pipeline.syntax.outline import Definition


def qualified(each: Definition) -> str:
    """What a companion object holds is a member of its class."""
    *around, last = each.scope
    kept = [one for one in around if one.node.type != "companion_object"]
    parts = (part.partition(":")[0].strip() for one in (*kept, last) for part in (one.owner, one.name))
    return ".".join(part for part in parts if part)


def package(reading: Reading, node: Node) -> None:
    """The package that the file is of."""
    name = part_of(node, -1)
    reading.module = (plain_text(reading.writer, name) or "") if name is not None else ""


def imported(reading: Reading, node: Node) -> None:
    """One name of a package, by another name if it says so, or all."""
    named = next(children(node, "qualified_identifier"), None)
    path = plain_text(reading.writer, named) if named is not None else None
    if not path:
        return
    line, alias = node.start_point.row + 1, next(children(node, "identifier"), None)
    if any(each.type == "*" for each in node.children):
        reading.imports.append(Import(path, "*", "*", line))
        return
    module, _, name = path.rpartition(".")
    reading.imports.append(Import(module, name, reading.text(alias) if alias is not None else name, line))
