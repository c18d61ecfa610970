"""Finds which definition each use of a file means: its edges, and the questions that they depend on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from knowledge_pipeline.code_graph.entities import (
    DefinitionRef,
    ExternalName,
    Instance,
    Meanings,
    Module,
    build_edges,
    build_external_edges,
    build_unresolved_edges,
)
from knowledge_pipeline.code_graph.evaluate import Evaluator
from knowledge_pipeline.code_graph.facts import (
    CHAIN,
    Edge,
    EdgeKind,
    Import,
    Use,
    last_segment,
    parent_scope,
    split_steps,
)
from knowledge_pipeline.code_graph.file_index import CLASS_KINDS, FileIndex
from knowledge_pipeline.code_graph.languages.registry import get_language
from knowledge_pipeline.code_graph.project import ChangedNames
from knowledge_pipeline.code_graph.traces import (
    OWN_ENTRIES,
    USES,
    IndexedFile,
    Project,
    Trace,
    TracedView,
    UseLookups,
)
from knowledge_pipeline.system_names import list_stored_names

RESOLVER_VERSION = 3
"""Part of the fingerprint of each file's edges: raise it when the same facts give other edges."""

_MAX_WORK_BY_USE = 100_000
"""Of a file on which more is spent all uses are resolved together: all of its work is bounded."""
_MAX_SETS = 2**16 - 1
_MAX_SET_BITS = 100_000_000  # a byte each: files need a thousandth of it
SUBCLASS_CONFIDENCE = 0.7
UNIQUE_NAME_CONFIDENCE = 0.5
_MAX_FILES = 8
_NO_NAME = f"([@{CHAIN}"  # what a step starts with that is no name of the program
_OWN_KINDS = frozenset({"contains", "declares", "uses", "owns"})  # which a file's own facts say
_CALLABLE = frozenset({"class", "interface", "function", "method", "type"})


@dataclass(frozen=True, slots=True)
class Alias:
    """Another full name of a definition: `app.Store` of what `app/store.py` defines."""

    full_name: str
    target: str  # qualified name within `target_path`
    target_path: str
    members: tuple[str, ...] = ()  # qualified names of what others can name in it


