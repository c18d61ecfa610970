"""Tries, waits and what they end with, against a small server that answers as it is told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
import trustme

from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.http_retry import MAX_ATTEMPTS, compute_wait_s, mount_retries
from knowledge_pipeline.errors import SourceUnavailable

BODY = b'{"answer": 42}'


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut_off: bool = False
    silent_s: float = 0.0


class Script:
    """A server that gives the answers it was told, then 200s."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, bytes]] = []
        self.closing = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def __enter__(self) -> Script:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


def _handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.asked.append((self.command, body))
            answer = script.answers.pop(0) if script.answers else Answer()
            if script.closing.wait(answer.silent_s):
                return
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(BODY)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(BODY[:5] if answer.cut_off else BODY)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    return Handler


@pytest.fixture
def script() -> Iterator[Script]:
    with Script() as server:
        yield server


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def session(waits: list[float]) -> Iterator[requests.Session]:
    with requests.Session() as session, pausing_by(waits.append):
        yield mount_retries(session, "Numbers at example.org")


def test_what_is_answered_is_asked_once(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    assert session.get(script.url).json() == {"answer": 42}
    assert len(script.asked) == 1 and waits == []


@pytest.mark.parametrize("status", [429, 403, 503])
def test_retry_after_in_seconds_is_waited_for(
    status: int, script: Script, session: requests.Session, waits: list[float]
) -> None:
    script.answers = [Answer(status, {"Retry-After": "7"})]
    assert session.get(script.url).status_code == 200
    assert waits == [7.0]


def test_retry_after_as_a_date_is_waited_for(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=40)
    script.answers = [Answer(429, {"Retry-After": format_datetime(soon, usegmt=True)})]
    assert session.get(script.url).status_code == 200
    assert 38 <= waits[0] <= 42


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("prefix", ["X-RateLimit-", "RateLimit-", "x-rate-limit-"])
def test_a_spent_limit_is_waited_for_until_its_reset(
    status: int, prefix: str, script: Script, session: requests.Session, waits: list[float]
) -> None:
    reset = str(int(time.time()) + 30)
    script.answers = [Answer(status, {f"{prefix}Remaining": "0", f"{prefix}Reset": reset})]
    assert session.get(script.url).status_code == 200
    assert len(waits) == 1 and 28 <= waits[0] <= 32


def test_a_reset_told_as_an_iso_time_is_understood(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    reset = (datetime.now(UTC) + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%MZ")
    script.answers = [Answer(429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset})]
    assert session.get(script.url).status_code == 200
    assert 0 < waits[0] <= 62


def test_the_reset_of_a_limit_that_is_not_spent_is_not_waited_for(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    """GitHub's secondary limit: the headers still tell of the primary one, an hour away."""
    far = {"X-RateLimit-Remaining": "4000", "X-RateLimit-Reset": str(int(time.time()) + 3000)}
    script.answers = [Answer(429, far)]
    assert session.get(script.url).status_code == 200
    assert len(waits) == 1 and waits[0] <= 1.0


def test_a_refusal_is_handed_back_at_once(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    for status in (400, 401, 403, 404, 410):
        script.answers = [Answer(status, {"X-RateLimit-Remaining": "57"})]
        assert session.get(script.url).status_code == status
    assert len(script.asked) == 5 and waits == []


def test_too_long_a_wait_is_told_with_its_end(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    reset = datetime.now(UTC) + timedelta(minutes=50)
    spent = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(reset.timestamp()))}
    script.answers = [Answer(403, spent)]
    with pytest.raises(SourceUnavailable, match=r"^Numbers at example\.org limits our calls until") as told:
        session.get(script.url)
    said = datetime.strptime(str(told.value).split("until ")[1][:16], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    assert timedelta(0) <= said - reset <= timedelta(minutes=2)
    assert waits == [] and len(script.asked) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_failing_server_is_asked_again_later_and_later(
    status: int, script: Script, session: requests.Session, waits: list[float]
) -> None:
    script.answers = [Answer(status)] * 3
    assert session.get(script.url).json() == {"answer": 42}
    assert len(waits) == 3
    assert 0.5 <= waits[0] <= 1 <= waits[1] <= 2 <= waits[2] <= 4


def test_tries_are_bounded_and_the_last_answer_is_handed_back(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    script.answers = [Answer(503)] * (MAX_ATTEMPTS + 3)
    assert session.get(script.url).status_code == 503
    assert len(script.asked) == MAX_ATTEMPTS and len(waits) == MAX_ATTEMPTS - 1


def test_a_question_that_is_posted_is_asked_again_with_its_body(
    script: Script, session: requests.Session
) -> None:
    script.answers = [Answer(502), Answer(429, {"Retry-After": "1"}), Answer(cut_off=True)]
    assert session.post(script.url, json={"q": 1}).json() == {"answer": 42}
    assert script.asked == [("POST", b'{"q": 1}')] * 4


def test_an_answer_that_is_cut_off_is_asked_for_again(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    script.answers = [Answer(cut_off=True), Answer(cut_off=True)]
    assert session.get(script.url).json() == {"answer": 42}
    assert len(script.asked) == 3 and len(waits) == 2


def test_an_answer_that_is_no_compression_it_says_it_is_fails_in_the_end(
    script: Script, session: requests.Session
) -> None:
    script.answers = [Answer(headers={"Content-Encoding": "gzip"})] * MAX_ATTEMPTS
    with pytest.raises(requests.exceptions.ContentDecodingError):
        session.get(script.url)
    assert len(script.asked) == MAX_ATTEMPTS


def test_a_silent_server_is_given_up_after_its_time(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    script.answers = [Answer(silent_s=600)]
    assert session.get(script.url, timeout=3).json() == {"answer": 42}
    assert len(waits) == 1


def test_a_refused_connection_is_tried_again_and_told(session: requests.Session, waits: list[float]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
    with pytest.raises(requests.ConnectionError):
        session.get(url)
    assert len(waits) == MAX_ATTEMPTS - 1


def test_a_certificate_that_is_not_trusted_is_not_asked_twice(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    """Another authority's certificate will not be trusted a minute later."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    script.server.socket = context.wrap_socket(script.server.socket, server_side=True)
    with pytest.raises(requests.exceptions.SSLError):
        session.get(script.url.replace("http:", "https:"))
    assert waits == []


def test_a_caller_may_take_some_failures_back_at_once(
    script: Script, session: requests.Session, waits: list[float]
) -> None:
    session.get_adapter(script.url).no_retry_statuses = frozenset({502})  # pyright: ignore
    script.answers = [Answer(502)]
    assert session.get(script.url).status_code == 502
    script.answers = [Answer(503)]
    assert session.get(script.url).status_code == 200
    assert len(waits) == 1


def test_a_streamed_answer_is_left_to_the_reader(script: Script, session: requests.Session) -> None:
    script.answers = [Answer(503)]
    with session.get(script.url, stream=True) as response:
        assert response.raw.read(5) == BODY[:5]
    assert len(script.asked) == 2


@pytest.mark.parametrize("told", ["", "soon", "nan", "0", "-3"])
def test_a_wait_that_cannot_be_told_is_our_own(told: str) -> None:
    waited = compute_wait_s(429, {"Retry-After": told}, 3)
    assert waited is not None and 2.0 <= waited <= 4.0
