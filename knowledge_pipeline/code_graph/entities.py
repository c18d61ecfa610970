"""What a path can mean: a definition, an instance, a module, something outside, or a place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DefinitionRef:
    """A definition of the source."""

    path: str
    name: str  # qualified in its file
    receiver_class: tuple[str, str] | None = None  # through which a method was reached: what `self` is


@dataclass(frozen=True, slots=True)
class Instance:
    """A value of a class of the source."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class Module:
    """A file, or a folder or package of them ("google/", "com.acme.app/")."""

    path: str


@dataclass(frozen=True, slots=True)
class ExternalName:
    """Something that the source does not define, by its full name; "()" after what was called."""

    name: str


@dataclass(frozen=True, slots=True)
class PathPrefix:
    """A path of which bindings know what lies beneath: `rows`, where `rows[]` is bound."""

    path: str
    owner: str  # the scope or class in whose table the bindings are
    prefix: str


@dataclass(frozen=True, slots=True)
class SuperRef:
    """What a class extends, as `super` sees it."""

    path: str
    name: str  # the class in which `super` is written
    receiver_class: tuple[str, str]  # the class of the instance


@dataclass(frozen=True, slots=True)
class EnclosingScope:
    """What lies around a scope, its local variables left out."""

    path: str
    scope: str
    only_types: bool = False


Entity = DefinitionRef | Instance | Module | ExternalName | PathPrefix | SuperRef | EnclosingScope
Meanings = dict[Entity, float]
"""What a path may mean, with how sure that is."""


def merge_meanings(meanings: Meanings, other: Meanings, max_confidence: float = 1.0) -> None:
    """Add what was found on another way, no surer than that way is."""
    for entity, confidence in other.items():
        sure = min(confidence, max_confidence)
        if sure > meanings.get(entity, 0.0):
            meanings[entity] = sure