@dataclass(frozen=True, slots=True)
class ResolvedFile:
    """The edges that start in a file, and what other files were asked for them."""

    edges: tuple[Edge, ...]
    trace: Trace
    aliases: tuple[Alias, ...] = ()  # names by which the file hands on definitions of others


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was resolved of a file before others changed; its own facts are the same."""

    edges: Iterable[Edge]
    trace: Trace
    interfaces: Mapping[str, str]  # the `interface_digest` of all files now
    files: Mapping[str, IndexedFile] = field(default_factory=dict[str, IndexedFile])
    """Of files that have changed, as they were: without them, all that was looked up in a file counts as
    changed with any of it."""


def resolve(path: str, project: Project, earlier: Earlier | None = None) -> ResolvedFile:
    """The edges of one file, in one order.

    A call of which the target is not found stays as an edge without `target_path`; so does
    what is outside of the source, by its full name. The same project gives the same answer, whether
    all uses are resolved or those alone whose answers can be others than `earlier`.
    """
    if earlier is not None and (renewed := _resolve_again(path, project, earlier)) is not None:
        return renewed
    resolver = _Resolver(TracedView(project, path))
    edges, masks = resolver.resolve_uses(range(len(resolver.uses)))
    aliases, asked_for_aliases = resolver.resolve_aliases()
    lookups = UseLookups.from_masks(resolver.log.asked, masks)
    merged = _merge_edges([*resolver.contains_edges(), *resolver.system_edges(), *edges])
    return resolver.finish(merged, aliases, lookups, asked_for_aliases)


def _resolve_again(path: str, project: Project, earlier: Earlier) -> ResolvedFile | None:
    """Resolve the uses alone whose answers may be others now.

    None: nothing says which these are, or limits were met, so that what other uses asked before counts.
    """
    lookups = UseLookups.from_trace(earlier.trace)
    changed = project.find_changed(earlier.trace, earlier.interfaces, earlier.files)
    names = (question for question in changed if isinstance(question, str) and question.startswith("name\t"))
    if lookups is None or any(names):
        return None
    due = lookups.find(changed)
    while True:
        resolver = _Resolver(TracedView(project, path))
        due = _add_neighbours(due, lookups, resolver.uses)
        uses = sorted(due)
        edges, masks = resolver.resolve_uses(uses)
        aliases, asked_for_aliases = resolver.resolve_aliases()
        if resolver.is_cut_short:
            return None
        now = UseLookups.from_masks(resolver.log.asked, [*masks, asked_for_aliases])
        neighbours = lookups.find(now.find_cycles(range(len(masks) + 1))) - due
        if not neighbours:
            break
        due |= neighbours
    redone = {_place(resolver.uses[use]) for use in due}
    kept = (
        edge for edge in earlier.edges if edge.kind in _OWN_KINDS or (edge.source, edge.line) not in redone
    )
    lookups = lookups.replace(uses, UseLookups.from_masks(resolver.log.asked, masks))
    return resolver.finish([*kept, *_merge_edges(edges)], aliases, lookups, asked_for_aliases)


def _add_neighbours(due: set[int], lookups: UseLookups, uses: Sequence[Import | Use]) -> set[int]:
    """Uses, those of the same edges, and those that share a question with a cycle: their order counts."""
    while True:
        due = due | lookups.find(lookups.find_cycles(due))
        places = {_place(uses[use]) for use in due}
        more = {number for number, use in enumerate(uses) if _place(use) in places}
        if more == due:
            return due
        due = more


def _place(use: Import | Use) -> tuple[str, int]:
    return use.scope, use.line


def renew_trace(
    trace: Trace, project: Project, interfaces: Mapping[str, str], changes: ChangedNames | None = None
) -> Trace | None:
    """The trace that resolving the file would leave now; None: one of its questions has another answer.

    Args:
        trace: of a file that did not change itself.
        project: as it is now.
        interfaces: the `interface_digest` of all files; only the facts of those with another one are read.
        changes: in the project: only questions that these concern are asked again; None: all.
    """
    renewed: Trace = {}
    for question, answer in trace.items():
        now = (
            answer
            if question in OWN_ENTRIES or (changes is not None and _is_unaffected(question, changes))
            else project.renew_entry(question, answer, interfaces)
        )
        if now is None:
            return None
        renewed[question] = now
    return renewed


def _is_unaffected(question: str, changes: ChangedNames) -> bool:
    """Whether a question, its name last, has the answer that it had."""
    kind, _, rest = question.partition("\t")
    if kind == "interface" or (changes.moves_modules and kind != "defining"):
        return False
    return rest.rpartition("\t")[2] not in changes.names


def list_asked_names(trace: Trace) -> set[str]:
    """What the questions of a trace are about: paths of other files, and names.

    Where an edit moves no modules, another answer can only be that of a question about a path or a name that
    it changed: see `_is_unaffected`.
    """
    parts = (question.partition("\t") for question in trace if question not in OWN_ENTRIES)
    return {rest if kind == "interface" else rest.rpartition("\t")[2] for kind, _, rest in parts}


def full_name(path: str, name: str, project: Project) -> str:
    """By which name other repositories import a definition of a file; the file's own for ""."""
    return get_language(project.facts(path).language).full_name(path, name, project.layout)


@lru_cache(100_000)
def _list_prefixes(path: str) -> tuple[str, ...]:
    """What a path names on its way, each as a path: `store` and `store.Store` of `store.Store.open()`."""
    steps = split_steps(path)
    ends = (end for end in range(1, len(steps)) if steps[end - 1][0] not in _NO_NAME and steps[end] != "()")
    return tuple("".join(steps[:end]) for end in ends)


