"""Sends alerts to a Slack webhook and by e-mail. No error names a secret."""

import logging
import smtplib
import ssl
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from functools import partial

from pydantic import SecretStr

from knowledge_pipeline.config.operation import EmailAlertSettings
from knowledge_pipeline.errors import PermanentError, TransientError
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

    Raises:
        PermanentError: the webhook will never accept the message.
        TransientError: it did not accept the message in a few tries.

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

    Raises:
        PermanentError: the server refuses the sender, the login or an address, or lacks TLS.
        TransientError: it did not answer, or refused for now.
    """
    place = f"the mail server {settings.host}:{settings.port}"
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
            f"{place} refused the login of {settings.user!r}: correct alerts.email.user and password"
        ) from error
    except smtplib.SMTPNotSupportedError as error:
        raise PermanentError(f"{place} does not offer what alerts.email asks for ({error})") from error
    except smtplib.SMTPRecipientsRefused as error:
        raise PermanentError(
            f"{place} refused {', '.join(error.recipients)}: correct alerts.email.to"
        ) from error
    except smtplib.SMTPResponseException as error:
        reply = error.smtp_error
        text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
        problem = f"{place} refused the message ({error.smtp_code} {' '.join(text.split())[:200]})"
        raise (PermanentError if error.smtp_code >= 500 else TransientError)(problem) from error
    except ssl.SSLCertVerificationError as error:
        raise PermanentError(
            f"{place} shows a certificate that is not trusted: {error.verify_message}"
        ) from error
    except (OSError, smtplib.SMTPException) as error:
        raise TransientError(f"{place} cannot be reached ({error or type(error).__name__})") from error
    if refused:
        raise PermanentError(f"{place} refused {', '.join(refused)}: correct alerts.email.to")


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
    cut = text if len(text) <= _MAX_TEXT_CHARS else f"{text[: _MAX_TEXT_CHARS - 1]}…"
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
