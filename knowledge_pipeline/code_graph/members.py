"""The members of classes: what a class extends, and which of these has a member."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from knowledge_pipeline.code_graph.access_paths import last_segment
from knowledge_pipeline.code_graph.entities import (
    DefinitionRef,
    ExternalName,
    Instance,
    Meanings,
    merge_meanings,
)
from knowledge_pipeline.code_graph.file_index import CLASS_KINDS, FileIndex
from knowledge_pipeline.code_graph.method_resolution_order import Lineage, linearize

if TYPE_CHECKING:
    from knowledge_pipeline.code_graph.evaluate import Evaluator

INHERITED_CONFIDENCE = 0.8  # what a base outside of the source may have
EXTENSION_CONFIDENCE = 0.9  # what is called as a member of the type that it is declared to extend
_MAX_EXTENSION_FILES = 20
_MAX_GENERATIONS = 30  # of classes


def find_lineage(evaluator: Evaluator, path: str, name: str) -> Lineage:
    """A class and what it extends, nearest first; as text what is outside of the source."""
    key = (path, name)
    if key in evaluator.lineages or evaluator.lineage_depth >= _MAX_GENERATIONS:
        return evaluator.lineages.get(key, [key])
    evaluator.lineages[key] = [key]  # what a class reaches of itself, should it extend itself
    evaluator.lineage_depth += 1
    line, is_whole = evaluator.cache.compute_with_completeness(
        lambda: linearize(key, partial(_resolve_bases, evaluator), partial(find_lineage, evaluator))
    )
    evaluator.lineage_depth -= 1
    if is_whole:
        evaluator.lineages[key] = line
    else:
        del evaluator.lineages[key]
    return line


def find_member(
    evaluator: Evaluator, lineage: Lineage, name: str, receiver_class: tuple[str, str]
) -> Meanings:
    """A member of the first class of a lineage that defines it, and what nearer ones put into it."""
    found: Meanings = {}
    for each in lineage:
        if isinstance(each, str):
            return found or {ExternalName(f"{each}.{name}"): INHERITED_CONFIDENCE}
        merge_meanings(found, find_own_member(evaluator, *each, name, receiver_class))
        if any(isinstance(entity, DefinitionRef) and last_segment(entity.name) == name for entity in found):
            break
    return found


def is_subclass_method(evaluator: Evaluator, method: DefinitionRef, receivers: Meanings) -> bool:
    """Whether a method's class extends one of some classes, or instances of them."""
    line = find_lineage(evaluator, method.path, method.name.rpartition(".")[0])
    wanted = ((each.path, each.name) for each in receivers if isinstance(each, Instance | DefinitionRef))
    return any(each in line for each in wanted)


def find_instance_member(evaluator: Evaluator, path: str, name: str, member: str) -> Meanings | None:
    """A member of an instance of a class; None where it has none."""
    key = (path, f"@in {name}", member)
    here = (path, name)
    return (
        evaluator.cache.get_or_compute(
            key, lambda: find_member(evaluator, find_lineage(evaluator, *here), member, here)
        )
        or None
    )


def find_own_member(
    evaluator: Evaluator, path: str, owner: str, name: str, receiver_class: tuple[str, str] | None
) -> Meanings:
    """A member that a class defines, or is given, itself; in all files of its package if it may."""
    index = evaluator.view.index(path)
    found = _find_member_in_file(evaluator, index, owner, name, receiver_class)
    if not found and index.language.has_scattered_members:
        for file in evaluator.view.find_siblings(
            index.language, index.language.member_home(index.facts), name
        ):
            if file != path and _names_same_type(evaluator, file, owner, (path, owner)):
                merge_meanings(
                    found,
                    _find_member_in_file(evaluator, evaluator.view.index(file), owner, name, receiver_class),
                )
    return found


def _names_same_type(evaluator: Evaluator, file: str, name: str, type_key: tuple[str, str]) -> bool:
    """Whether a name means a type in another file, too; taken for granted where a package has one."""
    if not evaluator.view.index(file).language.has_duplicate_type_names:
        return True
    found = evaluator.evaluate_path(file, "", name)
    return any(isinstance(each, DefinitionRef) and (each.path, each.name) == type_key for each in found)


def _find_member_in_file(
    evaluator: Evaluator, index: FileIndex, owner: str, name: str, receiver_class: tuple[str, str] | None
) -> Meanings:
    """A member of a type as one file says."""
    path = index.facts.path
    qualified = f"{owner}.{name}"
    found: Meanings = (
        {DefinitionRef(path, qualified, receiver_class): 1.0} if qualified in index.kinds else {}
    )
    merge_meanings(found, evaluator.evaluate_at(index, owner, name))
    return found


def find_extensions(evaluator: Evaluator, receiver: Instance | ExternalName, name: str) -> Meanings:
    """A function that is called as a member of a type, by the name of its receiver's type."""
    if not evaluator.language.has_extensions or name.startswith("@"):
        return {}
    line: Lineage = (
        [receiver.name]
        if isinstance(receiver, ExternalName)
        else find_lineage(evaluator, receiver.path, receiver.name)
    )
    names = {last_segment(each if isinstance(each, str) else each[1]) for each in line}
    return {
        DefinitionRef(index.facts.path, each): EXTENSION_CONFIDENCE
        for index in map(evaluator.view.index, evaluator.view.files_defining(name)[:_MAX_EXTENSION_FILES])
        for each in index.definitions_named(name)
        for binding in index.bindings_of(each, "@receiver")
        if last_segment(binding.value) in names
    }


def _expand_alias(evaluator: Evaluator, definition: DefinitionRef) -> Lineage:
    """The type that a definition is, or those that it is another name for."""
    kind = evaluator.view.index(definition.path).kinds.get(definition.name)
    if kind == "type":
        meant = evaluator.evaluate_call(definition)
        return [(each.path, each.name) for each in meant if isinstance(each, DefinitionRef | Instance)]
    return [(definition.path, definition.name)] if kind in CLASS_KINDS else []


def _resolve_bases(evaluator: Evaluator, key: tuple[str, str]) -> Lineage:
    index = evaluator.view.index(key[0])
    scope = key[1].rpartition(".")[0]
    bases: Lineage = []
    for written in index.bases.get(key[1], ()):
        for entity in evaluator.evaluate_path(key[0], scope, written):
            if isinstance(entity, DefinitionRef):
                bases += [each for each in _expand_alias(evaluator, entity) if each != key]
            elif isinstance(entity, ExternalName):
                bases.append(entity.name)
    return bases
