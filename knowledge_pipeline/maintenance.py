"""Maintenance: keeps the store small and fast, without changing what it says. Purge: erases for good.

Maintenance changes only how data is stored, so it may be killed at any moment and repeated at will. Each step
is one commit, or the renaming of a folder, under the lock of what it touches; it skips a source that is being
refreshed. What it removes can be made again and has not been used for a while, so that a reverted edit or a
slow process loses nothing. docs/decisions/store.md says which vectors and versions it deletes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from knowledge_pipeline.config.connections import ArchiveFileConnection, GitConnection, LocalConnection
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.archive_file import ARCHIVE_LISTINGS, build_listing_name
from knowledge_pipeline.connectors.git.checkout import CHECKOUTS, name_checkout
from knowledge_pipeline.connectors.git.command import build_remote, find_repository
from knowledge_pipeline.connectors.git.mirror import Mirror
from knowledge_pipeline.errors import Busy, ConfigError, KnowledgeError, NotFound
from knowledge_pipeline.freshness import FOLDER as FRESHNESS
from knowledge_pipeline.pushed import PushInbox
from knowledge_pipeline.records import is_variant_uri
from knowledge_pipeline.stages import verify
from knowledge_pipeline.stages.overlay import discard_overlay, list_unused_overlays
from knowledge_pipeline.stages.pipeline import select_stages
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.store import indexes, schemas
from knowledge_pipeline.store.access import lock_permissions
from knowledge_pipeline.store.damage import LANCE_ERRORS
from knowledge_pipeline.store.filters import Filter, below, eq, is_null, one_of
from knowledge_pipeline.store.indexes import (
    count_versions_in_use,
    discard_path,
    has_unfinished_writes,
    last_write_time,
    list_half_discarded,
    list_vector_tables,
    may_need_compaction,
    newest_version_time,
)
from knowledge_pipeline.store.lake import Lake, lock_log
from knowledge_pipeline.store.lance_storage import StorePath, compute_size, remove_path
from knowledge_pipeline.store.local_state import ANSWERS, SharedState
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.migrate import commit_migration
from knowledge_pipeline.store.reconcile import exclude_keys
from knowledge_pipeline.store.release import (
    Release,
    delete_old_releases,
    find_live_release,
    find_stray_tags,
    list_releases,
    publish_if_same_rows,
    publish_release,
    restore_released_rows,
    select_kept_releases,
)
from knowledge_pipeline.store.search import SourceLocation, write_location
from knowledge_pipeline.store.tables import Table, split_batches

Action = Literal["repairs", "vectors", "compaction", "indexes", "releases", "versions", "logs", "leftovers"]
GRACE_S = 600.0
"""After so long, nobody reads an out-of-date version any more."""
UNFINISHED_GRACE_S = 6 * 3600.0
"""In an object store, after so long without a write no paused writer has files that no version names."""


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """What a maintenance does; by default everything."""

    collect_vectors: bool = True
    compact: bool = True
    indexes: bool = True
    versions: bool = True
    logs: bool = True
    leftovers: bool = True
    grace_s: float = GRACE_S  # how long a version stays after another one took its place
    dry_run: bool = False  # only report what would be done
    repair: bool = False  # first read everything, and leave out what is damaged


@dataclass(slots=True)
class ActionResult:
    """What one action did."""

    action: Action
    touched: list[str] = field(default_factory=list[str])  # paths within the store, in order
    removed: int = 0  # vectors, log entries, releases or versions
    bytes_before: int = 0  # of the touched paths
    bytes_after: int = 0
    seconds: float = 0.0

    @property
    def touched_count(self) -> int:
        """How many tables, or other things, were touched."""
        return len(self.touched)

    def add(self, other: ActionResult) -> None:
        """Count what was done besides."""
        self.touched += other.touched
        self.removed += other.removed
        self.bytes_before += other.bytes_before
        self.bytes_after += other.bytes_after
        self.seconds += other.seconds

    def to_row(self) -> dict[str, Any]:
        """Plain values, without the paths."""
        sizes = {"bytes_before": self.bytes_before, "bytes_after": self.bytes_after}
        counts = {"action": self.action, "tables": self.touched_count, "removed": self.removed}
        return counts | sizes | {"seconds": round(self.seconds, 3)}


@dataclass(slots=True)
class MaintenanceReport:
    """What a maintenance did, or would do."""

    dry_run: bool = False
    sources: int = 0  # looked at
    actions: dict[Action, ActionResult] = field(default_factory=dict[Action, ActionResult])
    skipped: dict[str, str] = field(default_factory=dict[str, str])  # source or table -> reason
    release: Release | None = None  # of the same rows, because the index was rewritten
    seconds: float = 0.0

    @property
    def freed_bytes(self) -> int:
        """Bytes saved; negative while old versions of rewritten tables are kept."""
        return sum(done.bytes_before - done.bytes_after for done in self.actions.values())

    @property
    def has_changes(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.actions)

    def as_metadata(self) -> dict[str, Any]:
        """Plain values for logs, JSON and Dagster metadata."""
        return {
            "dry_run": self.dry_run,
            "sources": self.sources,
            "actions": [{**done.to_row(), "touched": done.touched} for done in self.actions.values()],
            "skipped": dict(self.skipped),
            "release": self.release.release if self.release else None,
            "freed": self.freed_bytes,
            "seconds": self.seconds,
        }


class MaintenanceRun:
    """Does, measures and records actions, or only records them in a dry run."""

    def __init__(self, lake: Lake, options: MaintenanceOptions) -> None:
        self.lake, self.options = lake, options
        self.report = MaintenanceReport(dry_run=options.dry_run)

    def run_action(
        self, action: Action, path: StorePath, run: Callable[[], object], *, removed_count: int = 0
    ) -> None:
        """Do one action on a table, folder or file of the store."""
        before, started = compute_size(path), time.perf_counter()
        if not self.options.dry_run:
            run()
        done = self.report.actions.setdefault(action, ActionResult(action))
        name = self.lake.relative_name(path)
        if self.options.dry_run and name in done.touched:
            return  # recorded by the first look
        after = before if self.options.dry_run else compute_size(path)
        done.add(ActionResult(action, [name], removed_count, before, after, time.perf_counter() - started))

    @contextmanager
    def skip_on_error(self, name: str) -> Generator[None]:
        """Record an error of one source or table, and go on with the rest."""
        try:
            yield
        except (KnowledgeError, *LANCE_ERRORS) as error:
            message = str(error) or type(error).__name__
            self.record_skip(name, message.splitlines()[0][:500])

    def discard(self, path: StorePath) -> None:
        """Remove a whole table, folder or file."""
        self.run_action("leftovers", path, lambda: discard_path(self.lake, path))

    def merge(self, other: MaintenanceRun) -> None:
        """Take over what another one recorded."""
        for action, done in other.report.actions.items():
            self.report.actions.setdefault(action, ActionResult(action)).add(done)
        self.report.skipped.update(other.report.skipped)

    def record_skip(self, name: str, reason: object) -> None:
        """Record what was not done."""
        self.report.skipped[name] = str(reason)

    def compact_table(self, table: Table) -> None:
        """Merge the fragments of a table that needs it."""
        if self.options.compact and table.exists and may_need_compaction(table) and table.needs_compaction:
            self.run_action("compaction", table.path, table.merge_fragments)

    def forget_old_versions(self, table: Table) -> None:
        """Delete versions that nobody reads; where nobody writes the table meanwhile, unfinished ones too.

        A lease does not exclude a writer that was paused, as a lock on a file does: it may go on any time.
        """
        if not (self.options.versions and table.exists):
            return
        keep = count_versions_in_use(table, time.time() - self.options.grace_s)
        old = table.count_old_versions(keep=keep)
        is_idle = self.lake.is_local or last_write_time(table.path) < time.time() - UNFINISHED_GRACE_S
        unfinished = is_idle and has_unfinished_writes(table)
        if old or unfinished:
            forget = lambda: table.delete_old_versions(keep=keep, delete_unfinished=is_idle)  # noqa: E731
            self.run_action("versions", table.path, forget, removed_count=old)


SPACE_RETENTION_S = 7 * 86_400.0  # of the vectors of a former model
FILE_RETENTION_S = 86_400.0  # of mirrors and unfinished files
OVERLAY_RETENTION_S = 7 * 86_400.0  # of working trees that nobody asks from: they keep former files of tables


def discard_unused_spaces(
    run: MaintenanceRun,
    source: str,
    source_tables: Sequence[Table],
    vector_tables: Sequence[Table],
    *,
    configured: bool,
) -> list[Table]:
    """Discard the vectors of spaces that a source no longer uses, and return the other ones.

    A source no longer uses a space when for a week all its rows in the index have been in other spaces. A
    source that is neither configured nor stored uses none.
    """
    if not run.options.leftovers or not vector_tables:
        return list(vector_tables)
    unused = {table.path.parent.name for table in vector_tables}
    if source_tables or configured:
        spaces = run.lake.list_spaces() if len(vector_tables) > 1 else {}
        present = {
            space
            for space, dimensions in spaces.items()
            if run.lake.index(space, dimensions).count_rows(eq("source", source))
        }
        unused = unused - present if present else set[str]()
    kept: list[Table] = []
    for table in vector_tables:
        if table.path.parent.name in unused and newest_version_time(table) < time.time() - SPACE_RETENTION_S:
            run.discard(table.path)
        else:
            kept.append(table)
    return kept


def discard_leftovers(run: MaintenanceRun, settings: Settings) -> None:
    """Discard mirrors and listings of archives that no source reads, and what killed processes left."""
    unfinished = sorted((run.lake.folder / "marts").glob("*.unfinished"))
    for path in [*list_half_discarded(run.lake), *filter(_is_unused, unfinished)]:
        with run.skip_on_error(path.name):
            run.discard(path)
    with run.skip_on_error("mirrors"):
        folder = run.lake.cache / "mirrors"
        git = [(it.id, it.connection) for it in settings.sources if isinstance(it.connection, GitConnection)]
        used: set[str] = set()
        for id_, connection in git if folder.is_dir() else ():
            if "${" in connection.url:
                raise ConfigError(
                    f"the url of source {id_!r} names a variable that is not set, so it is unknown "
                    "which mirrors are still used: set it"
                )
            used.add(Mirror(build_remote(connection), run.lake.cache).folder.name)
        for path in sorted(folder.glob("*")):
            name = path.name.partition(".")[0]
            if path.is_dir() and name not in used and _is_unused(path):
                with suppress(Busy), acquire_lock(folder, name, timeout_s=0):  # the lock of `Mirror.update`
                    run.discard(path)

    with run.skip_on_error("overlays of working trees"):
        for path in list_unused_overlays(run.lake, max_age_s=OVERLAY_RETENTION_S):
            run.run_action("leftovers", path, partial(discard_overlay, run.lake, path))

    with run.skip_on_error("last commits of checkouts"):
        folders = [
            it.connection.path for it in settings.sources if isinstance(it.connection, LocalConnection)
        ]
        repositories = filter(None, map(find_repository, folders))
        in_use = {name_checkout(repository) for repository, _ in repositories}
        for path in sorted((run.lake.cache / CHECKOUTS).glob("*")):
            if path.name not in in_use and _is_unused(path):
                run.discard(path)

    with run.skip_on_error("listings of archives"):
        connections = [it.connection for it in settings.sources]
        read = {build_listing_name(it) for it in connections if isinstance(it, ArchiveFileConnection)}
        for path in sorted((run.lake.cache / ARCHIVE_LISTINGS).glob("*")):
            if path.name not in read and _is_unused(path):
                run.discard(path)


def _is_unused(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return last_write_time(path) < time.time() - FILE_RETENTION_S
    return False


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

    Raises `Busy`: another maintenance is running.
    """
    work, started = MaintenanceRun(lake, options or MaintenanceOptions()), time.perf_counter()
    if lake.root.is_dir():
        locks, description = lake.root / "locks", "the maintenance of this store"
        with acquire_lock(locks, "maintenance", timeout_s=0, description=description):
            _run_maintenance(work, settings, report)
    work.report.seconds = round(time.perf_counter() - started, 3)
    return work.report


