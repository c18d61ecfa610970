"""What a path can mean: a definition, an instance, a module, something outside, or a place.

Meanings are tuples, because they are mostly looked up: the hash of a data class takes three times as
long. Where the parts of two kinds could be equal, one has a part that says its kind.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


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
Meanings = dict[Entity, float]
"""What a path may mean, with how sure that is."""


def merge_meanings(meanings: Meanings, other: Meanings, max_confidence: float = 1.0) -> None:
    """Add what was found on another way, no surer than that way is."""
    if not meanings and max_confidence == 1.0:
        meanings.update(other)  # without a look at each: hashes are taken over
        return
    for entity, confidence in other.items():
        sure = confidence if confidence < max_confidence else max_confidence
        if sure > meanings.get(entity, 0.0):
            meanings[entity] = sure
