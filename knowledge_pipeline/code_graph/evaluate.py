"""Evaluates what paths mean, by following bindings, imports, bases and results across files.

The order of statements does not count: a name means everything that it is given anywhere.
The confidence of a meaning:

- 1.0: known from scopes and imports alone;
- 0.9: through a declared type;
- 0.8: through a value that was seen, an assignment or a result;
- 0.7: a method that a known class lacks, of a class that extends it (see `resolution.guess_methods`);
- 0.5: the only method of that name in the source, or in what the file can see of it.

Several meanings share their confidence: that of each is divided by the root of their number, but is never
less than 0.3 (see `entities.build_edges`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from knowledge_pipeline.code_graph.entities import (
    DefinitionRef,
    EnclosingScope,
    Entity,
    ExternalName,
    Instance,
    Meanings,
    Module,
    PathPrefix,
    SuperRef,
    merge_meanings,
)
from knowledge_pipeline.code_graph.evaluation_cache import EvaluationCache
from knowledge_pipeline.code_graph.facts import (
    CHAIN,
    Binding,
    Import,
    last_segment,
    parent_scope,
    split_steps,
)
from knowledge_pipeline.code_graph.file_index import CLASS_KINDS, FileIndex
from knowledge_pipeline.code_graph.traces import TracedView

ClassKey = tuple[str, str]
Lineage = list[ClassKey | str]


def linearize(
    start: ClassKey, bases_of: Callable[[ClassKey], Lineage], lineage_of: Callable[[str, str], Lineage]
) -> Lineage:
    """A class, and what it extends in the order of C3; what is outside of the source comes last.

    Where C3 has no answer, the bases' own orders follow each other.

    Source: https://docs.python.org/3/howto/mro.html
    """
    bases = bases_of(start)
    lines = [list(lineage_of(*base)) if isinstance(base, tuple) else [base] for base in bases]
    outside = list(dict.fromkeys(base for line in lines for base in line if isinstance(base, str)))
    inside = [[base for base in line if isinstance(base, tuple)] for line in lines]
    inside.append([base for base in bases if isinstance(base, tuple)])
    return [start, *(base for base in _merge_c3(inside) if base != start), *outside]


def _merge_c3(lines: list[list[ClassKey]]) -> list[ClassKey]:
    merged: list[ClassKey] = []
    queues = [deque(line) for line in lines if line]
    later = Counter(key for line in lines for key in line[1:])
    while queues and len(merged) < _MAX_LINEAGE:
        head = next((queue[0] for queue in queues if not later[queue[0]]), None)
        if head is None:
            head = queues[0][0]
            queues = [deque(key for key in queue if key == queue[0] or key != head) for queue in queues]
            later = Counter(key for queue in queues for key in islice(queue, 1, None))
        merged.append(head)
        for queue in queues:
            if queue[0] == head:
                queue.popleft()
                later.subtract(islice(queue, 1))
        queues = [queue for queue in queues if queue]
    return merged


DECLARED_CONFIDENCE = 0.9
INFERRED_CONFIDENCE = 0.8
INHERITED_CONFIDENCE = 0.8  # what a base outside of the source may have
EXTENSION_CONFIDENCE = 0.9  # what is called as a member of the type that it is declared to extend
_MAX_MEANINGS = 24
_MAX_SEGMENTS = 32  # of the name of a module that goes on into types
_MAX_INCLUDED_FILES = 300
_MAX_EXTENSION_FILES = 20
_MAX_GENERATIONS = 30  # of classes
_MAX_LINEAGE = 100  # classes that a class extends


class Evaluator:
    """Answers what paths mean, for the uses of one file."""

    def __init__(self, view: TracedView) -> None:
        self.view = view
        self.language = view.index(view.path).language
        self.log = view.log
        self.cache = EvaluationCache(view.log)
        # each with what was asked for it; methods as `guess_methods` lists them
        self.methods_by_name: dict[str, tuple[list[DefinitionRef], int]] = {}
        self._includes_by_file: dict[str, tuple[list[str], int]] = {}
        self._lineages: dict[tuple[str, str], tuple[Lineage, int]] = {}
        self._lineage_depth = 0

    def resolve_path(self, file: str, scope: str, path: str) -> Meanings:
        """What a path means within a scope of a file: a fresh question, with all the work allowed."""
        self.cache.reset_budget()
        return self.evaluate_path(file, scope, path)

    def resolve_import(self, imported: Import) -> Meanings:
        """What an import of the file brings: a fresh question."""
        self.cache.reset_budget()
        return self.evaluate_import(self.view.index(self.view.path), imported)

    def evaluate_path(self, file: str, scope: str, path: str) -> Meanings:
        """The same as a part of another question."""
        key = (file, scope, path)
        cached = self.cache.recall(key)
        return self.cache.compute(key, lambda: self._compute_path(*key)) if cached is None else cached

    def _compute_path(self, file: str, scope: str, path: str) -> Meanings:
        steps = split_steps(path)
        if len(steps) < 2:
            return self.resolve_head(file, scope, path)
        for end in range(len(steps) - 1, 1, -1):  # from the longest part that is cached
            meanings = self.cache.get((file, scope, "".join(steps[:end])))
            if meanings is not None:
                break
        else:
            meanings, end = self.evaluate_path(file, scope, steps[0]), 1
        for step in steps[end:]:
            meanings = self.follow_step(meanings, step)
        return meanings

    def kind_of(self, entity: object) -> str | None:
        """The kind of a definition; None for all else."""
        if not isinstance(entity, DefinitionRef):
            return None
        return self.view.index(entity.path).kinds.get(entity.name)

    def follow_step(self, meanings: Meanings, step: str) -> Meanings:
        """What a step leads to from any of the meanings."""
        result: Meanings = {}
        for entity, confidence in list(meanings.items())[:_MAX_MEANINGS]:
            merge_meanings(result, self._follow(entity, step), confidence)
        return result

    def evaluate_call(self, definition: DefinitionRef) -> Meanings:
        """What calling a function gives."""
        index = self.view.index(definition.path)
        return self._evaluate_at(index, definition.name, "@()", definition.receiver_class)

    def evaluate_bindings(
        self, index: FileIndex, owner: str, path: str, receiver_class: tuple[str, str] | None = None
    ) -> Meanings:
        """What the bindings of a path give: those by declared types, or else all."""
        bindings = [binding for binding in index.bindings_of(owner, path) if binding.value]
        meanings: Meanings = {}
        for binding in [binding for binding in bindings if binding.declared][:_MAX_MEANINGS]:
            values = self._evaluate_binding(index, binding, receiver_class)
            merge_meanings(meanings, values, 1.0 if binding.value[0] == "@" else DECLARED_CONFIDENCE)
        if meanings:
            return meanings
        for binding in [binding for binding in bindings if not binding.declared][:_MAX_MEANINGS]:
            values = self._evaluate_binding(index, binding, receiver_class)
            merge_meanings(meanings, values, 1.0 if path.startswith(CHAIN) else INFERRED_CONFIDENCE)
            if len(meanings) > _MAX_MEANINGS:  # `follow_step` and edges leave out the rest
                break
        return meanings

    def _evaluate_binding(
        self, index: FileIndex, binding: Binding, receiver_class: tuple[str, str] | None
    ) -> Meanings:
        if receiver_class is not None and index.is_receiver(binding.scope, binding.value):
            return {Instance(*receiver_class): 1.0}
        return self.evaluate_path(index.facts.path, binding.scope, binding.value)

    def resolve_head(self, file: str, scope: str, name: str) -> Meanings:
        """What the first name of a path means within a scope."""
        index = self.view.index(file)
        name = index.language.receiver_keywords.get(name, name)
        if name.startswith(CHAIN):
            return self._evaluate_at(index, "", name)
        if name.startswith("@"):
            return _resolve_special(index, scope, name) or self._resolve_receiver(index, scope, name)
        return self._resolve_in_scopes(
            index, name, ((around, around == scope) for around in index.iter_scopes(scope))
        )

    def _resolve_receiver(self, index: FileIndex, scope: str, name: str) -> Meanings:
        """What `self` is in a member that is added to a type of another file; its class, for `Self`."""
        holder = next(
            (around for around in index.iter_scopes(scope) if (around, "@receiver") in index.tables), None
        )
        if holder is None or name == "@super":
            return {}
        receivers = self.evaluate_bindings(index, holder, "@receiver")
        if name == "@class":
            instances = (entity for entity in receivers if isinstance(entity, Instance))
            return {DefinitionRef(*instance): 1.0 for instance in instances}
        return receivers

    def resolve_enclosing(self, enclosing: EnclosingScope, name: str) -> Meanings:
        """The same as `resolve_head`, but what is a variable of a function, or no type, is passed over."""
        index = self.view.index(enclosing.path)
        scopes = (
            (scope, True)
            for scope in index.iter_scopes(enclosing.scope)
            if not scope or _is_type(index, scope) or f"{scope}.{name}" in index.kinds
        )
        return self._resolve_in_scopes(index, name, scopes, only_types=enclosing.only_types)

    def _is_value(self, entity: Entity) -> bool:
        if isinstance(entity, DefinitionRef):
            return self.kind_of(entity) not in CLASS_KINDS | {"type"}
        return isinstance(entity, Instance | PathPrefix)

    def _resolve_in_scopes(
        self, index: FileIndex, name: str, scopes: Iterable[tuple[str, bool]], *, only_types: bool = False
    ) -> Meanings:
        """What a name means by the innermost scope that knows it; at last, what an outside type may have."""
        inherited: Meanings = {}
        for scope, own in scopes:
            meanings = self._resolve_in_scope(index, scope, name, is_starting_scope=own)
            if meanings and only_types:
                meanings = {one: sure for one, sure in meanings.items() if not self._is_value(one)} or None
            if (
                meanings
                and _is_type(index, scope)
                and all(isinstance(entity, ExternalName) for entity in meanings)
            ):
                inherited = inherited or meanings
            elif meanings is not None:
                return meanings
        meanings = self._resolve_implicit(index, name)
        return meanings or ({} if index.has_star_imports and name[:1].isupper() else inherited)

    def _resolve_in_scope(
        self, index: FileIndex, scope: str, name: str, *, is_starting_scope: bool
    ) -> Meanings | None:
        """What a name means by one scope alone; what is in a type, others than itself see as members."""
        meanings: Meanings | None = None
        of_type = _is_type(index, scope)
        if of_type and not index.language.members_in_body and f"{scope}.{name}" in index.kinds:
            return None
        if is_starting_scope or not of_type:
            meanings = self._resolve_local(index, scope, name)
        if meanings is None and of_type and index.language.members_in_scope:
            meanings = self.find_instance_member(index.facts.path, scope, name)
        if meanings is None and index.language.receiver_in_scope and (scope, "@receiver") in index.tables:
            received = self.follow_step(self.evaluate_bindings(index, scope, "@receiver"), f".{name}")
            own: Meanings = {one: sure for one, sure in received.items() if not isinstance(one, ExternalName)}
            meanings = own or None
        return self._resolve_star_imports(index, scope, name) if meanings is None else meanings

    def _resolve_local(self, index: FileIndex, scope: str, name: str) -> Meanings | None:
        """What a name means by definitions, imports and bindings of one scope; None: nothing."""
        path = index.facts.path
        qualified = f"{scope}.{name}" if scope else name
        imports = index.imports.get((scope, name), ())
        bound = (scope, name) in index.tables
        beneath = (scope, name) in index.beneath
        defined = qualified in index.kinds and not index.is_hidden(scope, qualified)
        if not (defined or imports or bound or beneath):
            return None
        meanings: Meanings = {DefinitionRef(path, qualified): 1.0} if defined else {}
        for imported in imports:
            merge_meanings(meanings, self.evaluate_import(index, imported))
        if bound:
            merge_meanings(meanings, self.evaluate_bindings(index, scope, name))
        if beneath:
            meanings[PathPrefix(path, scope, name)] = 1.0
        return meanings

    def evaluate_import(self, index: FileIndex, imported: Import) -> Meanings:
        """What an import brings."""
        meanings = self._resolve_module(index, imported.module)
        if not meanings:
            path, layout = index.facts.path, self.view.project.layout
            outside = index.language.external_name(imported.module, imported.name, path, layout)
            return {ExternalName(outside): 1.0} if outside else {}
        return self.follow_step(meanings, f".{imported.name}") if imported.name not in ("", "*") else meanings

    def _resolve_module(self, index: FileIndex, name: str) -> Meanings:
        """What the name of a module means: its files, or what is named within one of them."""
        home = (
            index.language.lookup_home(index.facts) if index.language.has_dotted_modules else index.facts.path
        )
        files = self.view.find_modules(index.language, home, name)
        if files or not index.language.has_dotted_modules or not 0 < name.count(".") <= _MAX_SEGMENTS:
            return {Module(file): 1.0 for file in files}
        around, _, last = name.rpartition(".")
        return self.follow_step(self._resolve_module(index, around), f".{last}")

    def _resolve_star_imports(self, index: FileIndex, scope: str, name: str) -> Meanings | None:
        included = index.language.has_includes
        meanings = (
            self._resolve_includes(index, name) if included and not scope and index.star_imports("") else {}
        )
        for star_import in index.star_imports(scope):
            for entity in self._resolve_module(index, star_import.module):
                if included and isinstance(entity, Module) and not entity.path.endswith("/"):
                    continue
                path = entity.path if isinstance(entity, Module) else ""
                if not path or path.endswith("/") or self.view.index(path).is_star_exported(name):
                    merge_meanings(meanings, self._follow(entity, f".{name}"))
        return meanings or None

    def _resolve_includes(self, index: FileIndex, name: str) -> Meanings:
        """What the nearest of all files that a file includes, and that these include, define."""
        defining, path = frozenset(self.view.files_defining(name)), index.facts.path
        meanings: Meanings = {}
        if defining:
            included = self.log.remember(self._includes_by_file, path, lambda: self._find_includes(path))
            for file in included:
                if file in defining:
                    merge_meanings(meanings, self._resolve_local(self.view.index(file), "", name) or {})
        return meanings

    def _find_includes(self, path: str) -> list[str]:
        """The files that a file includes, directly or not, the nearest first; not more than are near."""
        near, seen = [path], {path}
        for file in near:  # grows meanwhile
            if len(near) > _MAX_INCLUDED_FILES:
                break
            here = self.view.index(file)
            for star_import in here.star_imports(""):
                more = self.view.find_modules(here.language, file, star_import.module)
                near += [one for one in more if one not in seen and not one.endswith("/")]
                seen.update(more)
        return near[1:]

    def _resolve_implicit(self, index: FileIndex, name: str) -> Meanings:
        """What a name means that a file does not mention: of its package, of the language."""
        meanings: Meanings = {}
        language, home = index.language, index.language.lookup_home(index.facts)
        for file in self.view.find_siblings(language, home, name):
            other = self.view.index(file)
            if name not in other.private:
                merge_meanings(meanings, self._resolve_local(other, "", name) or {})
        if not meanings and language.shared_imports:
            meanings = self._resolve_shared_imports(index, name)
        builtin: Meanings = {ExternalName(name): 1.0} if name in language.builtins else {}
        # a namespace `log` of C++ is no function
        if not meanings and language.has_dotted_modules and (language.has_includes or not builtin):
            files = self.view.find_modules(language, home, name)
            meanings = {Module(file): 1.0 for file in files}
        return meanings or builtin

    def _resolve_shared_imports(self, index: FileIndex, name: str) -> Meanings:
        """What imports bring that another file makes for all."""
        meanings: Meanings = {}
        home = index.language.lookup_home(index.facts)
        for file in self.view.find_siblings(index.language, home, index.language.shared_imports):
            other = replace(self.view.index(file), facts=index.facts)  # as if it stood in this file
            for imported in other.imports.get(("", name), ()):
                merge_meanings(meanings, self.evaluate_import(other, imported) if imported.exported else {})
            if not meanings and any(star_import.exported for star_import in other.star_imports("")):
                merge_meanings(meanings, self._resolve_star_imports(other, "", name) or {})
        return meanings

    def resolve_module_member(self, file: str, name: str, scope: str = "") -> Meanings:
        """What a module, or a scope in it, gives under a name: its own, a re-export, a module in it."""

        def compute() -> Meanings:
            meanings, home = dict[Entity, float](), file
            if not file.endswith("/"):
                index, prefix = self.view.index(file), self.language.root_prefix
                own = self._resolve_local(index, scope, name)
                meanings = own or self._resolve_star_imports(index, scope, name) or {}
                home = f"{prefix}{file}" if prefix else ""
            if meanings or scope:
                return meanings
            for sibling in self.view.find_siblings(self.language, home, name) if home else ():
                merge_meanings(meanings, self._resolve_local(self.view.index(sibling), "", name) or {})
            prefix = self.language.submodule_prefix
            if meanings or not prefix:
                return meanings
            return dict.fromkeys(map(Module, self.view.find_modules(self.language, file, prefix + name)), 1.0)

        return self.cache.get_or_compute((file, f"@module {scope}", name), compute)

    def iter_reexports(self, imported: Import) -> Iterator[tuple[str, Entity]]:
        """What others can take from the file by an import of it, under which names."""
        if imported.name != "*":
            yield from (
                (imported.local, entity) for entity in self.resolve_import(imported) if imported.local
            )
            return
        for file in self.view.find_modules(self.language, self.view.path, imported.module):
            if not file.endswith("/"):
                index = self.view.index(file)
                names = (name for name in index.definitions_within("") if index.is_star_exported(name))
                yield from ((name, DefinitionRef(file, name)) for name in names)

    def lineage(self, path: str, name: str) -> Lineage:
        """A class and what it extends, nearest first; as text what is outside of the source."""
        key = (path, name)
        if (cached := self._lineages.get(key)) is not None:
            self.log.mask |= cached[1]
            if cached[1] & self.log.cycle_bit:
                self.log.note_cycle(("@lineage", *key))
            return cached[0]
        if self._lineage_depth >= _MAX_GENERATIONS:
            self.log.is_cut_short = True
            return [key]
        # what a class reaches of itself, should it extend itself
        self._lineages[key] = [key], self.log.cycle_bit
        self._lineage_depth += 1
        (line, is_whole), mask = self.log.record(
            lambda: self.cache.compute_with_completeness(
                lambda: linearize(key, self._resolve_bases, self.lineage)
            )
        )
        self._lineage_depth -= 1
        if mask & self.log.cycle_bit:
            self.log.note_cycle(("@lineage", *key))
        if is_whole:
            self._lineages[key] = line, mask
        else:
            del self._lineages[key]
        return line

    def find_member(self, lineage: Lineage, name: str, receiver_class: tuple[str, str]) -> Meanings:
        """A member of the first class of a lineage that defines it, and what nearer ones put into it."""
        meanings: Meanings = {}
        for base in lineage:
            if isinstance(base, str):
                return meanings or {ExternalName(f"{base}.{name}"): INHERITED_CONFIDENCE}
            merge_meanings(meanings, self.find_own_member(*base, name, receiver_class))
            if any(
                isinstance(entity, DefinitionRef) and last_segment(entity.name) == name for entity in meanings
            ):
                break
        return meanings

    def is_subclass_method(self, method: DefinitionRef, receivers: Meanings) -> bool:
        """Whether a method's class extends one of some classes, or instances of them."""
        line = self.lineage(method.path, parent_scope(method.name))
        classes = (entity for entity in receivers if isinstance(entity, Instance | DefinitionRef))
        return any(class_[:2] in line for class_ in classes)

    def find_instance_member(self, path: str, name: str, member: str) -> Meanings | None:
        """A member of an instance of a class; None where it has none."""
        here = (path, name)
        key = (path, f"@in {name}", member)
        found = self.cache.get_or_compute(key, lambda: self.find_member(self.lineage(*here), member, here))
        return found or None

    def find_own_member(
        self, path: str, owner: str, name: str, receiver_class: tuple[str, str] | None
    ) -> Meanings:
        """A member that a class defines, or is given, itself; in all files of its package if it may."""
        index = self.view.index(path)
        meanings = self._find_member_in_file(index, owner, name, receiver_class)
        if not meanings and index.language.has_scattered_members:
            home = index.language.member_home(index.facts)
            for file in self.view.find_siblings(index.language, home, name):
                if file != path and self._names_same_type(file, owner, (path, owner)):
                    other = self.view.index(file)
                    merge_meanings(meanings, self._find_member_in_file(other, owner, name, receiver_class))
        return meanings

    def _names_same_type(self, file: str, name: str, type_key: tuple[str, str]) -> bool:
        """Whether a name means a type in another file, too; taken for granted where a package has one."""
        if not self.view.index(file).language.has_duplicate_type_names:
            return True
        meanings = self.evaluate_path(file, "", name)
        return any(isinstance(entity, DefinitionRef) and entity[:2] == type_key for entity in meanings)

    def _find_member_in_file(
        self, index: FileIndex, owner: str, name: str, receiver_class: tuple[str, str] | None
    ) -> Meanings:
        definition = DefinitionRef(index.facts.path, f"{owner}.{name}", receiver_class)
        meanings: Meanings = {definition: 1.0} if definition.name in index.kinds else {}
        merge_meanings(meanings, self._evaluate_at(index, owner, name))
        return meanings

    def find_extensions(self, receiver: Instance | ExternalName, name: str) -> Meanings:
        """A function that is called as a member of a type, by the name of its receiver's type."""
        if not self.language.has_extensions or name.startswith("@"):
            return {}
        line: Lineage = (
            [receiver.name]
            if isinstance(receiver, ExternalName)
            else self.lineage(receiver.path, receiver.name)
        )
        names = {last_segment(base if isinstance(base, str) else base[1]) for base in line}
        return {
            DefinitionRef(index.facts.path, definition): EXTENSION_CONFIDENCE
            for index in map(self.view.index, self.list_files_in_sight(name)[:_MAX_EXTENSION_FILES])
            for definition in index.definitions_named(name)
            for binding in index.bindings_of(definition, "@receiver")
            if index.language is self.language and last_segment(binding.value) in names
        }

    def list_files_in_sight(self, name: str) -> tuple[str, ...]:
        """The files that define a name of whatever package, as far as a language says which the file sees."""
        prefix, path = self.language.sight_prefix, self.view.path
        if not prefix:
            return self.view.files_defining(name)
        return self.view.find_siblings(self.language, f"{prefix}{path}", name)

    def _resolve_bases(self, key: tuple[str, str]) -> Lineage:
        bases: Lineage = []
        for written in self.view.index(key[0]).bases.get(key[1], ()):
            for entity in self.evaluate_path(key[0], parent_scope(key[1]), written):
                kind = self.kind_of(entity)
                if isinstance(entity, ExternalName):
                    bases.append(entity.name)
                elif (
                    isinstance(entity, DefinitionRef) and kind == "type"
                ):  # those that it is another name for
                    meant = self.evaluate_call(entity)
                    types = [one[:2] for one in meant if isinstance(one, DefinitionRef | Instance)]
                    bases += [base for base in types if base != key]
                elif isinstance(entity, DefinitionRef) and kind in CLASS_KINDS and entity[:2] != key:
                    bases.append(entity[:2])
        return bases

    def _follow(self, entity: Entity, step: str) -> Meanings:
        if isinstance(entity, DefinitionRef):
            return self._follow_from_definition(entity, step)
        if isinstance(entity, Instance):
            language = self.view.index(entity.path).language
            if step[0] == ".":
                members = self.find_instance_member(entity.path, entity.name, step[1:]) or {}
                if any(not isinstance(member, ExternalName) for member in members):
                    return members
                return self.find_extensions(entity, step[1:]) or members
            reads = (language.call_method,) if step == "()" else language.element_accessors
            key = (entity.path, f"@in {entity.name}", step)
            return self.cache.get_or_compute(key, lambda: self._call_first_method(entity, reads, step))
        if isinstance(entity, PathPrefix):
            return self._follow_from_prefix(entity, step)
        if isinstance(entity, Module):
            return self.resolve_module_member(entity.path, step[1:]) if step[0] == "." else {}
        if isinstance(entity, ExternalName):
            if step[0] == "." and (members := self.find_extensions(entity, step[1:])):
                return members
            name = self.language.extend_external_name(entity.name, step)
            return {ExternalName(name): 1.0} if name and len(name) < 200 else {}
        if isinstance(entity, EnclosingScope):
            return self.resolve_enclosing(entity, step[1:]) if step[0] == "." else {}
        if step == "()":
            return {entity: 1.0}
        line = self.lineage(*entity.receiver_class)
        start = line.index(entity[:2]) + 1 if entity[:2] in line else 0
        return self.find_member(line[start:], step[1:], entity.receiver_class)

    def _follow_from_definition(self, definition: DefinitionRef, step: str) -> Meanings:
        index = self.view.index(definition.path)
        kind = index.kinds.get(definition.name)
        if kind in CLASS_KINDS:
            if step == "()":
                return {Instance(definition.path, definition.name): 1.0}
            if step[0] == "[":
                return {definition: 1.0}
            here = (definition.path, definition.name)
            if step[:2] == ".@":
                # what a type's constructor is given; without one, what the field of that name is
                language = self.view.index(here[0]).language
                members = self.find_member(self.lineage(*here), language.constructor, here)
                makers: Meanings = {
                    member: sure
                    for member, sure in members.items()
                    if self.kind_of(member) in ("function", "method")
                }
                if not makers and language.has_memberwise_constructor:
                    return self.find_instance_member(*here, step[2:]) or {}
                return self.follow_step(makers, step)
            return self.find_member(self.lineage(*here), step[1:], here)
        if index.is_computed(definition.name):
            return self._follow_from_computed(definition, step)
        if step[:2] == ".@":
            return self._evaluate_at(index, definition.name, step[1:])
        if step[:1] == "." and kind in ("function", "method"):
            member = f"{definition.name}{step}"
            return (
                {DefinitionRef(definition.path, member): 1.0} if index.kinds.get(member) == "method" else {}
            )
        if step[:1] == ".":
            members = self.find_own_member(definition.path, definition.name, step[1:], None)
            if not members and kind == "module":
                return self.resolve_module_member(definition.path, step[1:], definition.name)
            return members
        return (
            self.evaluate_call(definition) if step == "()" and kind in ("function", "method", "type") else {}
        )

    def _follow_from_computed(self, definition: DefinitionRef, step: str) -> Meanings:
        """A step from what reading a definition gives: a question, for that may be what it is itself."""

        def compute() -> Meanings:
            result = self.evaluate_call(definition)
            return self.follow_step(result, step) if step else result

        of = "\t".join(definition.receiver_class or ())
        return self.cache.get_or_compute((definition.path, f"@read {definition.name}\t{of}", step), compute)

    def _call_first_method(self, instance: Instance, methods: tuple[str, ...], step: str) -> Meanings:
        for method in methods:
            meanings: Meanings = {instance: 1.0}
            for inner in split_steps(f"x.{method}")[1:] if method else ():
                meanings = self.follow_step(meanings, inner)
            if method and meanings:
                return self.follow_step(meanings, "()") if step == "()" else meanings
        return {}

    def _follow_from_prefix(self, prefix: PathPrefix, step: str) -> Meanings:
        index = self.view.index(prefix.path)
        at = prefix.prefix + step
        meanings = self._evaluate_at(index, prefix.owner, at)
        if meanings:
            return meanings
        if step[0] == "[":
            others = ["[]"] if step != "[]" else [f"[{number}]" for number in range(8)]
            for other in others:
                merge_meanings(meanings, self._evaluate_at(index, prefix.owner, prefix.prefix + other))
            return meanings
        containers = index.language.container_methods
        indexed = index.language.calls_index and step == "()"
        if indexed and (meanings := self._evaluate_at(index, prefix.owner, f"{prefix.prefix}[]")):
            return meanings
        if step[1:] in index.language.container_properties:
            content = prefix.prefix + index.language.container_properties[step[1:]]
            meanings = self._evaluate_at(index, prefix.owner, content) or (
                {prefix: 1.0} if content == prefix.prefix else {}
            )
            return meanings | {PathPrefix(prefix.path, prefix.owner, at): 1.0}
        if step == "()" and (last := split_steps(prefix.prefix)[-1])[1:] in containers:
            base = prefix.prefix[: -len(last)]
            return self._evaluate_at(index, prefix.owner, base + containers[last[1:]]) or {
                PathPrefix(prefix.path, prefix.owner, base): 1.0
            }
        return {PathPrefix(prefix.path, prefix.owner, at): 1.0} if step[1:] in containers else {}

    def _evaluate_at(
        self, index: FileIndex, owner: str, path: str, receiver_class: tuple[str, str] | None = None
    ) -> Meanings:
        """What the bindings of a path give, and the path itself where longer ones are bound."""
        meanings = self.evaluate_bindings(index, owner, path, receiver_class)
        if (owner, path) in index.beneath:
            meanings[PathPrefix(index.facts.path, owner, path)] = 1.0
        return meanings


def _is_type(index: FileIndex, scope: str) -> bool:
    return index.kinds.get(scope) in CLASS_KINDS


def _resolve_special(index: FileIndex, scope: str, name: str) -> Meanings:
    path = index.facts.path
    if name == "@":
        return {DefinitionRef(path, scope): 1.0}
    if name in ("@around", "@type"):
        return {EnclosingScope(path, scope, name == "@type"): 1.0}
    if name == "@file":
        return {Module(path): 1.0}
    owner = index.enclosing_class(scope)
    if owner is None or name == "@receiver":
        holder = index.enclosing_object(scope) if name == "@self" else None
        return {DefinitionRef(path, holder): 1.0} if holder else {}
    if name == "@super":
        return {SuperRef(path, owner, (path, owner)): 1.0}
    return {DefinitionRef(path, owner): 1.0} if name == "@class" else {Instance(path, owner): 1.0}
