"""The stages in their order, for one source and for many, and the release of what they index.

The CLI calls this; Dagster calls the same stage functions, one asset each. A source that takes long to embed
is released before: words answer at once, vectors follow as they come. A release makes the index live if the
blocking checks pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from knowledge_pipeline.checks.integrity import CheckResult, list_unreleased_types
from knowledge_pipeline.checks.registry import list_checks
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import Busy, KnowledgeError, ReleaseRefused
from knowledge_pipeline.garbage import collect_less_often
from knowledge_pipeline.stages import chunks, code_graph, embeddings, evaluate, index, snapshot
from knowledge_pipeline.stages.context import (
    ORDINARY_REFRESH,
    Listing,
    RefreshContext,
    RefreshOptions,
    RefreshOutcome,
    Stats,
    measure_stage,
    sum_stats,
)
from knowledge_pipeline.stages.embeddings import estimate_seconds, track_texts
from knowledge_pipeline.stages.events import record_failure, record_refreshed
from knowledge_pipeline.stages.freshness import record_indexed
from knowledge_pipeline.stages.progress import ProgressCallback, PublishedProgress, ignore_progress
from knowledge_pipeline.stages.run_log import log_refreshes
from knowledge_pipeline.stages.upkeep import AT_ONCE, Upkeep
from knowledge_pipeline.store.damage import explain_damage
from knowledge_pipeline.store.filters import UNEMBEDDED, eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import VersionStamp
from knowledge_pipeline.store.logs import record_release
from knowledge_pipeline.store.reconcile import exclude_keys
from knowledge_pipeline.store.release import (
    Release,
    find_live_release,
    newest_graph_versions,
    newest_index_versions,
    publish_release,
    restore_release,
)

MIN_LOCAL_TEXTS, MIN_REMOTE_TEXTS = 64, 2048  # without a vector; fewer are embedded in seconds
MAX_WAIT_S = 1.0  # of words for vectors that a model of this machine makes so soon
INTERVAL_S = 60.0  # between two releases of vectors
MAX_TIME_SHARE = 0.1  # of a refresh, spent on them
MIN_KEPT_SHARE = 0.9  # of the rows with a vector that are in the index


class EarlyReleases:
    """Releases what is indexed so far, in at most `MAX_TIME_SHARE` of the time."""

    def __init__(self, release: Callable[[], object]) -> None:
        self._release = release
        self._is_waiting = False
        self._released_at = self._next_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether the last release is long enough ago for one with more vectors."""
        return time.monotonic() >= max(self._next_at, self._released_at + INTERVAL_S)

    def start_interval(self) -> None:
        """Count the interval from now, where nothing was released yet."""
        self._released_at = max(self._released_at, time.monotonic())

    def release(self) -> None:
        """Release now, or with the next one where the last took long."""
        self._is_waiting = True
        if time.monotonic() >= self._next_at:
            self.flush()

    def flush(self) -> None:
        """Release now, if anything waits for it."""
        if self._is_waiting:
            started = time.monotonic()
            self._release()
            self._is_waiting, self._released_at = False, time.monotonic()
            self._next_at = self._released_at + (self._released_at - started) / MAX_TIME_SHARE


def index_words(ctx: RefreshContext) -> Stats | None:
    """Index a source before it is embedded; None where that is soon done, or live vectors would go."""
    embedding = ctx.settings.resolve_embedding(ctx.source)
    is_local = embedding.provider == "local"
    few = MIN_LOCAL_TEXTS if is_local else MIN_REMOTE_TEXTS
    space = resolve_space(embedding)
    changed = track_texts(ctx, space).find_changed_values("text_key", "text_key")
    if changed is not None:
        vectors = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions)
        if (
            len(changed) <= few
            or len(changed) - vectors.count_rows(one_of("text_key", sorted(changed))) <= few
        ):
            return None
    missing = _count_texts_to_embed(ctx)
    if missing is None or missing <= few:
        return None
    seconds = estimate_seconds(ctx, missing) if is_local else None
    return None if seconds is not None and seconds <= MAX_WAIT_S else index.refresh(ctx, more_vectors=True)


def index_vectors(ctx: RefreshContext) -> Stats | None:
    """Index the vectors that came since; None where live vectors would go."""
    return None if _count_texts_to_embed(ctx) is None else index.refresh(ctx, more_vectors=True)


