"""Which definition each use of a file means: its edges, and the questions that they depend on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

from knowledge_pipeline.graph.entities import Found, Instance, Known, Module, Outside
from knowledge_pipeline.graph.evaluate import Evaluator
from knowledge_pipeline.graph.facts import Edge, EdgeKind, Import, Use
from knowledge_pipeline.graph.index import TYPE_KINDS, FileIndex
from knowledge_pipeline.graph.interface import interface
from knowledge_pipeline.graph.layout import Project
from knowledge_pipeline.graph.paths import head_of, last_of, parent_of, steps_of
from knowledge_pipeline.graph.view import Trace, View, world_of

__all__ = ["Project", "Resolved", "Trace", "ask", "full_name", "interface", "resolve"]

LEAST = 0.3
"""What is less sure than this is no edge to a definition."""
GUESSED = 0.5
_MAX_TARGETS = 8


@dataclass(frozen=True, slots=True)
class Resolved:
    """The edges that start in a file, and what other files were asked for them."""

    edges: tuple[Edge, ...]
    trace: Trace


def resolve(path: str, project: Project) -> Resolved:
    """The edges of one file.

    A call or reference of which the target is not found stays as an edge without `target_path`;
    what the language itself defines has none. The same project gives the same answer.
    """
    view = View(world_of(project), path)
    edges: dict[tuple[EdgeKind, str, str, str | None, int], float] = {}
    for edge in _Resolver(view).edges():
        key = (edge.kind, edge.source, edge.target, edge.target_path, edge.line)
        edges[key] = max(edge.confidence, edges.get(key, 0.0))
    return Resolved(tuple(Edge(*key, round(sure, 2)) for key, sure in edges.items()), view.trace)


def ask(question: str, project: Project) -> str:
    """Today's answer of a question from a trace. That of "interface, PATH" is `interface(facts)`."""
    return world_of(project).digest(question)


def full_name(path: str, name: str, project: Project) -> str:
    """By which name other repositories import a definition of a file; the file's own for ""."""
    world = world_of(project)
    return world.index(path).language.full_name(path, name, world.layout)


