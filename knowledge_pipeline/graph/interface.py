"""What others can see of a file: changes of all else in it concern no other file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from knowledge_pipeline.graph.facts import Binding, Facts
from knowledge_pipeline.graph.paths import head_of, parent_of


def interface(facts: Facts) -> str:
    """A digest of definitions, bases, imports, and of bindings that fields and results depend on.

    Lines, signatures, uses, and local variables that no result is made of, do not count.
    """
    bindings = _reached(facts)
    names = {(each.scope, head_of(path)) for each in bindings for path in (each.value, each.path)}
    seen = {name for _, name in names}
    parts: list[object] = [facts.language, facts.module, sorted(facts.settings.items())]
    parts.append(sorted({(each.name, each.kind, each.exported) for each in facts.definitions}))
    parts.append([
        (each.module, each.name, each.local, each.scope, each.exported)
        for each in facts.imports
        if not each.scope or each.local in seen or each.name == "*"
    ])  # fmt: skip
    parts.append([(each.scope, each.path, each.value, each.declared) for each in bindings])
    parts.append([(use.scope, use.path) for use in facts.uses if use.kind in ("extends", "implements")])
    return hashlib.blake2b(repr(parts).encode(errors="replace"), digest_size=8).hexdigest()


def _reached(facts: Facts) -> list[Binding]:
    """Bindings that are seen from outside, and those that their values depend on."""
    local: dict[tuple[str, str], list[int]] = {}
    for place, each in enumerate(facts.bindings):
        local.setdefault(_place(each), []).append(place)
    functions = {each.name for each in facts.definitions if each.kind in ("function", "method")}
    waiting = [place for place, each in enumerate(facts.bindings) if _is_seen(each, functions)]
    reached = set(waiting)
    while waiting:
        each = facts.bindings[waiting.pop()]
        for name in (head_of(each.value), head_of(each.path)):
            for place in _visible(local, each.scope, name):
                if place not in reached:
                    reached.add(place)
                    waiting.append(place)
    return [facts.bindings[place] for place in sorted(reached)]


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
