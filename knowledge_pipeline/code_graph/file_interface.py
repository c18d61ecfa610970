"""The part of a file that others can see: no other change in it concerns them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from knowledge_pipeline.code_graph.access_paths import first_segment, parent_scope
from knowledge_pipeline.code_graph.facts import Binding, FileFacts
from knowledge_pipeline.code_graph.file_index import FileIndex
from knowledge_pipeline.code_graph.index_builder import build_index
from knowledge_pipeline.code_graph.languages.registry import get_language


def build_interface(facts: FileFacts) -> FileIndex:
    """A file as others see it: definitions, bases, imports, bindings that fields and results depend on.

    Signatures, uses, and local variables that no result is made of, are left out.
    """
    bindings = _select_reachable_bindings(facts)
    seen = {first_segment(path) for each in bindings for path in (each.value, each.path)}
    seen |= {name for _, name in _base_names(facts)}
    imports = [each for each in facts.imports if not each.scope or each.local in seen or each.name == "*"]
    seen_facts = replace(facts, imports=tuple(imports), bindings=tuple(bindings))
    index = build_index(seen_facts, get_language(facts.language))
    return replace(index, facts=FileFacts(facts.path, facts.language, facts.module, settings=facts.settings))


def _select_reachable_bindings(facts: FileFacts) -> list[Binding]:
    """Bindings that are seen from outside, and those that their values depend on."""
    local: dict[tuple[str, str], list[int]] = {}
    for place, each in enumerate(facts.bindings):
        local.setdefault(_binding_key(each), []).append(place)
    functions = {each.name for each in facts.definitions if each.kind in ("function", "method")}
    reached = {place for place, each in enumerate(facts.bindings) if _is_visible_outside(each, functions)}
    reached.update(place for name in _base_names(facts) for place in _iter_visible(local, *name))
    waiting = sorted(reached)
    while waiting:
        each = facts.bindings[waiting.pop()]
        for name in (first_segment(each.value), first_segment(each.path)):
            for place in _iter_visible(local, each.scope, name):
                if place not in reached:
                    reached.add(place)
                    waiting.append(place)
    return [facts.bindings[place] for place in sorted(reached)]


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
    """Whether a binding is of a module, a class, a field, a result."""
    if binding.path.startswith("@in "):
        return False
    return (
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
