"""The facts of one file, arranged for look-ups by name and by scope.

Look-ups go by key, so that the keys can be recorded (see `traces.record_lookups`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from knowledge_pipeline.code_graph.facts import (
    Binding,
    FileFacts,
    Import,
    last_segment,
    parent_scope,
    split_steps,
)
from knowledge_pipeline.code_graph.languages.base import Language

CLASS_KINDS = frozenset({"class", "interface"})

ScopedName = tuple[str, str]  # a scope, and a name or a path in it

STAR = "*"
BY_LAST_SEGMENT = "@named"
BY_PARENT = "@within"
BY_EXPORT_LIST = "@listed"
_NO_BINDINGS: tuple[Binding, ...] = ()


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Definitions, imports and bindings of a file by scope."""

    facts: FileFacts  # of another file: without what is arranged here
    language: Language
    has_star_imports: bool  # whether it imports everything from somewhere
    has_export_list: bool  # whether it lists what an import of everything brings
    kinds: Mapping[str, str]
    private: Mapping[str, bool]  # what others cannot name
    bases: Mapping[str, list[str]]  # what types extend, as it is written
    imports: Mapping[ScopedName, list[Import]]  # by local name, or `STAR`
    tables: Mapping[ScopedName, list[Binding]]  # `self.x` in a method is `x` in its class
    beneath: Mapping[ScopedName, bool]  # what longer paths that are bound start with
    selves: Mapping[ScopedName, str]  # names of "@self" and "@class"
    names: Mapping[ScopedName, list[str]]  # definitions by (BY_LAST_SEGMENT, …) or (BY_PARENT, …)
    listed: Mapping[ScopedName, bool]  # by (BY_EXPORT_LIST, name)

    def enclosing_class(self, scope: str) -> str | None:
        """The innermost type that a scope is in, or is."""
        while scope:
            if self.kinds.get(scope) in CLASS_KINDS:
                return scope
            scope = parent_scope(scope)
        return None

    def enclosing_object(self, scope: str) -> str | None:
        """What is no type, and has the method that a scope is in, or is: an object, a prototype."""
        while scope:
            around = parent_scope(scope)
            if self.kinds.get(scope) == "method" and around in self.kinds:
                return around
            scope = around
        return None

    def is_hidden(self, scope: str, name: str) -> bool:
        """Whether a definition within a scope is no name there: a method of an object that it gives."""
        if not scope or self.language.nested_methods_in_scope or self.kinds[name] != "method":
            return False
        return self.kinds.get(scope) not in CLASS_KINDS

    def iter_scopes(self, scope: str) -> Iterator[str]:
        """A scope and those around it, the file last."""
        while scope:
            yield scope
            scope = parent_scope(scope)
        yield ""

    def bindings_of(self, owner: str, path: str) -> list[Binding] | tuple[Binding, ...]:
        """What a path is bound to in the table of a scope, a type or a function."""
        return self.tables.get((owner, path), _NO_BINDINGS)

    def star_imports(self, scope: str) -> list[Import] | tuple[Import, ...]:
        """What a scope imports everything from."""
        return self.imports.get((scope, STAR), ())

    def is_computed(self, name: str) -> bool:
        """Whether a definition is read like a field, but computed; a class is not, even if a member is."""
        return (name, "@") in self.tables and self.kinds.get(name) not in CLASS_KINDS

    def is_receiver(self, scope: str, value: str) -> bool:
        """Whether a value is the instance that a method is called on, or a new one of its class."""
        head = value.removesuffix("()")
        special = head if head[0] == "@" else self.selves.get((scope, head))
        return special == ("@self" if head == value else "@class")

    def is_star_exported(self, name: str) -> bool:
        """Whether an import of everything brings a name."""
        if self.has_export_list:
            return (BY_EXPORT_LIST, name) in self.listed
        return self.language.is_star_exported(name)

    def definitions_named(self, last_segment: str) -> list[str] | tuple[str, ...]:
        """The definitions with a last segment."""
        return self.names.get((BY_LAST_SEGMENT, last_segment), ())

    def definitions_within(self, name: str) -> list[str] | tuple[str, ...]:
        """The definitions within one that others can name, sorted; for "" those within none, all of them."""
        return self.names.get((BY_PARENT, name), ())