class _Resolver:
    def __init__(self, view: View) -> None:
        self.view = view
        self.index: FileIndex = view.index(view.path)
        self.evaluator = Evaluator(view)

    def edges(self) -> Iterator[Edge]:
        yield from self._contained()
        for each in self.index.facts.imports:
            yield from self._imported(each)
        for use in self.index.facts.uses:
            yield from self._used(use)

    def _contained(self) -> Iterator[Edge]:
        kinds = self.index.kinds
        for each in self.index.facts.definitions:
            around = parent_of(each.name)
            source = around if around in kinds else ""
            yield Edge("contains", source, each.name, self.view.path, each.start_line, 1.0)

    def _imported(self, each: Import) -> Iterator[Edge]:
        language = self.index.language
        files = self.view.modules(language, self.view.path, each.module)
        for file in files:
            if not file.endswith("/"):
                yield Edge("imports", each.scope, "", file, each.line, 1.0)
        if each.name in ("", "*") and files:
            return
        found = self.evaluator.meaning_of_import(each)
        for entity, sure in found.items():
            if isinstance(entity, Known):
                yield Edge("imports", each.scope, entity.name, entity.path, each.line, sure)
            elif isinstance(entity, Module) and not entity.path.endswith("/"):
                yield Edge("imports", each.scope, "", entity.path, each.line, sure)
            elif isinstance(entity, Outside):
                yield Edge("imports", each.scope, entity.name, None, each.line, sure)

    def _used(self, use: Use) -> Iterator[Edge]:
        extends = use.kind in ("extends", "implements")
        scope = parent_of(use.scope) if extends else use.scope
        yield from self._named_on_the_way(use, scope)
        found = self.evaluator.meaning(self.view.path, scope, use.path)
        if extends:
            yield from self._targets(use, {e: sure for e, sure in found.items() if self._is_type(e)}, found)
        elif use.kind == "calls":
            yield from self._called(use, scope, found)
        else:
            yield from self._referred(use, found)

    def _named_on_the_way(self, use: Use, scope: str) -> Iterator[Edge]:
        """`Store` of `Store.open()` is referred to, too."""
        steps = steps_of(use.path)
        for end in range(1, len(steps)):
            if steps[end - 1][0] in "([":
                continue
            path = "".join(steps[:end])
            called = steps[end] == "()"
            if not called:
                found = self.evaluator.meaning(self.view.path, scope, path)
                yield from self._referred(Use("references", path, use.scope, use.line), found, on_way=True)

    def _called(self, use: Use, scope: str, found: Found) -> Iterator[Edge]:
        named = {entity: sure for entity, sure in found.items() if isinstance(entity, Known)}
        targets = {entity: sure for entity, sure in named.items() if self._is_callable(entity)}
        computed = {entity for entity in targets if self._is_computed(entity)}
        for entity in computed:
            sure = targets.pop(entity)
            yield Edge("references", use.scope, entity.name, entity.path, use.line, sure)
            targets |= {e: s for e, s in self.evaluator.result(entity).items() if isinstance(e, Known)}
        targets |= self._called_instances(found)
        meant = computed.union(targets)
        variables: Found = {entity: sure for entity, sure in named.items() if entity not in meant}
        if not targets and variables:
            yield from self._referred(use, variables)
        if targets or computed or variables:
            yield from self._targets(use, targets, {})
            return
        guess = self._guess(use) if not found else {}
        yield from self._targets(use, guess, found)

    def _called_instances(self, found: Found) -> Found:
        """The methods that calling an instance calls."""
        method = self.index.language.when_called
        instances: Found = {entity: sure for entity, sure in found.items() if isinstance(entity, Instance)}
        if not method or not instances:
            return {}
        reached = self.evaluator.step(instances, f".{method}")
        return {entity: sure for entity, sure in reached.items() if isinstance(entity, Known)}

    def _referred(self, use: Use, found: Found, *, on_way: bool = False) -> Iterator[Edge]:
        last = last_of(use.path)
        is_name = "." not in use.path and "(" not in use.path and "[" not in use.path
        imported = is_name and (
            ("", use.path) in self.index.imports or (use.scope, use.path) in self.index.imports
        )
        kept: Found = {
            entity: sure
            for entity, sure in found.items()
            if isinstance(entity, Known) and (last_of(entity.name) == last or imported)
        }
        outside: Found = {} if kept or on_way else {e: s for e, s in found.items() if isinstance(e, Outside)}
        yield from self._targets(Use("references", use.path, use.scope, use.line), kept, outside, silent=True)

    def _targets(self, use: Use, targets: Found, others: Found, *, silent: bool = False) -> Iterator[Edge]:
        """Edges to what was found; else to what lies outside; else to the path as it is written."""
        known = {e: sure for e, sure in targets.items() if isinstance(e, Known)}
        kept = sorted(known.items(), key=lambda each: -each[1])[:_MAX_TARGETS]
        any_kept = False
        for entity, sure in kept:
            shared = sure / sqrt(len(kept))
            if shared >= LEAST:
                any_kept = True
                yield Edge(use.kind, use.scope, entity.name, entity.path, use.line, shared)
        if any_kept:
            return
        outside = {_plain(e.name): sure for e, sure in others.items() if isinstance(e, Outside)}
        named = [(name, sure) for name, sure in outside.items() if "(" not in name and "[" not in name]
        for name, sure in named:
            if not self._is_standard(name, use.kind):
                yield Edge(use.kind, use.scope, name, None, use.line, sure)
        if not named and not silent:
            yield Edge(use.kind, use.scope, use.path, None, use.line, 0.0)

    def _is_standard(self, name: str, kind: EdgeKind) -> bool:
        """Whether a name of the language itself is not worth an edge."""
        if kind in ("extends", "implements"):
            return False
        language = self.index.language
        return head_of(name) in language.builtins or (kind == "references" and language.is_standard(name))

    def _guess(self, use: Use) -> Found:
        """The only definition of a method's name in the source."""
        steps = steps_of(use.path)
        name = steps[-1].lstrip(".")
        if len(steps) < 2 or name in self.index.language.common:
            return {}
        files = self.view.defining(name)
        if len(files) != 1:
            return {}
        index = self.view.index(files[0])
        if index.language is not self.index.language:
            return {}
        methods = [each for each in index.by_last.get(name, ()) if index.kinds[each] == "method"]
        return {Known(files[0], methods[0]): GUESSED} if len(methods) == 1 else {}

    def _kind(self, entity: Known) -> str | None:
        return self.view.index(entity.path).kinds.get(entity.name)

    def _is_type(self, entity: object) -> bool:
        return isinstance(entity, Known) and self._kind(entity) in TYPE_KINDS

    def _is_callable(self, entity: Known) -> bool:
        return self._kind(entity) in ("class", "interface", "function", "method", "type")

    def _is_computed(self, entity: Known) -> bool:
        return self.view.index(entity.path).is_computed(entity.name)


def _plain(name: str) -> str:
    """`requests.Session().get` as `requests.Session.get`: a type's member, whoever makes an instance."""
    steps = steps_of(name)
    kept = [
        step
        for before, step in zip(("", *steps), steps, strict=False)
        if step != "()" or not before.lstrip(".")[:1].isupper()
    ]
    return "".join(kept)
