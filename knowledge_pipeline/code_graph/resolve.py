"""Which definition each use of a file means: its edges, and the questions that they depend on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from knowledge_pipeline.code_graph.access_paths import last_of, parent_of, steps_of
from knowledge_pipeline.code_graph.edges import edges_out, edges_to, unresolved
from knowledge_pipeline.code_graph.entities import Found, Instance, Known, Module, Outside
from knowledge_pipeline.code_graph.evaluate import Evaluator
from knowledge_pipeline.code_graph.extract import facts_version
from knowledge_pipeline.code_graph.facts import Edge, EdgeKind, Import, Use
from knowledge_pipeline.code_graph.file_index import TYPE_KINDS, FileIndex
from knowledge_pipeline.code_graph.file_interface import interface
from knowledge_pipeline.code_graph.languages.registry import language_of
from knowledge_pipeline.code_graph.method_guesses import guessed
from knowledge_pipeline.code_graph.project_layout import Project
from knowledge_pipeline.code_graph.traced_view import Trace, View, world_of

__all__ = [
    "Alias",
    "Project",
    "Resolved",
    "Trace",
    "full_name",
    "interface",
    "renewed",
    "resolve",
    "resolve_version",
]

_CALLABLE = frozenset({"class", "interface", "function", "method", "type"})


@dataclass(frozen=True, slots=True)
class Alias:
    """Another full name of a definition: `app.Store` of what `app/store.py` defines."""

    full_name: str
    target: str  # qualified name within `target_path`
    target_path: str
    members: tuple[str, ...] = ()  # qualified names of what others can name in it


@dataclass(frozen=True, slots=True)
class Resolved:
    """The edges that start in a file, and what other files were asked for them."""

    edges: tuple[Edge, ...]
    trace: Trace
    aliases: tuple[Alias, ...] = ()  # names by which the file hands on definitions of others


def resolve(path: str, project: Project) -> Resolved:
    """The edges of one file.

    A call of which the target is not found stays as an edge without `target_path`; so does
    what is outside of the source, by its full name. The same project gives the same answer.
    """
    view = View(world_of(project), path)
    edges: dict[tuple[EdgeKind, str, str, str | None, int], float] = {}
    view.full_name("")
    resolver = _Resolver(view)
    for edge in resolver.edges():
        key = (edge.kind, edge.source, edge.target, edge.target_path, edge.line)
        edges[key] = max(edge.confidence, edges.get(key, 0.0))
    found = tuple(Edge(*key, round(sure, 2)) for key, sure in edges.items())
    aliases = tuple(dict.fromkeys(resolver.aliases()))
    return Resolved(found, view.trace(), aliases)


def resolve_version() -> str:
    """Changes whenever the same facts could give other edges."""
    return facts_version()


def renewed(
    trace: Trace, project: Project, interfaces: Mapping[str, str], names: Collection[str] | None = None
) -> Trace | None:
    """The trace that resolving the file would leave now; None: one of its questions has another answer.

    Args:
        trace: of a file that did not change itself.
        project: as it is now.
        interfaces: `interface` of all its files; the facts are read only where that is another one.
        names: as `layout.names_between`, of the files that changed: only questions about these names are
            asked again, or all where it is None.
    """
    world = world_of(project)
    found: Trace = {}
    for question, answer in trace.items():
        now = answer if _stands(question, names) else world.renewed(question, answer, interfaces)
        if now is None:
            return None
        found[question] = now
    return found


def _stands(question: str, names: Collection[str] | None) -> bool:
    """Whether a question, its name last, has the answer that it had."""
    kind, _, rest = question.partition("\t")
    return names is not None and kind != "interface" and rest.rpartition("\t")[2] not in names


def full_name(path: str, name: str, project: Project) -> str:
    """By which name other repositories import a definition of a file; the file's own for ""."""
    world = world_of(project)
    return language_of(project.facts(path).language).full_name(path, name, world.layout)


