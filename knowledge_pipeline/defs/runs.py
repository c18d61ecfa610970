"""What a run is requested with, where its steps execute, and how a step refreshes and records sources.

One step reads from a host, embeds, and writes the index, each with a limit of its own: it claims a slot of a
pool when it comes to it, and the UI shows who holds a slot and who waits.
"""

import os
import socket
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from logging import Logger
from typing import Any

import dagster as dg
from pydantic import Field

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.checks import PROCESS_TAG, Context
from knowledge_pipeline.defs.dagster_internals import (
    CELERY_QUEUE,
    PoolSlots,
    build_materialization_entry,
    build_planned_entry,
    read_failed_partitions,
    store_asset_events,
)
from knowledge_pipeline.defs.metadata import build_stage_metadata
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.provenance import Provenance, data_version
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.settings_assets import group_ids_by_type, source_partitions
from knowledge_pipeline.errors import ConfigError, KnowledgeError
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.stages.context import (
    ORDINARY_REFRESH,
    RefreshContext,
    RefreshOptions,
    SlotClaim,
    Stats,
    claim_immediately,
)
from knowledge_pipeline.stages.pipeline import STAGES, EarlyReleases, SourceRefresh, select_stages
from knowledge_pipeline.stages.progress import ProgressCallback, StagePace
from knowledge_pipeline.stages.run_log import log_refreshes
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.tables import split_batches

_POLL_S = 1.0
_LOG_AFTER_S = 5.0


def build_slot_claim(context: Context, names: Names = PLAIN) -> SlotClaim:
    """Claims for one step: each waits for a slot in the pool of that name, and holds it.

    Nothing waits where the instance gives pools no limit, or limits whole runs.
    """

    @contextmanager
    def hold_pool_slot(pool: str) -> Generator[None]:
        pool = names.pool(pool)
        claim = f"turn:{pool}"  # in the place of a step's key
        with PoolSlots(context.instance, context.run) as slots:
            started, is_logged = time.monotonic(), False
            while not slots.claim(pool, claim):
                if not is_logged and time.monotonic() - started > _LOG_AFTER_S:
                    is_logged = True
                    context.log.info(f"waiting for a slot in the pool {pool!r}")
                time.sleep(_POLL_S)
            try:
                yield
            finally:
                slots.free_step(claim)  # pyright: ignore[reportUnknownMemberType]  # it has no types

    return hold_pool_slot


_INTERVAL_S = 5.0


def build_progress_report(
    log: Logger, source: str, *, clock: Callable[[], float] = time.monotonic
) -> ProgressCallback:
    """A report that logs a line every five seconds of a stage, and none for quick work.

    `shop: chunks 1200 of 4000, 80 a second, 35 s left`; no rate before the second report.
    """
    paces: dict[str, StagePace] = {}
    logged_at = 0.0

    def report(stage: str, done: int, total: int | None, share: float | None = None, /) -> None:
        nonlocal logged_at
        now = clock()
        if stage not in paces:  # the source may have waited for others between two stages
            logged_at = now
        pace = paces.setdefault(stage, StagePace(now, done, total, share))
        if now - logged_at < _INTERVAL_S:
            return
        logged_at = now
        left = pace.estimate_seconds_left(now, done, total, share)
        parts = [f"{done} of {total}" if total is not None else f"{done}"]
        if rate := pace.compute_rate(now, done):
            parts.append(f"{rate:.3g} a second")
        if left is not None:
            parts.append(f"{round(left)} s left")
        log.info(f"{source}: {stage} {', '.join(parts)}")

    return report


class RefreshConfig(dg.Config):
    """The run configuration of `RefreshOptions`."""

    full: bool = Field(default=False, description="Rebuild every row, whether it changed or not.")
    reembed: bool = Field(default=False, description="Embed texts again, even those with a vector.")
    allow_empty: bool = Field(
        default=False, description="Accept an empty listing of a source that had documents."
    )
    relist: bool = Field(default=False, description="List services in full, to detect deletions.")
    documents: list[str] = Field(
        default=[], description="SOURCE/URI: of their sources, read these documents and no others."
    )

    @property
    def options(self) -> RefreshOptions:
        """What the stages take."""
        return RefreshOptions(self.full, self.reembed, self.allow_empty, self.relist, tuple(self.documents))


@dataclass(frozen=True, slots=True)
class StageResult:
    """One finished stage of one source."""

    ctx: RefreshContext
    stats: Stats
    version: str  # the data version
    key: dg.AssetKey  # the stage's asset
    is_final: bool = True  # else of the index, by words alone, and more will follow

    def read_metadata(self) -> dict[str, Any]:
        """What the UI shows of it, read from the tables as they are now."""
        return build_stage_metadata(self.ctx, self.stats)


