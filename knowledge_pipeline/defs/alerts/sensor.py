"""Who hears of a failed run: the log of the sensor's tick and of the daemon, a Slack channel, addresses.

One cause is told once an hour, however many runs it breaks. That is remembered as tags of
the runs that were told, where the UI shows it too: a sensor on runs cannot keep a cursor.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import partial

import dagster as dg
from dagster import DagsterEvent

from knowledge_pipeline.config.operation import AlertSettings
from knowledge_pipeline.config.settings import SanitizeSettings
from knowledge_pipeline.defs.alerts.channels import Alert, post_to_slack, send_email
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import ConfigError, KnowledgeError
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sanitizing.sanitize import sanitize

URL_VARIABLE = "KNOWLEDGE_DAGSTER_URL"
"""Names the address of the UI, "https://dagster.example.com", so that an alert links to its run."""

ALERT_TAG, GROUPED_TAG = "knowledge/alert", "knowledge/alert_grouped"
"""Tags of a run that was told, and of one that was not because its cause had been; the value is the cause."""

QUIET_S = 3600.0
_MAX_REASONS_SHOWN = 3
_MAX_REASON_CHARS = 1500
_MAX_SOURCES_SHOWN = 10
_VARIABLE_PARTS = re.compile(r"[0-9a-f]{8,}|\d+(?:[.,]\d+)*")  # run ids, commits, counts, seconds

Channel = Callable[[Alert], None]


def build_failed_runs_sensor(*, quiet_s: float = QUIET_S) -> dg.SensorDefinition:
    """The sensor that tells failed runs, except those that Dagster starts again by itself.

    Args:
        quiet_s: seconds between two alerts of one job and one reason.
    """

    @dg.run_failure_sensor(
        name="failed_runs",
        minimum_interval_seconds=15,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells failed runs in the log, and by Slack and mail where knowledge.yaml says so; "
        "one job and reason at most once an hour.",
    )
    def failed_runs(context: dg.RunFailureSensorContext, project: ProjectResource) -> None:
        if context.dagster_run.tags.get("dagster/will_retry") == "true":
            context.log.info(f"run {context.dagster_run.run_id} failed and is tried again")
            return
        reason = _describe_failure(context)
        cause = hash_strings(context.dagster_run.job_name, _VARIABLE_PARTS.sub("#", reason))[:16]
        since = _count_failures_since_alert(context, cause, quiet_s)
        if since is None:
            context.instance.add_run_tags(context.dagster_run.run_id, {GROUPED_TAG: cause})
            return
        alert = _build_alert(context.dagster_run, reason, since)
        context.log.error(f"{alert.title}\n{alert.text}" + (f"\n{alert.url}" if alert.url else ""))
        if _send_to_channels(context, alert, _load_alert_settings(context, project)):
            context.instance.add_run_tags(context.dagster_run.run_id, {ALERT_TAG: cause})

    return failed_runs


def _describe_failure(context: dg.RunFailureSensorContext) -> str:
    """What went wrong, in sentences: our own where a step failed on purpose, without secrets."""
    failures = context.get_step_failure_events()
    reasons = list(dict.fromkeys(_format_step_failure(event) for event in failures)) or [
        _format_run_failure(context.failure_event)
    ]
    shown = "; ".join(reasons[:_MAX_REASONS_SHOWN])
    if len(reasons) > _MAX_REASONS_SHOWN:
        shown += f"; and {len(reasons) - _MAX_REASONS_SHOWN} other reasons"
    clean = sanitize(shown, SanitizeSettings(secrets="redact")).text
    return clean if len(clean) <= _MAX_REASON_CHARS else f"{clean[: _MAX_REASON_CHARS - 1]}…"


def _format_step_failure(failure: DagsterEvent) -> str:
    """What our own error says; of an unforeseen one its kind and message, never the traceback."""
    failed = failure.step_failure_data
    if failed.user_failure_data and failed.user_failure_data.description:
        return failed.user_failure_data.description
    error = failed.error
    if error and error.cause and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    said = error.message if error else failure.message or ""
    return f"unexpected error in {failure.step_key}: {_first_line(said)}"


def _format_run_failure(failure: DagsterEvent) -> str:
    """Why a run ended of which no step failed: its process died, or it could not start."""
    error = getattr(failure.event_specific_data, "error", None)  # a lost process leaves no details
    return _first_line(error.message if error else failure.message or "the run failed")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def _count_failures_since_alert(
    context: dg.RunFailureSensorContext, cause: str, quiet_s: float
) -> int | None:
    """How many runs failed alike since the last alert; None if that was less than `quiet_s` ago."""
    instance = context.instance
    ended = _read_end_time(instance, context.dagster_run.run_id)
    told = instance.get_run_records(dg.RunsFilter(tags={ALERT_TAG: cause}), limit=1)
    if not told:
        return 0
    (last,) = told
    if last.dagster_run.run_id == context.dagster_run.run_id or ended - (last.end_time or 0.0) < quiet_s:
        return None
    grouped = instance.get_run_records(dg.RunsFilter(tags={GROUPED_TAG: cause}), limit=1000)
    return sum(1 for record in grouped if (record.end_time or 0.0) >= (last.end_time or 0.0))


def _read_end_time(instance: dg.DagsterInstance, run_id: str) -> float:
    record = instance.get_run_record_by_id(run_id)
    return (record.end_time if record else None) or 0.0


def _build_alert(run: dg.DagsterRun, reason: str, repeats: int) -> Alert:
    sources = _format_sources(run.tags)
    lines = [reason, *([f"Sources: {sources}"] if sources else []), f"Trigger: {_find_trigger(run.tags)}"]
    if repeats:
        lines.append(f"It failed like this {repeats} more times since the last alert.")
    base = os.environ.get(URL_VARIABLE, "").rstrip("/")
    return Alert(
        title=f"Knowledge pipeline: the run {run.run_id[:8]} of {run.job_name} failed",
        text="\n".join(lines),
        url=f"{base}/runs/{run.run_id}" if base else None,
    )


def _format_sources(tags: Mapping[str, str]) -> str:
    """The sources that the run was for, as its tags say; empty for a run of all, or of none."""
    named = sorted(name.removeprefix("source/") for name in tags if name.startswith("source/"))
    first, last = (tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end"))
    if not named and "dagster/partition" in tags:
        named = [tags["dagster/partition"]]
    if not named and first:
        return f"{first} to {last}"
    if not named:
        return tags.get("knowledge/sources", "")
    more = f" and {len(named) - _MAX_SOURCES_SHOWN} more" if len(named) > _MAX_SOURCES_SHOWN else ""
    return ", ".join(named[:_MAX_SOURCES_SHOWN]) + more


def _find_trigger(tags: Mapping[str, str]) -> str:
    names = ("knowledge/trigger", "dagster/schedule_name", "dagster/sensor_name", "dagster/backfill")
    return next((tags[name] for name in names if name in tags), "by hand")


def _load_alert_settings(context: dg.RunFailureSensorContext, project: ProjectResource) -> AlertSettings:
    try:
        return project.load_settings().alerts
    except ConfigError as error:
        context.log.error(f"the alert is told here alone: {error}")
        return AlertSettings()


def _send_to_channels(context: dg.RunFailureSensorContext, alert: Alert, alerts: AlertSettings) -> bool:
    """Send by every channel that is set; False if there are some and all of them failed."""
    channels: dict[str, Channel] = {}
    if alerts.slack_webhook is not None:
        channels["Slack"] = partial(post_to_slack, alerts.slack_webhook)
    if alerts.email is not None:
        channels["mail"] = partial(send_email, alerts.email)
    failed = [name for name, send in channels.items() if not _try_send(context, name, send, alert)]
    return not channels or len(failed) < len(channels)


def _try_send(context: dg.RunFailureSensorContext, name: str, send: Channel, alert: Alert) -> bool:
    try:
        send(alert)
    except KnowledgeError as error:
        context.log.error(f"the alert did not go out by {name}: {error}")
    except Exception as error:  # noqa: BLE001 - one channel never hides the other; messages may hold secrets
        context.log.error(f"the alert did not go out by {name}: unexpected {type(error).__name__}")
    else:
        return True
    return False
