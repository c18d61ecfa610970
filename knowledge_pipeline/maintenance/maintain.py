"""Maintenance: keeps the store small and fast, without changing what it says.

It changes only how data is stored, so it may be killed at any moment and repeated at will. Each step is one
commit, or the renaming of a folder, under the lock of what it touches; it skips a source that is being
refreshed. docs/decisions/store.md says which vectors and versions it deletes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow as pa

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.maintenance.garbage_collection import discard_leftovers, discard_unused_spaces
from knowledge_pipeline.maintenance.work import MaintenanceOptions, MaintenanceReport, MaintenanceRun
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.store import indexes, schemas
from knowledge_pipeline.store.filters import below
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.pending_rows import lock_log
from knowledge_pipeline.store.reconcile import exclude_keys
from knowledge_pipeline.store.release import (
    delete_old_releases,
    find_stray_tags,
    list_releases,
    publish_if_same_rows,
    select_kept_releases,
)
from knowledge_pipeline.store.table_files import list_vector_tables
from knowledge_pipeline.store.tables import Table


def refresh(
    lake: Lake,
    settings: Settings,
    *,
    options: MaintenanceOptions | None = None,
    report: ProgressCallback = ignore_progress,
) -> MaintenanceReport:
    """Delete what nobody needs, and rewrite the tables that need it.

    It opens only those tables for writing, so a second maintenance does next to nothing. The settings say
    how many releases and log entries to keep, which share of unused vectors to tolerate
    (`checks.orphaned_share`), and which repositories are in use.

    Raises:
        Busy: another maintenance is running.
    """
    work, started = MaintenanceRun(lake, options or MaintenanceOptions()), time.perf_counter()
    if lake.root.is_dir():
        locks, description = lake.root / "locks", "the maintenance of this store"
        with acquire_lock(locks, "maintenance", timeout_s=0, description=description):
            _run_maintenance(work, settings, report)
    work.report.seconds = round(time.perf_counter() - started, 3)
    return work.report


def _run_maintenance(run: MaintenanceRun, settings: Settings, report: ProgressCallback) -> None:
    lake, vectors = run.lake, list_vector_tables(run.lake)
    stored: dict[str, list[Table]] = {}  # by source, of every type that it ever had
    for stage, open_table in (("snapshot", lake.snapshot), ("chunks", lake.chunks), ("facts", lake.facts)):
        for path in sorted((lake.root / stage).glob("*/*.lance")):
            stored.setdefault(path.stem, []).append(open_table(path.parent.name, path.stem))
    sources = sorted(vectors.keys() | stored.keys())
    run.report.sources = len(sources)
    for done, source in enumerate(sources):
        report("sources", done, len(sources))
        with run.skip_on_error(source):
            _maintain_source(run, settings, source, stored.get(source, []), vectors.get(source, []))
    report("sources", len(sources), len(sources))
    with run.skip_on_error("index"):
        _maintain_index(run, settings)
    for name in schemas.LOGS if run.options.logs else ():
        with run.skip_on_error(f"log {name}"):
            _trim_log(run, name, datetime.now(UTC) - timedelta(days=settings.logs.keep_days))
    if run.options.leftovers:
        discard_leftovers(run, settings)


def _maintain_source(
    run: MaintenanceRun, settings: Settings, source: str, tables: list[Table], vectors: list[Table]
) -> None:
    """Look without the lock first, because most sources need nothing."""
    preview = MaintenanceRun(run.lake, replace(run.options, dry_run=True))
    _run_source_steps(preview, settings, source, tables, vectors)
    if run.options.dry_run:
        run.merge(preview)
    elif preview.report.has_changes:
        try:
            with run.lake.lock_source(source, timeout_s=0):
                _run_source_steps(run, settings, source, tables, vectors)
        except Busy:
            run.record_skip(source, "it is being refreshed")


def _run_source_steps(
    run: MaintenanceRun, settings: Settings, source: str, tables: list[Table], vectors: list[Table]
) -> None:
    # At their newest versions, because a refresh may have written since they were opened.
    tables = [Table(table.path, table.schema) for table in tables]
    vectors = [Table(table.path, table.schema) for table in vectors]
    configured = any(source == each.id for each in settings.sources)
    vectors = discard_unused_spaces(run, source, tables, vectors, configured=configured)
    chunks = [table for table in tables if table.path.parent.parent.name == "chunks" and table.exists]
    for table in [*tables, *vectors]:
        run.forget_old_versions(table)
    for table in vectors if run.options.collect_vectors and chunks else ():
        stored = table.read_rows(["text_key"])["text_key"]
        used = pa.concat_tables([each.read_rows(["text_key"]) for each in chunks])["text_key"]
        unused = exclude_keys(stored, used)
        if len(unused) > settings.checks.orphaned_share * len(stored):
            delete = partial(table.delete_keys_in_one_commit, unused)
            run.run_action("vectors", table.path, delete, removed_count=len(unused))
    for table in [*tables, *vectors]:
        run.compact_table(table)
        run.forget_old_versions(table)


def _maintain_index(run: MaintenanceRun, settings: Settings) -> None:
    """Releases, index tables and the code graph: tags first, because they decide which versions stay."""
    lake = run.lake
    with lake.lock_index():
        _trim_releases(run, keep=settings.releases.keep)
        tables = [lake.index(space, size) for space, size in lake.list_spaces().items()]
        graph = list(lake.graph_tables().values())
        steps = [(table, indexes.needs_maintenance, indexes.merge_segments) for table in tables]
        steps += [(table, indexes.needs_maintenance, indexes.maintain_indexes) for table in graph]
        for table, needs_maintenance, maintain in steps:
            run.forget_old_versions(table)
            run.compact_table(table)
            if run.options.indexes and needs_maintenance(table):
                run.run_action("indexes", table.path, partial(maintain, table))
        if not run.options.dry_run and (run.options.compact or run.options.indexes):
            run.report.release = publish_if_same_rows(lake, keep=settings.releases.keep)
        run.compact_table(lake.releases())
        for table in [*tables, *graph, lake.releases()]:
            run.forget_old_versions(table)


def _trim_releases(run: MaintenanceRun, *, keep: int) -> None:
    known = list_releases(run.lake)
    kept = select_kept_releases(known, keep)
    if len(kept) < len(known) or find_stray_tags(run.lake, kept):
        delete, path = partial(delete_old_releases, run.lake, keep=keep), run.lake.releases().path
        run.run_action("releases", path, delete, removed_count=len(known) - len(kept))
    named = {space for release in list_releases(run.lake) for space in release.tables}
    for space, size in run.lake.list_spaces().items():
        table = run.lake.index(space, size)
        if space not in named and table.count_rows() == 0:
            run.discard(table.path)


def _trim_log(run: MaintenanceRun, name: str, oldest: datetime) -> None:
    table, expired = run.lake.log_table(name), below("at", oldest)
    if not table.exists:
        return
    with lock_log(run.lake, name):
        run.forget_old_versions(table)
        if count := table.count_rows(expired):
            run.run_action("logs", table.path, lambda: table.delete_where(expired), removed_count=count)
        run.compact_table(table)
        run.forget_old_versions(table)