@dataclass(slots=True)
class RefreshResult:
    """What became of several sources; one that failed does not stop the others."""

    types: list[SourceType] = field(default_factory=list[SourceType])  # of which some stage finished
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])


@dataclass(frozen=True, slots=True)
class RefreshStep:
    """A step that refreshes sources by the chosen stages, which nobody else refreshes meanwhile."""

    context: Context
    project: ProjectResource
    settings: Settings
    options: RefreshOptions
    stages: Collection[str]
    releases: EarlyReleases | None
    provenance: Provenance

    def refresh_source(self, source: str) -> Iterator[StageResult]:
        """Run the stages of one source; raises as they do, NotFound if it is not configured any more."""
        run = self._open_source(source)
        try:
            yield from self._iter_results(run, run.cut_and_index_words())
            yield from self._iter_results(run, run.finish())
        finally:
            self.context.log.info(describe_source(run))
            log_refreshes(run.ctx.lake, run.ctx.settings, run.stats, run_id=self.context.run.run_id)

    def refresh_all(self, sources: Iterable[str], recorder: "StageRecorder") -> RefreshResult:
        """Read sources one after the other, then finish them one after the other.

        The recorder has all that was done when this returns or raises, and between the two steps.
        """
        refreshed = RefreshResult()
        runs: dict[str, SourceRefresh] = {}

        def fail(source: str, error: KnowledgeError) -> None:
            refreshed.failed[source] = error
            self.context.log.error(f"{source}: {error}")

        for source in sources:
            try:
                runs[source] = self._open_source(source)
            except KnowledgeError as error:
                fail(source, error)
        for step in (SourceRefresh.cut_and_index_words, SourceRefresh.finish):
            try:
                for source, run in runs.items():
                    if source not in refreshed.failed:
                        try:
                            self._run_and_record(run, step, refreshed, recorder)
                        except KnowledgeError as error:
                            fail(source, error)
            finally:
                recorder.flush()
            if self.releases and step is SourceRefresh.cut_and_index_words:
                self.releases.flush()
        return refreshed

    def _open_source(self, source: str) -> SourceRefresh:
        (config,), settings = self.settings.select_sources([source]), self.settings
        report, project = build_progress_report(self.context.log, source), self.project
        claim = build_slot_claim(self.context, project.names) if project.pools else claim_immediately
        ctx = RefreshContext(Lake(settings.store), settings, config, self.options, report, claim)
        return SourceRefresh(ctx, self.stages, self.releases)

    def _iter_results(self, run: SourceRefresh, stats_of_stages: Iterable[Stats]) -> Iterator[StageResult]:
        ctx = run.ctx
        for stats in stats_of_stages:
            version = data_version(ctx.settings, ctx.source, stats)
            is_final = any(stats is stat for stat in run.stats)
            key = self.project.names.key(ctx.source.type, stats.stage)
            if stats.stage in _SHARED_TABLES and not stats.has_changes:
                version = self.provenance.keep_version(key, ctx.source.id, version)
            yield StageResult(ctx, stats, version, key, is_final)

    def _run_and_record(
        self,
        run: SourceRefresh,
        step: Callable[[SourceRefresh], Iterable[Stats]],
        refreshed: RefreshResult,
        recorder: "StageRecorder",
    ) -> None:
        goes_on = False
        try:
            for result in self._iter_results(run, step(run)):
                if run.ctx.source.type not in refreshed.types:
                    refreshed.types.append(run.ctx.source.type)
                recorder.record_stage(result)
            goes_on = step is not SourceRefresh.finish
        finally:
            if not goes_on:
                recorder.sources.append(run)


def describe_source(run: SourceRefresh) -> str:
    """What its stages did, in one line for the run's log, where each line is a commit."""
    done: list[str] = []
    for stats in run.stats:
        counts = {"added": stats.added, "changed": stats.changed, "removed": stats.removed}
        changes = " ".join(f"{count} {name}" for name, count in counts.items() if count)
        done.append(f"{stats.stage} {changes or 'unchanged'}")
    seconds = sum(stats.seconds for stats in run.stats)
    return f"{run.ctx.source.id}: {', '.join(done) or 'no stage finished'}; {seconds:.2g} s"


_MIN_INTERVAL_S, _MAX_INTERVAL_S = 1.0, 10.0
_WORK_PER_FLUSH = 20  # so that a machine that is busy, or a database that is slow, takes 5 % for it