def _repair_tables(run: MaintenanceRun, report: ProgressCallback) -> None:
    """Build damaged indexes anew, and leave out rows that cannot be read or are wrong."""
    lake = run.lake
    for finding in verify.list_repairs(verify.verify(lake, report)):
        mend = partial(verify.repair, lake, finding)
        with run.skip_on_error(finding.table), verify.lock(lake, finding):
            run.run_action("repairs", verify.locate(lake, finding), mend, removed_count=len(finding.keys))


def _run_maintenance(run: MaintenanceRun, settings: Settings, report: ProgressCallback) -> None:
    if run.options.repair:
        _repair_tables(run, report)
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
            permissions = lock_permissions(run.lake, source, timeout_s=0)
            with run.lake.lock_source(source, timeout_s=0), permissions:
                _run_source_steps(run, settings, source, tables, vectors)
        except Busy:
            run.record_skip(source, "it is being refreshed")


def _run_source_steps(
    run: MaintenanceRun, settings: Settings, source: str, tables: list[Table], vectors: list[Table]
) -> None:
    # At their newest versions, because a refresh may have written since they were opened.
    tables = [Table(table.path, table.schema, files=table.files) for table in tables]
    vectors = [Table(table.path, table.schema, files=table.files) for table in vectors]
    configured = any(source == source_config.id for source_config in settings.sources)
    vectors = discard_unused_spaces(run, source, tables, vectors, configured=configured)
    chunks = [table for table in tables if table.path.parent.parent.name == "chunks" and table.exists]
    for table in [*tables, *vectors]:
        run.forget_old_versions(table)
    for table in vectors if run.options.collect_vectors and chunks else ():
        stored = table.read_rows(["text_key"])["text_key"]
        used = pa.concat_tables([chunk.read_rows(["text_key"]) for chunk in chunks])["text_key"]
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
        tables, graph = _list_index_tables(lake), list(lake.graph_tables().values())
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
    releases = list_releases(run.lake)
    kept = select_kept_releases(releases, keep)
    if len(kept) < len(releases) or find_stray_tags(run.lake, kept):
        delete, path = partial(delete_old_releases, run.lake, keep=keep), run.lake.releases().path
        run.run_action("releases", path, delete, removed_count=len(releases) - len(kept))
    released_spaces = {space for release in list_releases(run.lake) for space in release.tables}
    for space, size in run.lake.list_spaces().items():
        table = run.lake.index(space, size)
        if space not in released_spaces and table.count_rows() == 0:
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


