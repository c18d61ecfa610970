"""The rows of the code graph: the facts of each file, and what the resolver makes of them.

Facts are read from the sanitized text, as chunks are, so that both count the same lines and no signature
shows a secret. Their key is the path; their fingerprint covers text, sanitizer and extractor. Many files are
shared out to processes in portions; few are worked on in this one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from knowledge_pipeline.code_graph import (
    CHAIN,
    FACTS_VERSION,
    ChangedNames,
    Earlier,
    Edge,
    FileFacts,
    IndexedFile,
    Project,
    ResolvedFile,
    Trace,
    extract,
    find_changed_names,
    from_json,
    full_name,
    has_facts,
    list_defined_names,
    renew_trace,
    resolve,
    to_json,
)
from knowledge_pipeline.config.sources import SanitizeSettings, resolve_sanitize
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.records import hash_each, hash_strings
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.sanitizing.sanitize import SanitizerFailed
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.worker_pool import WorkerPool
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.file_cache import Kind, RecentValues
from knowledge_pipeline.store.filters import Filter, eq, is_null, one_of
from knowledge_pipeline.store.graph import build_payload, node_id
from knowledge_pipeline.store.held_terms import ChangeTracker, TermLookup
from knowledge_pipeline.store.reconcile import load_fingerprints, plan_changes, reconcile
from knowledge_pipeline.store.tables import Table, split_batches

_PRELOAD_BYTES = 64 << 20  # of facts as text
_RECENT_FILES = 256
_RECENT = Kind[RecentValues[IndexedFile]](lambda _: _RECENT_FILES << 16)
_BATCH_ROWS = 64


def open_recent_files(table: Table) -> RecentValues[IndexedFile]:
    """The files of a table of facts that were read last, by path and fingerprint, from refresh to refresh."""
    recent = table.files.get(_RECENT, str(table.path)) or RecentValues[IndexedFile](_RECENT_FILES)
    table.files.put(_RECENT, str(table.path), None, recent)
    return recent


class StoredProject(Project):
    """The facts of one source at one moment."""

    def __init__(self, table: Table, *, preloads: bool = False) -> None:
        super().__init__()
        self._table, self._recent = table, open_recent_files(table)
        self.preloads = preloads  # the texts of all facts, up to a limit: many will be asked for
        rows = table.read_rows(["path", "interface", "fingerprint"]).to_pydict()
        self.interfaces: Mapping[str, str] = dict(zip(rows["path"], rows["interface"], strict=True))
        self._fingerprints = dict(zip(rows["path"], rows["fingerprint"], strict=True))
        self._texts: dict[str, str] = {}
        self._names = TermLookup(table, "path", "defines")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(StoredProject, preloads=self.preloads), (self._table,)

    def paths(self) -> Collection[str]:
        """All files that have facts."""
        return self.interfaces.keys()

    def file(self, path: str) -> IndexedFile:
        """What a file says; the last few are kept, from one refresh to the next too."""
        key = path, self._fingerprints[path]
        return self._recent.load(key, lambda: IndexedFile(from_json(self._load_text(path))))

    def files_defining(self, name: str) -> Collection[str]:
        """The files with a definition of which this is the last segment."""
        return self._names.find_keys(name)

    def renew_trace(self, trace: Trace, changes: ChangedNames | None = None) -> Trace | None:
        """The trace that resolving a file would leave now; see `code_graph.renew_trace`."""
        return renew_trace(trace, self, self.interfaces, changes)

    def _load_text(self, path: str) -> str:
        if self.preloads and not self._texts:
            size = 0
            for batch in self._table.iter_batches(["path", "facts"], batch_rows=_BATCH_ROWS):
                for name, text in zip(*batch.to_pydict().values(), strict=True):
                    size += len(text)
                    if size <= _PRELOAD_BYTES:
                        self._texts[name] = text
                if size > _PRELOAD_BYTES:
                    break
        if path not in self._texts:
            return self._table.read_rows(["facts"], one_of("path", [path]))["facts"][0].as_py()
        return self._texts[path]


Row = dict[str, Any]


class BatchBuilder:
    """Takes the rows of one file after the other: what is the same in many of them is said once."""

    def __init__(self, schema: pa.Schema, constants: Mapping[str, Any]) -> None:
        """Start without a row; `constants` are the columns that are the same in all rows."""
        self._schema, self._constants = schema, constants
        self._groups: list[tuple[Mapping[str, Any], Sequence[Row]]] = []

    def add_rows(self, columns: Mapping[str, Any], rows: Sequence[Row]) -> None:
        """Add rows, and the columns that are the same in all of these; what neither has is null."""
        self._groups.append((columns, rows))

    def build(self) -> pa.RecordBatch:
        """All rows, in the order in which they came."""
        count = sum(len(rows) for _, rows in self._groups)
        if not count:  # of which `repeat` makes no list
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        arrow: Any = pa  # whose stubs give neither fields nor arrays a type
        fields: Any = self._schema
        columns: list[Any] = []
        for field_ in fields:
            if field_.name in self._constants:
                value = arrow.scalar(self._constants[field_.name], field_.type)
                columns.append(arrow.repeat(value, count))
            else:
                columns.append(arrow.array(self._list_values(field_.name), field_.type))
        return arrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _list_values(self, column: str) -> list[Any]:
        values: list[Any] = []
        for columns, rows in self._groups:
            if column in columns:
                values += [columns[column]] * len(rows)
            else:
                values += [row.get(column) for row in rows]
        return values


_SIGNATURE_CHARS = 300
_ENCODER = json.JSONEncoder(sort_keys=True, default=str)
_INNER_KINDS = ("contains", "declares", "owns")  # by which a file depends on nothing
_MARK_CHARS = 32  # of `hash_strings`

StoredEdge = tuple[str, str, str, str | None, int, float]
"""Kind ("depends" too), source, target, path of the target, line and confidence: as `Edge` has them."""


def format_trace(trace: Trace) -> str:
    """A trace as it is stored."""
    return json.dumps(trace, sort_keys=True, separators=(",", ":"))


class StoredRows(NamedTuple):
    """What the tables hold of a file that is resolved again because others changed."""

    trace: Trace
    edges: Mapping[StoredEdge, str]  # with their ids


class UnresolvedFile(NamedTuple):
    """A file whose rows are built."""

    path: str
    uri: str
    made_of: str  # digest of its facts, the configuration and the resolver
    stored_fingerprint: str | None  # of its rows in the tables; None: they are written in any case
    stored: StoredRows | None = None


@dataclass(frozen=True, slots=True)
class ResolvedRows:
    """The rows of some files; of a file whose rows the tables hold already, its own row alone."""

    symbols: pa.RecordBatch  # a file's own row is the last of its
    edges: pa.RecordBatch
    files: int
    changes: ReplacedRows
    notes: Counter[str]  # what could not be made as hoped


@dataclass(frozen=True, slots=True)
class ReplacedRows:
    """Which rows others replace, besides the files' own rows."""

    symbols: list[str] = field(default_factory=list[str])  # files of which all symbols are written
    edges: list[str] = field(default_factory=list[str])  # files of which all edges are written
    some_edges: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Files of which some edges are written, with the ids of those that go."""

    def add(self, other: ReplacedRows) -> None:
        """Add those of other files."""
        self.symbols.extend(other.symbols)
        self.edges.extend(other.edges)
        self.some_edges.update(other.some_edges)

    @property
    def paths(self) -> list[str]:
        """The files of which more than the own row is written."""
        return list(dict.fromkeys((*self.symbols, *self.edges, *self.some_edges)))


@dataclass(frozen=True, slots=True)
class GraphRowBuilder:
    """Resolves files of one source and builds their rows; calling it is a portion's work."""

    project: StoredProject
    source_columns: Mapping[str, Any]  # columns that the configuration decides
    indexed_at: datetime
    earlier_files: Mapping[str, IndexedFile] = field(default_factory=dict[str, IndexedFile])  # see `Earlier`

    def __call__(self, portion: list[UnresolvedFile]) -> ResolvedRows:
        """All rows of the files of a portion, in its order."""
        constants = {**self.source_columns, "indexed_at": self.indexed_at}
        symbols, edges = BatchBuilder(schemas.SYMBOLS, constants), BatchBuilder(schemas.EDGES, constants)
        notes, changes = Counter[str](), ReplacedRows()
        for file in portion:
            facts, resolved = self.project.facts(file.path), self._resolve_file(file, notes)
            if unread := sum(use.path.startswith(f"{CHAIN}.") for use in facts.uses):
                notes["uses not resolved: what they start with is nested too deep"] += unread
            columns = {"uri": file.uri, "path": file.path, "language": facts.language}
            stored_mark = (file.stored_fingerprint or "")[:_MARK_CHARS]
            if _has_same_symbols(facts, resolved, file):
                symbols_mark, symbol_rows = stored_mark, list[Row]()
            else:
                aliases = self._iter_alias_rows(file.path, resolved)
                symbol_rows = [*self._iter_definition_rows(facts), *aliases]
                symbols_mark = hash_strings(self._dump(columns), *map(self._dump, symbol_rows))
            if symbols_mark == stored_mark:
                symbol_rows = []
            else:
                changes.symbols.append(file.path)
            edges_mark, edge_rows = self._build_edge_rows(file, columns, resolved.edges, changes)
            edges.add_rows(columns, edge_rows)
            trace = format_trace(resolved.trace)
            own = self._build_file_row(facts) | {"made_of": file.made_of, "trace": trace}
            for row in (*symbol_rows, own):
                row["shown"] = build_payload({"source": self.source_columns["source"], **columns, **row})
            symbols.add_rows(columns | {"fingerprint": symbols_mark}, symbol_rows)
            symbols.add_rows(columns | {"fingerprint": symbols_mark + edges_mark}, [own])
        return ResolvedRows(symbols.build(), edges.build(), len(portion), changes, notes)

    def _dump(self, columns: Row) -> str:
        return _ENCODER.encode({**self.source_columns, **columns})

    def _build_edge_rows(
        self, file: UnresolvedFile, columns: Row, edges: Iterable[Edge], changes: ReplacedRows
    ) -> tuple[str, list[Row]]:
        """A digest of all edges of a file, and the rows to write: those that are not stored, if any are."""
        stored = dict(file.stored.edges) if file.stored else {}
        marks, rows = list[str](), list[Row]()
        for edge_id, kind, edge in self._number_edges(file.path, edges, stored):
            _, source, target, path, line, confidence = edge
            marks.append(f"{edge_id}{confidence!r}")
            if stored.pop((kind, *edge[1:]), None) is None:
                target_id = self._node_id(path, target) if path is not None else None
                rows.append({
                    "id": edge_id, "kind": kind, "source_id": self._node_id(file.path, source),
                    "source_name": source, "target_id": target_id, "target_name": target,
                    "target_path": path, "line": line, "confidence": confidence,
                })  # fmt: skip
        mark = hash_strings(self._dump(columns), "\n".join(marks))
        if file.stored is not None:
            if rows or stored:
                changes.some_edges[file.path] = list(stored.values())
        elif mark == (file.stored_fingerprint or "")[_MARK_CHARS:]:
            rows = []
        else:
            changes.edges.append(file.path)
        return mark, rows

    def _resolve_file(self, file: UnresolvedFile, notes: Counter[str]) -> ResolvedFile:
        """The edges of a file; one whose values lead too deep has none, and does not stop the others."""
        earlier = None
        if file.stored is not None:
            make: Any = Edge  # whose kinds are named
            edges = (make(*edge) for edge in file.stored.edges if edge[0] != "depends")
            earlier = Earlier(edges, file.stored.trace, self.project.interfaces, self.earlier_files)
        try:
            return resolve(file.path, self.project, earlier)
        except RecursionError:
            notes["uses not resolved: its values lead too deep"] += 1
            return ResolvedFile((), {})

    def _build_file_row(self, facts: FileFacts) -> Row:
        last = max((definition.end_line for definition in facts.definitions), default=1)
        node, stem = self._node_id(facts.path, ""), PurePosixPath(facts.path).stem
        name = full_name(facts.path, "", self.project)
        return _build_symbol_row(node, node, "file", "", full_name=name, simple=stem, end_line=last)

    def _iter_definition_rows(self, facts: FileFacts) -> Iterator[Row]:
        twins: Counter[str] = Counter()
        for definition in facts.definitions:
            name, twin = definition.name, twins[definition.name]
            twins[name] += 1
            node, full = self._node_id(facts.path, name), full_name(facts.path, name, self.project)
            row_id = hash_strings(node, str(twin)) if twin else node
            row = _build_symbol_row(
                row_id, node, definition.kind, name, full_name=full, end_line=definition.end_line
            )
            row["start_line"], row["exported"] = definition.start_line, definition.exported
            yield row | {"signature": definition.signature[:_SIGNATURE_CHARS]}

    def _iter_alias_rows(self, path: str, resolved: ResolvedFile) -> Iterator[Row]:
        """Names under which others may import from this file what another one defines, with members."""
        names: set[str] = set()
        for alias in resolved.aliases:
            for target in (alias.target, *alias.members):  # who imports `app.Store` calls `app.Store.get`
                name = f"{alias.full_name}{target.removeprefix(alias.target)}"
                if name not in names:
                    names.add(name)
                    row_id = hash_strings("alias", self._node_id(path, name))
                    node = self._node_id(alias.target_path, target)
                    yield _build_symbol_row(row_id, node, "alias", name, full_name=name)

    def _number_edges(
        self, path: str, edges: Iterable[Edge], stored: Mapping[StoredEdge, str]
    ) -> Iterator[tuple[str, str, Edge]]:
        """Id, kind and edge, and for each other file, or name outside, one that this file depends on it."""
        depends: dict[tuple[str | None, str], Edge] = {}
        ids: set[str] = set()
        for edge in edges:
            edge_id = stored.get(edge) or self._edge_id(path, edge.kind, edge)
            if edge_id in ids:
                continue
            ids.add(edge_id)
            yield edge_id, edge.kind, edge
            key = (edge.target_path, "" if edge.target_path else edge.target)
            best = depends.get(key)
            if edge.kind not in _INNER_KINDS and edge.target_path != path and edge.confidence > 0:
                depends[key] = edge if best is None or edge.confidence > best.confidence else best
        for (target_path, target), edge in depends.items():
            depended = Edge("imports", "", target, target_path, edge.line, edge.confidence)
            yield self._edge_id(path, "depends", depended), "depends", depended

    def _edge_id(self, path: str, kind: str, edge: Edge) -> str:
        outside = edge.target_path is None
        target = f"\x00{edge.target}" if outside else self._node_id(edge.target_path or "", edge.target)
        return hash_strings(self._node_id(path, edge.source), kind, target, str(edge.line))

    def _node_id(self, path: str, name: str) -> str:
        return node_id(self.source_columns["source"], path, name)


