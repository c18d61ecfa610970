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

from knowledge_pipeline.code_graph.access_paths import steps_of
from knowledge_pipeline.code_graph.entities import Found, Instance, Known, Place, add
from knowledge_pipeline.code_graph.evaluation_cache import Key, Questions
from knowledge_pipeline.code_graph.facts import Binding, Import
from knowledge_pipeline.code_graph.file_index import FileIndex
from knowledge_pipeline.code_graph.member_lookup import Members
from knowledge_pipeline.code_graph.name_lookup import Names
from knowledge_pipeline.code_graph.step_resolution import Steps
from knowledge_pipeline.code_graph.traced_view import View

DECLARED = 0.9
INFERRED = 0.8
_MAX_MEANINGS = 24


class Evaluator:
    """Answers what paths mean, for the uses of one file."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.language = view.index(view.path).language
        self.questions = Questions()
        self.names = Names(self)
        self.members = Members(self)
        self.steps = Steps(self)

    def ask(self, key: Key, compute: Callable[[], Found]) -> Found:
        """The answer of a question, worked out once."""
        return self.questions.ask(key, compute)

    def meaning(self, file: str, scope: str, path: str) -> Found:
        """What a path means within a scope of a file: a fresh question, with all the work allowed."""
        self.questions.allow()
        return self.value(file, scope, path)

    def meaning_of_import(self, each: Import) -> Found:
        """What an import of the file brings: a fresh question."""
        self.questions.allow()
        return self.names.imported(self.view.index(self.view.path), each)

    def value(self, file: str, scope: str, path: str) -> Found:
        """The same as a part of another question."""

        def compute() -> Found:
            steps = steps_of(path)
            if len(steps) < 2:
                return self.names.head(file, scope, path)
            found, known = self._before(file, scope, steps)
            for step in steps[known:]:
                found = self.step(found, step)
            return found

        return self.ask((file, scope, path), compute)

    def _before(self, file: str, scope: str, steps: tuple[str, ...]) -> tuple[Found, int]:
        """What is known of the longest part of a path, and of how many steps that is."""
        for end in range(len(steps) - 1, 1, -1):
            found = self.questions.known((file, scope, "".join(steps[:end])))
            if found is not None:
                return found, end
        return self.value(file, scope, steps[0]), 1

    def step(self, found: Found, step: str) -> Found:
        """What a step leads to from any of the meanings."""
        result: Found = {}
        for entity, confidence in list(found.items())[:_MAX_MEANINGS]:
            add(result, self.steps.take(entity, step), confidence)
        return result

    def result(self, known: Known) -> Found:
        """What calling a function gives."""
        index = self.view.index(known.path)
        found = self.bound(index, known.name, "@()", known.of)
        if (known.name, "@()") in index.beneath:
            found[Place(known.path, known.name, "@()")] = 1.0
        return found

    def bound(self, index: FileIndex, owner: str, path: str, of: tuple[str, str] | None = None) -> Found:
        """What the bindings of a path give: those by declared types, or else all."""
        bindings = [each for each in index.bound(owner, path) if each.value]
        found: Found = {}
        for each in [each for each in bindings if each.declared][:_MAX_MEANINGS]:
            add(found, self._of_binding(index, each, of), 1.0 if each.value[0] == "@" else DECLARED)
        if found:
            return found
        for each in [each for each in bindings if not each.declared][:_MAX_MEANINGS]:
            add(found, self._of_binding(index, each, of), INFERRED)
            if len(found) > _MAX_MEANINGS:  # `step` and edges would leave out what is more
                break
        return found

    def _of_binding(self, index: FileIndex, each: Binding, of: tuple[str, str] | None) -> Found:
        if of is not None and index.is_receiver(each.scope, each.value):
            return {Instance(*of): 1.0}
        return self.value(index.facts.path, each.scope, each.value)