_STAGES = ("facts", "audiences", "chunks", "snapshot")  # the snapshot last: it says that the source is stored


def _discard_overlays(lake: Lake) -> None:
    """Remove all: they have files of the tables, and whoever asks makes them again."""
    for folder in list_unused_overlays(lake, max_age_s=0.0):
        discard_overlay(lake, folder)


def purge_source(lake: Lake, settings: Settings, source: str) -> int:
    """Erase everything of one source, configured or not, and return its number of documents.

    It goes from every table, every kept version and every index. Earlier releases go too, because they hold
    what is to be erased. The rows of the live release are made the newest first: what stays live, and pinned
    if it was, is its content without what is erased, and nothing that no check has seen. What refreshes wrote
    since is indexed again by the next one, from the chunks. A migration becomes final, because its way back
    is made of earlier versions.

    Raises:
        NotFound: nothing of such a source is stored.
        Busy: it is being refreshed.
    """
    PushInbox(lake.folder).erase(source)
    source_type = _find_stored_type(lake, source)
    commit_migration(lake)
    _discard_overlays(lake)
    with lake.lock_source(source), lock_permissions(lake, source), lake.lock_index():
        documents = lake.snapshot(source_type, source).count_rows()
        restore_released_rows(lake)
        _erase_location([*_list_index_tables(lake), *lake.graph_tables().values()], source)
        _erase_shared_rows(lake, settings, [eq("source", source)])
        for folder in (lake.root / "embeddings").glob(f"*/{source}.lance"):
            remove_path(folder)
        for stage in _STAGES:
            remove_path(lake.root / stage / source_type / f"{source}.lance")
        (lake.cache / "permissions.json").unlink(missing_ok=True)  # what its service answered
        remove_path(lake.root / FRESHNESS / f"{source}.json")
    return documents


