"""Schedules: what is due by the clock. `schedules` in `knowledge.yaml` sets their times."""

import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

import dagster as dg

from knowledge_pipeline.config.operation import ScheduleSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.requests import build_refresh_requests
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.stages.context import RefreshOptions
from knowledge_pipeline.stages.schedules import Schedule, list_scheduled_sources

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
    "checks": "Checks everything that is stored: duplicates, skipped documents, sizes, age, cost.",
    "sql_models": "Runs the models and tests of dbt_like_sql, and writes the marts.",
    "tuning": "Learns the ranking from the corpus, and releases it if it is better.",
}
"""Jobs without sources; each has a schedule of its name."""


def build_schedules(
    settings: Settings, names: Names = PLAIN, *, has_checks: bool = True
) -> list[dg.ScheduleDefinition]:
    """All schedules, those of tuning and organisations where asked for; they run unless someone stops them.

    A tick reads the settings again, except the times.

    Raises:
        ConfigError: a time zone or a cron expression does not exist.
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
        "checks": has_checks,
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
        requests = list(
            build_refresh_requests(sources, names, trigger=schedule, run_key=key, options=options)
        )
        return requests or dg.SkipReason(nothing_due)

    return _build_schedule(names.bind(tick), schedule, times, names, job="refresh", description=description)


def _build_job_schedule(job: str, times: ScheduleSettings, names: Names) -> dg.ScheduleDefinition:
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        key = context.scheduled_execution_time.isoformat()
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
    decorator = dg.schedule(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        cron_schedule=cron,
        name=names.definition(name),
        job_name=names.definition(job),
        execution_timezone=times.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Found a cron schedule")
            return decorator(tick)
    except (dg.DagsterInvalidDefinitionError, UserWarning) as error:
        raise ConfigError(
            f"schedules.{name}: {cron!r} is not a cron expression, or does not tick as it says: write "
            "minute, hour, day of month, month and day of week, as in '0 3 * * *'"
        ) from error
