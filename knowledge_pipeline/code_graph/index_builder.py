"""Makes a file's index out of its facts."""

from __future__ import annotations

from knowledge_pipeline.code_graph.access_paths import last_of, parent_of, steps_of
from knowledge_pipeline.code_graph.facts import Binding, Definition, Facts, Import
from knowledge_pipeline.code_graph.file_index import LISTED, NAMED, STAR, TYPE_KINDS, WITHIN, FileIndex, Key
from knowledge_pipeline.code_graph.languages.base import Language

LIST = "__all__"


def arranged(facts: Facts, language: Language) -> FileIndex:
    """The index of a file."""
    made = _Arranging(language)
    for each in facts.definitions:
        made.define(each)
    for each in facts.imports:
        made.take(each)
    made.find_selves(facts)
    for each in facts.bindings:
        made.bind(each)
    for use in facts.uses:
        if use.kind in ("extends", "implements"):
            made.bases.setdefault(use.scope, []).append(use.path)
    private = facts.definitions if language.private_to_file else ()
    return FileIndex(
        facts,
        language,
        has_stars=any(name == STAR for _, name in made.imports),
        has_list=LIST in facts.settings,
        kinds=made.kinds,
        private={each.name: True for each in private if not each.exported},
        bases=made.bases,
        imports=made.imports,
        tables=made.tables,
        beneath=made.beneath,
        selves=made.selves,
        names={key: sorted(set(held)) if key[0] == WITHIN else held for key, held in made.names.items()},
        listed={(LISTED, name): True for name in facts.settings.get(LIST, "").split()},
    )


class _Arranging:
    """The tables of an index while they are filled."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.kinds: dict[str, str] = {}
        self.names: dict[Key, list[str]] = {}
        self.imports: dict[Key, list[Import]] = {}
        self.tables: dict[Key, list[Binding]] = {}
        self.beneath: dict[Key, bool] = {}
        self.selves: dict[Key, str] = {}
        self.bases: dict[str, list[str]] = {}

    def define(self, each: Definition) -> None:
        """Note a definition."""
        around = parent_of(each.name)
        while each.exported and around:
            self.names.setdefault((WITHIN, around), []).append(each.name)
            around = parent_of(around)
        if self.language.constructors_named_after_type and _is_constructor(each):
            return
        if "." not in each.name:
            self.names.setdefault((WITHIN, ""), []).append(each.name)
        if self.kinds.get(each.name, "variable") == "variable":
            self.kinds[each.name] = each.kind
            self.names.setdefault((NAMED, last_of(each.name)), []).append(each.name)

    def take(self, each: Import) -> None:
        """Note an import, if a name or all names come with it."""
        if each.local and (each.local != STAR or each.name == STAR):
            self.imports.setdefault((each.scope, each.local), []).append(each)

    def find_selves(self, facts: Facts) -> None:
        """Note which names mean the instance, or the class: tables depend on it."""
        for each in facts.bindings:
            if each.value in ("@self", "@class"):
                self.selves[each.scope, each.path] = each.value

    def bind(self, each: Binding) -> None:
        """Note a binding in the table that it belongs to."""
        owner, path = self._owner(each)
        self.tables.setdefault((owner, path), []).append(each)
        steps = steps_of(path)
        for end in range(1, len(steps)):
            self.beneath[owner, "".join(steps[:end])] = True

    def _owner(self, each: Binding) -> Key:
        """The table that a binding belongs to, and its path there."""
        if each.path.startswith("@in "):
            scope, _, path = each.path[4:].partition("@")
            return scope, path
        steps = steps_of(each.path)
        if len(steps) < 2 or steps[1][0] != ".":
            return each.scope, each.path
        head = self.language.heads.get(steps[0], steps[0])
        if head in ("@self", "@class") or self._is_self(each.scope, head):
            owner = self._class_of(each.scope)
            if owner is not None:
                return owner, "".join(steps[1:])[1:]
        return each.scope, each.path

    def _is_self(self, scope: str, head: str) -> bool:
        while (scope, head) not in self.selves:
            if not scope:
                return False
            scope = parent_of(scope)
        return True

    def _class_of(self, scope: str) -> str | None:
        while scope and self.kinds.get(scope) not in TYPE_KINDS:
            scope = parent_of(scope)
        return scope or None


def _is_constructor(each: Definition) -> bool:
    of, _, name = each.name.rpartition(".")
    return each.kind == "method" and name == last_of(of)