_SHARED_TABLES = frozenset({"graph", "index"})
"""Stages whose table has the rows of all sources: its version also counts what others commit."""

_MAX_PLANNED = 25  # sources of a run

_Made = tuple[dg.AssetKey, str]  # an asset, and a partition of it
_Kept = tuple[StageResult, dict[str, Any], float]  # with its metadata, and when it was done


class StageRecorder:
    """Records the stages of some sources, those of a few seconds together, for one thread.

    Each transaction of the event log costs more than a small source's stage. What is kept back is written
    between the two steps of a run, at its end and when it fails; a killed run loses the last records, and
    none of its work: whoever refreshes next finds what is not recorded, and records it.

    `provenance` is from before anything was read.
    """

    def __init__(self, context: Context, provenance: Provenance, ids: Sequence[str]) -> None:
        self._context, self._provenance, self._ids = context, provenance, ids
        self._due_at_s = time.time() + _MIN_INTERVAL_S
        self._kept: dict[dg.AssetKey, list[_Kept]] = {}
        self._plan: RecordedPlan | None = None
        self._skipped: dict[_Made, StageResult] = {}
        self._recorded: set[_Made] = set()
        self.sources: list[SourceRefresh] = []  # for the run's log, and for the log of refreshes

    def plan(self, settings: Settings, names: Names, stages: Collection[str]) -> None:
        """Tell Dagster what an op will make, which only an asset's own step tells it by itself.

        From then on, no unchanged stage is recorded whose newest materialization says the same already, but
        for the snapshot, one of each other asset, and what an earlier run failed to make.
        """
        self._plan = RecordedPlan(self._context, settings, names, stages, self._ids)

    def record_stage(self, result: StageResult) -> None:
        """Keep a stage for the next flush, or see that there is nothing to record."""
        stats, key = result.stats, result.key
        may_skip = self._plan and stats.stage != "snapshot" and not stats.has_changes
        may_skip = may_skip and not (self._plan and self._plan.had_failed(key, stats.source))
        if may_skip and self._provenance.is_recorded(key, stats.source, result.version):
            self._skipped[key, stats.source] = result
        else:
            self._keep(result)
        self._provenance.note_version(key, stats.source, result.version)
        if time.time() >= self._due_at_s:
            self.flush()

    def flush(self) -> None:
        """Write what is kept."""
        began_s = time.time()
        for key in sorted(self._kept, key=lambda key: list(STAGES).index(key.path[-1])):
            entries: list[dg.EventLogEntry] = []
            for result, metadata, at_s in self._kept[key]:
                source = result.stats.source
                tags = self._provenance.build_tags(key, source, result.version)
                materialization = dg.AssetMaterialization(key, None, metadata, source, tags)
                entries.append(build_materialization_entry(self._context, materialization, at_s))
                self._recorded.add((key, source))
            store_asset_events(self._context.instance, entries)
        self._kept.clear()
        self._log_sources()
        self._due_at_s = time.time() + choose_interval_s(time.time() - began_s)

    def finish(self) -> None:
        """Record one partition of each asset that was refreshed without a record: it is not stale."""
        recorded = {key for key, _ in self._recorded}
        for key, result in {key: result for (key, _), result in self._skipped.items()}.items():
            if key not in recorded:
                self._keep(result)
        self.flush()

    def finish_failed(self, sources: Collection[str]) -> None:
        """Let what these sources lack be failed with the run, and nothing else that it was to make."""
        if self._plan:
            for (_, source), result in self._skipped.items():
                if source in self._plan.sources and source not in sources:
                    self._keep(result)
            self.flush()
            self._plan.add(sources, besides=self._recorded)

    def _keep(self, result: StageResult) -> None:
        kept = (result, result.read_metadata(), time.time())
        self._kept.setdefault(result.key, []).append(kept)

    def _log_sources(self) -> None:
        if not self.sources:
            return
        sources, self.sources = self.sources, []
        changed = [run for run in sources if not run.stats or any(stats.has_changes for stats in run.stats)]
        lines = [describe_source(run) for run in changed]
        if unchanged := [run.ctx.source.id for run in sources if run not in changed]:
            lines.append(f"unchanged: {', '.join(unchanged)}")
        self._context.log.info("\n".join(lines))
        stats: list[Stats] = [stat for run in sources for stat in run.stats]
        ctx = sources[0].ctx
        log_refreshes(ctx.lake, ctx.settings, stats, run_id=self._context.run.run_id)


