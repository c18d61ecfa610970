"""What a step leads to from each kind of meaning: a member, a call, an element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_pipeline.code_graph.access_paths import steps_of
from knowledge_pipeline.code_graph.entities import (
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
from knowledge_pipeline.code_graph.file_index import TYPE_KINDS, FileIndex

if TYPE_CHECKING:
    from knowledge_pipeline.code_graph.evaluate import Evaluator


class Steps:
    """Takes steps for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.view = evaluator.view
        self.language = evaluator.language

    def take(self, entity: Entity, step: str) -> Found:
        """What one step leads to from one meaning."""
        if isinstance(entity, Known):
            return self._from_known(entity, step)
        if isinstance(entity, Instance):
            return self._from_instance(entity, step)
        if isinstance(entity, Place):
            return self._from_place(entity, step)
        if isinstance(entity, Module):
            return self.evaluator.names.of_module(entity.path, step[1:]) if step[0] == "." else {}
        if isinstance(entity, Outside):
            return self._from_outside(entity, step)
        if isinstance(entity, Around):
            return self.evaluator.names.around(entity, step[1:]) if step[0] == "." else {}
        if step == "()":
            return {entity: 1.0}
        line = self.evaluator.members.lineage(*entity.of)
        place = line.index((entity.path, entity.name)) + 1 if (entity.path, entity.name) in line else 0
        return self.evaluator.members.member(line[place:], step[1:], entity.of)

    def _from_known(self, known: Known, step: str) -> Found:
        index = self.view.index(known.path)
        kind = index.kinds.get(known.name)
        if kind in TYPE_KINDS:
            if step == "()":
                return {Instance(known.path, known.name): 1.0}
            if step[0] == "[":
                return {known: 1.0}
            here, members = (known.path, known.name), self.evaluator.members
            if step[:2] == ".@":
                return self._from_maker(here, step)
            return members.member(members.lineage(*here), step[1:], here)
        if index.is_computed(known.name):
            return self._from_computed(known, step)
        if step[:2] == ".@":
            return self._at(index, known.name, step[1:])
        if step[:1] == "." and kind in ("function", "method"):
            member = f"{known.name}{step}"
            return {Known(known.path, member): 1.0} if index.kinds.get(member) == "method" else {}
        if step[:1] == ".":
            return self.evaluator.members.own_member(known.path, known.name, step[1:], None)
        return self.evaluator.result(known) if step == "()" and kind in ("function", "method", "type") else {}

    def _from_computed(self, known: Known, step: str) -> Found:
        """A step from what reading a definition gives: a question, for that may be what it is itself."""

        def compute() -> Found:
            result = self.evaluator.result(known)
            return self.evaluator.step(result, step) if step else result

        of = "\t".join(known.of or ())
        return self.evaluator.ask((known.path, f"@read {known.name}\t{of}", step), compute)

    def _from_maker(self, here: tuple[str, str], step: str) -> Found:
        """What a type's constructor is given; without one, what the field of that name is."""
        members, language = self.evaluator.members, self.view.index(here[0]).language
        found = members.member(members.lineage(*here), language.constructor, here)
        makers: Found = {each: sure for each, sure in found.items() if self._is_function(each)}
        if not makers and language.memberwise:
            return members.of_instance(*here, step[2:]) or {}
        return self.evaluator.step(makers, step)

    def _is_function(self, entity: Entity) -> bool:
        if not isinstance(entity, Known):
            return False
        return self.view.index(entity.path).kinds.get(entity.name) in ("function", "method")

    def _from_instance(self, instance: Instance, step: str) -> Found:
        language = self.view.index(instance.path).language
        if step[0] == ".":
            members = self.evaluator.members
            found = members.of_instance(instance.path, instance.name, step[1:]) or {}
            return _inside(found) or members.extension(instance, step[1:]) or found
        reads = (language.when_called,) if step == "()" else language.elements
        key = (instance.path, f"@in {instance.name}", step)
        return self.evaluator.ask(key, lambda: self._read(instance, reads, step))

    def _read(self, instance: Instance, reads: tuple[str, ...], step: str) -> Found:
        """What the first of some methods of an instance gives."""
        for each in reads:
            found: Found = {instance: 1.0}
            for inner in steps_of(f"x.{each}")[1:] if each else ():
                found = self.evaluator.step(found, inner)
            if each and found:
                return self.evaluator.step(found, "()") if step == "()" else found
        return {}

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
        indexed = index.language.calls_index and step == "()"
        if indexed and (found := self._at(index, place.owner, f"{place.at}[]")):
            return found
        if step[1:] in index.language.properties:
            held = place.at + index.language.properties[step[1:]]
            found = self._at(index, place.owner, held) or ({place: 1.0} if held == place.at else {})
            return found | {Place(place.path, place.owner, at): 1.0}
        if step == "()" and (last := steps_of(place.at)[-1])[1:] in containers:
            base = place.at[: -len(last)]
            return self._at(index, place.owner, base + containers[last[1:]]) or {
                Place(place.path, place.owner, base): 1.0
            }
        return {Place(place.path, place.owner, at): 1.0} if step[1:] in containers else {}

    def _at(self, index: FileIndex, owner: str, at: str) -> Found:
        found = self.evaluator.bound(index, owner, at)
        if (owner, at) in index.beneath:
            found[Place(index.facts.path, owner, at)] = 1.0
        return found

    def _from_outside(self, outside: Outside, step: str) -> Found:
        if step[0] == "." and (found := self.evaluator.members.extension(outside, step[1:])):
            return found
        name = self.language.beyond(outside.name, step)
        return {Outside(name): 1.0} if name and len(name) < 200 else {}


def _inside(found: Found) -> Found:
    """What was found within the source."""
    return found if any(not isinstance(entity, Outside) for entity in found) else {}