def _has_same_symbols(facts: FileFacts, resolved: ResolvedFile, file: UnresolvedFile) -> bool:
    """Whether a file that did not change itself has the symbols that are stored, full names included."""
    if file.stored is None or not file.stored_fingerprint or any(it.exported for it in facts.imports):
        return False
    name = f"name\t{facts.language}\t{file.path}"
    return name in resolved.trace and resolved.trace[name] == file.stored.trace.get(name)


def _build_symbol_row(
    row_id: str,
    node: str,
    kind: str,
    name: str,
    *,
    full_name: str,
    simple: str | None = None,
    end_line: int = 1,
) -> Row:
    return {
        "id": row_id, "node": node, "kind": kind, "name": name,
        "simple": name.rpartition(".")[2] if simple is None else simple, "full_name": full_name,
        "start_line": 1, "end_line": end_line, "signature": "", "exported": True,
    }  # fmt: skip


MIN_FILES = 400  # fewer are read, or resolved, before the processes have started
FILES_PER_PORTION = 16
MAX_PROCESSES = 3  # of up to 450 MB each: with the process that writes, less than 2 GB

FileT = TypeVar("FileT", "UnresolvedFile", "_StoredText")
Answer = TypeVar("Answer")


def map_portions(
    pool: WorkerPool, files: int, work: Callable[[list[FileT]], Answer], portions: Iterable[list[FileT]]
) -> Iterator[Answer]:
    """What the work gives for each portion of files, in their order: by the pool where files are many."""
    if files < MIN_FILES:
        return map(work, portions)
    return pool.map(work, portions, lambda portion: f"{portion[0].path!r} or a file after it")


