"""Reports failed runs and spent budgets in the log of the sensor and of the daemon, in Slack and by e-mail.

One cause is reported once an hour, however many runs it breaks. Tags of the reported runs remember that,
and the UI shows them: a sensor on runs cannot keep a cursor. A budget is reported once in its day or month.
No error of a channel names a secret.
"""

import json
import logging
import re
import smtplib
import ssl
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from functools import partial

import dagster as dg
from pydantic import SecretStr

from knowledge_pipeline.config.operation import AlertSettings, EmailAlertSettings
from knowledge_pipeline.config.settings import build_run_url
from knowledge_pipeline.config.sources import SanitizeSettings
from knowledge_pipeline.defs.dagster_internals import (
    LAUNCHERS,
    PARTITION,
    RANGE_END,
    RANGE_START,
    WILL_RETRY,
    AssetJob,
)
from knowledge_pipeline.defs.define import sensor
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import list_names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import ConfigError, KnowledgeError, PermanentError, TransientError
from knowledge_pipeline.llm.budgets import BudgetState, list_reached
from knowledge_pipeline.llm.spending import read_spending
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sanitizing.sanitize import sanitize
from knowledge_pipeline.text import truncate
from knowledge_pipeline.times import parse_retry_after

TIMEOUT_S = 10.0
MAX_TRIES = 4
MAX_TOTAL_WAIT_S = 30.0
"""For all tries together: the sensor has a minute."""

_FIRST_PAUSE_S = 1.0  # before the second try, unless the server names another one
_MAX_TEXT_CHARS = 3000
_SUBMISSION_OVER_TLS = 465


@dataclass(frozen=True, slots=True)
class Alert:
    """One line, the text below it, and a link."""

    title: str
    text: str
    url: str | None = None


def post_to_slack(webhook: SecretStr, alert: Alert) -> None:
    """Post to an incoming webhook, waiting where it asks for that.

    Raises TransientError where it took no message in a few tries, PermanentError where it never will.

    Source: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
    """
    import httpx2

    deadline_s = time.monotonic() + MAX_TOTAL_WAIT_S
    lines = [f"*{_escape_for_slack(alert.title)}*", _escape_for_slack(alert.text)]
    message = "\n".join([*lines, *([f"<{alert.url}|Open the run>"] if alert.url else [])])
    for tried in range(1, MAX_TRIES + 1):
        wait_s = _FIRST_PAUSE_S * 2 ** (tried - 1)
        try:
            with _silence_loggers("httpx2", "httpcore2"):
                response = httpx2.post(webhook.get_secret_value(), json={"text": message}, timeout=TIMEOUT_S)
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise PermanentError("alerts.slack_webhook is not an https URL: correct it") from error
        except httpx2.HTTPError as error:
            problem = f"Slack cannot be reached ({type(error).__name__})"
        else:
            if response.is_success:
                return
            problem = f"Slack answered {response.status_code} {response.text[:100].strip()!r}"
            if response.status_code not in {408, 429} and response.status_code < 500:
                raise PermanentError(f"{problem}: make a new webhook, and set alerts.slack_webhook to it")
            requested_s = parse_retry_after(response.headers.get("Retry-After"))
            wait_s = wait_s if requested_s is None else requested_s
        if tried == MAX_TRIES or time.monotonic() + wait_s > deadline_s:
            raise TransientError(f"{problem}, and did not take the alert in {tried} tries")
        time.sleep(wait_s)


