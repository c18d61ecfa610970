"""Maintenance: the store stays small and fast, and says the same as before.

It never changes what should exist, only how it lies on disk, so it may be killed at any
moment and repeated at will. Each step is one commit, or the renaming of a folder, under the
lock of what it touches; a source that is being refreshed is left for the next time. Which
vectors are collected, and when versions go: docs/decisions/0009-maintenance.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.maintenance.garbage_collection import forgotten_spaces, leftovers
from knowledge_pipeline.maintenance.work import Maintained, Upkeep, Work
from knowledge_pipeline.stages.context import Report, silent
from knowledge_pipeline.store import indexes, logs, schemas
from knowledge_pipeline.store.code_graph import indexes as graph_indexes
from knowledge_pipeline.store.filters import below
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.locks import lock
from knowledge_pipeline.store.reconcile import without
from knowledge_pipeline.store.release import forget, publish_same, releases, stray_tags
from knowledge_pipeline.store.table_files import vector_tables
from knowledge_pipeline.store.tables import Table


def refresh(
    lake: Lake, settings: Settings, *, asked: Upkeep | None = None, report: Report = silent
) -> Maintained:
    """Collect what nobody needs, and rewrite the tables that are scattered.

    Only tables that need it are opened for writing: a second maintenance does next to nothing.

    Args:
        lake: the store.
        settings: how many releases and log entries are kept, which unused share of vectors is
            tolerated (`checks.orphaned_share`), and which repositories are still read.
        asked: what to do; by default everything.
        report: told of sources done.

    Raises:
        Busy: another maintenance is at work.
    """
    work, started = Work(lake, asked or Upkeep()), time.perf_counter()
    if lake.root.is_dir():
        with lock(lake.root / "locks", "maintenance", timeout_s=0, about="the maintenance of this store"):
            _maintain(work, settings, report)
    work.maintained.seconds = round(time.perf_counter() - started, 3)
    return work.maintained


def _maintain(work: Work, settings: Settings, report: Report) -> None:
    vectors, stored = vector_tables(work.lake), _stored_tables(work.lake)
    sources = sorted(vectors.keys() | stored.keys())
    work.maintained.sources = len(sources)
    for done, source in enumerate(sources):
        report("sources", done, len(sources))
        with work.sparing(source):
            _source(work, settings, source, stored.get(source, []), vectors.get(source, []))
    report("sources", len(sources), len(sources))
    with work.sparing("index"):
        _index(work, settings)
    for name in schemas.LOGS if work.asked.logs else ():
        with work.sparing(f"log {name}"):
            _log(work, name, datetime.now(UTC) - timedelta(days=settings.logs.keep_days))
    if work.asked.leftovers:
        leftovers(work, settings)


def _stored_tables(lake: Lake) -> dict[str, list[Table]]:
    """Snapshots, chunks and facts by source; of every type that a source ever was."""
    found: dict[str, list[Table]] = {}
    opening = {"snapshot": lake.snapshot, "chunks": lake.chunks, "facts": lake.facts}
    for stage, open_table in opening.items():
        for path in sorted((lake.root / stage).glob("*/*.lance")):
            found.setdefault(path.stem, []).append(open_table(path.parent.name, path.stem))
    return found


def _source(work: Work, settings: Settings, source: str, stored: list[Table], vectors: list[Table]) -> None:
    """Look without the lock, because most sources need nothing, then do it with the lock."""
    looking = Work(work.lake, replace(work.asked, dry_run=True))
    _source_steps(looking, settings, source, stored, vectors)
    if work.asked.dry_run:
        work.take(looking)
    elif looking.maintained.touched:
        try:
            with work.lake.source_lock(source, timeout_s=0):
                _source_steps(work, settings, source, stored, vectors)
        except Busy:
            work.skip(source, "it is being refreshed")


def _source_steps(
    work: Work, settings: Settings, source: str, stored: list[Table], vectors: list[Table]
) -> None:
    stored, vectors = _anew(stored), _anew(vectors)
    configured = any(source == each.id for each in settings.sources)
    vectors = forgotten_spaces(work, source, stored, vectors, configured=configured)
    chunks = [table for table in stored if table.path.parent.parent.name == "chunks" and table.exists]
    for table in [*stored, *vectors]:
        work.forget(table)
    for table in vectors if work.asked.collect_vectors and chunks else ():
        _collect(work, table, chunks, tolerated=settings.checks.orphaned_share)
    for table in [*stored, *vectors]:
        work.compact(table)
        work.forget(table)


def _anew(tables: Iterable[Table]) -> list[Table]:
    """The tables at their newest versions, because a refresh may have gone on since they were opened."""
    return [Table(table.path, table.schema) for table in tables]


def _collect(work: Work, vectors: Table, chunks: Iterable[Table], *, tolerated: float) -> None:
    """Delete all vectors that no chunk of the source uses, once they are more than the tolerated share."""
    held = vectors.rows(["text_key"])["text_key"]
    used = pa.concat_tables([table.rows(["text_key"]) for table in chunks])["text_key"]
    unused = without(held, used)
    if len(unused) > tolerated * len(held):
        delete = lambda: vectors.delete_at_once(unused)  # noqa: E731
        work.do("vectors", vectors.path, delete, removes=len(unused))


def _index(work: Work, settings: Settings) -> None:
    """Releases, index tables and the code graph: tags first, because they decide which versions stay."""
    with work.lake.index_lock():
        _releases(work, keep=settings.releases.keep)
        tables = [work.lake.index(space, size) for space, size in work.lake.spaces().items()]
        for table in tables:
            work.forget(table)
            work.compact(table)
            if work.asked.indexes and indexes.wanting(table):
                work.do("indexes", table.path, lambda table=table: indexes.unite(table))
        graph = list(work.lake.graphs().values())
        for table in graph:
            work.forget(table)
            work.compact(table)
            if work.asked.indexes and graph_indexes.wanting(table):
                work.do("indexes", table.path, lambda table=table: graph_indexes.maintain(table))
        if not work.asked.dry_run and (work.asked.compact or work.asked.indexes):
            work.maintained.release = publish_same(work.lake, keep=settings.releases.keep)
        work.compact(work.lake.releases())
        for table in [*tables, *graph, work.lake.releases()]:
            work.forget(table)


def _releases(work: Work, *, keep: int) -> None:
    known = [release.release for release in releases(work.lake)]
    old, stray = known[:-keep], stray_tags(work.lake, known[-keep:])
    if old or stray:
        table = work.lake.releases()
        work.do("releases", table.path, lambda: forget(work.lake, keep=keep), removes=len(old))
    named = {space for release in releases(work.lake) for space in release.tables}
    for space, size in work.lake.spaces().items():
        table = work.lake.index(space, size)
        if space not in named and table.count() == 0:
            work.discard(table.path)


def _log(work: Work, name: str, oldest: datetime) -> None:
    table, expired = work.lake.log(name), below("at", oldest)
    if not table.exists:
        return
    with logs.log_lock(work.lake, name):
        work.forget(table)
        if count := table.count(expired):
            work.do("logs", table.path, lambda: table.delete_where(expired), removes=count)
        work.compact(table)
        work.forget(table)
