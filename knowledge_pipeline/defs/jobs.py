"""The jobs of plain ops, with their schedules and sensors; and the job that publishes.

A run of assets has partitions of one set, and each type has a set of its own: a person launches a partition
or a backfill of a type from the asset graph. `refresh` and `purge` take sources of any type by their ids:
one run, one process, one step, whatever the number of sources. `maintenance` and
`migration` are what the commands of these names do; their run pages show what they did.
"""

# The signature of `dg.job` has a bare PathLike.
# pyright: reportUnknownMemberType=false

import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import dagster as dg
from pydantic import Field

from knowledge_pipeline import maintenance as maintenance_stage
from knowledge_pipeline.config.operation import ScheduleSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs.checks import SourcesFailed, run_step
from knowledge_pipeline.defs.dagster_internals import COMPUTE_KIND, PRIORITY
from knowledge_pipeline.defs.define import build_op_job, op, sensor
from knowledge_pipeline.defs.event_log import (
    RELEASE,
    build_release_events,
    is_release_recorded,
    log_release,
    refresh_and_record,
    release_and_log,
)
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import build_list, build_table
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import (
    SOURCE_STEP_TAGS,
    RefreshConfig,
    build_progress_report,
    build_refresh_requests,
)
from knowledge_pipeline.defs.sensors import READING_STATUSES, WAITING_STATUSES
from knowledge_pipeline.defs.settings_assets import list_source_types, settings_partitions
from knowledge_pipeline.errors import ConfigError, NotFound, SourceRefused
from knowledge_pipeline.extensions import publish
from knowledge_pipeline.maintenance import GRACE_S, MaintenanceOptions, purge_former_types
from knowledge_pipeline.receipts import purge_with_receipt
from knowledge_pipeline.stages.context import RefreshOptions, Schedule, list_scheduled_sources
from knowledge_pipeline.stages.organisations import discover
from knowledge_pipeline.stages.permissions import list_guarded, refresh_all_permissions
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store import migrate
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release

_MAX_NAMED = 50


class SourcesConfig(RefreshConfig):
    """Which sources, and how."""

    sources: list[str] = Field(default=[], description="Ids of sources; none means all that are configured.")


class PurgeConfig(dg.Config):
    """What to erase."""

    sources: list[str] = Field(description="Ids of stored sources that are no longer configured.")


@op(SOURCE_STEP_TAGS)
def _refresh_sources(context: dg.OpExecutionContext, config: SourcesConfig, project: ProjectResource) -> None:
    """Refreshes one source after the other, records each, and releases what changed.

    Fails at the end if any source failed; the others are done, recorded and released.
    """
    with run_step(context, project.retry_policy()):
        ids = [source.id for source in project.load_settings().select_sources(config.sources)]
        refresh_and_record(context, project, config.options, ids, release=True, is_op=True)


@op()
def _read_permissions(context: dg.OpExecutionContext, project: ProjectResource) -> None:
    """Reads who may read the documents of sources that say so themselves; then the documents that moved.

    Fails at the end if any source failed; the others are done.
    """
    with run_step(context, project.retry_policy()):
        settings, lake = project.load_settings(), project.open_lake()
        results = refresh_all_permissions(lake, settings, list_guarded(settings))
        for result in results:
            context.log.info(f"{result.source.id}: {result.error or dict(result.notes)}")
        if moved := [it for it in results if it.can_refresh(lake)]:
            # a few bring the rows of the others along, and nothing that is new is embedded here
            documents = tuple(f"{it.source.id}/{uri}" for it in moved for uri in it.moved[:_MAX_NAMED])
            ids, options = [it.source.id for it in moved], RefreshOptions(documents=documents)
            refresh_and_record(context, project, options, ids, release=True, is_op=True)
        if failed := {it.source.id: it.error for it in results if it.error}:
            raise SourcesFailed(failed, total=len(results))


