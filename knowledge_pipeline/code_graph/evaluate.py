"""Evaluates what paths mean, by following bindings, imports, bases and results across files.

The order of statements does not count: a name means everything that it is given anywhere.
The confidence of a meaning:

- 1.0: known from scopes and imports alone;
- 0.9: through a declared type;
- 0.8: through a value that was seen, an assignment or a result;
- 0.7: a method that a known class lacks, of a class that extends it (see `method_guesses`);
- 0.5: the only method of that name in the source.

Several meanings share their confidence: that of each is divided by the root of their number, but is never
less than 0.3 (see `edges`).
"""

from __future__ import annotations

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
)  # fmt: skip
from knowledge_pipeline.code_graph.evaluation_cache import EvaluationCache
from knowledge_pipeline.code_graph.facts import Binding, Import
from knowledge_pipeline.code_graph.file_index import CLASS_KINDS, FileIndex
from knowledge_pipeline.code_graph.members import (
    find_extensions,
    find_instance_member,
    find_lineage,
    find_member,
    find_own_member,
)
from knowledge_pipeline.code_graph.method_resolution_order import Lineage
from knowledge_pipeline.code_graph.names import (
    evaluate_import,
    resolve_enclosing,
    resolve_head,
    resolve_module_member,
)
from knowledge_pipeline.code_graph.traced_view import TracedView

DECLARED_CONFIDENCE = 0.9
INFERRED_CONFIDENCE = 0.8
_MAX_MEANINGS = 24


