"""What a name means where it is written: scopes, imports, modules, packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from knowledge_pipeline.code_graph.entities import (
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
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.file_index import TYPE_KINDS, FileIndex

if TYPE_CHECKING:
    from knowledge_pipeline.code_graph.evaluate import Evaluator


_MAX_SEGMENTS = 32  # of the name of a module that goes on into types
_MAX_INCLUDED = 300  # files, beyond which nothing more that is included is looked for


class Names:
    """Looks names up for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.view = evaluator.view
        self.language = evaluator.language
        self._closures: dict[str, list[str]] = {}

    def head(self, file: str, scope: str, name: str) -> Found:
        """What the first name of a path means within a scope."""
        index = self.view.index(file)
        name = index.language.heads.get(name, name)
        if name.startswith("@"):
            return _special(index, scope, name) or self._received(index, scope, name)
        return self._first(index, name, ((each, each == scope) for each in index.scopes(scope)))

    def _received(self, index: FileIndex, scope: str, name: str) -> Found:
        """What `self` is in a member that is added to a type of another file; its class, for `Self`."""
        holder = next((each for each in index.scopes(scope) if (each, "@receiver") in index.tables), None)
        if holder is None or name == "@super":
            return {}
        found = self.evaluator.bound(index, holder, "@receiver")
        if name == "@class":
            return {Known(each.path, each.name): 1.0 for each in found if isinstance(each, Instance)}
        return found

    def around(self, of: Around, name: str) -> Found:
        """The same as `head`, but what is a variable of a function, or no type, is passed over."""
        index = self.view.index(of.path)
        scopes = (
            (each, True)
            for each in index.scopes(of.scope)
            if not each or _is_type(index, each) or f"{each}.{name}" in index.kinds
        )
        return self._first(index, name, scopes, only_types=of.only_types)

    def _is_value(self, entity: Entity) -> bool:
        """Whether something is neither a type nor leads to one."""
        if isinstance(entity, Known):
            return self.view.index(entity.path).kinds.get(entity.name) not in TYPE_KINDS | {"type"}
        return isinstance(entity, Instance | Place)

    def _first(
        self, index: FileIndex, name: str, scopes: Iterable[tuple[str, bool]], *, only_types: bool = False
    ) -> Found:
        """What a name means by the innermost scope that knows it; at last, what an outside type may have."""
        inherited: Found = {}
        for each, own in scopes:
            found = self._in_scope(index, each, name, own=own)
            if found and only_types:
                found = {one: sure for one, sure in found.items() if not self._is_value(one)} or None
            if found and _is_type(index, each) and all(isinstance(entity, Outside) for entity in found):
                inherited = inherited or found
            elif found is not None:
                return found
        found = self._unimported(index, name)
        return found or ({} if index.has_stars and name[:1].isupper() else inherited)

    def _in_scope(self, index: FileIndex, scope: str, name: str, *, own: bool) -> Found | None:
        """What a name means by one scope alone; what is in a type, others than itself see as members."""
        found: Found | None = None
        of_type = _is_type(index, scope)
        if of_type and not index.language.members_in_body and f"{scope}.{name}" in index.kinds:
            return None
        if own or not of_type:
            found = self._local(index, scope, name)
        if found is None and of_type and index.language.members_in_scope:
            found = self.evaluator.members.of_instance(index.facts.path, scope, name)
        if found is None and index.language.receiver_in_scope and (scope, "@receiver") in index.tables:
            received = self.evaluator.step(self.evaluator.bound(index, scope, "@receiver"), f".{name}")
            found = {one: sure for one, sure in received.items() if not isinstance(one, Outside)} or None
        return self._by_stars(index, scope, name) if found is None else found

    def _local(self, index: FileIndex, scope: str, name: str) -> Found | None:
        """What a name means by definitions, imports and bindings of one scope; None: nothing."""
        path = index.facts.path
        qualified = f"{scope}.{name}" if scope else name
        imports = index.imports.get((scope, name), ())
        bound = (scope, name) in index.tables
        beneath = (scope, name) in index.beneath
        defined = qualified in index.kinds and not index.is_hidden(scope, qualified)
        if not (defined or imports or bound or beneath):
            return None
        found: Found = {Known(path, qualified): 1.0} if defined else {}
        for each in imports:
            add(found, self.imported(index, each))
        if bound:
            add(found, self.evaluator.bound(index, scope, name))
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
        return self.evaluator.step(found, f".{each.name}") if each.name not in ("", "*") else found

    def _module(self, index: FileIndex, name: str) -> Found:
        """What the name of a module means: its files, or what is named within one of them."""
        place = index.language.home(index.facts) if index.language.dotted else index.facts.path
        files = self.view.modules(index.language, place, name)
        if files or not index.language.dotted or not 0 < name.count(".") <= _MAX_SEGMENTS:
            return {Module(file): 1.0 for file in files}
        around, _, last = name.rpartition(".")
        return self.evaluator.step(self._module(index, around), f".{last}")

    def _by_stars(self, index: FileIndex, scope: str, name: str) -> Found | None:
        included = index.language.includes
        found = self._by_includes(index, name) if included and not scope and index.stars("") else {}
        for each in index.stars(scope):
            for entity in self._module(index, each.module):
                if included and isinstance(entity, Module) and not entity.path.endswith("/"):
                    continue
                path = entity.path if isinstance(entity, Module) else ""
                if not path or path.endswith("/") or self.view.index(path).exports(name):
                    add(found, self.evaluator.steps.take(entity, f".{name}"))
        return found or None

    def _by_includes(self, index: FileIndex, name: str) -> Found:
        """What the nearest of all files that a file includes, and that these include, define."""
        defining = frozenset(self.view.defining(name))
        found: Found = {}
        for file in self._included(index) if defining else ():
            if file in defining:
                add(found, self._local(self.view.index(file), "", name) or {})
        return found

    def _included(self, index: FileIndex) -> list[str]:
        """The files that a file includes, directly or not, the nearest first; not more than are near."""
        path = index.facts.path
        if path not in self._closures:
            near, known = [path], {path}
            for file in near:  # grows meanwhile
                if len(near) > _MAX_INCLUDED:
                    break
                here = self.view.index(file)
                for each in here.stars(""):
                    more = self.view.modules(here.language, file, each.module)
                    near += [one for one in more if one not in known and not one.endswith("/")]
                    known.update(more)
            self._closures[path] = near[1:]
        return self._closures[path]

    def _unimported(self, index: FileIndex, name: str) -> Found:
        """What a name means that a file does not mention: of its package, of the language."""
        found: Found = {}
        language, home = index.language, index.language.home(index.facts)
        for file in self.view.siblings(language, home, name):
            other = self.view.index(file)
            add(found, {} if name in other.private else self._local(other, "", name) or {})
        if not found and language.shared_imports:
            found = self._by_shared(index, name)
        if not found and name in language.builtins:
            found[Outside(name)] = 1.0
        if not found and language.dotted:
            files = self.view.modules(language, home, name)
            found = {Module(file): 1.0 for file in files}
        return found

    def _by_shared(self, index: FileIndex, name: str) -> Found:
        """What imports bring that another file makes for all."""
        found: Found = {}
        for file in self.view.defining(index.language.shared_imports):
            other = self.view.index(file)
            for each in other.imports.get(("", name), ()):
                add(found, self.imported(other, each) if each.exported else {})
            if not found and any(each.exported for each in other.stars("")):
                add(found, self._by_stars(other, "", name) or {})
        return found

    def of_module(self, file: str, name: str) -> Found:
        """What a module gives under a name: its own, what it re-exports, a module within it."""

        def compute() -> Found:
            found: Found | None = None
            if not file.endswith("/"):
                index = self.view.index(file)
                found = self._local(index, "", name) or self._by_stars(index, "", name)
            return found or self._of_package(file, name) or self._submodule(file, name)

        return self.evaluator.ask((file, "@module", name), compute)

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

    def handed_on(self, each: Import) -> Iterator[tuple[str, Entity]]:
        """What others can take from the file by an import of it, under which names."""
        if each.name != "*":
            yield from (
                (each.local, entity) for entity in self.evaluator.meaning_of_import(each) if each.local
            )
            return
        for file in self.view.modules(self.language, self.view.path, each.module):
            if not file.endswith("/"):
                index = self.view.index(file)
                names = (name for name in index.within("") if index.exports(name))
                yield from ((name, Known(file, name)) for name in names)


def _is_type(index: FileIndex, scope: str) -> bool:
    return index.kinds.get(scope) in TYPE_KINDS


def _special(index: FileIndex, scope: str, name: str) -> Found:
    path = index.facts.path
    if name == "@":
        return {Known(path, scope): 1.0}
    if name in ("@around", "@type"):
        return {Around(path, scope, name == "@type"): 1.0}
    if name == "@file":
        return {Module(path): 1.0}
    owner = index.class_of(scope)
    if owner is None or name == "@receiver":
        holder = index.holder_of(scope) if name == "@self" else None
        return {Known(path, holder): 1.0} if holder else {}
    if name == "@super":
        return {Above(path, owner, (path, owner)): 1.0}
    return {Known(path, owner): 1.0} if name == "@class" else {Instance(path, owner): 1.0}
