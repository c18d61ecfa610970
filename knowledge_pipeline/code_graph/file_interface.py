"""What others can see of a file: changes of all else in it concern no other file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from knowledge_pipeline.code_graph.access_paths import head_of, parent_of
from knowledge_pipeline.code_graph.facts import Binding, Facts
from knowledge_pipeline.code_graph.file_index import FileIndex
from knowledge_pipeline.code_graph.index_builder import arranged
from knowledge_pipeline.code_graph.languages.registry import language_of
from knowledge_pipeline.code_graph.lookup_digests import told, whole


def interface(facts: Facts) -> str:
    """A digest of all that other files can ask of one: of `shown`. Lines do not count."""
    return whole(told(shown(facts)))


def shown(facts: Facts) -> FileIndex:
    """A file as others see it: definitions, bases, imports, bindings that fields and results depend on.

    Signatures, uses, and local variables that no result is made of, are left out.
    """
    bindings = _reached(facts)
    seen = {head_of(path) for each in bindings for path in (each.value, each.path)}
    seen |= {name for _, name in _of_bases(facts)}
    imports = [each for each in facts.imports if not each.scope or each.local in seen or each.name == "*"]
    seen_facts = replace(facts, imports=tuple(imports), bindings=tuple(bindings))
    index = arranged(seen_facts, language_of(facts.language))
    return replace(index, facts=Facts(facts.path, facts.language, facts.module, settings=facts.settings))


def _reached(facts: Facts) -> list[Binding]:
    """Bindings that are seen from outside, and those that their values depend on."""
    local: dict[tuple[str, str], list[int]] = {}
    for place, each in enumerate(facts.bindings):
        local.setdefault(_place(each), []).append(place)
    functions = {each.name for each in facts.definitions if each.kind in ("function", "method")}
    reached = {place for place, each in enumerate(facts.bindings) if _is_seen(each, functions)}
    reached.update(place for name in _of_bases(facts) for place in _visible(local, *name))
    waiting = sorted(reached)
    while waiting:
        each = facts.bindings[waiting.pop()]
        for name in (head_of(each.value), head_of(each.path)):
            for place in _visible(local, each.scope, name):
                if place not in reached:
                    reached.add(place)
                    waiting.append(place)
    return [facts.bindings[place] for place in sorted(reached)]


def _of_bases(facts: Facts) -> set[tuple[str, str]]:
    """Scopes in which types stand, and the names that what they extend starts with."""
    uses = (use for use in facts.uses if use.kind in ("extends", "implements"))
    return {(parent_of(use.scope), head_of(use.path)) for use in uses}


def _place(each: Binding) -> tuple[str, str]:
    """The scope and the name that a binding is of."""
    if each.path.startswith("@in "):
        scope, _, path = each.path[4:].partition("@")
        return scope, head_of(path)
    return each.scope, head_of(each.path)


def _is_seen(each: Binding, functions: set[str]) -> bool:
    """Whether a binding is of a module, a class, a field, a result."""
    if each.path.startswith("@in "):
        return False
    return each.scope not in functions or each.path[0] == "@" or each.value[:1] == "@" or "." in each.path


def _visible(local: dict[tuple[str, str], list[int]], scope: str, name: str) -> Iterable[int]:
    while True:
        yield from local.get((scope, name), ())
        if not scope:
            return
        scope = parent_of(scope)