class RecordedPlan:
    """What a run was to make, as Dagster's log has it: it is in progress, and later made or failed.

    All of a run of a few sources; of many, what failed alone: each partition takes an event for each asset.
    """

    def __init__(
        self,
        context: Context,
        settings: Settings,
        names: Names,
        stages: Collection[str],
        ids: Collection[str],
    ) -> None:
        self._context = context
        self._partitions: dict[dg.AssetKey, list[str]] = {}
        self._failed: dict[dg.AssetKey, set[str]] = {}
        self.sources: set[str] = set()
        for type_, of_type in group_ids_by_type(settings).items():
            wanted = [id_ for id_ in of_type if id_ in ids]
            for stage in select_stages(type_) if wanted else ():
                if stage in stages:
                    key, definition = names.key(type_, stage), source_partitions(type_, names)
                    self._partitions[key] = wanted
                    self._failed[key] = read_failed_partitions(context.instance, key, wanted, definition)
        if len(ids) <= _MAX_PLANNED:
            self.add(ids)

    def had_failed(self, key: dg.AssetKey, source: str) -> bool:
        """Whether an earlier run failed to make a partition, and no run has made it since."""
        return source in self._failed.get(key, ())

    def add(self, sources: Collection[str], *, besides: Collection[_Made] = ()) -> None:
        """Plan all assets of some sources that are not planned yet, but for those that are made."""
        new = set(sources) - self.sources
        for key, partitions in self._partitions.items():
            missing = [name for name in partitions if name in new and (key, name) not in besides]
            store_asset_events(
                self._context.instance, [build_planned_entry(self._context, key, name) for name in missing]
            )
        self.sources |= new


def choose_interval_s(flush_s: float) -> float:
    """How long to keep stages after such a flush."""
    return min(_MAX_INTERVAL_S, max(_MIN_INTERVAL_S, _WORK_PER_FLUSH * flush_s))


BROKER_VARIABLE = "KNOWLEDGE_CELERY_BROKER"

CELERY_SETTINGS: dict[str, Any] = {
    # A task leaves the queue when it is done, not when it starts: the broker gives the task of a dead worker
    # to another one. A step may so run twice, which costs a listing (docs/decisions/operation.md).
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    # The broker gives the task of a disconnected worker to another one, so the first one must stop.
    "worker_cancel_long_running_tasks_on_connection_loss": True,
    "worker_prefetch_multiplier": 1,  # a step takes minutes: no worker reserves one that another could start
    "task_default_queue": "dagster",
    "broker_connection_retry_on_startup": True,
}
"""Celery settings that executor and workers share."""

SOURCE_STEP_TAGS = {CELERY_QUEUE: "sources"}
"""Tags of the steps that read sources and embed. Their own queue keeps a release, or the SQL models, from
waiting behind a hundred of them, and lets machines that embed well serve them alone."""


def select_executor() -> dg.ExecutorDefinition:
    """The executor that `KNOWLEDGE_EXECUTOR` names.

    `in_process` (default): steps run in the run's own process. `multiprocess`: in a process for each step,
    which costs 3 to 8 s more; that pays where the steps of a run are long and independent, as the SQL models
    of a large store are. `celery`: as a task for each step, on any number of machines.
    """
    match os.environ.get("KNOWLEDGE_EXECUTOR") or "in_process":
        case "in_process":
            return dg.in_process_executor
        case "multiprocess":
            return dg.multiprocess_executor
        case "celery":
            return _build_celery_executor()
        case _:
            raise ConfigError(
                "KNOWLEDGE_EXECUTOR must be `in_process`, `multiprocess` or `celery`: correct it or unset it"
            )


def _build_celery_executor() -> dg.ExecutorDefinition:
    """Dagster's Celery executor, fully configured: `execution` in a run's configuration stays empty."""
    try:
        from dagster_celery import celery_executor
    except ImportError as error:
        raise ConfigError(describe_missing("KNOWLEDGE_EXECUTOR=celery", "celery")) from error
    if not os.environ.get(BROKER_VARIABLE):
        raise ConfigError(
            f"KNOWLEDGE_EXECUTOR is `celery` and {BROKER_VARIABLE} is not set: "
            "set it to the broker's address, such as pyamqp://user:password@host//"
        )
    # Given by the variable's name: the address holds a password, and Dagster stores a run's configuration.
    return celery_executor.configured(
        {"broker": {"env": BROKER_VARIABLE}, "config_source": CELERY_SETTINGS}, name="celery"
    )