def send_email(settings: EmailAlertSettings, alert: Alert) -> None:
    """Send to all addresses in one message; port 465 is TLS from the start.

    Raises TransientError where the server did not answer, or refused for now, and else PermanentError.
    """
    server_name = f"the mail server {settings.host}:{settings.port}"
    try:
        over_tls, context = settings.port == _SUBMISSION_OVER_TLS, ssl.create_default_context()
        connect = partial(smtplib.SMTP_SSL, context=context) if over_tls else smtplib.SMTP
        with connect(settings.host, settings.port, timeout=TIMEOUT_S) as server:
            if settings.starttls:
                server.starttls(context=context)
            if settings.user is not None:
                server.login(settings.user, settings.password.get_secret_value() if settings.password else "")
            refused = server.send_message(_build_message(settings, alert))
    except smtplib.SMTPAuthenticationError as error:
        raise PermanentError(
            f"{server_name} refused the login of {settings.user!r}: correct alerts.email.user and password"
        ) from error
    except smtplib.SMTPNotSupportedError as error:
        raise PermanentError(f"{server_name} does not offer what alerts.email asks for ({error})") from error
    except smtplib.SMTPRecipientsRefused as error:
        raise PermanentError(
            f"{server_name} refused {', '.join(error.recipients)}: correct alerts.email.to"
        ) from error
    except smtplib.SMTPResponseException as error:
        reply = error.smtp_error
        text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
        problem = f"{server_name} refused the message ({error.smtp_code} {' '.join(text.split())[:200]})"
        raise (PermanentError if error.smtp_code >= 500 else TransientError)(problem) from error
    except ssl.SSLCertVerificationError as error:
        raise PermanentError(
            f"{server_name} shows a certificate that is not trusted: {error.verify_message}"
        ) from error
    except (OSError, smtplib.SMTPException) as error:
        raise TransientError(f"{server_name} cannot be reached ({error or type(error).__name__})") from error
    if refused:
        raise PermanentError(f"{server_name} refused {', '.join(refused)}: correct alerts.email.to")


def _build_message(settings: EmailAlertSettings, alert: Alert) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = " ".join(alert.title.split())
    message["From"] = settings.sender
    message["To"] = ", ".join(settings.to)
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=settings.sender.rpartition("@")[2] or None)
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers
    lines = (alert.title, "", alert.text, alert.url)
    message.set_content("\n".join(line for line in lines if line is not None))
    return message


def _escape_for_slack(text: str) -> str:
    return truncate(text, _MAX_TEXT_CHARS).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@contextmanager
def _silence_loggers(*names: str) -> Generator[None]:
    """Let these log nothing below a warning: httpx2 logs every URL, and this one is a secret."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


ALERT_TAG, GROUPED_TAG = "knowledge/alert", "knowledge/alert_grouped"
"""Tags of a reported run, and of one that was not because its cause had been; the value is the cause."""

QUIET_S = 3600.0
_MAX_REASONS_SHOWN = 3
_MAX_REASON_CHARS = 1500
_VARIABLE_PARTS = re.compile(r"[0-9a-f]{8,}|\d+(?:[.,]\d+)*")  # run ids, commits, counts, seconds


@dataclass(frozen=True, slots=True)
class OwnDefinitions:
    """What a code location has of one knowledge base, beside what others may have in it."""

    jobs: frozenset[str]
    assets: frozenset[dg.AssetKey]

    def select_failures(self, context: dg.RunFailureSensorContext) -> Sequence[dg.DagsterEvent] | None:
        """The failed steps that are of these; None where others' failed, whatever else the run had to do."""
        failures, run = context.get_step_failure_events(), context.dagster_run
        if run.job_name in self.jobs:
            return failures
        kind = dg.DagsterEventType
        kinds = {kind.ASSET_MATERIALIZATION_PLANNED, kind.ASSET_CHECK_EVALUATION_PLANNED}
        planned = [entry.get_dagster_event() for entry in context.instance.all_logs(run.run_id, kinds)]
        keys = {event.step_key: getattr(event.event_specific_data, "asset_key", None) for event in planned}
        steps = {step for step, key in keys.items() if key in self.assets}
        own = [failure for failure in failures if failure.step_key in steps]
        return own if own or (steps and not failures) else None


def build_failed_runs_sensor(
    release_job: AssetJob,
    names: Names = PLAIN,
    *,
    quiet_s: float = QUIET_S,
    own: OwnDefinitions | None = None,
) -> dg.SensorDefinition:
    """The sensor that reports failed runs, except those that Dagster itself retries, and requests the release
    that one of several sources has not made.

    Alerts of one job and reason are `quiet_s` apart at least; with `own`, what failed of others is left out.
    """

    @dg.run_failure_sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("failed_runs"),
        request_job=release_job,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports failed runs in the log, and in Slack and by e-mail if knowledge.yaml says so; "
        "one job and reason at most once an hour. Releases what the other sources of a failed run gave.",
    )
    @names.bind
    def failed_runs(context: dg.RunFailureSensorContext, project: ProjectResource) -> dg.RunRequest | None:
        run, failures = context.dagster_run, context.get_step_failure_events()
        release = (
            dg.RunRequest(run_key=run.run_id) if names.has_run(run) and RANGE_START in run.tags else None
        )
        if own and (failures := own.select_failures(context)) is None:
            return release
        if run.tags.get(WILL_RETRY) == "true":
            context.log.info(f"run {run.run_id} failed and is retried")
            return release
        reason = _describe_failure(context, failures)
        cause = hash_strings(run.job_name, _VARIABLE_PARTS.sub("#", reason))[:16]
        repeats = _count_failures_since_alert(context, cause, quiet_s)
        if repeats is None:
            context.instance.add_run_tags(run.run_id, {GROUPED_TAG: cause})
            return release
        alert = _build_run_alert(run, reason, repeats)
        context.log.error(f"{alert.title}\n{alert.text}" + (f"\n{alert.url}" if alert.url else ""))
        try:
            alerts = project.load_settings().alerts
        except ConfigError as error:
            context.log.error(f"the alert is only in this log: {error}")
            alerts = AlertSettings()
        if send_to_channels(context, alert, alerts):
            context.instance.add_run_tags(run.run_id, {ALERT_TAG: cause})
        return release

    return failed_runs


