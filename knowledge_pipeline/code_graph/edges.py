"""Edges of a use, from what its path may mean."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from knowledge_pipeline.code_graph.access_paths import head_of, last_of, steps_of
from knowledge_pipeline.code_graph.entities import Found, Known, Outside, Place
from knowledge_pipeline.code_graph.facts import Edge, EdgeKind, Use
from knowledge_pipeline.code_graph.languages.base import Language

LEAST = 0.3
"""What is less sure than this is no edge to a definition."""

_MAX_TARGETS = 24


def edges_to(use: Use, targets: Found) -> Iterator[Edge]:
    """Edges to the definitions among the targets; several share how sure they are, down to `LEAST`."""
    known = [(entity, sure) for entity, sure in targets.items() if isinstance(entity, Known)]
    known.sort(key=lambda each: -each[1])
    for entity, sure in known[:_MAX_TARGETS]:
        if sure >= LEAST:
            shared = max(LEAST, sure / sqrt(len(known)))
            yield Edge(use.kind, use.scope, entity.name, entity.path, use.line, shared)


def edges_out(use: Use, found: Found, language: Language) -> Iterator[Edge]:
    """Edges to what lies outside of the source, by full name; none to what the language has."""
    for name, sure in _outside(found).items():
        if not _is_standard(name, use.kind, language):
            yield Edge(use.kind, use.scope, name, None, use.line, sure)


def unresolved(use: Use, found: Found, language: Language) -> Iterator[Edge]:
    """What a call leaves that was not found: its path as it is written; nothing for a local function."""
    is_local = any(isinstance(each, Place) for each in found)
    if not is_local and not _outside(found) and last_of(use.path) not in language.common:
        yield Edge(use.kind, use.scope, use.path.removeprefix("@around."), None, use.line, 0.0)


def _outside(found: Found) -> dict[str, float]:
    """Full names outside of the source; not those of what an unknown function gave."""
    names = {_plain(each.name): sure for each, sure in found.items() if isinstance(each, Outside)}
    return {name: sure for name, sure in names.items() if "(" not in name and "[" not in name}


def _is_standard(name: str, kind: EdgeKind, language: Language) -> bool:
    """Whether a name of the language itself is not worth an edge."""
    if kind in ("extends", "implements"):
        return False
    return head_of(name) in language.builtins or (kind == "references" and language.is_standard(name))


def _plain(name: str) -> str:
    """`requests.Session().get` as `requests.Session.get`: a type's member, whoever makes an instance."""
    steps = steps_of(name)
    kept = [
        step
        for before, step in zip(("", *steps), steps, strict=False)
        if step != "()" or not before.lstrip(".")[:1].isupper()
    ]
    return "".join(kept)
