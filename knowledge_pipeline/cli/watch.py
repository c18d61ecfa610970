"""`watch`: refresh local folders and remote repositories as they change."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer import Option

from knowledge_pipeline.cli.exit_codes import FAILED, format_error, print_error
from knowledge_pipeline.cli.overlay import find_tree
from knowledge_pipeline.cli.progress import show_progress
from knowledge_pipeline.cli.screen import format_count
from knowledge_pipeline.cli.session import Session, Sources, example
from knowledge_pipeline.config.connections import GitConnection
from knowledge_pipeline.errors import ConfigError, KnowledgeError, SourceRefused, TransientError
from knowledge_pipeline.freshness import WRITTEN_S, write_looks
from knowledge_pipeline.stages.upkeep import PostponedUpkeep
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.progress import (
    PublishedHeartbeat,
    WatcherReport,
    create_heartbeat,
    list_watchers,
)

if TYPE_CHECKING:
    from knowledge_pipeline.cli.progress import ReportFactory
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.config.sources import SourceConfig
    from knowledge_pipeline.stages.context import RefreshOutcome
    from knowledge_pipeline.stages.overlay import SourceTree
    from knowledge_pipeline.stages.permissions import PermissionsRead
    from knowledge_pipeline.stages.pipeline import IdleSources
    from knowledge_pipeline.stages.progress import ProgressCallback


WATCHED_TRIGGERS = frozenset({"realtime", "on_commit"})
"""Triggers of the sources that are watched if none is named."""


UPKEEP_AFTER_S = 3.0
"""After so long without a change, the tables that refreshes wrote are compacted."""

RETRY_S = 30.0
"""After how long a temporary failure is tried again, even without a change."""

_POLL_INTERVAL_S = 0.4  # between two checks of what raises no event: knowledge.yaml, missing folders
_SAVE_SETTLED_S = 0.15  # without a further change, a save is complete

_COUNT_FIELDS = ("added", "changed", "removed")
_FILE, _REFRESH, _RELEASE, _UPKEEP = "knowledge.yaml", "refresh", "release", "upkeep"
"""Subjects of errors besides sources."""


@example("""
    knowledge watch
    knowledge watch --source flask-code --source flask-docs
    knowledge watch --all --json
    knowledge watch --status