def _describe_failure(context: dg.RunFailureSensorContext, failures: Sequence[dg.DagsterEvent]) -> str:
    """What went wrong, without secrets: our own messages where a step failed with one."""
    reasons = list(dict.fromkeys(map(_format_step_failure, failures)))
    if not reasons:  # no step failed: the process died, which leaves no details, or could not start
        error = getattr(context.failure_event.event_specific_data, "error", None)
        reasons = [_first_line(error.message if error else context.failure_event.message or "the run failed")]
    shown = "; ".join(reasons[:_MAX_REASONS_SHOWN])
    if len(reasons) > _MAX_REASONS_SHOWN:
        shown += f"; and {len(reasons) - _MAX_REASONS_SHOWN} other reasons"
    return truncate(sanitize(shown, SanitizeSettings(secrets="redact")).text, _MAX_REASON_CHARS)


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


def _build_run_alert(run: dg.DagsterRun, reason: str, repeats: int) -> Alert:
    tags = run.tags
    sources = tags.get("knowledge/sources", "")  # empty for a run of all, or of none
    if ids := sorted(tag.removeprefix("source/") for tag in tags if tag.startswith("source/")):
        sources = list_names(ids)
    elif PARTITION in tags:
        sources = tags[PARTITION]
    elif RANGE_START in tags:
        sources = f"{tags[RANGE_START]} to {tags.get(RANGE_END)}"
    trigger = next((tags[tag] for tag in ("knowledge/trigger", *LAUNCHERS) if tag in tags), "manual")
    lines = [reason, *([f"Sources: {sources}"] if sources else []), f"Trigger: {trigger}"]
    if repeats:
        lines.append(f"It failed for this reason {repeats} more times since the last alert.")
    return Alert(
        title=f"Knowledge pipeline: the run {run.run_id[:8]} of {run.job_name} failed",
        text="\n".join(lines),
        url=build_run_url(run.run_id),
    )


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


_MAX_SHOWN = 20


@sensor(interval_s=300, consequence="budgets are not looked at")
def spent_budgets(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
    """Reports budgets that are nearly or wholly spent in the log, and in Slack and by e-mail if
    knowledge.yaml says so; each once in its day or month.
    """
    settings, now = project.load_settings(), datetime.now(UTC)
    budgets = settings.costs.budgets
    reached = list_reached(budgets, read_spending(project.open_lake(), now)[0], now) if budgets else []
    reported: list[str] = json.loads(context.cursor or "[]")
    new = [state for state in reached if _key_of(state) not in reported]
    still = [key for key in map(_key_of, reached) if key in reported]
    if not new:
        reason = "no budget is spent that was not reported"
        return dg.SensorResult(skip_reason=reason, cursor=json.dumps(still))
    sentences = [state.describe() for state in new[:_MAX_SHOWN]]
    if len(new) > _MAX_SHOWN:
        sentences.append(f"and {len(new) - _MAX_SHOWN} others: `knowledge costs` lists them")
    alert = Alert("Knowledge pipeline: a budget of models is spent", "\n".join(sentences))
    context.log.warning(f"{alert.title}\n{alert.text}")
    if send_to_channels(context, alert, settings.alerts):
        still += map(_key_of, new)
    return dg.SensorResult(skip_reason=f"{len(new)} budgets reported", cursor=json.dumps(still))


def _key_of(state: BudgetState) -> str:
    budget = state.budget
    key = (budget.per, budget.window, budget.warn_at, budget.stop_at, state.tenant, state.name)
    return json.dumps([*key, str(state.window_start), state.level])
