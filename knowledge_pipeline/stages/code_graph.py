"""The code graph: the symbols of a source and the edges between them. Key: path.

First every file's facts, then its edges, in the tables that all sources share. A file is resolved
again when its facts, the source's configuration or the resolver changed, or the answer to a question
that was asked about other files when it was resolved last: its `trace`. So an edit costs what it can
affect, and nothing where nothing changed. Where a file that was asked has changed, but not in what it was
asked for, the trace alone is written again.

A file's own row is the last that is written of it and the last that is removed: a crash before leaves
work to do, never a hole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.code_graph import RESOLVER_VERSION, USES, IndexedFile, Trace, list_asked_names
from knowledge_pipeline.connectors.permissions import REPOSITORY_AUDIENCE
from knowledge_pipeline.records import hash_each, hash_strings
from knowledge_pipeline.stages.code_graph_rows import (
    FILES_PER_PORTION,
    MAX_PROCESSES,
    MIN_FILES,
    FactsRefresh,
    GraphRowBuilder,
    ReplacedRows,
    ResolvedRows,
    Row,
    StoredEdge,
    StoredProject,
    StoredRows,
    UnresolvedFile,
    format_trace,
    map_portions,
    refresh_facts,
)
from knowledge_pipeline.stages.context import RefreshContext, Stats, claim_immediately, measure_stage
from knowledge_pipeline.stages.index import (
    SLOT_MIN_ROWS,
    build_location,
    build_source_columns,
    format_source_columns,
)
from knowledge_pipeline.stages.upkeep import Upkeep
from knowledge_pipeline.stages.worker_pool import WorkerPool
from knowledge_pipeline.store.access import build_audience_principal
from knowledge_pipeline.store.filters import Filter, eq, one_of
from knowledge_pipeline.store.fragments import StaleRows
from knowledge_pipeline.store.held_terms import ChangeTracker, TermLookup
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import ReconcilePlan, Spool, load_fingerprints, plan_changes
from knowledge_pipeline.store.search import SourceLocation, read_locations, write_location
from knowledge_pipeline.store.tables import Table, split_batches

_IS_FILE = eq("kind", "file")


class GraphWriter:
    """The rows of one pass, kept on disk until they are written under the index lock."""

    def __init__(self, lake: Lake, upkeep: Upkeep, symbols: Spool, edges: Spool) -> None:
        self._lake, self._upkeep = lake, upkeep
        self._symbols, self._edges = symbols, edges
        self._changes = ReplacedRows()
        self._paths: list[str] = []  # of files whose own row is written

    @property
    def row_count(self) -> int:
        """The number of rows to write."""
        return self._symbols.rows + self._edges.rows

    def add(self, rows: ResolvedRows) -> None:
        """Take the rows of some files."""
        columns = rows.symbols.select(["path", "kind"]).to_pydict()
        self._paths += [path for path, kind in zip(*columns.values(), strict=True) if kind == "file"]
        self._changes.add(rows.changes)
        self._symbols.add_batch(rows.symbols)
        self._edges.add_batch(rows.edges)

    def add_traces(self, files: list[Row]) -> None:
        """Take the own rows of files of which nothing else is written."""
        self._paths += [row["path"] for row in files]
        self._symbols.add_rows(files)

    def write(
        self, source: str, *, new_paths: Collection[str], removed_paths: list[str], all_files: bool
    ) -> None:
        """Replace the rows of all files of the pass; `all_files`: it resolved all files of the source.

        First marks the files as unresolved, so that a process that is killed leaves work to do. Of a new
        file the mark is its own row: its edges would be nobody's, were it deleted before the next refresh.
        """
        symbols, edges = self._lake.graph_table("symbols"), self._lake.graph_table("edges")
        mine, changes = eq("source", source), self._changes
        is_whole = all_files and len(self._paths) == len(changes.symbols) == len(changes.edges)
        if not all_files or len(new_paths) != len(self._paths) or removed_paths:
            touched = split_batches([*changes.paths, *removed_paths])
            for where in [mine] if is_whole else [mine & one_of("path", batch) for batch in touched]:
                symbols.update_where(where & _IS_FILE, made_of="", fingerprint="")
            if new := frozenset(new_paths):
                batches = (batch.filter(pc.field("kind") == "file") for batch in self._symbols.iter_batches())
                files = (row for batch in batches for row in batch.to_pylist() if row["path"] in new)
                marks = [row | {"made_of": "", "fingerprint": ""} for row in files]
                symbols.append([pa.RecordBatch.from_pylist(marks, schema=symbols.schema)])
        stale_symbols = stale_edges = [StaleRows("source", [source])]
        if not is_whole:
            replaced = {*changes.symbols, *removed_paths}
            own_rows = set(self._paths).difference(replaced)
            stale_symbols = [StaleRows("path", replaced, mine), StaleRows("path", own_rows, mine & _IS_FILE)]
            stale_edges = [StaleRows("path", [*changes.edges, *removed_paths], mine)]
            if some := changes.some_edges:
                ids = [id_ for ids in some.values() for id_ in ids]
                stale_edges.append(StaleRows("id", ids, mine & one_of("path", sorted(some))))
        edges.replace_rows(stale_edges, self._edges.iter_batches(), create=True)
        symbols.replace_rows(stale_symbols, self._symbols.iter_batches(), create=True)
        for table in (edges, symbols):
            self._upkeep.tend_index(table)


VERSION = "1"  # of how edges become rows; those of facts and of edges are in `code_graph`
_TRACES_PER_BATCH = 128  # traces that are in memory at a time
_PRELOAD_MIN_FILES = 50  # files that are resolved without reading the facts of all into memory


def refresh(ctx: RefreshContext) -> Stats:
    """Bring the code graph of one source up to date with its snapshot.

    Raises `Busy`: another process kept the index for too long.
    """
    pool = WorkerPool("reads code", max_processes=MAX_PROCESSES)  # for facts and edges
    with measure_stage("graph", ctx.source.id) as stats, pool:
        read = refresh_facts(ctx, pool)
        symbols, facts = ctx.lake.graph_table("symbols"), ctx.lake.facts(ctx.source.type, ctx.source.id)
        context = _build_source_columns(ctx)
        mark = hash_strings(VERSION, str(RESOLVER_VERSION), format_source_columns(context))
        tracker = ChangeTracker(
            ctx.lake, ctx.source.id, "graph", mark, [facts, symbols], forget=ctx.options.full
        )
        changed_paths = tracker.find_changed_values("path", "path")
        where = None if changed_paths is None else one_of("path", sorted(changed_paths))
        desired = _load_made_of(facts, mark, where)
        stored = _load_stored_files(symbols, ctx.source.id, where)
        others = 0 if where is None else facts.count_rows() - len(desired)
        made_of = {path: file.made_of for path, file in stored.items()}
        planned = plan_changes(desired, made_of, full=ctx.options.full)
        has_moved = symbols.exists and read_locations(symbols).find(ctx.source.id) != _build_location(ctx)
        if planned or has_moved or _has_stray_edges(ctx, desired, stored, where):
            project = StoredProject(facts)
            resolved = {path: made_of.get(path) for path in (*planned.keys_to_write, *planned.removed)}
            before = {path: old and hash_strings(old, mark) for path, old in read.old_fingerprints.items()}
            if before != resolved:
                read = replace(read, changes=None)  # a refresh was killed between facts and edges
            touched = _find_indirect_changes(ctx, project, {*planned.keys_to_write, *planned.removed}, read)
            if where is not None:  # of others that are written too
                affected = one_of("path", touched.affected)
                desired |= _load_made_of(facts, mark, affected)
                stored |= _load_stored_files(symbols, ctx.source.id, affected)
            stats.notes = _write_graph(
                ctx, pool, project, desired, stored, planned, touched, tracker, read.old_files
            )
            changed, kept = [*planned.changed, *touched.affected], planned.unchanged - len(touched.affected)
            planned = replace(planned, changed=changed, unchanged=kept)
        else:
            tracker.remember()
        planned = replace(planned, unchanged=planned.unchanged + others)
        stats.seen = len(planned.keys_to_write) + planned.unchanged
        stats.add_plan(planned)
        stats.rows, stats.version = symbols.count_rows(eq("source", ctx.source.id)), symbols.version
    return stats


def _build_location(ctx: RefreshContext) -> SourceLocation:
    """That of the index; the graph is of the main branch alone."""
    return build_location(ctx)._replace(branches=())


def _has_stray_edges(ctx: RefreshContext, desired: object, stored: object, where: Filter | None) -> bool:
    """Whether a source without files has edges, of a first refresh that was killed between the tables."""
    if desired or stored or where is not None:
        return False
    return ctx.lake.graph_table("edges").count_rows(eq("source", ctx.source.id)) > 0


@dataclass(frozen=True, slots=True)
class _StoredFile:
    made_of: str
    fingerprint: str


def _load_made_of(facts: Table, mark: str, where: Filter | None) -> dict[str, str]:
    fingerprints = load_fingerprints(facts, "path", "fingerprint", where)
    return dict(sorted(zip(fingerprints, hash_each(fingerprints.values(), mark), strict=True)))


def _load_stored_files(symbols: Table, source: str, where: Filter | None) -> dict[str, _StoredFile]:
    files = eq("source", source) & _IS_FILE
    files = files & where if where else files
    rows = symbols.read_rows(["path", "made_of", "fingerprint"], files).to_pylist()
    return {row["path"]: _StoredFile(row["made_of"], row["fingerprint"]) for row in rows}


@dataclass(frozen=True, slots=True)
class _IndirectChanges:
    """Files that did not change themselves, but what they were resolved by."""

    affected: list[str] = field(default_factory=list[str])  # a question about others has another answer now
    traces: dict[str, Trace] = field(default_factory=dict[str, Trace])  # of these, or of the first of many
    retrace_only: list[str] = field(default_factory=list[str])  # another file changed elsewhere


def _find_indirect_changes(
    ctx: RefreshContext, project: StoredProject, changed: Collection[str], facts_refresh: FactsRefresh
) -> _IndirectChanges:
    """Look through the traces of the files that did not change; in a full refresh all files are resolved."""
    indirect = _IndirectChanges()
    for path, trace in () if ctx.options.full else _iter_traces(ctx, facts_refresh):
        if path in changed:
            continue
        before: Trace = json.loads(trace)
        now = project.renew_trace(before, facts_refresh.changes)
        if now is None:
            indirect.affected.append(path)
            if len(indirect.traces) < MIN_FILES:
                indirect.traces[path] = before
        elif now != before:
            indirect.retrace_only.append(path)
    indirect.affected.sort()
    indirect.retrace_only.sort()
    return indirect


def _iter_traces(ctx: RefreshContext, facts_refresh: FactsRefresh) -> Iterator[tuple[str, str]]:
    """Paths and traces of the files that may have asked about what an edit changed, or of all."""
    symbols, where = ctx.lake.graph_table("symbols"), eq("source", ctx.source.id) & _IS_FILE
    changes, names = facts_refresh.changes, list[str]()
    if changes is not None and not changes.moves_modules:
        names = [*facts_refresh.old_fingerprints, *changes.names]
        lookup = TermLookup(symbols, "path", "trace", where, list_terms=_list_asked_names)
        if lookup.is_worth_reading():
            paths = {path for name in names for path in lookup.find_keys(_replace_surrogates(name))}
            for portion in split_batches(sorted(paths), _TRACES_PER_BATCH):
                rows = symbols.read_rows(["path", "trace"], where & one_of("path", portion))
                yield from zip(*rows.to_pydict().values(), strict=True)
            return
    escaped = [json.dumps(name)[1:-1] for name in names]
    for batch in symbols.iter_batches(["path", "trace"], where):
        for path, trace in zip(*batch.to_pydict().values(), strict=True):
            if not names or any(name in trace for name in escaped):
                yield path, trace


def _list_asked_names(traces: list[str]) -> list[list[str]]:
    return [list(map(_replace_surrogates, list_asked_names(json.loads(trace)))) for trace in traces]


def _replace_surrogates(name: str) -> str:
    """Half of a character in the name of a property has no place in a column."""
    return name if name.isascii() else name.encode(errors="replace").decode()


def _write_graph(
    ctx: RefreshContext,
    pool: WorkerPool,
    project: StoredProject,
    desired: dict[str, str],
    stored_files: dict[str, _StoredFile],
    plan: ReconcilePlan,
    indirect: _IndirectChanges,
    tracker: ChangeTracker,
    earlier_files: Mapping[str, IndexedFile],
) -> Counter[str]:
    """Resolve first, into files beside the store, so that the lock is held for the writing alone."""
    context = _build_source_columns(ctx)
    paths = [*indirect.affected, *plan.keys_to_write]
    facts, notes = ctx.lake.facts(ctx.source.type, ctx.source.id), Counter[str]()
    project.preloads = len(paths) > _PRELOAD_MIN_FILES
    is_shared_out = len(paths) >= MIN_FILES  # to processes, which would be sent all that is stored
    stored = {} if is_shared_out else _load_stored_rows(ctx, indirect.traces)
    builder = GraphRowBuilder(project, context, datetime.now(UTC), {} if is_shared_out else earlier_files)
    files_by_path = {} if ctx.options.full else stored_files
    fingerprints = {path: file.fingerprint for path, file in files_by_path.items()}
    schemas = [ctx.lake.graph_table(name).schema for name in ("symbols", "edges")]
    spools = [Spool(schema, ctx.lake.cache) for schema in schemas]
    with spools[0] as symbol_rows, spools[1] as edge_rows:
        writer = GraphWriter(ctx.lake, ctx.upkeep, symbol_rows, edge_rows)
        uris, done = dict[str, str](), 0
        for batch in facts.iter_rows_by_values("path", paths, ["path", "uri"]):
            uris.update(zip(*batch.to_pydict().values(), strict=True))
        files = [
            UnresolvedFile(path, uris[path], desired[path], fingerprints.get(path), stored.get(path))
            for path in paths
        ]
        portions = (files[at : at + FILES_PER_PORTION] for at in range(0, len(files), FILES_PER_PORTION))
        for rows in map_portions(pool, len(files), builder, portions):
            writer.add(rows)
            notes, done = notes + rows.notes, done + rows.files
            ctx.report("graph", done, len(paths))
        # bring traces up to date: the files' own rows as they are, but for that
        symbols = ctx.lake.graph_table("symbols")
        for portion in split_batches(indirect.retrace_only, _TRACES_PER_BATCH):
            where = eq("source", ctx.source.id) & _IS_FILE & one_of("path", portion)
            rows = symbols.read_rows(symbols.schema.names, where).to_pylist()
            for row in rows:
                row["trace"] = format_trace(project.renew_trace(json.loads(row["trace"])) or {})
            writer.add_traces(rows)
        turn = claim_immediately if writer.row_count <= SLOT_MIN_ROWS else ctx.claim_slot
        with turn("index"), ctx.lake.lock_index():
            for table in (ctx.lake.graph_table("edges"), symbols):
                write_location(table, ctx.source.id, _build_location(ctx))
            every = len(paths) == facts.count_rows()
            writer.write(ctx.source.id, new_paths=plan.added, removed_paths=plan.removed, all_files=every)
            tracker.remember(has_written=True)
    return notes


_EDGE_COLUMNS = ("kind", "source_name", "target_name", "target_path", "line", "confidence")


def _load_stored_rows(ctx: RefreshContext, traces: Mapping[str, Trace]) -> dict[str, StoredRows]:
    """What is stored of files that say which of their uses asked what."""
    edges, where = ctx.lake.graph_table("edges"), eq("source", ctx.source.id)
    paths = [path for path, trace in traces.items() if USES in trace]
    ids = {path: dict[StoredEdge, str]() for path in paths}
    for portion in split_batches(paths, _TRACES_PER_BATCH):
        rows = edges.read_rows(["path", "id", *_EDGE_COLUMNS], where & one_of("path", portion))
        for path, edge_id, *edge, sure in zip(*rows.to_pydict().values(), strict=True):
            ids[path][*edge, round(sure, 2)] = edge_id
    return {path: StoredRows(traces[path], ids[path]) for path in paths}


def _build_source_columns(ctx: RefreshContext) -> dict[str, Any]:
    """Those of the index, with the audience of the repository: it is the same for all of its files."""
    columns, source = build_source_columns(ctx), ctx.source
    if source.access.visibility == "from_source":
        audience = build_audience_principal(source.type, source.id, REPOSITORY_AUDIENCE)
        columns["principals"] = sorted([*columns["principals"], audience])
    return columns