def _merge_edges(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Of edges that differ in their confidence alone, the surest."""
    surest: dict[tuple[EdgeKind, str, str, str | None, int], float] = {}
    for edge in edges:
        key = edge[:5]
        if edge.confidence > surest.get(key, -1.0):
            surest[key] = edge.confidence
    return (Edge(*key, round(sure, 2)) for key, sure in surest.items())


class _Resolver:
    def __init__(self, view: TracedView) -> None:
        self.view = view
        self.log = view.log
        self.index: FileIndex = view.index(view.path)
        receivers = self.index.language.receiver_keywords
        self.uses: list[Import | Use] = [
            *self.index.facts.imports,
            *(use for use in self.index.facts.uses if use.path not in receivers),
        ]
        self.evaluator = Evaluator(view)
        self._references: dict[tuple[str, str], tuple[Meanings, list[Edge]]] = {}  # by scope and path

    @property
    def is_cut_short(self) -> bool:
        """Whether a limit was met, or might be met by all uses together."""
        return self.log.is_cut_short or self.evaluator.cache.work_done > _MAX_WORK_BY_USE

    def resolve_uses(self, numbers: Iterable[int]) -> tuple[list[Edge], list[int]]:
        """The edges of some uses, in their order, maybe more than once; for each use, what was asked."""
        edges, masks, distinct = list[Edge](), list[int](), dict[int, int]()
        for number in numbers:
            use, self.log.mask = self.uses[number], 0
            edges += self._import_edges(use) if isinstance(use, Import) else self._use_edges(use)
            masks.append(distinct.setdefault(self.log.mask, self.log.mask))
            if len(distinct) * len(self.log.asked) > _MAX_SET_BITS:  # taken as if each had asked all so far
                self.log.is_cut_short = True
                everything = 0
                for mask in distinct:
                    everything |= mask
                masks, distinct = [everything] * len(masks), {everything: everything}
        return edges, masks

    def resolve_aliases(self) -> tuple[tuple[Alias, ...], int]:
        """What the file exports of others, and what was asked for it."""
        return self.log.record(lambda: tuple(dict.fromkeys(self._iter_aliases())))

    def finish(
        self, edges: Iterable[Edge], aliases: tuple[Alias, ...], lookups: UseLookups, asked_for_aliases: int
    ) -> ResolvedFile:
        """All that is known of the file now."""
        ordered = sorted(
            edges, key=lambda edge: (edge.line, edge.kind, edge.source, edge.target, edge.target_path or "")
        )
        _, asked_for_name = self.log.record(lambda: self.view.full_name(""))
        others = UseLookups.from_masks(self.log.asked, [asked_for_aliases | asked_for_name])
        asked = {*lookups.list_asked(), *others.list_asked(), *self.log.asked_without_bit}
        trace = self.view.project.build_trace(asked)
        if not self.is_cut_short and len(lookups.sets) <= _MAX_SETS:
            trace[USES] = lookups.format(trace)
        return ResolvedFile(tuple(ordered), trace, aliases)

    def _iter_aliases(self) -> Iterator[Alias]:
        for imported in self.index.facts.imports:
            if not imported.exported:
                continue
            for name, entity in self.evaluator.iter_reexports(imported):
                if isinstance(entity, DefinitionRef):
                    scoped = f"{imported.scope}.{name}" if imported.scope else name
                    full_name, members = self.view.full_name(scoped), ()
                    if entity.path != self.view.path:
                        members = tuple(self.view.index(entity.path).definitions_within(entity.name))
                    yield Alias(full_name, entity.name, entity.path, members)

    def contains_edges(self) -> Iterator[Edge]:
        """From each definition, or the file, to those in it."""
        for definition in self.index.facts.definitions:
            around = parent_scope(definition.name)
            source = around if around in self.index.kinds else ""
            yield Edge("contains", source, definition.name, self.view.path, definition.start_line, 1.0)

    def system_edges(self) -> Iterator[Edge]:
        """To the names by which the parts of a system meet, and to the ends of routes."""
        for use in self.index.facts.system_uses:
            scope = use.scope if use.scope in self.index.kinds else ""
            for name, worth in list_stored_names(use.name):
                yield Edge(use.kind, scope, name, None, use.line, min(use.percent / 100, worth))

    def _import_edges(self, imported: Import) -> Iterator[Edge]:
        files = self.view.find_modules(self.index.language, self.view.path, imported.module)
        for file in files:
            if not file.endswith("/"):
                yield Edge("imports", imported.scope, "", file, imported.line, 1.0)
        if imported.name in ("", "*") and files:
            return
        meanings = self.evaluator.resolve_import(imported)
        surest = max(meanings.values(), default=0.0)
        for entity, sure in meanings.items():
            if isinstance(entity, DefinitionRef) and sure == surest:
                yield Edge("imports", imported.scope, entity.name, entity.path, imported.line, sure)
            elif isinstance(entity, Module) and not entity.path.endswith("/"):
                yield Edge("imports", imported.scope, "", entity.path, imported.line, sure)
            elif isinstance(entity, ExternalName):
                yield Edge("imports", imported.scope, entity.name, None, imported.line, sure)

    def _use_edges(self, use: Use) -> Iterator[Edge]:
        language, extends = self.index.language, use.kind in ("extends", "implements")
        scope = parent_scope(use.scope) if extends else use.scope
        for path in _list_prefixes(use.path):  # `Store` of `Store.open()` is referred to, too
            if meanings := self.evaluator.resolve_path(self.view.path, scope, path):
                yield from self._reference_edges(Use("references", path, use.scope, use.line), meanings)
        meanings = self.evaluator.resolve_path(self.view.path, scope, use.path)
        if extends:
            types = self._select_types(meanings)
            protocols = self._select_interfaces(use, types)
            yield from build_edges(use._replace(kind="implements"), protocols)
            others: Meanings = {key: sure for key, sure in types.items() if key not in protocols}
            yield from build_edges(use, others)
            if not types:
                yield from build_external_edges(use, meanings, language)
                yield from build_unresolved_edges(use, meanings, language)
        elif use.kind == "calls":
            yield from self._call_edges(use, scope, meanings)
        else:
            yield from self._reference_edges(use, meanings)
            if not any(isinstance(entity, DefinitionRef) for entity in meanings):
                yield from build_external_edges(use, meanings, language)

    def _select_interfaces(self, use: Use, types: Meanings) -> Meanings:
        """Those of a type's bases that are interfaces, where its syntax does not tell them from others."""
        if not self.index.language.infers_implements or self.index.kinds.get(use.scope) == "interface":
            return {}
        kind_of = self.evaluator.kind_of
        return {entity: sure for entity, sure in types.items() if kind_of(entity) == "interface"}

    def _call_edges(self, use: Use, scope: str, meanings: Meanings) -> Iterator[Edge]:
        """What is called; a definition that is no function where nothing else is."""
        targets: Meanings = {
            entity: sure for entity, sure in meanings.items() if self.evaluator.kind_of(entity) in _CALLABLE
        }
        computed: Meanings = {
            entity: targets.pop(entity)
            for entity in [*targets]
            if isinstance(entity, DefinitionRef) and self.view.index(entity.path).is_computed(entity.name)
        }
        yield from build_edges(use._replace(kind="references"), computed)
        for entity in computed:
            targets |= self.evaluator.follow_step({entity: 1.0}, "")
        targets |= self._find_call_methods(meanings)
        if self.index.language.type_calls_convert and (types := self._select_types(targets)):
            yield from build_edges(use._replace(kind="references"), types)
            return
        written = self._select_named(use, meanings)
        if targets or written:
            yield from build_edges(use, targets)
            others = (item for item in written.items() if item[0] not in targets and item[0] not in computed)
            yield from build_edges(use, dict(others))
            return
        guess = {} if meanings else guess_methods(use, scope, self.view, self.evaluator)
        yield from build_edges(use, guess)
        if not guess:
            yield from build_external_edges(use, meanings, self.index.language)
            yield from build_unresolved_edges(use, meanings, self.index.language)

    def _select_types(self, meanings: Meanings) -> Meanings:
        types = CLASS_KINDS | {"type"}
        return {entity: sure for entity, sure in meanings.items() if self.evaluator.kind_of(entity) in types}

    def _find_call_methods(self, meanings: Meanings) -> Meanings:
        method = self.index.language.call_method
        instances: Meanings = {
            entity: sure for entity, sure in meanings.items() if isinstance(entity, Instance)
        }
        if not method or not instances:
            return {}
        reached = self.evaluator.follow_step(instances, f".{method}")
        return {entity: sure for entity, sure in reached.items() if isinstance(entity, DefinitionRef)}

    def _reference_edges(self, use: Use, meanings: Meanings) -> Iterator[Edge]:
        """Edges to what a use names; where its path has the same meanings again, only lines are others."""
        cached = self._references.get((use.scope, use.path))
        if cached is None or cached[0] is not meanings:
            cached = meanings, list(build_edges(use, self._select_named(use, meanings)))
            self._references[use.scope, use.path] = cached
        for kind, source, target, target_path, _, sure in cached[1]:
            yield Edge(kind, source, target, target_path, use.line, sure)

    def _select_named(self, use: Use, meanings: Meanings) -> Meanings:
        """The definitions that a use names, without those that they are worth."""
        definitions: Meanings = {
            entity: sure for entity, sure in meanings.items() if self._is_named_by(entity, sure, use)
        }
        surest = max(definitions.values(), default=0.0)
        return {entity: sure for entity, sure in definitions.items() if sure == surest}

    def _is_named_by(self, entity: object, confidence: float, use: Use) -> bool:
        """Whether a use names a definition, rather than a variable that has it as value."""
        if not isinstance(entity, DefinitionRef):
            return False
        imports = self.index.imports
        imported = (use.scope, use.path) in imports or ("", use.path) in imports
        return imported or confidence == 1.0 or last_segment(entity.name) == last_segment(use.path)


def guess_methods(use: Use, scope: str, view: TracedView, evaluator: Evaluator) -> Meanings:
    """Methods that a call may mean.

    Of a class that is known and lacks the method, those of what extends it; else the only method
    so named in the source: of something unknown, or of what a mixin will be mixed with.
    """
    steps = split_steps(use.path)
    name = steps[-1].lstrip(".")
    language = view.index(view.path).language
    if len(steps) < 2 or steps[-1][0] != "." or steps[0] == "@around" or name in language.common_methods:
        return {}
    receivers = evaluator.resolve_path(view.path, scope, use.path[: -len(steps[-1])])
    methods = view.log.remember(evaluator.methods_by_name, name, lambda: _list_methods(name, evaluator))
    if any(isinstance(receiver, Instance | DefinitionRef) for receiver in receivers):
        below = [method for method in methods if evaluator.is_subclass_method(method, receivers)]
        own = view.index(view.path).enclosing_class(scope)
        if below or Instance(view.path, own or "") not in receivers:
            uppermost = [method for method in below if not _overrides(method, below, evaluator)]
            return dict.fromkeys(uppermost, SUBCLASS_CONFIDENCE)
    return dict.fromkeys(methods, UNIQUE_NAME_CONFIDENCE) if len(methods) == 1 else {}


def _overrides(method: DefinitionRef, methods: list[DefinitionRef], evaluator: Evaluator) -> bool:
    classes = (DefinitionRef(one.path, parent_scope(one.name)) for one in methods if one != method)
    others: Meanings = dict.fromkeys(classes, 1.0)
    return evaluator.is_subclass_method(method, others)


def _list_methods(name: str, evaluator: Evaluator) -> list[DefinitionRef]:
    """All methods of a name in the same language, if they lie in few files."""
    files, view = evaluator.list_files_in_sight(name), evaluator.view
    indices = [view.index(file) for file in files] if len(files) <= _MAX_FILES else []
    language = view.index(view.path).language
    return [
        DefinitionRef(index.facts.path, definition)
        for index in indices
        if index.language is language
        for definition in index.definitions_named(name)
        if index.kinds[definition] == "method"
    ]