def _count_texts_to_embed(ctx: RefreshContext) -> int | None:
    """Chunks without a vector; None where their rows would replace many that have one.

    That is where a source has got another model, or its chunks another form: what is live then answers
    until the new vectors are complete.
    """
    space = resolve_space(ctx.settings.resolve_embedding(ctx.source))
    if index.find_stale_tables(ctx, space.name):
        return None
    chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id).read_rows(["text_key"], is_null("skipped"))
    vectors = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions).read_rows(["text_key"])
    missing = len(exclude_keys(chunks["text_key"], vectors["text_key"]))
    table, mine = ctx.lake.index(space.name, space.dimensions), eq("source", ctx.source.id)
    live = table.count_rows(mine) - table.count_rows(mine & UNEMBEDDED)
    return missing if len(chunks) - missing >= MIN_KEPT_SHARE * live else None


def release_newest(lake: Lake, settings: Settings, *, unpin: bool = False) -> Stats:
    """Release the newest index versions of all spaces together, unless they already are live.

    While a pinned release is live nothing is released, and a note says so; `unpin` ends the pin.

    Raises:
        ReleaseRefused: a check failed; the last release stays live, and pinned if it was.
        Busy: another process writes the index, or refreshes what is missing there.
    """
    with measure_stage("release", "") as stats, lake.lock_index():
        last, published = find_live_release(lake), None
        if last and last.pin and not unpin:
            stats.notes[f"{last.pin}: refreshes publish nothing until `knowledge releases --unpin`"] += 1
        else:
            _require_sound_index(lake, settings, last)
            published = publish_release(lake, keep=settings.releases.keep)
            if published:
                record_release(lake, published)
        stats.added, stats.unchanged = (1, 0) if published else (0, 1)
        if live := published or last:
            stats.seen, stats.rows, stats.version = len(live.tables), live.rows, live.release
            stats.unembedded = live.unembedded
    return stats


def _require_sound_index(lake: Lake, settings: Settings, last: Release | None) -> None:
    newest = newest_index_versions(lake), newest_graph_versions(lake)
    if last and (last.tables, last.graph) == newest:
        return
    for problem in iter_release_problems(lake, settings):
        live = "the last release stays live"
        if problem.may_recover:
            raise Busy(f"{problem.message}: release again when it is done; {live}")
        raise ReleaseRefused(f"{problem.message}; {live}: docs/checks.md says what to do", problem.sources)


def roll_back_release(lake: Lake, settings: Settings, release: int, *, pin: bool = True) -> Release:
    """Make an earlier release live again; pinned, refreshes publish nothing until someone unpins it.

    Raises `NotFound`: there is no such release any more.
    """
    with lake.lock_index():
        return restore_release(lake, release, keep=settings.releases.keep, pin=pin)


def iter_release_problems(lake: Lake, settings: Settings) -> Iterator[CheckResult]:
    """What forbids a release, one check after the other; the caller holds the index lock."""
    types: list[SourceType] = [*(source.type for source in settings.sources), *list_unreleased_types(lake)]
    for check in list_checks(blocking=True):
        for source_type in check.source_types or dict.fromkeys(types):
            result = check.run(lake, settings, source_type)
            if not result.passed:
                yield result
    if problem := evaluate.find_release_problem(lake, settings):
        yield CheckResult(False, problem)


STAGES: dict[str, Callable[[RefreshContext], Stats]] = {
    "snapshot": snapshot.refresh,
    "chunks": chunks.refresh,
    "graph": code_graph.refresh,
    "embeddings": embeddings.refresh,
    "index": index.refresh,
}
_READ_AT_ONCE = 4  # sources of which some documents are named
_RELEASE_ATTEMPTS = 3  # another process may write the index while it is evaluated


class IdleSources:
    """Remembers sources for which no stage had anything to do, so that the next look reads no table.

    A long-running process holds one for each store. It empties itself for another `Settings` object.
    """

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._idle: dict[str, tuple[Mapping[str, VersionStamp], list[Stats]]] = {}  # by source

    def find(self, ctx: RefreshContext, version_stamps: Mapping[str, VersionStamp]) -> list[Stats]:
        """The statistics of the stages after the first; empty where something may have changed."""
        entry = self._idle.get(ctx.source.id)
        if entry is None or self._settings is not ctx.settings or entry[0] != version_stamps:
            return []
        return [replace(stats, seconds=0.0, at=datetime.now(UTC)) for stats in entry[1]]

    def add(
        self, ctx: RefreshContext, version_stamps: Mapping[str, VersionStamp], stats: list[Stats]
    ) -> None:
        """Remember a source whose stages had nothing to do while its tables had these versions."""
        if self._settings is not ctx.settings:
            self._settings, self._idle = ctx.settings, {}
        self._idle[ctx.source.id] = version_stamps, stats


def select_stages(source_type: SourceType) -> dict[str, Callable[[RefreshContext], Stats]]:
    """The stages that sources of a type go through, in their order."""
    return {stage: run for stage, run in STAGES.items() if stage != "graph" or source_type == "code"}


