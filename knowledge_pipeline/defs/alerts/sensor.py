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

from knowledge_pipeline.config.operation import Alerts
from knowledge_pipeline.config.settings import Sanitize
from knowledge_pipeline.defs.alerts.channels import Alert, mail, post_to_slack
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import ConfigError, KnowledgeError
from knowledge_pipeline.records import digest
from knowledge_pipeline.sanitizing.sanitize import sanitize

URL_VARIABLE = "KNOWLEDGE_DAGSTER_URL"
"""Names the address of the UI, "https://dagster.example.com", so that an alert links to its run."""

TOLD, GROUPED = "knowledge/alert", "knowledge/alert_grouped"
"""Tags of a run that was told, and of one that was not because its cause had been; the value is the cause."""

QUIET_S = 3600.0
_REASONS_SHOWN = 3
_MAX_REASON_CHARS = 1500
_SOURCES_SHOWN = 10
_VARIABLE_PARTS = re.compile(r"[0-9a-f]{8,}|\d+(?:[.,]\d+)*")  # run ids, commits, counts, seconds

Channel = Callable[[Alert], None]


def failed_runs(*, quiet_s: float = QUIET_S) -> dg.SensorDefinition:
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
        reason = _reason(context)
        cause = digest(context.dagster_run.job_name, _VARIABLE_PARTS.sub("#", reason))[:16]
        since = _told_before(context, cause, quiet_s)
        if since is None:
            context.instance.add_run_tags(context.dagster_run.run_id, {GROUPED: cause})
            return
        alert = _alert(context.dagster_run, reason, since)
        context.log.error(f"{alert.title}\n{alert.text}" + (f"\n{alert.url}" if alert.url else ""))
        if _send(context, alert, _alerts(context, project)):
            context.instance.add_run_tags(context.dagster_run.run_id, {TOLD: cause})

    return failed_runs


def _reason(context: dg.RunFailureSensorContext) -> str:
    """What went wrong, in sentences: our own where a step failed on purpose, without secrets."""
    failures = context.get_step_failure_events()
    reasons = list(dict.fromkeys(_sentence(event) for event in failures)) or [_of_run(context.failure_event)]
    shown = "; ".join(reasons[:_REASONS_SHOWN])
    if len(reasons) > _REASONS_SHOWN:
        shown += f"; and {len(reasons) - _REASONS_SHOWN} other reasons"
    clean = sanitize(shown, Sanitize(secrets="redact")).text
    return clean if len(clean) <= _MAX_REASON_CHARS else f"{clean[: _MAX_REASON_CHARS - 1]}…"


def _sentence(failure: DagsterEvent) -> str:
    """What our own error says; of an unforeseen one its kind and message, never the traceback."""
    failed = failure.step_failure_data
    if failed.user_failure_data and failed.user_failure_data.description:
        return failed.user_failure_data.description
    error = failed.error
    if error and error.cause and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    said = error.message if error else failure.message or ""
    return f"unexpected error in {failure.step_key}: {_first_line(said)}"


def _of_run(failure: DagsterEvent) -> str:
    """Why a run ended of which no step failed: its process died, or it could not start."""
    error = getattr(failure.event_specific_data, "error", None)  # a lost process leaves no details
    return _first_line(error.message if error else failure.message or "the run failed")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def _told_before(context: dg.RunFailureSensorContext, cause: str, quiet_s: float) -> int | None:
    """How many runs failed alike since the last alert; None if that was less than `quiet_s` ago."""
    instance = context.instance
    ended = _ended(instance, context.dagster_run.run_id)
    told = instance.get_run_records(dg.RunsFilter(tags={TOLD: cause}), limit=1)
    if not told:
        return 0
    (last,) = told
    if last.dagster_run.run_id == context.dagster_run.run_id or ended - (last.end_time or 0.0) < quiet_s:
        return None
    grouped = instance.get_run_records(dg.RunsFilter(tags={GROUPED: cause}), limit=1000)
    return sum(1 for record in grouped if (record.end_time or 0.0) >= (last.end_time or 0.0))


def _ended(instance: dg.DagsterInstance, run_id: str) -> float:
    record = instance.get_run_record_by_id(run_id)
    return (record.end_time if record else None) or 0.0


def _alert(run: dg.DagsterRun, reason: str, since: int) -> Alert:
    sources = _sources(run.tags)
    lines = [reason, *([f"Sources: {sources}"] if sources else []), f"Trigger: {_trigger(run.tags)}"]
    if since:
        lines.append(f"It failed like this {since} more times since the last alert.")
    base = os.environ.get(URL_VARIABLE, "").rstrip("/")
    return Alert(
        title=f"Knowledge pipeline: the run {run.run_id[:8]} of {run.job_name} failed",
        text="\n".join(lines),
        url=f"{base}/runs/{run.run_id}" if base else None,
    )


def _sources(tags: Mapping[str, str]) -> str:
    """The sources that the run was for, as its tags say; empty for a run of all, or of none."""
    named = sorted(name.removeprefix("source/") for name in tags if name.startswith("source/"))
    first, last = (tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end"))
    if not named and "dagster/partition" in tags:
        named = [tags["dagster/partition"]]
    if not named and first:
        return f"{first} to {last}"
    if not named:
        return tags.get("knowledge/sources", "")
    more = f" and {len(named) - _SOURCES_SHOWN} more" if len(named) > _SOURCES_SHOWN else ""
    return ", ".join(named[:_SOURCES_SHOWN]) + more


def _trigger(tags: Mapping[str, str]) -> str:
    names = ("knowledge/trigger", "dagster/schedule_name", "dagster/sensor_name", "dagster/backfill")
    return next((tags[name] for name in names if name in tags), "by hand")


def _alerts(context: dg.RunFailureSensorContext, project: ProjectResource) -> Alerts:
    try:
        return project.settings().alerts
    except ConfigError as error:
        context.log.error(f"the alert is told here alone: {error}")
        return Alerts()


def _send(context: dg.RunFailureSensorContext, alert: Alert, alerts: Alerts) -> bool:
    """Send by every channel that is set; False if there are some and all of them failed."""
    channels: dict[str, Channel] = {}
    if alerts.slack_webhook is not None:
        channels["Slack"] = partial(post_to_slack, alerts.slack_webhook)
    if alerts.email is not None:
        channels["mail"] = partial(mail, alerts.email)
    failed = [name for name, send in channels.items() if not _sent(context, name, send, alert)]
    return not channels or len(failed) < len(channels)


def _sent(context: dg.RunFailureSensorContext, name: str, send: Channel, alert: Alert) -> bool:
    try:
        send(alert)
    except KnowledgeError as error:
        context.log.error(f"the alert did not go out by {name}: {error}")
    except Exception as error:  # noqa: BLE001 - one channel never hides the other; messages may hold secrets
        context.log.error(f"the alert did not go out by {name}: unexpected {type(error).__name__}")
    else:
        return True
    return False
