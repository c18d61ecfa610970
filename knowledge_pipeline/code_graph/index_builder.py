"""Builds the index of a file from its facts."""

from __future__ import annotations

from knowledge_pipeline.code_graph.access_paths import last_segment, parent_scope, split_steps
from knowledge_pipeline.code_graph.facts import Binding, Definition, FileFacts, Import
from knowledge_pipeline.code_graph.file_index import (
    BY_EXPORT_LIST,
    BY_LAST_SEGMENT,
    BY_PARENT,
    CLASS_KINDS,
    STAR,
    FileIndex,
    ScopedName,
)
from knowledge_pipeline.code_graph.languages.base import Language

EXPORT_LIST = "__all__"


def build_index(facts: FileFacts, language: Language) -> FileIndex:
    """The index of a file."""
    builder = _IndexBuilder(language)
    for each in facts.definitions:
        builder.add_definition(each)
    for each in facts.imports:
        builder.add_import(each)
    builder.collect_self_names(facts)
    for each in facts.bindings:
        builder.add_binding(each)
    for use in facts.uses:
        if use.kind in ("extends", "implements"):
            builder.bases.setdefault(use.scope, []).append(use.path)
    private = facts.definitions if language.private_to_file else ()
    return FileIndex(
        facts,
        language,
        has_star_imports=any(name == STAR for _, name in builder.imports),
        has_export_list=EXPORT_LIST in facts.settings,
        kinds=builder.kinds,
        private={each.name: True for each in private if not each.exported},
        bases=builder.bases,
        imports=builder.imports,
        tables=builder.bindings,
        beneath=builder.bound_prefixes,
        selves=builder.self_names,
        names={
            key: sorted(set(held)) if key[0] == BY_PARENT else held for key, held in builder.names.items()
        },
        listed={(BY_EXPORT_LIST, name): True for name in facts.settings.get(EXPORT_LIST, "").split()},
    )


class _IndexBuilder:
    """The tables of an index while they are filled."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.kinds: dict[str, str] = {}
        self.names: dict[ScopedName, list[str]] = {}
        self.imports: dict[ScopedName, list[Import]] = {}
        self.bindings: dict[ScopedName, list[Binding]] = {}
        self.bound_prefixes: dict[ScopedName, bool] = {}
        self.self_names: dict[ScopedName, str] = {}
        self.bases: dict[str, list[str]] = {}

    def add_definition(self, definition: Definition) -> None:
        """Note a definition."""
        around = parent_scope(definition.name)
        while definition.exported and around:
            self.names.setdefault((BY_PARENT, around), []).append(definition.name)
            around = parent_scope(around)
        of, _, name = definition.name.rpartition(".")
        is_constructor = definition.kind == "method" and name == last_segment(of)
        if is_constructor and self.language.constructors_named_after_type:
            return
        if "." not in definition.name:
            self.names.setdefault((BY_PARENT, ""), []).append(definition.name)
        if self.kinds.get(definition.name, "variable") == "variable":
            self.kinds[definition.name] = definition.kind
            self.names.setdefault((BY_LAST_SEGMENT, last_segment(definition.name)), []).append(
                definition.name
            )

    def add_import(self, imported: Import) -> None:
        """Note an import, if a name or all names come with it."""
        if imported.local and (imported.local != STAR or imported.name == STAR):
            self.imports.setdefault((imported.scope, imported.local), []).append(imported)

    def collect_self_names(self, facts: FileFacts) -> None:
        """Note which names mean the instance, or the class: tables depend on it."""
        for each in facts.bindings:
            if each.value in ("@self", "@class"):
                self.self_names[each.scope, each.path] = each.value

    def add_binding(self, binding: Binding) -> None:
        """Note a binding in the table that it belongs to."""
        owner, path = self._owning_table(binding)
        self.bindings.setdefault((owner, path), []).append(binding)
        steps = split_steps(path)
        for end in range(1, len(steps)):
            self.bound_prefixes[owner, "".join(steps[:end])] = True

    def _owning_table(self, binding: Binding) -> ScopedName:
        """The table that a binding belongs to, and its path there."""
        if binding.path.startswith("@in "):
            scope, _, path = binding.path[4:].partition("@")
            return scope, path
        steps = split_steps(binding.path)
        if len(steps) < 2 or steps[1][0] != ".":
            return binding.scope, binding.path
        head = self.language.receiver_keywords.get(steps[0], steps[0])
        if head in ("@self", "@class") or self._is_self(binding.scope, head):
            owner = binding.scope
            while owner and self.kinds.get(owner) not in CLASS_KINDS:
                owner = parent_scope(owner)
            if owner:
                return owner, "".join(steps[1:])[1:]
        return binding.scope, binding.path

    def _is_self(self, scope: str, head: str) -> bool:
        while (scope, head) not in self.self_names:
            if not scope:
                return False
            scope = parent_scope(scope)
        return True
