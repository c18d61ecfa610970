"""Alerts over a real webhook and a real mail server; no secret in any error or log."""

import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from pydantic import SecretStr

from knowledge_pipeline.config.operation import EmailAlertSettings
from knowledge_pipeline.defs import alerts as channels
from knowledge_pipeline.defs.alerts import Alert, post_to_slack, send_email
from knowledge_pipeline.errors import PermanentError, TransientError
from knowledge_pipeline_tests.fakes.mail_server import MailServer
from knowledge_pipeline_tests.fakes.slack.webhook import Answer, SlackWebhook

ALERT = Alert(
    "the run 1 of refresh failed", "a < b & c\nTrigger: daily", "https://dagster.example.com/runs/1"
)
PASSWORD = "-".join(("not", "a", "password"))


@pytest.fixture
def slack() -> Iterator[SlackWebhook]:
    with SlackWebhook() as server:
        yield server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_FIRST_PAUSE_S", 0.01)


def test_slack_gets_its_own_markup_and_no_log_has_the_url(
    slack: SlackWebhook, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    post_to_slack(SecretStr(slack.url), ALERT)
    assert slack.texts == [
        "*the run 1 of refresh failed*\na &lt; b &amp; c\nTrigger: daily\n"
        "<https://dagster.example.com/runs/1|Open the run>"
    ]
    assert slack.secret not in caplog.text
    assert logging.getLogger("httpx2").level == logging.NOTSET


def test_slack_is_waited_for_as_long_as_it_says(slack: SlackWebhook) -> None:
    slack.answer_next(Answer(429, "rate_limited", "1"))
    post_to_slack(SecretStr(slack.url), ALERT)
    assert len(slack.texts) == 1
    first, second = slack.times
    assert 1.0 <= second - first < 5


def test_slack_is_not_waited_for_longer_than_a_tick_lasts(slack: SlackWebhook) -> None:
    slack.answer_next(Answer(429, "rate_limited", "600"))
    with pytest.raises(TransientError, match="429 'rate_limited', and did not take the alert in 1 tries"):
        post_to_slack(SecretStr(slack.url), ALERT)
    assert len(slack.times) == 1


@pytest.mark.usefixtures("quick")
def test_a_failure_of_slack_is_tried_a_few_times(slack: SlackWebhook) -> None:
    slack.answer_next(Answer(500, "rollup_error"), Answer(503, ""))
    post_to_slack(SecretStr(slack.url), ALERT)
    slack.answer_next(*[Answer(500, "rollup_error")] * 9)
    with pytest.raises(TransientError, match="in 4 tries"):
        post_to_slack(SecretStr(slack.url), ALERT)
    assert len(slack.texts) == 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(400, "invalid_payload"), "400 'invalid_payload': make a new webhook"),
        (Answer(404, "no_service"), "404 'no_service': make a new webhook"),
        (Answer(302, ""), "302"),
    ],
)
def test_a_refusal_is_not_tried_again_and_says_what_to_do(
    slack: SlackWebhook, answer: Answer, said: str
) -> None:
    slack.answer_next(answer)
    with pytest.raises(PermanentError, match=said) as refused:
        post_to_slack(SecretStr(slack.url), ALERT)
    assert len(slack.times) == 1
    assert slack.secret not in str(refused.value)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("url", ["no url", "ftp://example.com/{secret}", "http://127.0.0.1:9/{secret}"])
def test_a_url_that_leads_nowhere_is_not_repeated(url: str) -> None:
    secret = "x" * 24
    with pytest.raises((PermanentError, TransientError)) as refused:
        post_to_slack(SecretStr(url.format(secret=secret)), ALERT)
    assert secret not in str(refused.value) and "127.0.0.1" not in str(refused.value)


def to(server: MailServer, **rest: object) -> EmailAlertSettings:
    options = {"to": ("ops@example.com", "data@example.com"), "host": "localhost", "port": server.port}
    return EmailAlertSettings.model_validate(options | rest)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """An authority that this process trusts."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return made


def tls_of(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


def test_mail_is_one_message_to_all() -> None:
    with MailServer() as server:
        send_email(to(server), Alert("a title\nof two lines", "Sources: märkte"))
    (message,) = server.messages
    assert message["Subject"] == "a title of two lines"
    assert message["To"] == "ops@example.com, data@example.com"
    assert message["From"] == "knowledge-pipeline@localhost"
    assert "Sources: märkte" in message.get_content()
    assert server.secured == [False]


def test_mail_with_a_login_over_starttls(authority: trustme.CA) -> None:
    with MailServer(login=("ann", PASSWORD), tls=tls_of(authority)) as server:
        send_email(to(server, user="ann", password=PASSWORD, starttls=True), ALERT)
        assert server.secured == [True]
        with pytest.raises(PermanentError, match="refused the login of 'ann': correct") as refused:
            send_email(to(server, user="ann", password=f"{PASSWORD}!", starttls=True), ALERT)
        assert PASSWORD not in str(refused.value)
        with pytest.raises(PermanentError, match=r"refused the message \(530 Must issue a STARTTLS"):
            send_email(to(server), ALERT)


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
def test_mail_with_a_login_and_no_tls() -> None:
    with MailServer(login=("ann", PASSWORD)) as server:
        send_email(to(server, user="ann", password=PASSWORD), ALERT)
        with pytest.raises(PermanentError, match="530"):
            send_email(to(server), ALERT)
        with pytest.raises(PermanentError, match=r"does not offer what alerts\.email asks for"):
            send_email(to(server, starttls=True), ALERT)
    assert len(server.messages) == 1


def test_a_certificate_that_nobody_vouches_for_is_refused(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with (
        MailServer(tls=tls_of(authority)) as server,
        pytest.raises(PermanentError, match="shows a certificate that is not trusted"),
    ):
        send_email(to(server, starttls=True), ALERT)
    assert server.messages == []


def test_addresses_that_are_refused_are_named() -> None:
    with MailServer(refused=("data@example.com",)) as server:
        with pytest.raises(PermanentError, match=r"refused data@example.com: correct alerts.email.to"):
            send_email(to(server), ALERT)
        assert len(server.messages) == 1
        with pytest.raises(PermanentError, match=r"refused data@example.com: correct alerts.email.to"):
            send_email(to(server, to=("data@example.com",)), ALERT)


def test_a_server_that_is_away_may_come_back() -> None:
    with socket.create_server(("localhost", 0)) as found:
        port = found.getsockname()[1]
    with pytest.raises(TransientError, match=f"the mail server localhost:{port} cannot be reached"):
        send_email(EmailAlertSettings(to=("ops@example.com",), port=port), ALERT)