class SourceRefresh:
    """One source on its way through the stages, in two steps: until words find it, and to the end.

    `read_source` may do the first stage before them. Each step yields the statistics of a stage as soon as
    that is done. Without `releases` nothing is indexed or released before its time. With `words_only` the
    first step indexes whatever has no vector yet, and the second one does nothing: the next refresh does. A
    process that refreshes looks for garbage less often from then on.
    """

    def __init__(
        self,
        ctx: RefreshContext,
        stages: Collection[str] = tuple(STAGES),
        releases: EarlyReleases | None = None,
        idle: IdleSources | None = None,
        *,
        words_only: bool = False,
    ) -> None:
        collect_less_often()
        self.has_words_before_vectors = False  # known after the first step
        self._words_only = words_only
        self._progress = PublishedProgress(ctx.lake.folder, ctx.source.id, ctx.report)
        self.ctx = replace(ctx, report=self._progress.report)
        self.stats: list[Stats] = []  # one for each stage that is done
        self._stages = {name: run for name, run in select_stages(ctx.source.type).items() if name in stages}
        self._releases = releases if {"embeddings", "index"} <= self._stages.keys() else None
        self._indexed: list[Stats] = []  # before the last stage
        self._seconds_of_releases = 0.0  # while the source was embedded
        can_be_idle = idle is not None and ctx.lake.is_local and not (ctx.options.full or ctx.options.reembed)
        self._idle = idle if can_be_idle else None
        self._version_stamps: Mapping[str, VersionStamp] = {}

    def read_source(self) -> None:
        """List the source and read what changed, alone: this waits for a service. Raises as the next step."""
        with self._begin_step():
            self._run("snapshot")

    def cut_and_index_words(self) -> Iterator[Stats]:
        """List the source, if `read_source` has not; cut it; index its words where embedding takes long.

        Raises:
            Busy: another process refreshes the same source.
            KnowledgeError: as the stages do.
        """
        with self._begin_step():
            for name in ("snapshot", "chunks"):
                if name in self._stages and name not in {stat.stage for stat in self.stats}:
                    yield self._run(name)
                if name == "snapshot" and self._idle:
                    self._version_stamps = self.ctx.lake.version_stamps(self.ctx.source.id)
                    stamps, is_new = self._version_stamps, self.stats[0].has_changes
                    if not is_new and (idle_stats := self._idle.find(self.ctx, stamps)):
                        self._stages = {}
                        self.stats += idle_stats
                        self._record_indexed()
                        yield from idle_stats
                        return
            if self._words_only:
                indexed, self._stages = index_vectors(self.ctx), {}
                if indexed:
                    self.stats.append(indexed)
                    yield indexed
                    self._record_indexed()
                return
            indexed = index_words(self.ctx) if self._releases else None
            self.has_words_before_vectors = indexed is not None
            if indexed and indexed.has_changes:
                self._indexed.append(indexed)
                self._record_indexed(indexed)
                yield indexed
        if self._releases and indexed:  # without a change too: who wrote it may have died before releasing it
            self._releases.release()

    def finish(self) -> Iterator[Stats]:
        """Embed and index the rest, and release vectors as they come. Raises as the first step does."""
        if not self._stages:
            return
        with self._begin_step():
            if self._releases:
                self._releases.start_interval()
                self.ctx = replace(self.ctx, after_vectors=self._release_vectors)
            for name in self._stages:
                if name not in ("snapshot", "chunks"):
                    yield self._run(name)
                if name == "graph" and self._releases and self._indexed:
                    self._releases.release()
            self._remember_if_idle()
            self._record_indexed()
        record_refreshed(self.ctx, self.stats)

    @contextmanager
    def _begin_step(self) -> Generator[None]:
        """Refresh the source alone, while others see how far it is and learn why it fails."""
        lock = self.ctx.lake.lock_source(self.ctx.source.id)
        damage = explain_damage(f"source {self.ctx.source.id!r}")
        with record_failure(self.ctx), damage, lock, self._progress.show_while_running():
            yield

    def _record_indexed(self, *early: Stats) -> None:
        """Unless only some documents were read, which says nothing of the others."""
        if not self.ctx.options.documents:
            space = resolve_space(self.ctx.settings.resolve_embedding(self.ctx.source)).name
            record_indexed(self.ctx.lake, self.ctx.source.id, [*self.stats, *early], space)

    def _remember_if_idle(self) -> None:
        stamps = self._version_stamps
        if not self._idle or not stamps or any(stat.has_changes for stat in self.stats):
            return
        if self.ctx.lake.version_stamps(self.ctx.source.id) == stamps:
            self._idle.add(self.ctx, stamps, self.stats[1:])

    def _run(self, name: str) -> Stats:
        stats = self._stages[name](self.ctx)
        if name == "index":
            stats = sum_stats([*self._indexed, stats])
        if name == "embeddings":
            stats.seconds = round(stats.seconds - self._seconds_of_releases, 4)
        self.stats.append(stats)
        return stats

    def _release_vectors(self) -> None:
        if not self._releases or not self._releases.is_due:
            return
        started = time.perf_counter()
        if indexed := index_vectors(self.ctx):
            self._indexed.append(indexed)
            if indexed.has_changes:
                self._record_indexed(indexed)
                self._releases.release()
        self._seconds_of_releases += time.perf_counter() - started


