"""Reports failed runs in the log of the sensor and of the daemon, in Slack and by e-mail.

One cause is reported once an hour, however many runs it breaks. Tags of the reported runs remember that,
and the UI shows them: a sensor on runs cannot keep a cursor.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial

import dagster as dg

from knowledge_pipeline.config.dagster_url import build_run_url
from knowledge_pipeline.config.operation import AlertSettings
from knowledge_pipeline.config.sources.source import SanitizeSettings
from knowledge_pipeline.defs.alerts.channels import Alert, post_to_slack, send_email
from knowledge_pipeline.defs.dagster_internals import LAUNCHERS, PARTITION, RANGE_END, RANGE_START, WILL_RETRY
from knowledge_pipeline.defs.metadata.tables import list_names
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import ConfigError, KnowledgeError
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sanitizing.sanitize import sanitize

"""The environment variable with the UI's address, "https://dagster.example.com", for links to runs."""

ALERT_TAG, GROUPED_TAG = "knowledge/alert", "knowledge/alert_grouped"
"""Tags of a reported run, and of one that was not because its cause had been; the value is the cause."""

QUIET_S = 3600.0
_MAX_REASONS_SHOWN = 3
_MAX_REASON_CHARS = 1500
_VARIABLE_PARTS = re.compile(r"[0-9a-f]{8,}|\d+(?:[.,]\d+)*")  # run ids, commits, counts, seconds


def build_failed_runs_sensor(
    names: Names = PLAIN, *, quiet_s: float = QUIET_S, only_own: bool = False
) -> dg.SensorDefinition:
    """The sensor that reports failed runs, except those that Dagster itself retries.

    Alerts of one job and one reason are at least `quiet_s` apart. `only_own` leaves runs of others' jobs and
    assets in the same code location to others.
    """

    @dg.run_failure_sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("failed_runs"),
        minimum_interval_seconds=15,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports failed runs in the log, and in Slack and by e-mail if knowledge.yaml says so; "
        "one job and reason at most once an hour.",
    )
    @names.bind
    def failed_runs(context: dg.RunFailureSensorContext, project: ProjectResource) -> None:
        if only_own and not names.has_run(context.dagster_run):
            return
        if context.dagster_run.tags.get(WILL_RETRY) == "true":
            context.log.info(f"run {context.dagster_run.run_id} failed and is retried")
            return
        reason = _describe_failure(context)
        cause = hash_strings(context.dagster_run.job_name, _VARIABLE_PARTS.sub("#", reason))[:16]
        repeats = _count_failures_since_alert(context, cause, quiet_s)
        if repeats is None:
            context.instance.add_run_tags(context.dagster_run.run_id, {GROUPED_TAG: cause})
            return
        alert = _build_alert(context.dagster_run, reason, repeats)
        context.log.error(f"{alert.title}\n{alert.text}" + (f"\n{alert.url}" if alert.url else ""))
        try:
            alerts = project.load_settings().alerts
        except ConfigError as error:
            context.log.error(f"the alert is only in this log: {error}")
            alerts = AlertSettings()
        if send_to_channels(context, alert, alerts):
            context.instance.add_run_tags(context.dagster_run.run_id, {ALERT_TAG: cause})

    return failed_runs


def _describe_failure(context: dg.RunFailureSensorContext) -> str:
    """What went wrong, without secrets: our own messages where a step failed with one."""
    reasons = list(dict.fromkeys(map(_format_step_failure, context.get_step_failure_events())))
    if not reasons:  # no step failed: the process died, which leaves no details, or could not start
        error = getattr(context.failure_event.event_specific_data, "error", None)
        reasons = [_first_line(error.message if error else context.failure_event.message or "the run failed")]
    shown = "; ".join(reasons[:_MAX_REASONS_SHOWN])
    if len(reasons) > _MAX_REASONS_SHOWN:
        shown += f"; and {len(reasons) - _MAX_REASONS_SHOWN} other reasons"
    clean = sanitize(shown, SanitizeSettings(secrets="redact")).text
    return clean if len(clean) <= _MAX_REASON_CHARS else f"{clean[: _MAX_REASON_CHARS - 1]}…"


def _format_step_failure(event: dg.DagsterEvent) -> str:
    """The message of our own error; the kind and message of an unforeseen one, never its traceback."""
    failure = event.step_failure_data
    if failure.user_failure_data and failure.user_failure_data.description:
        return failure.user_failure_data.description
    error = failure.error
    if error and error.cause and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    message = error.message if error else event.message or ""
    return f"unexpected error in {event.step_key}: {_first_line(message)}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def _count_failures_since_alert(
    context: dg.RunFailureSensorContext, cause: str, quiet_s: float
) -> int | None:
    """How many runs failed for this cause since the last alert; None if that was less than `quiet_s` ago."""
    instance, run_id = context.instance, context.dagster_run.run_id
    reported = instance.get_run_records(dg.RunsFilter(tags={ALERT_TAG: cause}), limit=1)
    if not reported:
        return 0
    record = instance.get_run_record_by_id(run_id)
    ended = (record.end_time if record else None) or 0.0
    last_ended = reported[0].end_time or 0.0
    if reported[0].dagster_run.run_id == run_id or ended - last_ended < quiet_s:
        return None
    grouped = instance.get_run_records(dg.RunsFilter(tags={GROUPED_TAG: cause}), limit=1000)
    return sum(1 for record in grouped if (record.end_time or 0.0) >= last_ended)


def _build_alert(run: dg.DagsterRun, reason: str, repeats: int) -> Alert:
    sources = _format_sources(run.tags)
    trigger = next((run.tags[tag] for tag in ("knowledge/trigger", *LAUNCHERS) if tag in run.tags), "manual")
    lines = [reason, *([f"Sources: {sources}"] if sources else []), f"Trigger: {trigger}"]
    if repeats:
        lines.append(f"It failed for this reason {repeats} more times since the last alert.")
    return Alert(
        title=f"Knowledge pipeline: the run {run.run_id[:8]} of {run.job_name} failed",
        text="\n".join(lines),
        url=build_run_url(run.run_id),
    )


def _format_sources(tags: Mapping[str, str]) -> str:
    """The sources of a run, by its tags; empty for a run of all, or of none."""
    named = sorted(tag.removeprefix("source/") for tag in tags if tag.startswith("source/"))
    if named:
        return list_names(named)
    if PARTITION in tags:
        return tags[PARTITION]
    if RANGE_START in tags:
        return f"{tags[RANGE_START]} to {tags.get(RANGE_END)}"
    return tags.get("knowledge/sources", "")


def send_to_channels(
    context: dg.RunFailureSensorContext | dg.SensorEvaluationContext, alert: Alert, alerts: AlertSettings
) -> bool:
    """Send by every configured channel; False if there are some and all of them failed."""
    channels: dict[str, Callable[[Alert], None]] = {}
    if alerts.slack_webhook is not None:
        channels["Slack"] = partial(post_to_slack, alerts.slack_webhook)
    if alerts.email is not None:
        channels["e-mail"] = partial(send_email, alerts.email)
    failures = 0
    for name, send in channels.items():
        try:
            send(alert)
        except Exception as error:  # noqa: BLE001 - one channel never hides the other
            failures += 1  # only our own messages are free of secrets
            problem = error if isinstance(error, KnowledgeError) else f"unexpected {type(error).__name__}"
            context.log.error(f"the alert was not sent by {name}: {problem}")
    return not channels or failures < len(channels)