""")
def watch(
    session: Session,
    source: Sources = None,
    everything: Annotated[
        bool, Option("--all", help="Watch all sources, whatever their refresh.trigger.")
    ] = False,
    debounce: Annotated[
        float, Option(min=0.05, max=60, metavar="SECONDS", help="Collect successive changes for this long.")
    ] = 1.0,
    poll: Annotated[
        float, Option(min=1, metavar="SECONDS", help="How often to check remote git repositories.")
    ] = 30.0,
    permissions: Annotated[
        float, Option(min=1, metavar="SECONDS", help="How often to read permissions alone.")
    ] = 300.0,
    status: Annotated[
        bool,
        Option(
            "--status",
            help="Show how the watchers of the store are, and end; exit code 1 unless all are healthy.",
        ),
    ] = False,
) -> None:
    """Refresh sources as their files change, until Ctrl-C.

    Watches the sources whose refresh.trigger is realtime or on_commit. Each refresh is
    released at once and reported in one line, or with --json in one JSON object per line.
    If a source fails, reports it in one sentence and keeps watching. Edits of
    knowledge.yaml apply as soon as they are saved. In a further git worktree it watches that
    one, and keeps what questions see from there up to date.

    Whatever their refresh.trigger, the permissions of sources with access.visibility
    from_source are read every five minutes.
    """
    if status:
        _show_watchers(session)
        return
    watched = WatchedSources(session.config_path, source or (), everything=everything)
    Watcher(session, watched, poll_s=poll, permissions_s=permissions).run(debounce_s=debounce)


class Watcher:
    """Refreshes what changes, and reports it."""

    def __init__(
        self, session: Session, watched: WatchedSources, *, poll_s: float, permissions_s: float = 300.0
    ) -> None:
        self._session, self._watched = session, watched
        self._poller = RemotePoller(watched.sources, interval_s=poll_s, lake=watched.lake)
        self._permissions: queue.SimpleQueue[PermissionsRead] = queue.SimpleQueue()
        arguments = watched, permissions_s, self._permissions
        threading.Thread(target=read_permissions_forever, args=arguments, daemon=True).start()
        self._retries: dict[str, float] = {}  # source -> when, on the monotonic clock
        self._last_errors: dict[str, str] = {}  # source -> its last error, reported once
        self._failed: set[str] = set()  # sources whose last refresh failed
        self._upkeep = PostponedUpkeep()
        self._beat = PublishedHeartbeat(watched.lake.folder, create_heartbeat())
        self._refreshed_at = self._recorded_at = 0.0

    def run(self, *, debounce_s: float) -> NoReturn:
        """Keep refreshing until interrupted."""
        try:
            self._watch(debounce_s)
        finally:
            self._beat.remove()
        raise AssertionError("watching never ends by itself")

    def _watch(self, debounce_s: float) -> None:
        is_ready = False
        for changed in self._watched.iter_changes(debounce_s=debounce_s):
            if changed is None:
                due = {source.id for source in self._watched.sources}
            else:
                due = self._watched.find_affected_sources(changed)
                for source, error in self._poller.drain_changes().items():
                    if error is None:
                        due.add(source)
                    else:
                        self._report_error(source, error)
                due |= self.list_due_retries() | self._list_moved()
            if due:
                self.refresh_sources(due)
                self._refreshed_at = time.monotonic()
            elif self._upkeep.is_due and time.monotonic() > self._refreshed_at + UPKEEP_AFTER_S:
                self._run_upkeep()
            elif time.monotonic() > self._recorded_at + WRITTEN_S:
                self._record_unchanged_folders()
            if not is_ready:
                is_ready = True
                self._warm_up()
            try:
                if self._watched.reload_if_edited():
                    self._session.screen.print_note("knowledge.yaml changed")
                    self._poller.set_sources(self._watched.sources)
                    self._last_errors.pop(_FILE, None)
            except KnowledgeError as error:
                self._report_error(_FILE, error)
            self._renew_heartbeat()

    def _renew_heartbeat(self) -> None:
        beat, folders = self._beat.heartbeat, len(set(self._watched.folders.values()))
        repositories = len(self._poller.sources)
        was = beat.state, beat.behind, beat.waits_for
        beat.state, beat.refreshing, beat.sources = "waiting", (), len(self._watched.sources)
        beat.behind = tuple(source.id for source in self._watched.sources if source.id in self._failed)
        places = ((folders, "folder"), (repositories, "remote repository source"))
        parts = [format_count(count, name) for count, name in places if count]
        beat.waits_for = f"changes of {' and '.join(parts) or 'nothing'}"
        beat.poll_s = self._poller.interval_s if repositories else None
        beat.polled_at = self._poller.polled_at
        self._beat.renew()
        if was != (beat.state, beat.behind, beat.waits_for):
            self._beat.write()

    def _record_unchanged_folders(self) -> None:
        """Say of the folders what a look at a repository says: they are as they were indexed."""
        self._recorded_at = time.monotonic()
        write_looks(self._watched.lake, dict.fromkeys(self._watched.folders.keys() - self._failed))

    def list_due_retries(self) -> set[str]:
        """Sources whose last refresh failed in a way that may pass, and whose time has come."""
        return {source for source, at in self._retries.items() if at <= time.monotonic()}

    def _list_moved(self) -> set[str]:
        """Sources with documents that have other readers; failures to read permissions are reported."""
        moved = set[str]()
        while not self._permissions.empty():
            result = self._permissions.get()
            subject = f"{result.source.id} (permissions)"
            if result.error:
                self._report_error(subject, result.error)
                continue
            self._last_errors.pop(subject, None)
            if result.can_refresh(self._watched.lake):
                moved.add(result.source.id)
        return moved

    def refresh_sources(self, ids: Set[str]) -> None:
        """Refresh and release; reports every failure, and raises none."""
        watched = self._watched
        sources = [source for source in watched.settings.sources if source.id in ids]
        beat = self._beat.heartbeat
        beat.state, beat.refreshing = "refreshing", tuple(sorted(ids))
        beat.behind = tuple(sorted({*beat.behind, *ids}))
        self._beat.renew()
        self._beat.write()
        try:
            with show_progress(self._session.screen) as report_for:
                outcome = watched.refresh(
                    sources, lambda source: self._beat_with(report_for(source)), self._upkeep
                )
        except Exception as error:  # noqa: BLE001 - a full disk, a bug: neither ends the watch
            self._report_error(_REFRESH, TransientError(format_error(error)))
            self._retries |= dict.fromkeys(ids, time.monotonic() + RETRY_S)
            self._failed |= ids
            return
        self._last_errors.pop(_REFRESH, None)
        self._failed = (self._failed - ids) | (ids & outcome.failures.keys())
        for subject in [*(source.id for source in sources), _RELEASE]:
            self._retries.pop(subject, None)
            error = outcome.failures.get(subject)
            if error is not None:
                if isinstance(error, TransientError) and subject != _RELEASE:
                    self._retries[subject] = time.monotonic() + RETRY_S
                self._report_error(subject, error)
                continue
            self._last_errors.pop(subject, None)
            if subject != _RELEASE:
                self._report_refresh(subject, outcome)

    def _beat_with(self, report: ProgressCallback) -> ProgressCallback:
        """A report that also says that this watcher does not hang."""

        def report_progress(stage: str, done: int, total: int | None, share: float | None = None, /) -> None:
            self._beat.renew()
            report(stage, done, total, share)

        return report_progress

    def _run_upkeep(self) -> None:
        try:
            self._upkeep.run(self._watched.lake, keep_releases=self._watched.settings.releases.keep)
        except Exception as error:  # noqa: BLE001 - a full disk, a bug: neither ends the watch
            self._refreshed_at = time.monotonic() + RETRY_S
            self._report_error(_UPKEEP, TransientError(format_error(error)))

    def _report_refresh(self, source: str, outcome: RefreshOutcome) -> None:
        if not (stages := [stats for stats in outcome.stats if stats.source == source]):
            return
        counts = {name: getattr(stages[0], name) for name in _COUNT_FIELDS}
        seconds = round(sum(stats.seconds for stats in stages), 2)
        release = outcome.release.version if outcome.release else None
        listed = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        text = f"{listed or 'nothing changed'} in {seconds:g} s"
        self._print_line(source, {**counts, "seconds": seconds, "release": release}, text)

    def _report_error(self, source: str, error: KnowledgeError) -> None:
        sentence, beat = str(error), self._beat.heartbeat
        beat.last_error, beat.last_error_at = f"{source}: {sentence}", time.time()
        if self._last_errors.get(source) == sentence:
            return
        self._last_errors[source] = sentence
        if self._session.as_json:
            kind, is_temporary = type(error).__name__, isinstance(error, TransientError)
            self._print_line(source, {"error": sentence, "kind": kind, "temporary": is_temporary}, "")
        else:
            print_error(f"{source}: {sentence}", kind="", code=0, as_json=False)

    def _print_line(self, source: str, values: dict[str, Any], text: str) -> None:
        now, screen = datetime.now().astimezone(), self._session.screen
        screen.print_json(
            {"at": now.isoformat(timespec="milliseconds"), "source": source, **values}, indent=None
        )
        screen.print_text(f"{now:%H:%M:%S}  {source}: {text}")

    def _warm_up(self) -> None:
        """Load what the first change would wait for, and say that watching has begun."""
        from knowledge_pipeline.embedding.registry import open_embedder

        resolve = self._watched.settings.resolve_embedding
        for embedding in dict.fromkeys(map(resolve, self._watched.sources)):
            with suppress(KnowledgeError):  # reported by the refresh
                embedder = open_embedder(embedding)
                embedder.tokenizer()
                if embedding.provider == "local":
                    embedder.embed(["ready"])
        folders = format_count(len(set(self._watched.folders.values())), "folder")
        sources = format_count(len(self._watched.sources), "source")
        if guarded := self._watched.list_guarded():
            folders += f", and the permissions of {format_count(len(guarded), 'source')}"
        self._session.screen.print_note(f"Watching {sources} in {folders}; Ctrl-C ends it")


class WatchedSources:
    """The chosen sources of a `knowledge.yaml`, which is read again when it changes."""

    settings: Settings
    lake: Lake
    sources: Sequence[SourceConfig]
    folders: Mapping[str, Path]  # of the sources on this machine, by id
    idle: IdleSources
    tree: SourceTree | None  # the further working tree that the sources are watched in

    def __init__(self, path: Path, ids: Sequence[str], *, everything: bool) -> None:
        """Read the file; raises ConfigError if it names nothing to watch, NotFound for an unknown id."""
        self._path, self._ids, self._everything = path, ids, everything
        self._generation, self._tried = 0, ()
        self._load_config()
        if not self.sources and not self.list_guarded():
            raise ConfigError(
                f"no source is refreshed as it changes: set refresh.trigger to realtime or on_commit in "
                f"{path}, name one with --source, or give --all"
            )

    def _load_config(self) -> None:
        from knowledge_pipeline.config.file import load_settings
        from knowledge_pipeline.config.sources import resolve_trigger
        from knowledge_pipeline.stages import pipeline

        settings = load_settings(self._path)
        sources: Sequence[SourceConfig] = settings.sources
        if self._ids:
            sources = settings.select_sources(self._ids, or_types=True)
        elif not self._everything:
            sources = [source for source in sources if resolve_trigger(source) in WATCHED_TRIGGERS]
        tree = find_tree(settings)
        self.tree = None if tree is None or tree.is_first else tree
        if self.tree:
            settings, ids = self.tree.settings, {source.id for source in sources}
            sources = [source for source in self.tree.sources if source.id in ids]
        self.settings, self.lake, self.sources = settings, Lake(settings.store), sources
        self.idle = pipeline.IdleSources()
        self._generation += 1

    def list_guarded(self) -> Sequence[SourceConfig]:
        """Those whose own permissions are read, of all that are configured if none is named."""
        from knowledge_pipeline.stages.permissions import list_guarded

        return [it for it in list_guarded(self.settings) if not self._ids or it in self.sources]

    def refresh(
        self, sources: Sequence[SourceConfig], report_for: ReportFactory, upkeep: PostponedUpkeep
    ) -> RefreshOutcome:
        """Refresh sources and release them; in a further working tree, bring its overlay up to date."""
        from knowledge_pipeline.stages import pipeline
        from knowledge_pipeline.stages.context import RefreshOutcome
        from knowledge_pipeline.stages.overlay import refresh_overlay

        if self.tree is None:
            return pipeline.refresh(
                self.lake,
                self.settings,
                sources,
                report=lambda source: report_for(source.id),
                idle=self.idle,
                upkeep=upkeep,
            )
        try:
            report = report_for(self.tree.root.name)
            overlay = refresh_overlay(self.lake, self.tree, is_bounded=False, report=report)
        except KnowledgeError as error:
            return RefreshOutcome(failures=dict.fromkeys((source.id for source in sources), error))
        return RefreshOutcome(list(overlay.stats))

    def reload_if_edited(self) -> bool:
        """Read the file again if it was edited; returns whether it was. Raises as the constructor does.

        If the file is invalid now, the last valid settings stay.
        """
        from knowledge_pipeline.config.file import read_stamp

        stamp = read_stamp(self._path, self.settings)  # (): an editor is about to put it back
        if not stamp or stamp in (self.settings.stamp, self._tried):
            return False
        self._tried = stamp  # and if it is invalid, not again
        self._load_config()
        return True

    def iter_changes(self, *, debounce_s: float) -> Iterator[set[str] | None]:
        """Changed paths, as they change, and an empty set now and then.

        None each time that watching starts over, after which everything must be checked: at
        first, after `reload_if_edited` found an edit, and when a folder disappeared or returned.
        Successive changes are collected for `debounce_s` at most. Raises SourceRefused where the
        system does not allow watching.
        """
        import watchfiles

        from knowledge_pipeline.connectors.files import find_watched_folder

        while True:
            folders = {source.id: find_watched_folder(source) for source in self.sources}
            self.folders = {id_: folder for id_, folder in folders.items() if folder}
            generation, identities = self._generation, self._read_identities()
            changes = watchfiles.watch(
                *(folder for folder, identity in identities.items() if identity),
                watch_filter=None,
                debounce=round(debounce_s * 1000),
                step=round(min(_SAVE_SETTLED_S, debounce_s) * 1000),
                rust_timeout=round(_POLL_INTERVAL_S * 1000),
                yield_on_timeout=True,
            )
            try:
                next(changes)  # starts watching
                yield None
                while (generation, identities) == (self._generation, self._read_identities()):
                    yield {path for _, path in next(changes)}
            except FileNotFoundError:  # a folder disappeared just now
                time.sleep(_POLL_INTERVAL_S)
            except OSError as error:
                raise SourceRefused(
                    f"the folders cannot be watched ({error}): raise fs.inotify.max_user_watches, "
                    "or watch fewer sources with --source"
                ) from error
            finally:
                changes.close()

    def _read_identities(self) -> dict[Path, tuple[int, int] | None]:
        """Device and inode of each folder; None for a folder that is missing."""
        identities: dict[Path, tuple[int, int] | None] = dict.fromkeys(self.folders.values())
        for folder in identities:
            with suppress(OSError):
                status = folder.stat()
                identities[folder] = status.st_dev, status.st_ino
        return identities

    def find_affected_sources(self, changed: Iterable[str]) -> set[str]:
        """Ids of the sources that changed paths may concern; folders may be nested."""
        folders = set(self.folders.values())
        below: dict[Path, list[str]] = defaultdict(list)

        @cache
        def list_around(path: Path) -> set[Path]:
            return folders.intersection((path, *path.parents))

        for path in changed:
            file = Path(path)
            for folder in list_around(file if file in folders else file.parent):
                below[folder].append(path)
        return {
            source.id
            for source in self.sources
            if (folder := self.folders.get(source.id)) in below and self._is_affected(source, below[folder])
        }

    def _is_affected(self, source: SourceConfig, changed: Iterable[str]) -> bool:
        from knowledge_pipeline.connectors.base import uri_to_path
        from knowledge_pipeline.connectors.files import is_affected_by
        from knowledge_pipeline.store.filters import is_null

        @cache
        def load_paths() -> set[str]:
            """The documents at the last refresh, and their folders."""
            snapshot: Any = self.lake.snapshot(source.type, source.id)  # pyarrow is untyped
            uris: list[str] = snapshot.read_rows(["uri"], is_null("archived_at"))["uri"].to_pylist()
            files = [PurePosixPath(uri_to_path(uri)) for uri in uris]
            folders = {folder for file in files for folder in file.parents}
            return {path.as_posix() for path in folders.union(files)}

        try:
            return is_affected_by(
                source,
                self.folders[source.id],
                changed,
                store=self.lake.folder,
                was_document=lambda path: path in load_paths(),
            )
        except KnowledgeError:  # the refresh meets the same error, and reports it
            return True


RemoteChanges = dict[str, KnowledgeError | None]
"""Ids of sources whose branch moved since the last check, or the error that prevented the check."""


class RemotePoller:
    """Polls the watched sources that have a git connection, in a thread: hosts may be slow to answer."""

    def __init__(self, sources: Sequence[SourceConfig], *, interval_s: float, lake: Lake) -> None:
        """Check once, so that what is pushed from now on is a change; the store is told what was seen."""
        self.interval_s, self._lake = interval_s, lake
        self.polled_at = time.time()  # Unix time
        self._heads: dict[object, str | None] = {}
        self._changes: queue.SimpleQueue[RemoteChanges] = queue.SimpleQueue()
        self.set_sources(sources)
        self._poll_once()
        threading.Thread(target=self._poll_forever, name="remote-poller", daemon=True).start()

    def set_sources(self, sources: Sequence[SourceConfig]) -> None:
        """Check these from now on."""
        from knowledge_pipeline.config.sources import RefreshSettings

        on_commit = {"refresh": RefreshSettings(trigger="on_commit")}  # overrides the source's own trigger
        remote = [source for source in sources if isinstance(source.connection, GitConnection)]
        self.sources = [source.model_copy(update=on_commit) for source in remote]

    def drain_changes(self) -> RemoteChanges:
        """The changes since the last call, without waiting."""
        changes: RemoteChanges = {}
        while not self._changes.empty():
            changes |= self._changes.get()
        return changes

    def _poll_forever(self) -> None:
        while True:
            time.sleep(self.interval_s)
            self._changes.put(self._poll_once())
            self.polled_at = time.time()

    def _poll_once(self) -> RemoteChanges:
        from knowledge_pipeline.connectors.git import remote_heads
        from knowledge_pipeline.stages.freshness import record_heads

        watches = remote_heads.group_by_watched_branch(self.sources)
        queries = list(remote_heads.build_queries(watches).values())
        answers = remote_heads.poll_remote_heads(queries) if queries else {}
        record_heads(self._lake, watches, answers)
        changes: RemoteChanges = {}
        for watch, sources in watches.items():
            heads = answers.get(watch.repository)
            if isinstance(heads, KnowledgeError):
                changes |= dict.fromkeys((source.id for source in sources), heads)
            elif heads is not None:
                commit = heads.commit_of(watch.branch, watch.further)
                if watch not in self._heads or self._heads[watch] != commit:
                    self._heads[watch] = commit
                    changes |= dict.fromkeys(source.id for source in sources)
        return changes


def read_permissions_forever(
    watched: WatchedSources, interval_s: float, results: queue.SimpleQueue[PermissionsRead]
) -> NoReturn:
    """Read the permissions that sources have themselves; for a thread, as services may be slow to answer."""
    from knowledge_pipeline.stages.permissions import PermissionsRead, refresh_all_permissions

    while True:
        due, guarded = time.monotonic() + interval_s, watched.list_guarded()
        try:
            outcome = refresh_all_permissions(watched.lake, watched.settings, guarded) if guarded else []
        except Exception as error:  # noqa: BLE001 - a full disk, a bug: neither ends the watch
            outcome = [PermissionsRead(it, error=TransientError(format_error(error))) for it in guarded]
        for result in outcome:
            results.put(result)
        time.sleep(max(1.0, due - time.monotonic()))


def _show_watchers(session: Session) -> None:
    """Print each watcher; end with exit code 1 if one is unhealthy, or none runs."""
    reports = list_watchers(Lake(session.settings.store).folder)
    is_healthy = bool(reports) and all(report.problem is None for report in reports)
    screen = session.screen
    screen.print_json({"healthy": is_healthy, "watchers": [_to_json(report) for report in reports]})
    if not reports:
        screen.print_text("No watcher runs on this store: start `knowledge watch`.")
    screen.print_table([_to_row(report) for report in reports])
    for report in reports:
        for sentence in filter(None, (report.problem, report.heartbeat.last_error)):
            screen.print_text(f"{report.heartbeat.pid}: {sentence}")
    if not is_healthy:
        raise typer.Exit(FAILED)


def _to_json(report: WatcherReport) -> dict[str, Any]:
    values = asdict(report.heartbeat)
    for name in ("started_at", "looked_at", "last_error_at", "polled_at"):
        at = values[name]
        values[name] = None if at is None else datetime.fromtimestamp(at).astimezone().isoformat()
    return {**values, "healthy": report.problem is None, "problem": report.problem}


def _to_row(report: WatcherReport) -> dict[str, Any]:
    beat = report.heartbeat
    doing = f"refreshes {', '.join(beat.refreshing)}" if beat.refreshing else f"waits for {beat.waits_for}"
    return {
        "pid": str(beat.pid),
        "health": "unhealthy" if report.problem else "ok",
        "looked": f"{datetime.fromtimestamp(beat.looked_at):%H:%M:%S}",
        "doing": doing if beat.state != "starting" else "starts",
        "sources": beat.sources,
        "behind": ", ".join(beat.behind) or "none",
    }