def purge_former_types(lake: Lake, settings: Settings, source: str) -> int:
    """Erase what is left of the former types of a source, and return the number of documents.

    Its rows in the index are those of its present type, and stay.

    Raises:
        NotFound: there is no such source.
        Busy: it is being refreshed.
    """
    (source_config,) = settings.select_sources([source])
    documents = 0
    commit_migration(lake)
    _discard_overlays(lake)
    with lake.lock_source(source):
        former_types = [former for former in lake.list_stored_types(source) if former != source_config.type]
        graph, mine = list(lake.graph_tables().values()), eq("source", source)
        has_graph = any(table.count_rows(mine) for table in graph)
        if former_types and "graph" not in select_stages(source_config.type) and has_graph:
            with lake.lock_index():
                restore_released_rows(lake)
                _erase_location(graph, source)
                _delete_indexed_rows(graph, [mine])
                _drop_old_releases(lake, settings, graph)
        for former in former_types:
            documents += lake.snapshot(former, source).count_rows()
            for stage in _STAGES:
                remove_path(lake.root / stage / former / f"{source}.lance")
    return documents


def purge_documents(lake: Lake, settings: Settings, source: str, *, uri: str | None = None) -> int:
    """Erase one document of a source, or all its archived ones, and return their number.

    A document that the source still has comes back with the next refresh, unless it is excluded there.

    Raises:
        NotFound: no such source or document is stored.
        Busy: the source is being refreshed.
    """
    if uri is not None:
        PushInbox(lake.folder).erase(source, uri)
    source_type = _find_stored_type(lake, source)
    commit_migration(lake)
    _discard_overlays(lake)
    with lake.lock_source(source), lake.lock_index():
        snapshot, chunks = lake.snapshot(source_type, source), lake.chunks(source_type, source)
        uris = select_documents(snapshot, uri)
        if not uris and uri is not None:
            raise NotFound(f"source {source!r} holds no document {uri!r}")
        filters = [one_of("uri", batch) for batch in split_batches(uris)]
        if uris:
            restore_released_rows(lake)
            _detach_graph_edges(lake, source_type, source, filters)
            _erase_shared_rows(lake, settings, [eq("source", source) & where for where in filters])
            erase_rows(lake.facts(source_type, source), filters)
            erase_rows(chunks, filters)
            used = set(chunks.read_rows(["text_key"]).to_pydict()["text_key"])
            for space, dimensions in lake.list_spaces().items():
                vectors = lake.embeddings(space, source, dimensions)
                stored = vectors.read_rows(["text_key"]).to_pydict()["text_key"]
                unused = split_batches(key for key in stored if key not in used)
                erase_rows(vectors, [one_of("text_key", batch) for batch in unused])
            erase_rows(snapshot, filters)
    return len(uris)