def refresh(
    lake: Lake,
    settings: Settings,
    sources: Iterable[SourceConfig],
    options: RefreshOptions = ORDINARY_REFRESH,
    *,
    report: Callable[[SourceConfig], ProgressCallback] = lambda source: ignore_progress,
    report_release: Callable[[Stats], None] = lambda release: None,
    report_words: Callable[[Sequence[RefreshContext]], None] = lambda contexts: None,
    words_only: bool = False,
    idle: IdleSources | None = None,
    listings: Mapping[str, Listing] | None = None,
    upkeep: Upkeep = AT_ONCE,
) -> RefreshOutcome:
    """Bring sources up to date and release what changed.

    First all are read, of named documents some sources side by side, and those that take long to embed are
    released by their words; then the rest is done.
    A source that fails does not stop the others; the outcome names it. `report_release` receives each early
    release, and `report_words` the sources that are released by their words, once all are. With `words_only`
    all are, and the rest is left to the next refresh; what is live keeps vectors that would go. `listings`
    are those that are read already, by source. `upkeep` tends to the tables written.
    """

    def release() -> None:
        released = release_early(lake, settings)
        if released and released.has_changes:
            report_release(released)

    outcome, releases = RefreshOutcome(), EarlyReleases(release)
    contexts = [
        RefreshContext(lake, settings, source, options, report(source), upkeep=upkeep) for source in sources
    ]
    runs = [
        SourceRefresh(
            replace(ctx, listing=(listings or {}).get(ctx.source.id)),
            releases=None if words_only else releases,
            idle=idle,
            words_only=words_only,
        )
        for ctx in contexts
    ]
    if options.documents:
        outcome.failures |= _read_side_by_side(runs)
    for step in (SourceRefresh.cut_and_index_words, SourceRefresh.finish):
        for run in runs:
            if (source := run.ctx.source.id) in outcome.failures:
                continue
            try:
                for _ in step(run):
                    pass
            except KnowledgeError as error:
                outcome.failures[source] = error
        if step is SourceRefresh.cut_and_index_words:
            releases.flush()
            waiting = (run for run in runs if run.ctx.source.id not in outcome.failures)
            if of_words := [run.ctx for run in waiting if run.has_words_before_vectors]:
                report_words(of_words)
    done = (run for run in runs if run.ctx.source.id not in outcome.failures)
    outcome.stats = [stats for run in done for stats in run.stats]
    log_refreshes(lake, settings, [stats for run in runs for stats in run.stats])  # of failed ones, too
    try:
        with explain_damage("the index"):
            outcome.release = refresh_release(lake, settings)
    except KnowledgeError as error:
        outcome.failures["release"] = error
    return outcome


def _read_side_by_side(runs: Sequence[SourceRefresh]) -> dict[str, KnowledgeError]:
    """Read sources that mostly wait for their services; what failed, by source."""

    def find_failure(run: SourceRefresh) -> KnowledgeError | None:
        try:
            run.read_source()
        except KnowledgeError as error:
            return error
        return None

    with ThreadPoolExecutor(_READ_AT_ONCE, thread_name_prefix="read") as threads:
        errors = list(threads.map(find_failure, runs))
    return {run.ctx.source.id: error for run, error in zip(runs, errors, strict=True) if error}


def release_early(lake: Lake, settings: Settings) -> Stats | None:
    """Release an index that is not finished; None where that is refused, which the last release reports."""
    try:
        return refresh_release(lake, settings)
    except KnowledgeError:
        return None


def refresh_release(lake: Lake, settings: Settings, *, unpin: bool = False) -> Stats:
    """Evaluate the newest index by the golden questions, if there are any, and release it if it is good.

    While a release is pinned nothing is released, unless `unpin` ends that.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
        KnowledgeError: as `evaluate.refresh` does.
    """
    for _ in range(_RELEASE_ATTEMPTS - 1):
        evaluate.refresh(lake, settings)
        try:
            return release_newest(lake, settings, unpin=unpin)
        except ReleaseRefused:
            if not evaluate.needs_evaluation(lake, settings):  # the refused index is the evaluated one
                raise
    evaluate.refresh(lake, settings)
    return release_newest(lake, settings, unpin=unpin)