_FILES_PER_COMMIT = 128
_COMPARED_FILES_MAX = 50  # files whose facts before an edit are compared with those after it
_READABLE = is_null("skipped") | eq("skipped", "empty")  # an empty `__init__.py` makes a package
_LIVE = _READABLE & is_null("archived_at")


@dataclass(frozen=True, slots=True)
class FactsRefresh:
    """The facts that a refresh has extracted again."""

    old_fingerprints: Mapping[str, str | None] = field(default_factory=dict[str, str | None])  # by path
    changes: ChangedNames | None = field(default_factory=ChangedNames)  # None if there are many
    old_files: Mapping[str, IndexedFile] = field(default_factory=dict[str, IndexedFile])  # few, by path


def refresh_facts(ctx: RefreshContext, pool: WorkerPool) -> FactsRefresh:
    """Bring the facts of one source up to date with its snapshot."""
    table = ctx.lake.facts(ctx.source.type, ctx.source.id)
    version = hash_strings(str(FACTS_VERSION), sanitizing.fingerprint(resolve_sanitize(ctx.source)))
    tables = [ctx.lake.snapshot(ctx.source.type, ctx.source.id), table]
    forget = ctx.options.full
    tracker = ChangeTracker(ctx.lake, ctx.source.id, "facts", version, tables, forget=forget)
    paths = tracker.find_changed_values("path", "path")
    where = None if paths is None else one_of("path", sorted(paths))
    desired, uris = _desired_fingerprints(ctx, version, where)
    stored = load_fingerprints(table, "path", "fingerprint", where)
    planned = plan_changes(desired, stored, full=ctx.options.full)
    if not planned:
        tracker.remember()
        return FactsRefresh()
    written, gone = planned.keys_to_write, [*planned.changed, *planned.removed]
    are_few = len(written) + len(planned.removed) <= _COMPARED_FILES_MAX
    before = _load_files(table, gone, stored) if are_few else {}
    builder = _FactsBatchBuilder(ctx, pool, table, desired, uris)
    reconcile(table, planned, builder.build_batches)
    ctx.upkeep.tend(table)
    tracker.remember(has_written=True)
    changes = _find_changed_names(before, _load_files(table, written, desired)) if are_few else None
    return FactsRefresh({path: stored.get(path) for path in (*written, *planned.removed)}, changes, before)