@op()
def _purge_sources(context: dg.OpExecutionContext, config: PurgeConfig, project: ProjectResource) -> None:
    """Erases everything stored of sources that are no longer configured.

    Of a source that is configured again by now, only what is left of its former type.
    """
    with run_step(context, project.retry_policy()):
        settings = project.load_settings()
        if unlisted := settings.unlisted_organisations:
            raise ConfigError(
                f"the members of {', '.join(unlisted)} are not known here: launch the job organisations "
                "before anything is purged"
            )
        lake = Lake(settings.store)
        configured = {source.id for source in settings.sources}
        for source in lake.list_stored_sources().keys() & set(config.sources):
            if source in configured:
                documents, by = purge_former_types(lake, settings, source), ""
            else:
                receipt = purge_with_receipt(lake, settings, source, scope="source")
                documents, by = receipt.documents, f", receipt {receipt.receipt}"
            context.log.info(f"{source}: {documents} documents erased{by}")
        partitions = str(settings_partitions(project.names).name)
        for source in set(config.sources) - configured:
            context.instance.delete_dynamic_partition(partitions, source)


class RollbackConfig(dg.Config):
    """Which release is to be live, and whether it stays."""

    release: int | None = Field(default=None, description="The release to return to; none: the live one.")
    pin: bool | None = Field(
        default=None,
        description="Whether refreshes publish nothing from then on: true for a release that is named. With "
        "false the next refresh publishes the newest; without a release this run does, and ends the pin.",
    )


@op({COMPUTE_KIND: "lancedb"})
def _roll_back_release(
    context: dg.OpExecutionContext, config: RollbackConfig, project: ProjectResource
) -> None:
    """Returns to an earlier release, pins one, or ends a pin, and records what is live.

    It needs no pool: the store's locks separate it from refreshes.
    """
    with run_step(context, project.retry_policy()):
        settings, lake = project.load_settings(), project.open_lake()
        live, number = find_live_release(lake), config.release
        if number is None and config.pin is None:
            raise ConfigError(
                "give the `release` to return to, `pin: true` to keep the live one, or `pin: false`"
            )
        if number is None and not config.pin:
            if not (live and live.pin):
                raise NotFound("no release is pinned: refreshes publish what they change")
            release_and_log(context, project, list_source_types(settings), unpin=True)
            return
        number = number if number is not None or live is None else live.release
        roll_back_release(lake, settings, number or 0, pin=config.pin is not False)
        log_release(context, project)


def build_source_jobs(names: Names = PLAIN) -> list[dg.JobDefinition]:
    """The jobs `refresh`, `purge` and `rollback`."""
    return [
        build_op_job(
            *(names, "refresh", _refresh_sources(names)),
            description="Refresh sources of any type, all where none is named, and release what changed.",
        ),
        build_op_job(
            *(names, "purge", _purge_sources(names)),
            description="Erase everything stored of sources that are no longer configured.",
        ),
        build_op_job(
            *(names, "rollback", _roll_back_release(names)),
            description="Make an earlier release live again and pin it, pin the live one, or end a pin.",
        ),
    ]


_REFRESH_SCHEDULES: dict[Schedule, tuple[str, str]] = {
    "hourly": ("Refreshes the sources whose trigger is hourly.", "no source has the trigger hourly"),
    "daily": (
        "Refreshes the sources whose trigger is daily, and those that commits, changed files or the hour "
        "refresh, to catch up on what was missed.",
        "no source is refreshed daily or more often",
    ),
    "weekly": ("Refreshes the sources whose trigger is weekly.", "no source has the trigger weekly"),
    "weekly_reindex": (
        "Rebuilds all rows, except vectors, of the sources whose full_reindex is weekly.",
        "no source has full_reindex: weekly",
    ),
    "monthly_reindex": (
        "Rebuilds all rows, except vectors, of the sources whose full_reindex is monthly.",
        "no source has full_reindex: monthly",
    ),
}
_STORE_SCHEDULES: dict[str, str] = {
    "organisations": "Lists the members of organisations.",
    "maintenance": "Compacts the tables, updates their indexes, deletes what is no longer needed.",
    "permissions": "Reads the permissions of sources with visibility from_source, and no content.",
    "checks": "Checks everything that is stored: duplicates, skipped documents, sizes, age, cost.",
    "sql_models": "Runs the models and tests of dbt_like_sql, and writes the marts.",
    "tuning": "Learns the ranking from the corpus, and releases it if it is better.",
}
"""Jobs without sources; each has a schedule of its name."""


