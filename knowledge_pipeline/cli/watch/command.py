"""`watch`: refresh sources as their files change."""

from __future__ import annotations

import time
from collections.abc import Set
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from typer import Option

from knowledge_pipeline.cli.exit_codes import format_error, print_error
from knowledge_pipeline.cli.options import Sources
from knowledge_pipeline.cli.render.progress import show_progress
from knowledge_pipeline.cli.render.terminal_text import format_count
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.cli.watch.folders import WatchedSources
from knowledge_pipeline.cli.watch.remotes import RemotePoller
from knowledge_pipeline.cli.watch.status import show_watchers
from knowledge_pipeline.errors import KnowledgeError, TransientError
from knowledge_pipeline.stages.upkeep import PostponedUpkeep
from knowledge_pipeline.store.watch.heartbeat import HeartbeatFile, create_heartbeat

if TYPE_CHECKING:
    from knowledge_pipeline.stages.pipeline import RefreshOutcome
    from knowledge_pipeline.stages.progress import ProgressCallback

UPKEEP_AFTER_S = 3.0
"""After so long without a change, the tables that refreshes wrote are compacted."""

RETRY_S = 30.0
"""After how long a temporary failure is tried again, even without a change."""

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
    knowledge.yaml apply as soon as they are saved.
    """
    if status:
        show_watchers(session)
        return
    watched = WatchedSources(session.config_path, source or (), everything=everything)
    Watcher(session, watched, poll_s=poll).run(debounce_s=debounce)


class Watcher:
    """Refreshes what changes, and reports it."""

    def __init__(self, session: Session, watched: WatchedSources, *, poll_s: float) -> None:
        self._session, self._watched = session, watched
        self._poller = RemotePoller(watched.sources, interval_s=poll_s)
        self._retries: dict[str, float] = {}  # source -> when, on the monotonic clock
        self._last_errors: dict[str, str] = {}  # source -> its last error, reported once
        self._failed: set[str] = set()  # sources whose last refresh failed
        self._upkeep = PostponedUpkeep()
        self._beat = HeartbeatFile(watched.lake.folder, create_heartbeat())
        self._refreshed_at = 0.0

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
                due |= self.list_due_retries()
            if due:
                self.refresh_sources(due)
                self._refreshed_at = time.monotonic()
            elif time.monotonic() > self._refreshed_at + UPKEEP_AFTER_S:
                self._run_upkeep()
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
        """Say that this watcher looks for changes, and what it waits for."""
        beat, folders = self._beat.heartbeat, len(set(self._watched.folders.values()))
        repositories = self._poller.count_repositories()
        was = beat.state, beat.behind, beat.waits_for
        beat.state, beat.refreshing, beat.sources = "waiting", (), len(self._watched.sources)
        beat.behind = tuple(each.id for each in self._watched.sources if each.id in self._failed)
        places = ((folders, "folder"), (repositories, "remote repository source"))
        named = [format_count(count, name) for count, name in places if count]
        beat.waits_for = f"changes of {' and '.join(named) or 'nothing'}"
        beat.poll_s, beat.polled_at = (
            self._poller.interval_s if repositories else None,
            self._poller.polled_at,
        )
        self._beat.renew()
        if was != (beat.state, beat.behind, beat.waits_for):
            self._beat.write()

    def list_due_retries(self) -> set[str]:
        """Sources whose last refresh failed in a way that may pass, and whose time has come."""
        return {source for source, at in self._retries.items() if at <= time.monotonic()}

    def refresh_sources(self, ids: Set[str]) -> None:
        """Refresh and release; reports every failure, and raises none."""
        from knowledge_pipeline.stages import pipeline

        watched = self._watched
        sources = [source for source in watched.sources if source.id in ids]
        beat = self._beat.heartbeat
        beat.state, beat.refreshing = "refreshing", tuple(sorted(ids))
        beat.behind = tuple(sorted({*beat.behind, *ids}))
        self._beat.renew()
        self._beat.write()
        try:
            with show_progress(self._session.screen) as report_for:
                outcome = pipeline.refresh(
                    watched.lake,
                    watched.settings,
                    sources,
                    report=lambda source: self._beat_with(report_for(source.id)),
                    idle=watched.idle,
                    upkeep=self._upkeep,
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
        """Compact what refreshes wrote; a failure is reported, and the next run tries again."""
        if not self._upkeep.is_due:
            return
        try:
            self._upkeep.run(self._watched.lake, keep_releases=self._watched.settings.releases.keep)
        except Exception as error:  # noqa: BLE001 - a full disk, a bug: neither ends the watch
            self._refreshed_at = time.monotonic() + RETRY_S
            self._report_error(_UPKEEP, TransientError(format_error(error)))

    def _report_refresh(self, source: str, outcome: RefreshOutcome) -> None:
        stages = [stats for stats in outcome.stats if stats.source == source]
        counts = {name: getattr(stages[0], name) for name in _COUNT_FIELDS}
        seconds = round(sum(stats.seconds for stats in stages), 2)
        release = outcome.release.version if outcome.release else None
        listed = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        text = f"{listed or 'nothing changed'} in {seconds:g} s"
        self._print_line(source, {**counts, "seconds": seconds, "release": release}, text)

    def _report_error(self, source: str, error: KnowledgeError) -> None:
        """Report an error, unless it is the last one that was reported."""
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
        screen.print_json_line({"at": now.isoformat(timespec="milliseconds"), "source": source, **values})
        screen.print_text(f"{now:%H:%M:%S}  {source}: {text}")

    def _warm_up(self) -> None:
        """Load what the first change would wait for, and say that watching has begun."""
        from knowledge_pipeline.embedding.registry import open_embedder

        settings = self._watched.settings
        by_name = {str(each): each for each in map(settings.resolve_embedding, self._watched.sources)}
        for embedding in by_name.values():
            with suppress(KnowledgeError):  # reported by the refresh
                embedder = open_embedder(embedding)
                embedder.tokenizer()
                if embedding.provider == "local":
                    embedder.embed(["ready"])
        folders = format_count(len(set(self._watched.folders.values())), "folder")
        sources = format_count(len(self._watched.sources), "source")
        self._session.screen.print_note(f"Watching {sources} in {folders}; Ctrl-C ends it")
