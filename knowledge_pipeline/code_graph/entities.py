"""What a path can mean: a definition, an instance, a module, something outside, or a place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """A definition of the source."""

    path: str
    name: str  # qualified in its file
    of: tuple[str, str] | None = None  # the class through which a method was reached: what `self` is


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
class Outside:
    """Something that the source does not define, by its full name; "()" after what was called."""

    name: str


@dataclass(frozen=True, slots=True)
class Place:
    """A path of which bindings know what lies beneath: `rows`, where `rows[]` is bound."""

    path: str
    owner: str  # the scope or class in whose table the bindings are
    at: str


@dataclass(frozen=True, slots=True)
class Above:
    """What a class extends, as `super` sees it."""

    path: str
    name: str  # the class in which `super` is written
    of: tuple[str, str]  # the class of the instance


@dataclass(frozen=True, slots=True)
class Around:
    """What lies around a scope, its local variables left out."""

    path: str
    scope: str
    only_types: bool = False


Entity = Known | Instance | Module | Outside | Place | Above | Around
Found = dict[Entity, float]
"""What a path may mean, with how sure that is."""


def add(found: Found, more: Found, at_most: float = 1.0) -> None:
    """Add what was found on another way, no surer than that way is."""
    for entity, confidence in more.items():
        sure = min(confidence, at_most)
        if sure > found.get(entity, 0.0):
            found[entity] = sure
