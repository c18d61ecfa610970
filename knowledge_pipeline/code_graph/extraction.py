"""The facts of one file, read by tree-sitter or from a manifest, and the part of them that others see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from knowledge_pipeline.code_graph.facts import Binding, FileFacts, first_segment, parent_scope
from knowledge_pipeline.code_graph.file_index import FileIndex, build_index
from knowledge_pipeline.code_graph.languages.registry import find_manifest_parser, get_language
from knowledge_pipeline.file_languages import GRAPH_LANGUAGES
from knowledge_pipeline.syntax.grammars import run_queries
from knowledge_pipeline.syntax.outline import open_outline

FACTS_VERSION = 1
"""Part of the fingerprint of each file's facts: raise it when the same text gives other facts."""


def extract(path: str, text: str, language: str) -> FileFacts:
    """The facts of one file. Takes time in proportion to its length, and never raises.

    Args:
        path: POSIX, within the source.
        text: the whole file.
        language: as `text.detect_language` names it. Without a code graph for it, and for a text that is
            not sensible code, the facts are empty.
    """
    if (parse_manifest := find_manifest_parser(path)) is not None:
        return FileFacts(path, language, settings=parse_manifest(path, text))
    outline = open_outline(text, language) if language in GRAPH_LANGUAGES else None
    if outline is None:
        return FileFacts(path, language)
    builder = get_language(language).reader(path, outline)
    if builder.handlers:
        builder.read(run_queries(outline.tree, "knowledge_pipeline.code_graph"))
    return builder.build_facts()


def is_manifest(path: str) -> bool:
    """Whether a file has facts because it says how modules are named, whatever its language."""
    return find_manifest_parser(path) is not None


def build_interface(facts: FileFacts) -> FileIndex:
    """A file as others see it: definitions, bases, imports, bindings that fields and results depend on.

    Signatures, uses, and local variables that no result is made of, are left out.
    """
    bindings = _select_reachable_bindings(facts)
    seen = {first_segment(path) for binding in bindings for path in (binding.value, binding.path)}
    seen |= {name for _, name in _base_names(facts)}
    imports = [one for one in facts.imports if not one.scope or one.local in seen or one.name == "*"]
    seen_facts = replace(facts, imports=tuple(imports), bindings=tuple(bindings))
    index = build_index(seen_facts, get_language(facts.language))
    return replace(index, facts=FileFacts(facts.path, facts.language, facts.module, settings=facts.settings))


def _select_reachable_bindings(facts: FileFacts) -> list[Binding]:
    """Bindings that are seen from outside, and those that their values depend on."""
    local: dict[tuple[str, str], list[int]] = {}
    for position, binding in enumerate(facts.bindings):
        local.setdefault(_binding_key(binding), []).append(position)
    functions = {
        definition.name for definition in facts.definitions if definition.kind in ("function", "method")
    }
    reached = {
        position for position, binding in enumerate(facts.bindings) if _is_visible_outside(binding, functions)
    }
    reached.update(position for name in _base_names(facts) for position in _iter_visible(local, *name))
    waiting = sorted(reached)
    while waiting:
        binding = facts.bindings[waiting.pop()]
        for name in (first_segment(binding.value), first_segment(binding.path)):
            for position in _iter_visible(local, binding.scope, name):
                if position not in reached:
                    reached.add(position)
                    waiting.append(position)
    return [facts.bindings[position] for position in sorted(reached)]


def _base_names(facts: FileFacts) -> set[tuple[str, str]]:
    """Scopes in which types stand, and the names that what they extend starts with."""
    uses = (use for use in facts.uses if use.kind in ("extends", "implements"))
    return {(parent_scope(use.scope), first_segment(use.path)) for use in uses}


def _binding_key(binding: Binding) -> tuple[str, str]:
    if binding.path.startswith("@in "):
        scope, _, path = binding.path[4:].partition("@")
        return scope, first_segment(path)
    return binding.scope, first_segment(binding.path)


def _is_visible_outside(binding: Binding, functions: set[str]) -> bool:
    return not binding.path.startswith("@in ") and (
        binding.scope not in functions
        or binding.path[0] == "@"
        or binding.value[:1] == "@"
        or "." in binding.path
    )


def _iter_visible(local: dict[tuple[str, str], list[int]], scope: str, name: str) -> Iterable[int]:
    while True:
        yield from local.get((scope, name), ())
        if not scope:
            return
        scope = parent_scope(scope)
