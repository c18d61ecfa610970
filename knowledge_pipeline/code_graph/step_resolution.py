"""What a step leads to from each kind of meaning: a member, a call, an element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_pipeline.code_graph.access_paths import split_steps
from knowledge_pipeline.code_graph.entities import (
    DefinitionRef,
    EnclosingScope,
    Entity,
    ExternalName,
    Instance,
    Meanings,
    Module,
    PathPrefix,
    merge_meanings,
)
from knowledge_pipeline.code_graph.file_index import CLASS_KINDS, FileIndex

if TYPE_CHECKING:
    from knowledge_pipeline.code_graph.evaluate import Evaluator


class StepResolver:
    """Takes steps for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.view = evaluator.view
        self.language = evaluator.language

    def follow(self, entity: Entity, step: str) -> Meanings:
        """What one step leads to from one meaning."""
        if isinstance(entity, DefinitionRef):
            return self._follow_from_definition(entity, step)
        if isinstance(entity, Instance):
            return self._follow_from_instance(entity, step)
        if isinstance(entity, PathPrefix):
            return self._follow_from_prefix(entity, step)
        if isinstance(entity, Module):
            return self.evaluator.names.resolve_module_member(entity.path, step[1:]) if step[0] == "." else {}
        if isinstance(entity, ExternalName):
            return self._follow_from_external(entity, step)
        if isinstance(entity, EnclosingScope):
            return self.evaluator.names.resolve_enclosing(entity, step[1:]) if step[0] == "." else {}
        if step == "()":
            return {entity: 1.0}
        line = self.evaluator.members.lineage(*entity.receiver_class)
        place = line.index((entity.path, entity.name)) + 1 if (entity.path, entity.name) in line else 0
        return self.evaluator.members.find_member(line[place:], step[1:], entity.receiver_class)

    def _follow_from_definition(self, definition: DefinitionRef, step: str) -> Meanings:
        index = self.view.index(definition.path)
        kind = index.kinds.get(definition.name)
        if kind in CLASS_KINDS:
            if step == "()":
                return {Instance(definition.path, definition.name): 1.0}
            if step[0] == "[":
                return {definition: 1.0}
            here, members = (definition.path, definition.name), self.evaluator.members
            if step[:2] == ".@":
                return self._follow_from_constructor(here, step)
            return members.find_member(members.lineage(*here), step[1:], here)
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
            return self.evaluator.members.find_own_member(definition.path, definition.name, step[1:], None)
        return (
            self.evaluator.evaluate_call(definition)
            if step == "()" and kind in ("function", "method", "type")
            else {}
        )

    def _follow_from_computed(self, definition: DefinitionRef, step: str) -> Meanings:
        """A step from what reading a definition gives: a question, for that may be what it is itself."""

        def compute() -> Meanings:
            result = self.evaluator.evaluate_call(definition)
            return self.evaluator.follow_step(result, step) if step else result

        of = "\t".join(definition.receiver_class or ())
        return self.evaluator.get_or_compute(
            (definition.path, f"@read {definition.name}\t{of}", step), compute
        )

    def _follow_from_constructor(self, class_key: tuple[str, str], step: str) -> Meanings:
        """What a type's constructor is given; without one, what the field of that name is."""
        members, language = self.evaluator.members, self.view.index(class_key[0]).language
        found = members.find_member(members.lineage(*class_key), language.constructor, class_key)
        makers: Meanings = {each: sure for each, sure in found.items() if self._is_function(each)}
        if not makers and language.has_memberwise_constructor:
            return members.find_instance_member(*class_key, step[2:]) or {}
        return self.evaluator.follow_step(makers, step)

    def _is_function(self, entity: Entity) -> bool:
        if not isinstance(entity, DefinitionRef):
            return False
        return self.view.index(entity.path).kinds.get(entity.name) in ("function", "method")

    def _follow_from_instance(self, instance: Instance, step: str) -> Meanings:
        language = self.view.index(instance.path).language
        if step[0] == ".":
            members = self.evaluator.members
            found = members.find_instance_member(instance.path, instance.name, step[1:]) or {}
            return _require_internal(found) or members.find_extensions(instance, step[1:]) or found
        reads = (language.call_method,) if step == "()" else language.element_accessors
        key = (instance.path, f"@in {instance.name}", step)
        return self.evaluator.get_or_compute(key, lambda: self._call_first_method(instance, reads, step))

    def _call_first_method(self, instance: Instance, methods: tuple[str, ...], step: str) -> Meanings:
        """What the first of some methods of an instance gives."""
        for each in methods:
            found: Meanings = {instance: 1.0}
            for inner in split_steps(f"x.{each}")[1:] if each else ():
                found = self.evaluator.follow_step(found, inner)
            if each and found:
                return self.evaluator.follow_step(found, "()") if step == "()" else found
        return {}

    def _follow_from_prefix(self, prefix: PathPrefix, step: str) -> Meanings:
        index = self.view.index(prefix.path)
        at = prefix.prefix + step
        found = self._evaluate_at(index, prefix.owner, at)
        if found:
            return found
        if step[0] == "[":
            others = ["[]"] if step != "[]" else [f"[{each}]" for each in range(8)]
            for each in others:
                merge_meanings(found, self._evaluate_at(index, prefix.owner, prefix.prefix + each))
            return found
        containers = index.language.container_methods
        indexed = index.language.calls_index and step == "()"
        if indexed and (found := self._evaluate_at(index, prefix.owner, f"{prefix.prefix}[]")):
            return found
        if step[1:] in index.language.container_properties:
            held = prefix.prefix + index.language.container_properties[step[1:]]
            found = self._evaluate_at(index, prefix.owner, held) or (
                {prefix: 1.0} if held == prefix.prefix else {}
            )
            return found | {PathPrefix(prefix.path, prefix.owner, at): 1.0}
        if step == "()" and (last := split_steps(prefix.prefix)[-1])[1:] in containers:
            base = prefix.prefix[: -len(last)]
            return self._evaluate_at(index, prefix.owner, base + containers[last[1:]]) or {
                PathPrefix(prefix.path, prefix.owner, base): 1.0
            }
        return {PathPrefix(prefix.path, prefix.owner, at): 1.0} if step[1:] in containers else {}

    def _evaluate_at(self, index: FileIndex, owner: str, path: str) -> Meanings:
        found = self.evaluator.evaluate_bindings(index, owner, path)
        if (owner, path) in index.beneath:
            found[PathPrefix(index.facts.path, owner, path)] = 1.0
        return found

    def _follow_from_external(self, external: ExternalName, step: str) -> Meanings:
        if step[0] == "." and (found := self.evaluator.members.find_extensions(external, step[1:])):
            return found
        name = self.language.extend_external_name(external.name, step)
        return {ExternalName(name): 1.0} if name and len(name) < 200 else {}


def _require_internal(meanings: Meanings) -> Meanings:
    """What was found within the source."""
    return meanings if any(not isinstance(entity, ExternalName) for entity in meanings) else {}