EXPORT_LIST = "__all__"


def build_index(facts: FileFacts, language: Language) -> FileIndex:
    """The index of a file."""
    kinds, names = _index_definitions(facts, language)
    imports: dict[ScopedName, list[Import]] = {}
    for imported in facts.imports:  # those with which a name, or all names, come
        if imported.local and (imported.local != STAR or imported.name == STAR):
            imports.setdefault((imported.scope, imported.local), []).append(imported)
    selves = {
        (binding.scope, binding.path): binding.value
        for binding in facts.bindings
        if binding.value in ("@self", "@class")
    }
    tables: dict[ScopedName, list[Binding]] = {}
    beneath: dict[ScopedName, bool] = {}
    for binding in facts.bindings:
        owner, path = _find_table(binding, language, kinds, selves)
        tables.setdefault((owner, path), []).append(binding)
        steps = split_steps(path)
        for end in range(1, len(steps)):
            beneath[owner, "".join(steps[:end])] = True
    bases: dict[str, list[str]] = {}
    for use in facts.uses:
        if use.kind in ("extends", "implements"):
            bases.setdefault(use.scope, []).append(use.path)
    private = facts.definitions if language.private_to_file else ()
    return FileIndex(
        facts,
        language,
        has_star_imports=any(name == STAR for _, name in imports),
        has_export_list=EXPORT_LIST in facts.settings,
        kinds=kinds,
        private={definition.name: True for definition in private if not definition.exported},
        bases=bases,
        imports=imports,
        tables=tables,
        beneath=beneath,
        selves=selves,
        names={key: sorted(set(of)) if key[0] == BY_PARENT else of for key, of in names.items()},
        listed={(BY_EXPORT_LIST, name): True for name in facts.settings.get(EXPORT_LIST, "").split()},
    )


def _index_definitions(
    facts: FileFacts, language: Language
) -> tuple[dict[str, str], dict[ScopedName, list[str]]]:
    """The kinds of definitions, and their names, by (BY_LAST_SEGMENT, …) or (BY_PARENT, …)."""
    kinds: dict[str, str] = {}
    names: dict[ScopedName, list[str]] = {}
    for definition in facts.definitions:
        name, of, last = definition.name, *definition.name.rpartition(".")[::2]
        around = of
        while definition.exported and around:
            names.setdefault((BY_PARENT, around), []).append(name)
            around = around.rpartition(".")[0]
        is_named_constructor = language.constructors_named_after_type and definition.kind == "method"
        if is_named_constructor and last == last_segment(of):
            continue
        if not of:
            names.setdefault((BY_PARENT, ""), []).append(name)
        if kinds.get(name, "variable") == "variable":
            kinds[name] = definition.kind
            names.setdefault((BY_LAST_SEGMENT, last_segment(name)), []).append(name)
    return kinds, names


def _find_table(
    binding: Binding, language: Language, kinds: Mapping[str, str], selves: Mapping[ScopedName, str]
) -> ScopedName:
    """The scope or class in whose table a binding is, and its path there."""
    if binding.path.startswith("@in "):
        scope, _, path = binding.path[4:].partition("@")
        return scope, path
    steps, owner = split_steps(binding.path), binding.scope
    if len(steps) < 2 or steps[1][0] != ".":
        return owner, binding.path
    head, around = language.receiver_keywords.get(steps[0], steps[0]), owner
    while around and (around, head) not in selves:
        around = parent_scope(around)
    if head in ("@self", "@class") or (around, head) in selves:
        while owner and kinds.get(owner) not in CLASS_KINDS:
            owner = parent_scope(owner)
        if owner:
            return owner, "".join(steps[1:])[1:]
    return binding.scope, binding.path