_MAX_TAGGED_SOURCES = 25  # more tags than these make the page of a run unreadable


def read_sources_per_run() -> int:
    """The most sources that share a run: 100, or `KNOWLEDGE_SOURCES_PER_RUN`.

    An unchanged source costs about 0.2 s and the start of a run 5 to 10 s, so a hundred share one start.
    A killed run repeats at most a hundred listings. A worker takes a whole run: set a smaller number where
    several machines share the work.
    """
    value = os.environ.get("KNOWLEDGE_SOURCES_PER_RUN") or "100"
    if not value.isdecimal() or int(value) < 1:
        raise ConfigError("KNOWLEDGE_SOURCES_PER_RUN must be a whole number above 0: correct it or unset it")
    return int(value)


def build_refresh_requests(
    sources: Sequence[SourceConfig],
    names: Names = PLAIN,
    *,
    trigger: str,  # why: "commit", "files", "daily", "added", ...; shown as a tag
    run_key: str | None = None,
    options: RefreshOptions = ORDINARY_REFRESH,
    tags: Mapping[str, str] | None = None,
) -> Iterator[dg.RunRequest]:
    """Requests of the job `refresh` for some sources, at most `read_sources_per_run()` in each.

    Dagster starts one run for equal `run_key`s, which are numbered from the second run on.
    """
    batches = split_batches((source.id for source in sources), read_sources_per_run())
    for number, ids in enumerate(batches, start=1):
        yield dg.RunRequest(
            run_key=run_key if number == 1 or run_key is None else f"{run_key} {number}",
            job_name=names.definition("refresh"),
            run_config={"ops": {"refresh_sources": {"config": {"sources": ids, **options.as_config()}}}},
            tags={"knowledge/trigger": trigger, **build_source_tags(ids), **(tags or {})},
        )


def build_purge_request(ids: Sequence[str], names: Names = PLAIN) -> dg.RunRequest:
    """A request of the job `purge`: erase everything stored of sources that are no longer configured."""
    return dg.RunRequest(
        job_name=names.definition("purge"),
        run_config={"ops": {"purge_sources": {"config": {"sources": list(ids)}}}},
        tags={"knowledge/trigger": "removed", **build_source_tags(ids)},
    )


def build_source_tags(ids: Sequence[str]) -> dict[str, str]:
    """A tag `source/<id>` for each source, to find its runs by; only their number where they are many."""
    shown = {f"source/{id_[:63]}": "yes" for id_ in ids[:_MAX_TAGGED_SOURCES]}
    return shown if len(ids) <= _MAX_TAGGED_SOURCES else {"knowledge/sources": str(len(ids))}


def fail_lost_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark as failed the unfinished runs whose process on this machine is gone, and return their ids.

    A code server reports the death of a run's process to the instance, and on Kubernetes run monitoring does.
    Nobody does where the code server died with it, or where a command recorded its own run.
    """
    ended: list[str] = []
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        host, pid, tagged_run = [*run.tags.get(PROCESS_TAG, "").split(":"), "", "", ""][:3]
        if host == socket.gethostname() and tagged_run == run.run_id[:8]:
            try:
                os.kill(int(pid), 0)  # asks whether it is alive
            except ProcessLookupError:
                instance.report_run_failed(run, "the run's process died; a retry finishes what is left")
                ended.append(run.run_id)
    return ended


def cancel_unqueued_runs(
    instance: dg.DagsterInstance, names: Names = PLAIN, older_than: timedelta = timedelta(minutes=2)
) -> list[str]:
    """Cancel the re-executions that were created and never queued, and return their ids.

    Dagster leaves one where the first or last partition of a range is gone; run monitoring would call it slow
    to start after three minutes, and start it again.
    """
    latest = datetime.now(UTC) - older_than
    waiting = dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED], created_before=latest)
    runs = [run for run in instance.get_runs(waiting) if run.parent_run_id and names.has_run(run)]
    for run in runs:
        instance.report_run_canceled(
            run,
            "the run was never queued: one of its partitions is gone, or the process that created it died; "
            "launch the partitions that exist",
        )
    return [run.run_id for run in runs]


def build_lost_runs_sensor(names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that ends lost runs; Dagster itself retries them."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("lost_runs"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Ends runs whose process on this machine is gone, and re-executions never queued.",
    )
    def lost_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        ended = [*fail_lost_runs(context.instance), *cancel_unqueued_runs(context.instance, names)]
        return dg.SkipReason(f"ended {', '.join(ended)}" if ended else "every run's process is alive")

    return lost_runs
