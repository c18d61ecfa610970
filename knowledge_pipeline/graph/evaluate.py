"""What a path means: bindings, imports, bases and results are followed, across files.

The order of statements is left out: a name means everything that it is given anywhere.
How sure a meaning is:

- 1.0: said by scopes and imports alone;
- 0.9: through a declared type;
- 0.8: through a value that was seen, an assignment or a result;
- 0.7: a method that a known class lacks, of a class that extends it (see `guess`);
- 0.5: the only method of that name in the source.

Several meanings share: each is as sure as the way to it, divided by the root of their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from knowledge_pipeline.graph.entities import (
    Above,
    Around,
    Entity,
    Found,
    Instance,
    Known,
    Module,
    Outside,
    Place,
    add,
)
from knowledge_pipeline.graph.facts import Binding, Import
from knowledge_pipeline.graph.hierarchy import linearized
from knowledge_pipeline.graph.index import TYPE_KINDS, FileIndex
from knowledge_pipeline.graph.paths import last_of, steps_of
from knowledge_pipeline.graph.view import View

DECLARED = 0.9
INFERRED = 0.8

_MAX_DEPTH = 40  # questions within questions
_MAX_WORK = 3_000  # questions for one use
_MAX_WORK_OF_FILE = 100_000
_MAX_LINE = 30  # generations of classes
_MAX_MEANINGS = 12
_NEVER = 1_000_000

_Key = tuple[str, str, str]


class Evaluator:
    """Answers what paths mean, for the uses of one file."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.language = view.index(view.path).language
        self._memo: dict[_Key, Found] = {}
        self._active: dict[_Key, int] = {}
        self._assumed: dict[_Key, Found] = {}
        self._lowest_cut = _NEVER
        self._work_left = _MAX_WORK
        self._generation = 0
        self._work_left_of_file = _MAX_WORK_OF_FILE
        self._lines: dict[tuple[str, str], list[tuple[str, str] | str]] = {}

    def meaning(self, file: str, scope: str, path: str) -> Found:
        """What a path means within a scope of a file: a fresh question, with all the work allowed."""
        self._allow_work()
        return self.value(file, scope, path)

    def meaning_of_import(self, each: Import) -> Found:
        """What an import of the file brings: a fresh question."""
        self._allow_work()
        return self.imported(self.view.index(self.view.path), each)

    def handed_on(self, each: Import) -> Iterator[tuple[str, Entity]]:
        """What others can take from the file by an import of it, under which names."""
        if each.name != "*":
            yield from ((each.local, entity) for entity in self.meaning_of_import(each) if each.local)
            return
        for file in self.view.modules(self.language, self.view.path, each.module):
            if not file.endswith("/"):
                index = self.view.index(file)
                names = [name for name in index.kinds if "." not in name and _exports(index, name)]
                yield from ((name, Known(file, name)) for name in names)

    def _allow_work(self) -> None:
        self._work_left_of_file -= _MAX_WORK - self._work_left
        self._work_left = min(_MAX_WORK, self._work_left_of_file)

    def value(self, file: str, scope: str, path: str) -> Found:
        """The same as a part of another question."""

        def compute() -> Found:
            steps = steps_of(path)
            if len(steps) < 2:
                return self._head(file, scope, path)
            found, known = self._before(file, scope, steps)
            for step in steps[known:]:
                found = self.step(found, step)
            return found

        return self._guarded((file, scope, path), compute)

    def _before(self, file: str, scope: str, steps: tuple[str, ...]) -> tuple[Found, int]:
        """What is known of the longest part of a path, and of how many steps that is."""
        for end in range(len(steps) - 1, 1, -1):
            found = self._memo.get((file, scope, "".join(steps[:end])))
            if found is not None:
                return found, end
        return self.value(file, scope, steps[0]), 1

    def step(self, found: Found, step: str) -> Found:
        """What a step leads to from any of the meanings."""
        result: Found = {}
        for entity, confidence in list(found.items())[:_MAX_MEANINGS]:
            add(result, self._step(entity, step), confidence)
        return result

    def lineage(self, path: str, name: str) -> list[tuple[str, str] | str]:
        """A class and what it extends, nearest first; as text what is outside of the source."""
        key = (path, name)
        if key in self._lines or self._generation >= _MAX_LINE:
            return self._lines.get(key, [key])
        self._lines[key] = [key]  # what a class reaches of itself, should it extend itself
        self._generation += 1
        around, self._lowest_cut = self._lowest_cut, _NEVER
        line = linearized(key, self._bases, self.lineage)
        self._generation -= 1
        if self._lowest_cut < _NEVER:
            del self._lines[key]
        else:
            self._lines[key] = line
        self._lowest_cut = min(around, self._lowest_cut)
        return line

    def member(self, line: list[tuple[str, str] | str], name: str, of: tuple[str, str]) -> Found:
        """A member of the first class of a lineage that defines it, and what nearer ones put into it."""
        found: Found = {}
        for each in line:
            if isinstance(each, str):
                return found or {Outside(f"{each}.{name}"): INFERRED}
            add(found, self._own_member(*each, name, of))
            if any(isinstance(entity, Known) and last_of(entity.name) == name for entity in found):
                break
        return found

    def is_below(self, method: Known, receivers: Found) -> bool:
        """Whether a method's class extends one of some classes, or instances of them."""
        line = self.lineage(method.path, method.name.rpartition(".")[0])
        wanted = ((each.path, each.name) for each in receivers if isinstance(each, Instance | Known))
        return any(each in line for each in wanted)

    def result(self, known: Known) -> Found:
        """What calling a function gives."""
        index = self.view.index(known.path)
        found = self._bound(index, known.name, "@()", known.of)
        if "@()" in index.beneath.get(known.name, ()):
            found[Place(known.path, known.name, "@()")] = 1.0
        return found

    def _guarded(self, key: _Key, compute: Callable[[], Found]) -> Found:
        """The answer of a question; asked within itself, what is known of it so far.

        An answer is remembered unless it was found within an unfinished question that it
        depends on.
        """
        if key in self._memo:
            return self._memo[key]
        if key in self._active:
            self._lowest_cut = min(self._lowest_cut, self._active[key])
            return self._assumed.get(key, {})
        depth = len(self._active)
        if depth >= _MAX_DEPTH or self._work_left <= 0:
            self._lowest_cut = -1
            return {}
        self._work_left -= 1
        self._active[key] = depth
        around, self._lowest_cut = self._lowest_cut, _NEVER
        found = compute()
        if self._lowest_cut == depth and found:
            self._assumed[key] = found
            found = compute()
        del self._active[key]
        self._assumed.pop(key, None)
        if self._lowest_cut >= depth or not depth:
            self._memo[key] = found
            self._lowest_cut = around
        else:
            self._lowest_cut = min(around, self._lowest_cut)
        return found

    def _head(self, file: str, scope: str, name: str) -> Found:
        index = self.view.index(file)
        name = index.language.heads.get(name, name)
        if name.startswith("@"):
            return _special(index, scope, name)
        return self._first(index, name, ((each, each == scope) for each in index.scopes(scope)))

    def _first(self, index: FileIndex, name: str, scopes: Iterable[tuple[str, bool]]) -> Found:
        """What a name means by the innermost scope that knows it; at last, what an outside type may have."""
        inherited: Found = {}
        for each, own in scopes:
            found = self._in_scope(index, each, name, own=own)
            if found and _is_type(index, each) and all(isinstance(entity, Outside) for entity in found):
                inherited = inherited or found
            elif found is not None:
                return found
        found = self._unimported(index, name)
        return found or ({} if index.stars and name[:1].isupper() else inherited)

    def _in_scope(self, index: FileIndex, scope: str, name: str, *, own: bool) -> Found | None:
        """What a name means by one scope alone; what is in a type, others than itself see as members."""
        found: Found | None = None
        of_type = _is_type(index, scope)
        if own or not of_type:
            found = self._local(index, scope, name)
        if found is None and of_type and index.language.members_in_scope:
            found = self._of_instance(index.facts.path, scope, name)
        return self._by_stars(index, scope, name) if found is None else found

    def _around(self, file: str, scope: str, name: str) -> Found:
        """The same as `_head`, but what is a variable of a function is passed over."""
        index = self.view.index(file)
        scopes = (
            (each, True)
            for each in index.scopes(scope)
            if not each or _is_type(index, each) or f"{each}.{name}" in index.kinds
        )
        return self._first(index, name, scopes)

    def _local(self, index: FileIndex, scope: str, name: str) -> Found | None:
        """What a name means by definitions, imports and bindings of one scope; None: nothing."""
        path = index.facts.path
        qualified = f"{scope}.{name}" if scope else name
        imports = index.imports.get((scope, name), [])
        bound = name in index.tables.get(scope, ())
        beneath = name in index.beneath.get(scope, ())
        defined = qualified in index.kinds and not index.is_hidden(scope, qualified)
        if not (defined or imports or bound or beneath):
            return None
        found: Found = {Known(path, qualified): 1.0} if defined else {}
        for each in imports:
            add(found, self.imported(index, each))
        if bound:
            add(found, self._bound(index, scope, name))
        if beneath:
            found[Place(path, scope, name)] = 1.0
        return found

    def imported(self, index: FileIndex, each: Import) -> Found:
        """What an import brings."""
        found = self._module(index, each.module)
        if not found:
            language, path = index.language, index.facts.path
            outside = language.outside(each.module, each.name, path, self.view.world.layout)
            return {Outside(outside): 1.0} if outside else {}
        return self.step(found, f".{each.name}") if each.name not in ("", "*") else found

    def _module(self, index: FileIndex, name: str) -> Found:
        """What the name of a module means: its files, or what is named within one of them."""
        files = self.view.modules(index.language, index.facts.path, name)
        if files or not index.language.dotted or "." not in name:
            return {Module(file): 1.0 for file in files}
        around, _, last = name.rpartition(".")
        return self.step(self._module(index, around), f".{last}")

    def _by_stars(self, index: FileIndex, scope: str, name: str) -> Found | None:
        found: Found = {}
        for each in index.stars.get(scope, ()):
            for entity in self._module(index, each.module):
                path = entity.path if isinstance(entity, Module) else ""
                if not path or path.endswith("/") or _exports(self.view.index(path), name):
                    add(found, self._step(entity, f".{name}"))
        return found or None

    def _unimported(self, index: FileIndex, name: str) -> Found:
        """What a name means that a file does not mention: of its package, of the language."""
        found: Found = {}
        language, home = index.language, index.language.home(index.facts)
        for file in self.view.siblings(language, home, name):
            add(found, self._local(self.view.index(file), "", name) or {})
        if not found and name in language.builtins:
            found[Outside(name)] = 1.0
        if not found and language.dotted:
            files = self.view.modules(language, home, name)
            found = {Module(file): 1.0 for file in files}
        return found

    def _of_module(self, file: str, name: str) -> Found:
        """What a module gives under a name: its own, what it re-exports, a module within it."""

        def compute() -> Found:
            found: Found | None = None
            if not file.endswith("/"):
                index = self.view.index(file)
                found = self._local(index, "", name) or self._by_stars(index, "", name)
            return found or self._of_package(file, name) or self._submodule(file, name)

        return self._guarded((file, "@module", name), compute)

    def _of_package(self, package: str, name: str) -> Found:
        """What the files of a package define."""
        found: Found = {}
        for file in self.view.siblings(self.language, package, name) if package.endswith("/") else ():
            add(found, self._local(self.view.index(file), "", name) or {})
        return found

    def _submodule(self, file: str, name: str) -> Found:
        written = self.language.submodule(name)
        files = self.view.modules(self.language, file, written) if written else ()
        return {Module(each): 1.0 for each in files}

    def _bound(self, index: FileIndex, owner: str, path: str, of: tuple[str, str] | None = None) -> Found:
        """What the bindings of a path give: those by declared types, or else all."""
        bindings = [each for each in index.tables.get(owner, {}).get(path, ()) if each.value]
        found: Found = {}
        for each in [each for each in bindings if each.declared][:_MAX_MEANINGS]:
            add(found, self._of_binding(index, each, of), 1.0 if each.value[0] == "@" else DECLARED)
        if not found:
            for each in [each for each in bindings if not each.declared][:_MAX_MEANINGS]:
                add(found, self._of_binding(index, each, of), INFERRED)
        return found

    def _of_binding(self, index: FileIndex, each: Binding, of: tuple[str, str] | None) -> Found:
        if of is not None and index.is_receiver(each.scope, each.value):
            return {Instance(*of): 1.0}
        return self.value(index.facts.path, each.scope, each.value)

    def _step(self, entity: Entity, step: str) -> Found:
        if isinstance(entity, Known):
            return self._from_known(entity, step)
        if isinstance(entity, Instance):
            return self._from_instance(entity, step)
        if isinstance(entity, Place):
            return self._from_place(entity, step)
        if isinstance(entity, Module):
            return self._of_module(entity.path, step[1:]) if step[0] == "." else {}
        if isinstance(entity, Outside):
            return self._from_outside(entity, step)
        if isinstance(entity, Around):
            return self._around(entity.path, entity.scope, step[1:]) if step[0] == "." else {}
        if step == "()":
            return {entity: 1.0}
        line = self.lineage(*entity.of)
        place = line.index((entity.path, entity.name)) + 1 if (entity.path, entity.name) in line else 0
        return self.member(line[place:], step[1:], entity.of)

    def _from_known(self, known: Known, step: str) -> Found:
        index = self.view.index(known.path)
        kind = index.kinds.get(known.name)
        if kind in TYPE_KINDS:
            if step == "()":
                return {Instance(known.path, known.name): 1.0}
            if step[0] == "[":
                return {known: 1.0}
            here = (known.path, known.name)
            return self.member(self.lineage(*here), step[1:], here)
        if index.is_computed(known.name):
            return self.step(self.result(known), step) if step else self.result(known)
        if step[:1] == "." and kind in ("function", "method"):
            member = f"{known.name}{step}"
            return {Known(known.path, member): 1.0} if index.kinds.get(member) == "method" else {}
        if step[:1] == ".":
            return self._own_member(known.path, known.name, step[1:], None)
        return self.result(known) if step == "()" and kind in ("function", "method", "type") else {}

    def _from_instance(self, instance: Instance, step: str) -> Found:
        language = self.view.index(instance.path).language
        if step[0] == ".":
            return self._of_instance(instance.path, instance.name, step[1:]) or {}
        reads = (language.when_called,) if step == "()" else language.elements
        key = (instance.path, f"@in {instance.name}", step)
        return self._guarded(key, lambda: self._read(instance, reads, step))

    def _read(self, instance: Instance, reads: tuple[str, ...], step: str) -> Found:
        """What the first of some methods of an instance gives."""
        for each in reads:
            found: Found = {instance: 1.0}
            for inner in steps_of(f"x.{each}")[1:] if each else ():
                found = self.step(found, inner)
            if each and found:
                return self.step(found, "()") if step == "()" else found
        return {}

    def _of_instance(self, path: str, name: str, member: str) -> Found | None:
        key = (path, f"@in {name}", member)
        here = (path, name)
        return self._guarded(key, lambda: self.member(self.lineage(*here), member, here)) or None

    def _own_member(self, path: str, owner: str, name: str, of: tuple[str, str] | None) -> Found:
        index = self.view.index(path)
        found = self._member_here(index, owner, name, of)
        if not found and index.language.scattered:
            for file in self.view.siblings(index.language, index.language.home(index.facts), name):
                add(found, self._member_here(self.view.index(file), owner, name, of))
        return found

    def _member_here(self, index: FileIndex, owner: str, name: str, of: tuple[str, str] | None) -> Found:
        """A member of a type as one file says."""
        path = index.facts.path
        qualified = f"{owner}.{name}"
        found: Found = {Known(path, qualified, of): 1.0} if qualified in index.kinds else {}
        add(found, self._bound(index, owner, name))
        if name in index.beneath.get(owner, ()):
            found[Place(path, owner, name)] = 1.0
        return found

    def _from_place(self, place: Place, step: str) -> Found:
        index = self.view.index(place.path)
        at = place.at + step
        found = self._at(index, place.owner, at)
        if found:
            return found
        if step[0] == "[":
            others = ["[]"] if step != "[]" else [f"[{each}]" for each in range(8)]
            for each in others:
                add(found, self._at(index, place.owner, place.at + each))
            return found
        containers = index.language.containers
        if step == "()" and (last := steps_of(place.at)[-1])[1:] in containers:
            base = place.at[: -len(last)]
            return self._at(index, place.owner, base + containers[last[1:]]) or {
                Place(place.path, place.owner, base): 1.0
            }
        return {Place(place.path, place.owner, at): 1.0} if step[1:] in containers else {}

    def _at(self, index: FileIndex, owner: str, at: str) -> Found:
        found = self._bound(index, owner, at)
        if at in index.beneath.get(owner, ()):
            found[Place(index.facts.path, owner, at)] = 1.0
        return found

    def _from_outside(self, outside: Outside, step: str) -> Found:
        name = self.language.beyond(outside.name, step)
        return {Outside(name): 1.0} if name and len(name) < 200 else {}

    def _bases(self, key: tuple[str, str]) -> list[tuple[str, str] | str]:
        """What a class says that it extends."""
        index = self.view.index(key[0])
        scope = key[1].rpartition(".")[0]
        bases: list[tuple[str, str] | str] = []
        for written in index.bases.get(key[1], ()):
            for entity in self.value(key[0], scope, written):
                if isinstance(entity, Known):
                    kind = self.view.index(entity.path).kinds.get(entity.name)
                    if kind in TYPE_KINDS and (entity.path, entity.name) != key:
                        bases.append((entity.path, entity.name))
                elif isinstance(entity, Outside):
                    bases.append(entity.name)
        return bases


def _is_type(index: FileIndex, scope: str) -> bool:
    return index.kinds.get(scope) in TYPE_KINDS


def _special(index: FileIndex, scope: str, name: str) -> Found:
    path = index.facts.path
    if name == "@":
        return {Known(path, scope): 1.0}
    if name == "@around":
        return {Around(path, scope): 1.0}
    if name == "@file":
        return {Module(path): 1.0}
    owner = index.class_of(scope)
    if owner is None:
        holder = index.holder_of(scope) if name == "@self" else None
        return {Known(path, holder): 1.0} if holder else {}
    if name == "@super":
        return {Above(path, owner, (path, owner)): 1.0}
    return {Known(path, owner): 1.0} if name == "@class" else {Instance(path, owner): 1.0}


def _exports(index: FileIndex, name: str) -> bool:
    """Whether an import of everything brings a name."""
    listed = index.facts.settings.get("__all__")
    return index.language.by_star(name) if listed is None else name in listed.split()