class Evaluator:
    """Answers what paths mean, for the uses of one file."""

    def __init__(self, view: TracedView) -> None:
        self.view = view
        self.language = view.index(view.path).language
        self.cache = EvaluationCache()
        self.methods_by_name: dict[str, list[DefinitionRef]] = {}  # as `method_guesses` finds them
        self.includes_by_file: dict[str, list[str]] = {}
        self.lineages: dict[tuple[str, str], Lineage] = {}
        self.lineage_depth = 0

    def resolve_path(self, file: str, scope: str, path: str) -> Meanings:
        """What a path means within a scope of a file: a fresh question, with all the work allowed."""
        self.cache.reset_budget()
        return self.evaluate_path(file, scope, path)

    def resolve_import(self, imported: Import) -> Meanings:
        """What an import of the file brings: a fresh question."""
        self.cache.reset_budget()
        return evaluate_import(self, self.view.index(self.view.path), imported)

    def evaluate_path(self, file: str, scope: str, path: str) -> Meanings:
        """The same as a part of another question."""
        key = (file, scope, path)
        known = self.cache.recall(key)
        return self.cache.compute(key, lambda: self._compute_path(*key)) if known is None else known

    def _compute_path(self, file: str, scope: str, path: str) -> Meanings:
        steps = split_steps(path)
        if len(steps) < 2:
            return resolve_head(self, file, scope, path)
        found, known = self._evaluate_prefix(file, scope, steps)
        for step in steps[known:]:
            found = self.follow_step(found, step)
        return found

    def _evaluate_prefix(self, file: str, scope: str, steps: tuple[str, ...]) -> tuple[Meanings, int]:
        """What is known of the longest part of a path, and of how many steps that is."""
        for end in range(len(steps) - 1, 1, -1):
            found = self.cache.get((file, scope, "".join(steps[:end])))
            if found is not None:
                return found, end
        return self.evaluate_path(file, scope, steps[0]), 1

    def follow_step(self, meanings: Meanings, step: str) -> Meanings:
        """What a step leads to from any of the meanings."""
        result: Meanings = {}
        for entity, confidence in list(meanings.items())[:_MAX_MEANINGS]:
            merge_meanings(result, self.follow(entity, step), confidence)
        return result

    def evaluate_call(self, definition: DefinitionRef) -> Meanings:
        """What calling a function gives."""
        index = self.view.index(definition.path)
        return self.evaluate_at(index, definition.name, "@()", definition.receiver_class)

    def evaluate_at(
        self, index: FileIndex, owner: str, path: str, receiver_class: tuple[str, str] | None = None
    ) -> Meanings:
        """What the bindings of a path give, and the path itself where longer ones are bound."""
        found = self.evaluate_bindings(index, owner, path, receiver_class)
        if (owner, path) in index.beneath:
            found[PathPrefix(index.facts.path, owner, path)] = 1.0
        return found

    def evaluate_bindings(
        self, index: FileIndex, owner: str, path: str, receiver_class: tuple[str, str] | None = None
    ) -> Meanings:
        """What the bindings of a path give: those by declared types, or else all."""
        bindings = [each for each in index.bindings_of(owner, path) if each.value]
        found: Meanings = {}
        for each in [each for each in bindings if each.declared][:_MAX_MEANINGS]:
            merge_meanings(
                found,
                self._evaluate_binding(index, each, receiver_class),
                1.0 if each.value[0] == "@" else DECLARED_CONFIDENCE,
            )
        if found:
            return found
        for each in [each for each in bindings if not each.declared][:_MAX_MEANINGS]:
            merge_meanings(found, self._evaluate_binding(index, each, receiver_class), INFERRED_CONFIDENCE)
            if len(found) > _MAX_MEANINGS:  # `follow_step` and edges leave out the rest
                break
        return found

    def _evaluate_binding(
        self, index: FileIndex, binding: Binding, receiver_class: tuple[str, str] | None
    ) -> Meanings:
        if receiver_class is not None and index.is_receiver(binding.scope, binding.value):
            return {Instance(*receiver_class): 1.0}
        return self.evaluate_path(index.facts.path, binding.scope, binding.value)

    def follow(self, entity: Entity, step: str) -> Meanings:
        """What a step leads to from one meaning."""
        if isinstance(entity, DefinitionRef):
            return self._follow_from_definition(entity, step)
        if isinstance(entity, Instance):
            language = self.view.index(entity.path).language
            if step[0] == ".":
                found = find_instance_member(self, entity.path, entity.name, step[1:]) or {}
                return _require_internal(found) or find_extensions(self, entity, step[1:]) or found
            reads = (language.call_method,) if step == "()" else language.element_accessors
            key = (entity.path, f"@in {entity.name}", step)
            return self.cache.get_or_compute(key, lambda: self._call_first_method(entity, reads, step))
        if isinstance(entity, PathPrefix):
            return self._follow_from_prefix(entity, step)
        if isinstance(entity, Module):
            return resolve_module_member(self, entity.path, step[1:]) if step[0] == "." else {}
        if isinstance(entity, ExternalName):
            if step[0] == "." and (found := find_extensions(self, entity, step[1:])):
                return found
            name = self.language.extend_external_name(entity.name, step)
            return {ExternalName(name): 1.0} if name and len(name) < 200 else {}
        if isinstance(entity, EnclosingScope):
            return resolve_enclosing(self, entity, step[1:]) if step[0] == "." else {}
        if step == "()":
            return {entity: 1.0}
        line = find_lineage(self, *entity.receiver_class)
        place = line.index((entity.path, entity.name)) + 1 if (entity.path, entity.name) in line else 0
        return find_member(self, line[place:], step[1:], entity.receiver_class)

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
                found = find_member(self, find_lineage(self, *here), language.constructor, here)
                makers: Meanings = {each: sure for each, sure in found.items() if self._is_function(each)}
                if not makers and language.has_memberwise_constructor:
                    return find_instance_member(self, *here, step[2:]) or {}
                return self.follow_step(makers, step)
            return find_member(self, find_lineage(self, *here), step[1:], here)
        if index.is_computed(definition.name):
            return self._follow_from_computed(definition, step)
        if step[:2] == ".@":
            return self.evaluate_at(index, definition.name, step[1:])
        if step[:1] == "." and kind in ("function", "method"):
            member = f"{definition.name}{step}"
            return (
                {DefinitionRef(definition.path, member): 1.0} if index.kinds.get(member) == "method" else {}
            )
        if step[:1] == ".":
            return find_own_member(self, definition.path, definition.name, step[1:], None)
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

    def _is_function(self, entity: Entity) -> bool:
        if not isinstance(entity, DefinitionRef):
            return False
        return self.view.index(entity.path).kinds.get(entity.name) in ("function", "method")

    def _call_first_method(self, instance: Instance, methods: tuple[str, ...], step: str) -> Meanings:
        """What the first of some methods of an instance gives."""
        for each in methods:
            found: Meanings = {instance: 1.0}
            for inner in split_steps(f"x.{each}")[1:] if each else ():
                found = self.follow_step(found, inner)
            if each and found:
                return self.follow_step(found, "()") if step == "()" else found
        return {}

    def _follow_from_prefix(self, prefix: PathPrefix, step: str) -> Meanings:
        index = self.view.index(prefix.path)
        at = prefix.prefix + step
        found = self.evaluate_at(index, prefix.owner, at)
        if found:
            return found
        if step[0] == "[":
            others = ["[]"] if step != "[]" else [f"[{each}]" for each in range(8)]
            for each in others:
                merge_meanings(found, self.evaluate_at(index, prefix.owner, prefix.prefix + each))
            return found
        containers = index.language.container_methods
        indexed = index.language.calls_index and step == "()"
        if indexed and (found := self.evaluate_at(index, prefix.owner, f"{prefix.prefix}[]")):
            return found
        if step[1:] in index.language.container_properties:
            held = prefix.prefix + index.language.container_properties[step[1:]]
            found = self.evaluate_at(index, prefix.owner, held) or (
                {prefix: 1.0} if held == prefix.prefix else {}
            )
            return found | {PathPrefix(prefix.path, prefix.owner, at): 1.0}
        if step == "()" and (last := split_steps(prefix.prefix)[-1])[1:] in containers:
            base = prefix.prefix[: -len(last)]
            return self.evaluate_at(index, prefix.owner, base + containers[last[1:]]) or {
                PathPrefix(prefix.path, prefix.owner, base): 1.0
            }
        return {PathPrefix(prefix.path, prefix.owner, at): 1.0} if step[1:] in containers else {}


def _require_internal(meanings: Meanings) -> Meanings:
    """What was found within the source."""
    return meanings if any(not isinstance(entity, ExternalName) for entity in meanings) else {}
