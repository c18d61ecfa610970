"""What names mean within scopes and modules: by definitions, imports, bindings, and what is around."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

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
)  # fmt: skip
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.file_index import CLASS_KINDS, FileIndex
from knowledge_pipeline.code_graph.members import find_instance_member

if TYPE_CHECKING:
    from knowledge_pipeline.code_graph.evaluate import Evaluator

_MAX_SEGMENTS = 32  # of the name of a module that goes on into types
_MAX_INCLUDED_FILES = 300


def resolve_head(evaluator: Evaluator, file: str, scope: str, name: str) -> Meanings:
    """What the first name of a path means within a scope."""
    index = evaluator.view.index(file)
    name = index.language.receiver_keywords.get(name, name)
    if name.startswith("@"):
        return _resolve_special(index, scope, name) or _resolve_receiver(evaluator, index, scope, name)
    return _resolve_in_scopes(
        evaluator, index, name, ((each, each == scope) for each in index.iter_scopes(scope))
    )


def _resolve_receiver(evaluator: Evaluator, index: FileIndex, scope: str, name: str) -> Meanings:
    """What `self` is in a member that is added to a type of another file; its class, for `Self`."""
    holder = next((each for each in index.iter_scopes(scope) if (each, "@receiver") in index.tables), None)
    if holder is None or name == "@super":
        return {}
    found = evaluator.evaluate_bindings(index, holder, "@receiver")
    if name == "@class":
        return {DefinitionRef(each.path, each.name): 1.0 for each in found if isinstance(each, Instance)}
    return found


def resolve_enclosing(evaluator: Evaluator, enclosing: EnclosingScope, name: str) -> Meanings:
    """The same as `head`, but what is a variable of a function, or no type, is passed over."""
    index = evaluator.view.index(enclosing.path)
    scopes = (
        (each, True)
        for each in index.iter_scopes(enclosing.scope)
        if not each or _is_type(index, each) or f"{each}.{name}" in index.kinds
    )
    return _resolve_in_scopes(evaluator, index, name, scopes, only_types=enclosing.only_types)


def _is_value(evaluator: Evaluator, entity: Entity) -> bool:
    """Whether something is neither a type nor leads to one."""
    if isinstance(entity, DefinitionRef):
        return evaluator.view.index(entity.path).kinds.get(entity.name) not in CLASS_KINDS | {"type"}
    return isinstance(entity, Instance | PathPrefix)


def _resolve_in_scopes(
    evaluator: Evaluator,
    index: FileIndex,
    name: str,
    scopes: Iterable[tuple[str, bool]],
    *,
    only_types: bool = False,
) -> Meanings:
    """What a name means by the innermost scope that knows it; at last, what an outside type may have."""
    inherited: Meanings = {}
    for each, own in scopes:
        found = _resolve_in_scope(evaluator, index, each, name, is_starting_scope=own)
        if found and only_types:
            found = {one: sure for one, sure in found.items() if not _is_value(evaluator, one)} or None
        if found and _is_type(index, each) and all(isinstance(entity, ExternalName) for entity in found):
            inherited = inherited or found
        elif found is not None:
            return found
    found = _resolve_implicit(evaluator, index, name)
    return found or ({} if index.has_star_imports and name[:1].isupper() else inherited)


def _resolve_in_scope(
    evaluator: Evaluator, index: FileIndex, scope: str, name: str, *, is_starting_scope: bool
) -> Meanings | None:
    """What a name means by one scope alone; what is in a type, others than itself see as members."""
    found: Meanings | None = None
    of_type = _is_type(index, scope)
    if of_type and not index.language.members_in_body and f"{scope}.{name}" in index.kinds:
        return None
    if is_starting_scope or not of_type:
        found = _resolve_local(evaluator, index, scope, name)
    if found is None and of_type and index.language.members_in_scope:
        found = find_instance_member(evaluator, index.facts.path, scope, name)
    if found is None and index.language.receiver_in_scope and (scope, "@receiver") in index.tables:
        received = evaluator.follow_step(evaluator.evaluate_bindings(index, scope, "@receiver"), f".{name}")
        found = {one: sure for one, sure in received.items() if not isinstance(one, ExternalName)} or None
    return _resolve_star_imports(evaluator, index, scope, name) if found is None else found


def _resolve_local(evaluator: Evaluator, index: FileIndex, scope: str, name: str) -> Meanings | None:
    """What a name means by definitions, imports and bindings of one scope; None: nothing."""
    path = index.facts.path
    qualified = f"{scope}.{name}" if scope else name
    imports = index.imports.get((scope, name), ())
    bound = (scope, name) in index.tables
    beneath = (scope, name) in index.beneath
    defined = qualified in index.kinds and not index.is_hidden(scope, qualified)
    if not (defined or imports or bound or beneath):
        return None
    found: Meanings = {DefinitionRef(path, qualified): 1.0} if defined else {}
    for each in imports:
        merge_meanings(found, evaluate_import(evaluator, index, each))
    if bound:
        merge_meanings(found, evaluator.evaluate_bindings(index, scope, name))
    if beneath:
        found[PathPrefix(path, scope, name)] = 1.0
    return found


def evaluate_import(evaluator: Evaluator, index: FileIndex, imported: Import) -> Meanings:
    """What an import brings."""
    found = _resolve_module(evaluator, index, imported.module)
    if not found:
        language, path = index.language, index.facts.path
        outside = language.external_name(
            imported.module, imported.name, path, evaluator.view.project_index.layout
        )
        return {ExternalName(outside): 1.0} if outside else {}
    return evaluator.follow_step(found, f".{imported.name}") if imported.name not in ("", "*") else found


def _resolve_module(evaluator: Evaluator, index: FileIndex, name: str) -> Meanings:
    """What the name of a module means: its files, or what is named within one of them."""
    place = index.language.lookup_home(index.facts) if index.language.has_dotted_modules else index.facts.path
    files = evaluator.view.find_modules(index.language, place, name)
    if files or not index.language.has_dotted_modules or not 0 < name.count(".") <= _MAX_SEGMENTS:
        return {Module(file): 1.0 for file in files}
    around, _, last = name.rpartition(".")
    return evaluator.follow_step(_resolve_module(evaluator, index, around), f".{last}")


def _resolve_star_imports(evaluator: Evaluator, index: FileIndex, scope: str, name: str) -> Meanings | None:
    included = index.language.has_includes
    found = (
        _resolve_includes(evaluator, index, name) if included and not scope and index.star_imports("") else {}
    )
    for each in index.star_imports(scope):
        for entity in _resolve_module(evaluator, index, each.module):
            if included and isinstance(entity, Module) and not entity.path.endswith("/"):
                continue
            path = entity.path if isinstance(entity, Module) else ""
            if not path or path.endswith("/") or evaluator.view.index(path).is_star_exported(name):
                merge_meanings(found, evaluator.follow(entity, f".{name}"))
    return found or None


def _resolve_includes(evaluator: Evaluator, index: FileIndex, name: str) -> Meanings:
    """What the nearest of all files that a file includes, and that these include, define."""
    defining = frozenset(evaluator.view.files_defining(name))
    found: Meanings = {}
    for file in _list_includes(evaluator, index) if defining else ():
        if file in defining:
            merge_meanings(found, _resolve_local(evaluator, evaluator.view.index(file), "", name) or {})
    return found


def _list_includes(evaluator: Evaluator, index: FileIndex) -> list[str]:
    """The files that a file includes, directly or not, the nearest first; not more than are near."""
    path = index.facts.path
    if path not in evaluator.includes_by_file:
        near, known = [path], {path}
        for file in near:  # grows meanwhile
            if len(near) > _MAX_INCLUDED_FILES:
                break
            here = evaluator.view.index(file)
            for each in here.star_imports(""):
                more = evaluator.view.find_modules(here.language, file, each.module)
                near += [one for one in more if one not in known and not one.endswith("/")]
                known.update(more)
        evaluator.includes_by_file[path] = near[1:]
    return evaluator.includes_by_file[path]


def _resolve_implicit(evaluator: Evaluator, index: FileIndex, name: str) -> Meanings:
    """What a name means that a file does not mention: of its package, of the language."""
    found: Meanings = {}
    language, home = index.language, index.language.lookup_home(index.facts)
    for file in evaluator.view.find_siblings(language, home, name):
        other = evaluator.view.index(file)
        merge_meanings(
            found, {} if name in other.private else _resolve_local(evaluator, other, "", name) or {}
        )
    if not found and language.shared_imports:
        found = _resolve_shared_imports(evaluator, index, name)
    if not found and name in language.builtins:
        found[ExternalName(name)] = 1.0
    if not found and language.has_dotted_modules:
        files = evaluator.view.find_modules(language, home, name)
        found = {Module(file): 1.0 for file in files}
    return found


def _resolve_shared_imports(evaluator: Evaluator, index: FileIndex, name: str) -> Meanings:
    """What imports bring that another file makes for all."""
    found: Meanings = {}
    for file in evaluator.view.files_defining(index.language.shared_imports):
        other = evaluator.view.index(file)
        for each in other.imports.get(("", name), ()):
            merge_meanings(found, evaluate_import(evaluator, other, each) if each.exported else {})
        if not found and any(each.exported for each in other.star_imports("")):
            merge_meanings(found, _resolve_star_imports(evaluator, other, "", name) or {})
    return found


def resolve_module_member(evaluator: Evaluator, file: str, name: str) -> Meanings:
    """What a module gives under a name: its own, what it re-exports, a module within it."""

    def compute() -> Meanings:
        found: Meanings | None = None
        if not file.endswith("/"):
            index = evaluator.view.index(file)
            found = _resolve_local(evaluator, index, "", name) or _resolve_star_imports(
                evaluator, index, "", name
            )
        if found := found or _resolve_package_member(evaluator, file, name):
            return found
        written = evaluator.language.submodule_name(name)
        files = evaluator.view.find_modules(evaluator.language, file, written) if written else ()
        return {Module(each): 1.0 for each in files}

    return evaluator.cache.get_or_compute((file, "@module", name), compute)


def _resolve_package_member(evaluator: Evaluator, package: str, name: str) -> Meanings:
    found: Meanings = {}
    for file in (
        evaluator.view.find_siblings(evaluator.language, package, name) if package.endswith("/") else ()
    ):
        merge_meanings(found, _resolve_local(evaluator, evaluator.view.index(file), "", name) or {})
    return found


def iter_reexports(evaluator: Evaluator, imported: Import) -> Iterator[tuple[str, Entity]]:
    """What others can take from the file by an import of it, under which names."""
    if imported.name != "*":
        yield from (
            (imported.local, entity) for entity in evaluator.resolve_import(imported) if imported.local
        )
        return
    for file in evaluator.view.find_modules(evaluator.language, evaluator.view.path, imported.module):
        if not file.endswith("/"):
            index = evaluator.view.index(file)
            names = (name for name in index.definitions_within("") if index.is_star_exported(name))
            yield from ((name, DefinitionRef(file, name)) for name in names)


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
