"""What a path means: bindings, imports, bases and results are followed, across files.

The order of statements is left out: a name means everything that it is given anywhere.
How sure a meaning is:

- 1.0: said by scopes and imports alone;
- 0.9: through a declared type;
- 0.8: through a value that was seen, an assignment or a result;
- 0.7: a method that a known class lacks, of a class that extends it (see `guess`);
- 0.5: the only method of that name in the source.

Several meanings share: each is as sure as the way to it, divided by the root of their number, but
no less than 0.3 (see `edges`).
"""

from __future__ import annotations

from collections.abc import Callable

from knowledge_pipeline.code_graph.access_paths import split_steps
from knowledge_pipeline.code_graph.entities import (
    DefinitionRef,
    Instance,
    Meanings,
    PathPrefix,
    merge_meanings,
)
from knowledge_pipeline.code_graph.evaluation_cache import EvaluationCache, EvaluationKey
from knowledge_pipeline.code_graph.facts import Binding, Import
from knowledge_pipeline.code_graph.file_index import FileIndex
from knowledge_pipeline.code_graph.member_lookup import MemberLookup
from knowledge_pipeline.code_graph.name_lookup import NameLookup
from knowledge_pipeline.code_graph.step_resolution import StepResolver
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
        self.names = NameLookup(self)
        self.members = MemberLookup(self)
        self.steps = StepResolver(self)

    def get_or_compute(self, key: EvaluationKey, compute: Callable[[], Meanings]) -> Meanings:
        """The answer of a question, worked out once."""
        return self.cache.get_or_compute(key, compute)

    def resolve_path(self, file: str, scope: str, path: str) -> Meanings:
        """What a path means within a scope of a file: a fresh question, with all the work allowed."""
        self.cache.reset_budget()
        return self.evaluate_path(file, scope, path)

    def resolve_import(self, imported: Import) -> Meanings:
        """What an import of the file brings: a fresh question."""
        self.cache.reset_budget()
        return self.names.resolve_import(self.view.index(self.view.path), imported)

    def evaluate_path(self, file: str, scope: str, path: str) -> Meanings:
        """The same as a part of another question."""

        def compute() -> Meanings:
            steps = split_steps(path)
            if len(steps) < 2:
                return self.names.resolve_head(file, scope, path)
            found, known = self._evaluate_prefix(file, scope, steps)
            for step in steps[known:]:
                found = self.follow_step(found, step)
            return found

        return self.get_or_compute((file, scope, path), compute)

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
            merge_meanings(result, self.steps.follow(entity, step), confidence)
        return result

    def evaluate_call(self, definition: DefinitionRef) -> Meanings:
        """What calling a function gives."""
        index = self.view.index(definition.path)
        found = self.evaluate_bindings(index, definition.name, "@()", definition.receiver_class)
        if (definition.name, "@()") in index.beneath:
            found[PathPrefix(definition.path, definition.name, "@()")] = 1.0
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
            if len(found) > _MAX_MEANINGS:  # `step` and edges would leave out what is more
                break
        return found

    def _evaluate_binding(
        self, index: FileIndex, binding: Binding, receiver_class: tuple[str, str] | None
    ) -> Meanings:
        if receiver_class is not None and index.is_receiver(binding.scope, binding.value):
            return {Instance(*receiver_class): 1.0}
        return self.evaluate_path(index.facts.path, binding.scope, binding.value)