class _Resolver:
    """Goes through the facts of one file."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.index: FileIndex = view.index(view.path)
        self.evaluator = Evaluator(view)

    def edges(self) -> Iterator[Edge]:
        """All edges of the file; the same one may come more than once."""
        yield from self._contained()
        for each in self.index.facts.imports:
            yield from self._imported(each)
        for use in self.index.facts.uses:
            if use.path not in self.index.language.heads:
                yield from self._used(use)

    def aliases(self) -> Iterator[Alias]:
        """What the file exports of others."""
        for each in self.index.facts.imports:
            if not each.exported:
                continue
            for name, entity in self.evaluator.names.handed_on(each):
                if isinstance(entity, Known):
                    yield Alias(self.view.full_name(name), entity.name, entity.path, self._members(entity))

    def _members(self, known: Known) -> tuple[str, ...]:
        """What is handed on with a definition of another file."""
        return () if known.path == self.view.path else tuple(self.view.index(known.path).within(known.name))

    def _contained(self) -> Iterator[Edge]:
        for each in self.index.facts.definitions:
            around = parent_of(each.name)
            source = around if around in self.index.kinds else ""
            yield Edge("contains", source, each.name, self.view.path, each.start_line, 1.0)

    def _imported(self, each: Import) -> Iterator[Edge]:
        files = self.view.modules(self.index.language, self.view.path, each.module)
        for file in files:
            if not file.endswith("/"):
                yield Edge("imports", each.scope, "", file, each.line, 1.0)
        if each.name in ("", "*") and files:
            return
        found = self.evaluator.meaning_of_import(each)
        surest = max(found.values(), default=0.0)
        for entity, sure in found.items():
            if isinstance(entity, Known) and sure == surest:
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
            yield from self._extended(use, found)
        elif use.kind == "calls":
            yield from self._called(use, scope, found)
        else:
            yield from self._referred(use, found)
            if not any(isinstance(entity, Known) for entity in found):
                yield from edges_out(use, found, self.index.language)

    def _named_on_the_way(self, use: Use, scope: str) -> Iterator[Edge]:
        """`Store` of `Store.open()` is referred to, too."""
        steps = steps_of(use.path)
        for end in range(1, len(steps)):
            if steps[end - 1][0] not in "([@" and steps[end] != "()":
                path = "".join(steps[:end])
                found = self.evaluator.meaning(self.view.path, scope, path)
                yield from self._referred(Use("references", path, use.scope, use.line), found)

    def _extended(self, use: Use, found: Found) -> Iterator[Edge]:
        types = self._types(found)
        protocols = self._implemented(use, types)
        yield from edges_to(replace(use, kind="implements"), protocols)
        yield from edges_to(use, {each: sure for each, sure in types.items() if each not in protocols})
        if not types:
            yield from edges_out(use, found, self.index.language)
            yield from unresolved(use, found, self.index.language)

    def _implemented(self, use: Use, types: Found) -> Found:
        """Those of a type's bases that are interfaces, where its syntax does not tell them from others."""
        if not self.index.language.bases_by_kind or self.index.kinds.get(use.scope) == "interface":
            return {}
        return {each: sure for each, sure in types.items() if self._kind(each) == "interface"}

    def _called(self, use: Use, scope: str, found: Found) -> Iterator[Edge]:
        """What is called; a definition that is no function where nothing else is."""
        targets: Found = {entity: sure for entity, sure in found.items() if self._kind(entity) in _CALLABLE}
        computed: Found = {each: targets.pop(each) for each in [*targets] if self._is_computed(each)}
        yield from edges_to(replace(use, kind="references"), computed)
        for entity in computed:
            targets |= self.evaluator.step({entity: 1.0}, "")
        targets |= self._called_instances(found)
        if self.index.language.types_convert and (types := self._types(targets)):
            yield from edges_to(replace(use, kind="references"), types)
            return
        written = self._written(use, found)
        if targets or written:
            yield from edges_to(use, targets)
            named = (each for each in written.items() if each[0] not in targets and each[0] not in computed)
            yield from edges_to(use, dict(named))
            return
        guess = {} if found else guessed(use, scope, self.view, self.evaluator)
        yield from edges_to(use, guess)
        if not guess:
            yield from edges_out(use, found, self.index.language)
            yield from unresolved(use, found, self.index.language)

    def _types(self, found: Found) -> Found:
        types = TYPE_KINDS | {"type"}
        return {entity: sure for entity, sure in found.items() if self._kind(entity) in types}

    def _called_instances(self, found: Found) -> Found:
        """The methods that calling an instance calls."""
        method = self.index.language.when_called
        instances: Found = {entity: sure for entity, sure in found.items() if isinstance(entity, Instance)}
        if not method or not instances:
            return {}
        reached = self.evaluator.step(instances, f".{method}")
        return {entity: sure for entity, sure in reached.items() if isinstance(entity, Known)}

    def _referred(self, use: Use, found: Found) -> Iterator[Edge]:
        yield from edges_to(use, self._written(use, found))

    def _written(self, use: Use, found: Found) -> Found:
        """The definitions that a use names, without those that they are worth."""
        named: Found = {each: sure for each, sure in found.items() if self._is_written(each, sure, use)}
        surest = max(named.values(), default=0.0)
        return {each: sure for each, sure in named.items() if sure == surest}

    def _is_written(self, entity: object, sure: float, use: Use) -> bool:
        """Whether a use names a definition, rather than a variable that has it as value."""
        if not isinstance(entity, Known):
            return False
        imports = self.index.imports
        imported = (use.scope, use.path) in imports or ("", use.path) in imports
        return imported or sure == 1.0 or last_of(entity.name) == last_of(use.path)

    def _kind(self, entity: object) -> str | None:
        return self.view.index(entity.path).kinds.get(entity.name) if isinstance(entity, Known) else None

    def _is_computed(self, entity: object) -> bool:
        return isinstance(entity, Known) and self.view.index(entity.path).is_computed(entity.name)