def build_schedules(settings: Settings, names: Names = PLAIN) -> list[dg.ScheduleDefinition]:
    """All schedules, those of tuning and organisations where asked for; they run unless someone stops them.

    A tick reads the settings again, except the times; one that does not exist is a ConfigError.
    """
    times, name = settings.schedules, settings.schedules.timezone
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # zoneinfo raises any of them for unknown names
        close = get_close_matches(name, available_timezones(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "use a name like 'Europe/Berlin' or 'UTC'"
        raise ConfigError(f"schedules.timezone: there is no time zone {name!r}: {hint}") from error
    optional = {
        "organisations": bool(settings.organisations),
        "permissions": bool(list_guarded(settings)),
        "checks": bool(settings.sources or settings.organisations),
        "tuning": settings.tuning.trigger == "weekly",
    }
    return [
        *(_build_refresh_schedule(schedule, times, names) for schedule in _REFRESH_SCHEDULES),
        *(_build_job_schedule(job, times, names) for job in _STORE_SCHEDULES if optional.get(job, True)),
    ]


def _build_refresh_schedule(
    schedule: Schedule, times: ScheduleSettings, names: Names
) -> dg.ScheduleDefinition:
    description, nothing_due = _REFRESH_SCHEDULES[schedule]
    options = RefreshOptions(full=schedule.endswith("_reindex"))

    def tick(
        context: dg.ScheduleEvaluationContext, project: ProjectResource
    ) -> Sequence[dg.RunRequest] | dg.SkipReason:
        sources = list_scheduled_sources(project.load_settings(), schedule)
        key = context.scheduled_execution_time.isoformat()  # a tick evaluated again starts no second run
        requests = build_refresh_requests(sources, names, trigger=schedule, run_key=key, options=options)
        return list(requests) or dg.SkipReason(nothing_due)

    return _build_schedule(names.bind(tick), schedule, times, names, job="refresh", description=description)


def _build_job_schedule(job: str, times: ScheduleSettings, names: Names) -> dg.ScheduleDefinition:
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        key = context.scheduled_execution_time.isoformat()
        unfinished = dg.RunsFilter(
            job_name=names.definition(job), statuses=[*WAITING_STATUSES, *READING_STATUSES]
        )
        if job == "permissions" and context.instance.get_runs(unfinished, limit=1):
            return dg.SkipReason("the last run has not ended yet")
        return dg.RunRequest(run_key=key, tags={"knowledge/trigger": job})

    return _build_schedule(tick, job, times, names, job=job, description=_STORE_SCHEDULES[job])


def _build_schedule(
    tick: Callable[..., Sequence[dg.RunRequest] | dg.RunRequest | dg.SkipReason],
    name: str,
    times: ScheduleSettings,
    names: Names,
    *,
    job: str,
    description: str,
) -> dg.ScheduleDefinition:
    cron = " ".join(getattr(times, name).split())
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Found a cron schedule")
            return dg.schedule(
                cron_schedule=cron,
                name=names.definition(name),
                job_name=names.definition(job),
                execution_timezone=times.timezone,
                default_status=dg.DefaultScheduleStatus.RUNNING,
                description=description,
            )(tick)
    except (dg.DagsterInvalidDefinitionError, UserWarning) as error:
        raise ConfigError(
            f"schedules.{name}: {cron!r} is not a cron expression, or does not tick as it says: write "
            "minute, hour, day of month, month and day of week, as in '0 3 * * *'"
        ) from error


class MaintenanceConfig(dg.Config):
    """What to do; by default everything but a repair, which reads the whole store."""

    collect_vectors: bool = Field(default=True, description="Delete vectors of texts that are long gone.")
    compact: bool = Field(default=True, description="Merge small fragments and those with deleted rows.")
    indexes: bool = Field(default=True, description="Build missing indexes, index the rows that are not.")
    versions: bool = Field(default=True, description="Delete old versions that no release names.")
    logs: bool = Field(default=True, description="Delete log entries older than logs.keep_days.")
    leftovers: bool = Field(default=True, description="Remove unused mirrors, spaces and files.")
    grace_s: float = Field(
        default=GRACE_S, ge=0, description="How long a version stays after another one took its place."
    )
    dry_run: bool = Field(default=False, description="Only report what would be done.")
    repair: bool = Field(default=False, description="First mend what is damaged: a refresh does the rest.")


@op({COMPUTE_KIND: "lancedb"})
def _maintain(context: dg.OpExecutionContext, config: MaintenanceConfig, project: ProjectResource) -> None:
    """Collects vectors, merges fragments, updates indexes, deletes versions, logs and leftovers.

    It needs no pool: the store's locks separate it from refreshes.
    """
    with run_step(context, project.retry_policy()):
        settings = project.load_settings()
        options = MaintenanceOptions(**config.model_dump())
        report = build_progress_report(context.log, "maintenance")
        maintained = maintenance_stage.refresh(Lake(settings.store), settings, options=options, report=report)
    actions = maintained.actions.values()
    for action in actions:
        context.log.info(
            f"{action.action}: {action.touched_count} tables, {action.removed} removed, "
            f"{action.bytes_before} bytes before, {action.bytes_after} after, {action.seconds:.1f} s"
        )
    if release := maintained.release:
        context.log.info(f"release {release.release} is live, with the same rows")
        log_release(context, project)
    for name, reason in maintained.skipped.items():
        context.log.warning(f"{name}: skipped: {reason}")
    metadata: dict[str, Any] = {
        "sources": maintained.sources,
        "freed_bytes": maintained.freed_bytes,
        "vectors_removed": maintained.actions["vectors"].removed if "vectors" in maintained.actions else 0,
        "skipped": len(maintained.skipped),
        "seconds": maintained.seconds,
        "dry_run": maintained.dry_run,
    }
    if release:
        metadata["release"] = release.release
    if actions:
        touched = [f"{action.action}: `{path}`" for action in actions for path in action.touched]
        metadata["actions"] = build_table([action.to_row() for action in actions])
        metadata["touched"] = build_list(touched)
    if skipped := maintained.skipped:
        metadata["skipped_because"] = build_list([f"{name}: {reason}" for name, reason in skipped.items()])
    context.add_output_metadata(metadata)


def build_permissions_job(names: Names = PLAIN) -> dg.JobDefinition:
    """The job that reads permissions alone; it goes before refreshes that wait."""
    return build_op_job(
        *(names, "permissions", _read_permissions(names)),
        description="Read who may read the documents of sources with visibility from_source, and no content.",
        tags={PRIORITY: "10"},
    )


def build_maintenance_job(names: Names = PLAIN) -> dg.JobDefinition:
    """The job that keeps the store small and fast, as `knowledge maintain` does."""
    return build_op_job(
        *(names, "maintenance", _maintain(names)),
        description="Keep the store small and fast; search gives the same results before, during and after.",
        tags={"knowledge/kind": "maintenance"},
    )


class MigrationAction(Enum):
    """What `knowledge migrate` does without an option, and with each."""

    MIGRATE = "migrate"
    DRY_RUN = "dry_run"
    UNDO = "undo"
    COMMIT = "commit"


class MigrationConfig(dg.Config):
    """What to do; by default migrate."""

    action: MigrationAction = Field(
        default=MigrationAction.MIGRATE,
        description="Migrate, only report, return to the store from before, or make the migration final.",
    )


@op({COMPUTE_KIND: "lancedb"})
def _migrate_tables(
    context: dg.OpExecutionContext, config: MigrationConfig, project: ProjectResource
) -> None:
    """Brings the tables that an earlier version wrote to the present schema, in place.

    It needs no pool: the store's locks separate it from refreshes.
    """
    with run_step(context, project.retry_policy()):
        lake = Lake(project.load_settings().store)
        versions = migrate.read_versions(lake)
        match config.action:
            case MigrationAction.MIGRATE:
                tables = migrate.migrate(lake, report=context.log.info)
            case MigrationAction.DRY_RUN:
                tables = [table.name for table in versions.tables if table.needs_migration]
            case MigrationAction.UNDO:
                tables = migrate.undo_migration(lake, report=context.log.info)
            case MigrationAction.COMMIT:
                tables = migrate.commit_migration(lake)
        after = migrate.read_versions(lake)
    context.add_output_metadata(
        {
            "action": config.action.value,
            "from_version": versions.oldest,
            "state": after.state,
            "tables": len(tables),
            "touched": build_list([f"`{name}`" for name in tables]),
        }
    )


def build_migration_job(names: Names = PLAIN) -> dg.JobDefinition:
    """The job that brings a store of an earlier version up to date, as `knowledge migrate` does."""
    return build_op_job(
        *(names, "migration", _migrate_tables(names)),
        description="Bring a store of an earlier version up to date, in place; nothing is embedded again.",
        tags={"knowledge/kind": "maintenance"},
    )


PUBLICATION = "publication"
"""The last part of the asset's key."""


def build_publication_asset(owners: Sequence[str] = (), names: Names = PLAIN) -> dg.AssetsDefinition:
    """The asset that copies what is live."""
    spec = dg.AssetSpec(
        names.key(PUBLICATION),
        deps=[names.key(RELEASE)],
        group_name=names.group("release"),
        kinds={"postgres"},
        owners=list(owners),
        description="One row per chunk of the live release, in PostgreSQL with pgvector: what changed is "
        "copied in one transaction, and a rollback is copied as well: docs/publish.md",
        code_version=publish.VERSION,
    )

    @dg.multi_asset(name=names.definition("copy_release"), specs=[spec], pool=names.pool("publication"))
    @names.bind
    def publication(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult[Any]:
        with run_step(context, project.retry_policy()):
            result = publish.refresh(project.open_lake(), project.load_settings(), publish.open_target())
        return dg.MaterializeResult(
            metadata=result.as_metadata(), data_version=dg.DataVersion(str(result.release))
        )

    return publication


_RECORDED_AFTER = timedelta(minutes=1)  # at most, by the run that makes a release


def build_new_release_sensor(names: Names = PLAIN, *, publishes: bool) -> dg.SensorDefinition:
    """The sensor that follows the live release, whoever made it; `publishes` requests its publication."""

    @sensor(job=PUBLICATION if publishes else None, interval_s=60, consequence="no release is looked up")
    def new_release(
        context: dg.SensorEvaluationContext, project: ProjectResource
    ) -> dg.SensorResult | dg.SkipReason:
        """Shows a release or rollback of the command line, and publishes each if that is configured."""
        live = find_live_release(project.open_lake())
        if live is None:
            return dg.SkipReason("nothing is released yet")
        number, events = str(live.release), list[Any]()
        if number == context.cursor:
            return dg.SkipReason(f"release {number} is live since {live.created_at:%Y-%m-%d %H:%M} UTC")
        if not is_release_recorded(context.instance, live.release, names):
            runs = context.instance.get_runs(dg.RunsFilter(statuses=list(READING_STATUSES)))
            is_new = datetime.now(UTC) - live.created_at < _RECORDED_AFTER
            if is_new and any(map(names.has_run, runs)):
                return dg.SkipReason(f"a run may be about to record release {number}")
            events += build_release_events(context.instance, project)
        requests = [dg.RunRequest(run_key=f"{number} {live.created_at.isoformat()}")] if publishes else []
        return dg.SensorResult(run_requests=requests, asset_events=events, cursor=number)

    return new_release(names)


@op()
def _discover_members(context: dg.OpExecutionContext, project: ProjectResource) -> None:
    """Lists the repositories, spaces or channels of every organisation; one that cannot be listed keeps its
    last members.

    Fails at the end if any could not be listed; the others are.
    """
    with run_step(context, project.retry_policy()):
        settings = project.load_settings()
        discoveries = [discover(settings, organisation) for organisation in settings.organisations]
        rows = [
            {
                "organisation": discovery.organisation,
                "listed": discovery.listed,
                "members": discovery.selected,
                "added": ", ".join(discovery.added[:_MAX_NAMED]),
                "removed": ", ".join(discovery.removed[:_MAX_NAMED]),
                "problem": discovery.problem,
            }
            for discovery in discoveries
        ]
        context.add_output_metadata({"organisations": build_table(rows)})
        if problems := [discovery.problem for discovery in discoveries if discovery.problem]:
            raise SourceRefused("; ".join(problems))


def build_organisations_job(names: Names = PLAIN) -> dg.JobDefinition:
    """The job that lists all organisations."""
    return build_op_job(
        *(names, "organisations", _discover_members(names)),
        description="List the members of organisations, each of which has partitions of its own.",
    )


@sensor(job="organisations", consequence="no organisation is listed")
def unlisted_organisations(
    context: dg.SensorEvaluationContext, project: ProjectResource
) -> dg.RunRequest | dg.SkipReason:
    """Lists an organisation that is new in knowledge.yaml, without waiting for the schedule.

    Once an hour if the listing stays missing. The sensor `sources_in_config` gives what is new a partition
    and a refresh, since it reads the listings.
    """
    del context
    unlisted = project.load_settings().unlisted_organisations
    if not unlisted:
        return dg.SkipReason("every organisation is listed")
    hour = datetime.now(UTC).strftime("%Y-%m-%dT%H")
    return dg.RunRequest(run_key=f"{hour} {' '.join(unlisted)}", tags={"knowledge/trigger": "unlisted"})
