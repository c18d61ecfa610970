"""Edges of a use, from what its path may mean."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from knowledge_pipeline.code_graph.access_paths import first_segment, last_segment, split_steps
from knowledge_pipeline.code_graph.entities import DefinitionRef, ExternalName, Meanings, PathPrefix
from knowledge_pipeline.code_graph.facts import Edge, EdgeKind, Use
from knowledge_pipeline.code_graph.languages.base import Language

MIN_CONFIDENCE = 0.3
"""A meaning that is less sure than this gives no edge to a definition."""

_MAX_TARGETS = 24


def build_edges(use: Use, meanings: Meanings) -> Iterator[Edge]:
    """Edges to the definitions among the targets; several share their confidence, to `MIN_CONFIDENCE`."""
    known = [(entity, sure) for entity, sure in meanings.items() if isinstance(entity, DefinitionRef)]
    if len(known) > 1:
        known.sort(key=lambda each: -each[1])
    for entity, sure in known[:_MAX_TARGETS]:
        if sure >= MIN_CONFIDENCE:
            shared = max(MIN_CONFIDENCE, sure / sqrt(len(known)))
            yield Edge(use.kind, use.scope, entity.name, entity.path, use.line, shared)


def build_external_edges(use: Use, meanings: Meanings, language: Language) -> Iterator[Edge]:
    """Edges to what lies outside of the source, by full name; none to what the language has."""
    for name, sure in _external_names(meanings).items():
        if not _is_standard_name(name, use.kind, language):
            yield Edge(use.kind, use.scope, name, None, use.line, sure)


def build_unresolved_edges(use: Use, meanings: Meanings, language: Language) -> Iterator[Edge]:
    """An edge to the path as it is written, for a call that was not found; none for a local function."""
    is_local = any(isinstance(each, PathPrefix) for each in meanings)
    is_common = last_segment(use.path) in language.common_methods
    if not (is_local or is_common or _external_names(meanings)):
        yield Edge(use.kind, use.scope, use.path.removeprefix("@around."), None, use.line, 0.0)


def _external_names(meanings: Meanings) -> dict[str, float]:
    """Full names outside of the source; not those of what an unknown function gave."""
    names = {
        _strip_constructor_calls(each.name): sure
        for each, sure in meanings.items()
        if isinstance(each, ExternalName)
    }
    return {name: sure for name, sure in names.items() if "(" not in name and "[" not in name}


def _is_standard_name(name: str, kind: EdgeKind, language: Language) -> bool:
    """Whether a name of the language itself is not worth an edge."""
    if kind in ("extends", "implements"):
        return False
    return first_segment(name) in language.builtins or (
        kind == "references" and language.is_standard_library(name)
    )


def _strip_constructor_calls(name: str) -> str:
    """`requests.Session().get` as `requests.Session.get`: a type's member, whoever makes an instance."""
    steps = split_steps(name)
    kept = [
        step
        for before, step in zip(("", *steps), steps, strict=False)
        if step != "()" or not before.lstrip(".")[:1].isupper()
    ]
    return "".join(kept)