def _load_files(table: Table, paths: list[str], fingerprints: Mapping[str, str]) -> dict[str, IndexedFile]:
    recent = open_recent_files(table)
    files = {path: file for path in paths if (file := recent.get((path, fingerprints[path])))}
    others = [path for path in paths if path not in files]
    for rows in table.iter_rows_by_values("path", others, ["path", "facts"]) if others else ():
        pairs = zip(*rows.to_pydict().values(), strict=True)
        files.update((path, IndexedFile(from_json(text))) for path, text in pairs)
    return files


def _find_changed_names(*states: Mapping[str, IndexedFile]) -> ChangedNames:
    return find_changed_names(*({path: file.facts for path, file in files.items()} for files in states))


def _desired_fingerprints(
    ctx: RefreshContext, version: str, where: Filter | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Fingerprints, and uris, by path; of two documents at one path the first by uri counts."""
    snapshot = ctx.lake.snapshot(ctx.source.type, ctx.source.id)
    hashes, uris = defaultdict[str, dict[str, str]](dict), dict[str, str]()  # hashes by language
    live = where & _LIVE if where else _LIVE
    rows = snapshot.read_rows(["uri", "path", "language", "content_hash"], live).to_pylist()
    for row in sorted(rows, key=itemgetter("uri")):
        path, language = row["path"], row["language"] or _language_of(row)
        if path not in uris and has_facts(path, language):
            hashes[language][path], uris[path] = row["content_hash"], row["uri"]
    desired = dict[str, str]()
    for language, of_files in hashes.items():
        desired |= zip(of_files, hash_each(of_files.values(), language, version), strict=True)
    return {path: desired[path] for path in uris}, uris


def _language_of(row: dict[str, Any]) -> str:
    """The language of a file; an empty file has none in the snapshot, but its name may say it."""
    return row["language"] or detect_language(row["path"]) or ""


@dataclass(frozen=True, slots=True)
class FactsWork:
    """Builds the facts of files; calling it is a portion's work, here or in another process."""

    sanitize: SanitizeSettings
    table: Table

    def __call__(self, portion: list[_StoredText]) -> pa.RecordBatch:
        """One row for each file of the portion, in its order."""
        return pa.RecordBatch.from_pylist([self._build_row(file) for file in portion], schema=schemas.FACTS)

    def _build_row(self, file: _StoredText) -> dict[str, Any]:
        facts = FileFacts(file.path, file.language)
        with suppress(SanitizerFailed):  # the chunks say so
            clean = sanitizing.sanitize(file.text, self.sanitize)
            facts = facts if clean.dropped else extract(file.path, clean.text, file.language)
        indexed = IndexedFile(facts)
        open_recent_files(self.table).put((file.path, file.fingerprint), indexed)
        return {
            "path": file.path, "uri": file.uri, "language": file.language, "facts": to_json(facts),
            "interface": indexed.interface_digest, "defines": sorted(list_defined_names(facts)),
            "fingerprint": file.fingerprint,
        }  # fmt: skip


class _StoredText(NamedTuple):
    """A file of the snapshot, as it is sent to the process that reads it."""

    path: str
    uri: str
    language: str
    text: str
    fingerprint: str  # of the row that is built


class _FactsBatchBuilder:
    """Builds the rows of chosen files; many are read by a process for each core."""

    def __init__(
        self,
        ctx: RefreshContext,
        pool: WorkerPool,
        table: Table,
        desired: dict[str, str],
        uris: dict[str, str],
    ) -> None:
        self._ctx, self._pool, self._table, self._desired, self._uris = ctx, pool, table, desired, uris
        self._snapshot = ctx.lake.snapshot(ctx.source.type, ctx.source.id)

    def build_batches(self, paths: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some files; each batch is one commit."""
        work = FactsWork(resolve_sanitize(self._ctx.source), self._table)
        portions = self._iter_portions(paths)
        done, since_commit, waiting = 0, 0, list[pa.RecordBatch]()
        for batch in map_portions(self._pool, len(paths), work, portions):
            done, since_commit = done + batch.num_rows, since_commit + batch.num_rows
            waiting.append(batch)
            self._ctx.report("facts", done, len(paths))
            if since_commit >= _FILES_PER_COMMIT:
                yield pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]
                since_commit, waiting = 0, []
        if waiting:
            yield pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]

    def _iter_portions(self, paths: list[str]) -> Iterator[list[_StoredText]]:
        columns = ["uri", "path", "language", "text"]
        for commit in split_batches(paths, _FILES_PER_COMMIT):
            where, portion = one_of("uri", [self._uris[path] for path in commit]), list[_StoredText]()
            for batch in self._snapshot.iter_batches(columns, where, batch_rows=FILES_PER_PORTION):
                for row in batch.to_pylist():
                    path, language = row["path"], _language_of(row)
                    portion.append(_StoredText(path, row["uri"], language, row["text"], self._desired[path]))
                    if len(portion) == FILES_PER_PORTION:
                        yield portion
                        portion = []
            if portion:
                yield portion
