"""What a path can mean (a definition, an instance, a module, something outside, a place), and its edges.

Meanings are tuples, because they are mostly looked up: the hash of a data class takes three times as
long. Where the parts of two kinds could be equal, one has a part that says its kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Literal, NamedTuple

from knowledge_pipeline.code_graph.facts import CHAIN, Edge, Use, first_segment, last_segment, split_steps
from knowledge_pipeline.code_graph.languages.base import Language


class DefinitionRef(NamedTuple):
    """A definition of the source."""

    path: str
    name: str  # qualified in its file
    receiver_class: tuple[str, str] | None = None  # through which a method was reached: what `self` is


class Instance(NamedTuple):
    """A value of a class of the source."""

    path: str
    name: str


class Module(NamedTuple):
    """A file, or a folder or package of them ("google/", "com.acme.app/")."""

    path: str


class ExternalName(NamedTuple):
    """Something that the source does not define, by its full name; "()" after what was called."""

    name: str
    kind: Literal["external"] = "external"  # unlike a module of that name


class PathPrefix(NamedTuple):
    """A path of which bindings know what lies beneath: `rows`, where `rows[]` is bound."""

    path: str
    owner: str  # the scope or class in whose table the bindings are
    prefix: str


class SuperRef(NamedTuple):
    """What a class extends, as `super` sees it."""

    path: str
    name: str  # the class in which `super` is written
    receiver_class: tuple[str, str]  # the class of the instance
    kind: Literal["super"] = "super"  # unlike a definition that is reached through the class


class EnclosingScope(NamedTuple):
    """What lies around a scope, its local variables left out."""

    path: str
    scope: str
    only_types: bool = False


Entity = DefinitionRef | Instance | Module | ExternalName | PathPrefix | SuperRef | EnclosingScope
Meanings = dict[Entity, float]  # what a path may mean, with how sure that is


def merge_meanings(meanings: Meanings, other: Meanings, max_confidence: float = 1.0) -> None:
    """Add what was found on another way, no surer than that way is."""
    if not meanings and max_confidence == 1.0:
        meanings.update(other)  # without a look at each: hashes are taken over
        return
    for entity, confidence in other.items():
        sure = confidence if confidence < max_confidence else max_confidence
        if sure > meanings.get(entity, 0.0):
            meanings[entity] = sure


MIN_CONFIDENCE = 0.3  # a meaning that is less sure than this gives no edge to a definition

_MAX_TARGETS = 24


def build_edges(use: Use, meanings: Meanings) -> Iterator[Edge]:
    """Edges to the definitions among the targets; several share their confidence, to `MIN_CONFIDENCE`."""
    definitions = [(entity, sure) for entity, sure in meanings.items() if isinstance(entity, DefinitionRef)]
    if len(definitions) > 1:
        definitions.sort(key=lambda item: -item[1])
    for entity, sure in definitions[:_MAX_TARGETS]:
        if sure >= MIN_CONFIDENCE:
            shared = max(MIN_CONFIDENCE, sure / sqrt(len(definitions)))
            yield Edge(use.kind, use.scope, entity.name, entity.path, use.line, shared)


def build_external_edges(use: Use, meanings: Meanings, language: Language) -> Iterator[Edge]:
    """Edges to what lies outside of the source, by full name; none to what the language has."""
    for name, sure in _external_names(meanings).items():
        is_standard = first_segment(name) in language.builtins or (
            use.kind == "references" and language.is_standard_library(name)
        )
        if not is_standard or use.kind in ("extends", "implements"):
            yield Edge(use.kind, use.scope, name, None, use.line, sure)


def build_unresolved_edges(use: Use, meanings: Meanings, language: Language) -> Iterator[Edge]:
    """An edge to the path as it is written, for a call that was not found; none for a local function."""
    is_local = any(isinstance(meaning, PathPrefix) for meaning in meanings)
    is_common = last_segment(use.path) in language.common_methods
    if not (is_local or is_common or _external_names(meanings)):
        head = first_segment(use.path)
        written = use.path.removeprefix("@around.") if head[:1] != CHAIN else CHAIN + use.path[len(head) :]
        yield Edge(use.kind, use.scope, written, None, use.line, 0.0)


def _external_names(meanings: Meanings) -> dict[str, float]:
    """Full names outside of the source; not those of what an unknown function gave."""
    names = {
        _strip_constructor_calls(entity.name): sure
        for entity, sure in meanings.items()
        if isinstance(entity, ExternalName)
    }
    return {name: sure for name, sure in names.items() if "(" not in name and "[" not in name}


def _strip_constructor_calls(name: str) -> str:
    """`requests.Session().get` as `requests.Session.get`: a type's member, whoever makes an instance."""
    steps = split_steps(name)
    kept = [
        step
        for before, step in zip(("", *steps), steps, strict=False)
        if step != "()" or not before.lstrip(".")[:1].isupper()
    ]
    return "".join(kept)
