"""The facts of one file, arranged for look-ups by name and by scope."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.graph.facts import Binding, Definition, Facts, Import
from knowledge_pipeline.graph.languages.base import Language
from knowledge_pipeline.graph.paths import last_of, parent_of, steps_of

TYPE_KINDS = frozenset({"class", "interface"})


class FileIndex:
    """Definitions, imports and bindings of a file by scope.

    What is bound to `self.x` in a method is bound to `x` in the table of its class.
    """

    def __init__(self, facts: Facts, language: Language) -> None:
        self.facts = facts
        self.language = language
        self.kinds: dict[str, str] = {}
        self.by_last: dict[str, list[str]] = {}
        private = facts.definitions if language.private_to_file else ()
        self.private = {each.name for each in private if not each.exported}
        for each in facts.definitions:
            self._define(each)
        self.imports: dict[tuple[str, str], list[Import]] = {}
        self.stars: dict[str, list[Import]] = {}
        for each in facts.imports:
            self._import(each)
        self.tables: dict[str, dict[str, list[Binding]]] = {}
        self.beneath: dict[str, set[str]] = {}
        selves = (each for each in facts.bindings if each.value in ("@self", "@class"))
        self._selves = {(each.scope, each.path): each.value for each in selves}
        for each in facts.bindings:
            self._bind(each)
        self.bases: dict[str, list[str]] = {}
        for use in facts.uses:
            if use.kind in ("extends", "implements"):
                self.bases.setdefault(use.scope, []).append(use.path)

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

    def is_computed(self, name: str) -> bool:
        """Whether a definition is read like a field, but computed."""
        return "@" in self.tables.get(name, ())

    def is_receiver(self, scope: str, value: str) -> bool:
        """Whether a value is the instance that a method is called on, or a new one of its class."""
        head = value.removesuffix("()")
        special = head if head[0] == "@" else self._selves.get((scope, head))
        return special == ("@self" if head == value else "@class")

    def _define(self, each: Definition) -> None:
        if self.language.constructors_named_after_type and _is_constructor(each):
            return
        if self.kinds.get(each.name, "variable") == "variable":
            self.kinds[each.name] = each.kind
            self.by_last.setdefault(last_of(each.name), []).append(each.name)

    def _import(self, each: Import) -> None:
        if each.name == "*" and each.local == "*":
            self.stars.setdefault(each.scope, []).append(each)
        elif each.local:
            self.imports.setdefault((each.scope, each.local), []).append(each)

    def _bind(self, each: Binding) -> None:
        owner, path = self._owner(each)
        self.tables.setdefault(owner, {}).setdefault(path, []).append(each)
        steps = steps_of(path)
        if len(steps) > 1:
            beneath = self.beneath.setdefault(owner, set())
            for end in range(1, len(steps)):
                beneath.add("".join(steps[:end]))

    def _owner(self, each: Binding) -> tuple[str, str]:
        """The table that a binding belongs to, and its path there."""
        if each.path.startswith("@in "):
            scope, _, path = each.path[4:].partition("@")
            return scope, path
        steps = steps_of(each.path)
        if len(steps) < 2 or steps[1][0] != ".":
            return each.scope, each.path
        head = self.language.heads.get(steps[0], steps[0])
        if head in ("@self", "@class") or any(
            (scope, head) in self._selves for scope in self.scopes(each.scope)
        ):
            owner = self.class_of(each.scope)
            if owner is not None:
                return owner, "".join(steps[1:])[1:]
        return each.scope, each.path


def _is_constructor(each: Definition) -> bool:
    of, _, name = each.name.rpartition(".")
    return each.kind == "method" and name == last_of(of)