def select_documents(snapshot: Table, uri: str | None) -> list[str]:
    """The document of a uri, if it is stored; without one, all that are archived."""
    selected = eq("uri", uri) if uri is not None else ~is_null("archived_at")
    uris: list[str] = snapshot.read_rows(["uri"], selected).to_pydict()["uri"]
    return [it for it in uris if uri is not None or not is_variant_uri(it)]  # which branches still have


def _find_stored_type(lake: Lake, source: str) -> str:
    stored = lake.list_stored_sources()
    if source not in stored:
        raise NotFound(f"nothing of a source {source!r} is stored; stored: {', '.join(stored) or 'none'}")
    return stored[source]


def _erase_shared_rows(lake: Lake, settings: Settings, filters: list[Filter]) -> None:
    tables = [*_list_index_tables(lake), *lake.graph_tables().values()]
    _delete_indexed_rows(tables, filters)
    _drop_old_releases(lake, settings, tables)
    with SharedState(lake.folder) as state:
        state.erase(ANSWERS)


def _list_index_tables(lake: Lake) -> list[Table]:
    return [lake.index(space, dimensions) for space, dimensions in lake.list_spaces().items()]


def _erase_location(tables: Iterable[Table], source: str) -> None:
    for table in tables:
        write_location(table, source, SourceLocation())


def _detach_graph_edges(lake: Lake, source_type: str, source: str, filters: list[Filter]) -> None:
    """Delete the edges that lead into some documents, and let the next refresh resolve the others again."""
    mine, facts = eq("source", source), lake.facts(source_type, source)
    for where in filters if lake.graph_tables() else ():
        paths = facts.read_rows(["path"], where).to_pydict()["path"]
        lake.graph_table("edges").delete_where(mine & one_of("target_path", paths))
    if lake.graph_tables():
        lake.graph_table("symbols").update_where(mine & eq("kind", "file"), made_of="", fingerprint="")


def _delete_indexed_rows(tables: Iterable[Table], filters: list[Filter]) -> None:
    for table in tables:
        _delete_rows(table, filters)
        indexes.rebuild_indexes(table)


def _delete_rows(table: Table, filters: list[Filter]) -> None:
    for where in filters:
        table.delete_where(where)
    table.purge_deleted_rows()


def _drop_old_releases(lake: Lake, settings: Settings, tables: list[Table]) -> None:
    if live := find_live_release(lake):
        publish_release(lake, keep=settings.releases.keep, pinned_since=live.pinned_since)
        delete_old_releases(lake, keep=1)
    for table in tables:
        table.delete_old_versions(keep=1)


def erase_rows(table: Table, filters: list[Filter]) -> None:
    """Delete rows from a table and from the versions that it had."""
    if table.exists:
        _delete_rows(table, filters)
        table.delete_old_versions(keep=1)
