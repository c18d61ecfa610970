"""The facts of one file, arranged for look-ups by name and by scope.

All that is asked of a file is asked by key, so that it can be noted which keys were asked (see `asking`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from knowledge_pipeline.code_graph.access_paths import parent_of
from knowledge_pipeline.code_graph.facts import Binding, Facts, Import
from knowledge_pipeline.code_graph.languages.base import Language

TYPE_KINDS = frozenset({"class", "interface"})

Key = tuple[str, str]
"""A scope, and a name or a path in it."""

STAR = "*"
NAMED = "@named"
WITHIN = "@within"
LISTED = "@listed"
_NO_BINDINGS: tuple[Binding, ...] = ()


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Definitions, imports and bindings of a file by scope."""

    facts: Facts  # of another file: without what is arranged here
    language: Language
    has_stars: bool  # whether it imports everything from somewhere
    has_list: bool  # whether it lists what an import of everything brings
    kinds: Mapping[str, str]
    private: Mapping[str, bool]  # what others cannot name
    bases: Mapping[str, list[str]]  # what types extend, as it is written
    imports: Mapping[Key, list[Import]]  # by local name, or `STAR`
    tables: Mapping[Key, list[Binding]]  # what is bound to `self.x` in a method is bound to `x` in its class
    beneath: Mapping[Key, bool]  # what longer paths that are bound start with
    selves: Mapping[Key, str]  # names of "@self" and "@class"
    names: Mapping[Key, list[str]]  # of definitions, by (NAMED, last segment) or (WITHIN, what is around)
    listed: Mapping[Key, bool]  # by (LISTED, name)

    def class_of(self, scope: str) -> str | None:
        """The innermost type that a scope is in, or is."""
        while scope:
            if self.kinds.get(scope) in TYPE_KINDS:
                return scope
            scope = parent_of(scope)
        return None

    def holder_of(self, scope: str) -> str | None:
        """What is no type, and has the method that a scope is in, or is: an object, a prototype."""
        while scope:
            around = parent_of(scope)
            if self.kinds.get(scope) == "method" and around in self.kinds:
                return around
            scope = around
        return None

    def is_hidden(self, scope: str, name: str) -> bool:
        """Whether a definition within a scope is no name there: a method of an object that it gives."""
        if not scope or self.language.bare_methods or self.kinds[name] != "method":
            return False
        return self.kinds.get(scope) not in TYPE_KINDS

    def scopes(self, scope: str) -> Iterator[str]:
        """A scope and those around it, the file last."""
        while scope:
            yield scope
            scope = parent_of(scope)
        yield ""

    def bound(self, owner: str, path: str) -> list[Binding] | tuple[Binding, ...]:
        """What a path is bound to in the table of a scope, a type or a function."""
        return self.tables.get((owner, path), _NO_BINDINGS)

    def stars(self, scope: str) -> list[Import] | tuple[Import, ...]:
        """What a scope imports everything from."""
        return self.imports.get((scope, STAR), ())

    def is_computed(self, name: str) -> bool:
        """Whether a definition is read like a field, but computed."""
        return (name, "@") in self.tables

    def is_receiver(self, scope: str, value: str) -> bool:
        """Whether a value is the instance that a method is called on, or a new one of its class."""
        head = value.removesuffix("()")
        special = head if head[0] == "@" else self.selves.get((scope, head))
        return special == ("@self" if head == value else "@class")

    def exports(self, name: str) -> bool:
        """Whether an import of everything brings a name."""
        return (LISTED, name) in self.listed if self.has_list else self.language.by_star(name)

    def named(self, last: str) -> list[str] | tuple[str, ...]:
        """The definitions with a last segment."""
        return self.names.get((NAMED, last), ())

    def within(self, name: str) -> list[str] | tuple[str, ...]:
        """The definitions within one that others can name, sorted; for "" those within none, all of them."""
        return self.names.get((WITHIN, name), ())
