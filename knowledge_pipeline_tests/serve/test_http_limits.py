"""What those who send too much, too slowly or nothing at all can hold of a server, through real sockets."""

from __future__ import annotations

import functools
import http.client
import json
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from knowledge_pipeline.config.operation import WebhookSettings
from knowledge_pipeline.serve import status as health
from knowledge_pipeline.serve import workers as server
from knowledge_pipeline.serve.http.limits import MAX_HEADER_BYTES, create_protocol_class
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.test_http_search import API, refused
from knowledge_pipeline_tests.serve.world import World

SEARCH = f"{API}/search"
WAIT_S = 60  # for an answer that has to come: a server that gives none fails the test
JSON = {"Content-Type": "application/json"}
BODY_BYTES = 250_000
N_POSTS, N_THAT_FIT = 10, 4
Connect = Callable[[Running], socket.socket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """A connection to a server, closed with the test."""
    with ExitStack() as opened:

        def connect(to: Running) -> socket.socket:
            port = urlsplit(to.url).port
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
            connection.settimeout(WAIT_S)
            return connection

        yield connect


@pytest.fixture(params=[HttpToolsProtocol, H11Protocol])
def hasty(request, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server that waits a second for headers, by each of the parsers that uvicorn may find installed."""
    of_parser = functools.partial(create_protocol_class, base=request.param)
    monkeypatch.setattr(server, "create_protocol_class", of_parser)
    with Running(world.settings, config=world.config, timeout_s=1.0, anonymous="off") as running:
        yield running


def head(path: str, **headers: str) -> bytes:
    """The start of a POST, as far as its body."""
    sent = {"Host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    return "\r\n".join(lines).encode()


def question(n_bytes: int) -> bytes:
    """A body of so many bytes that asks for something."""
    text = json.dumps({"query": "payments"}).encode()
    return text + b" " * (n_bytes - len(text))


def read_until_closed(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def read_answer(connection: socket.socket) -> tuple[int, str | None, str]:
    """Status, `Retry-After` and body of the next answer."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, answer.headers["Retry-After"], answer.read().decode()


def wait_for_answers(connections: list[socket.socket], n: int) -> list[tuple[int, str | None, str]]:
    """The first `n` answers that come on any of these connections."""
    answers: list[tuple[int, str | None, str]] = []
    with selectors.DefaultSelector() as selector:
        for each in connections:
            selector.register(each, selectors.EVENT_READ)
        while len(answers) < n and (found := selector.select(WAIT_S)):
            for key, _ in found:
                answers.append(read_answer(key.fileobj))
                selector.unregister(key.fileobj)
    return answers


def test_unfinished_bodies_are_refused_beyond_their_total_and_others_are_answered(world, connect):
    changes = {"max_body_bytes": 300_000, "max_total_body_bytes": N_THAT_FIT * BODY_BYTES, "timeout_s": 600}
    with Running(world.settings, config=world.config, webhooks=WebhookSettings(), **changes) as narrow:
        unfinished = [connect(narrow) for _ in range(N_POSTS)]
        for each in unfinished:
            bearer = f"Bearer {world.tokens['acme']}"
            each.sendall(head(SEARCH, Content_Length=str(BODY_BYTES + 1), Authorization=bearer))
            each.sendall(question(BODY_BYTES))
        answers = wait_for_answers(unfinished, N_POSTS - N_THAT_FIT)
        assert len(answers) >= N_POSTS - N_THAT_FIT
        for status, retry_after, body in answers:
            assert (status, retry_after) == (503, "1") and "too many large bodies" in body

        client = narrow.client(world.tokens["acme"])
        assert client.post(SEARCH, json={"query": "payments"}).status_code == 200
        for each in unfinished:
            each.close()  # gives its bytes back
        deadline = time.monotonic() + WAIT_S
        while (answer := client.post(SEARCH, content=question(BODY_BYTES), headers=JSON)).status_code == 503:
            assert time.monotonic() < deadline, answer.text
        assert answer.status_code == 200


def test_a_large_body_of_nobody_is_refused_before_it_is_sent_and_not_waited_for(hasty, world, connect):
    announced, arriving = connect(hasty), connect(hasty)
    announced.sendall(head(SEARCH, Content_Length="100000"))
    arriving.sendall(head(SEARCH, Transfer_Encoding="chunked") + b"ffff\r\n" + b"x" * 0x8000)
    for connection in (announced, arriving):
        status, _, body = read_answer(connection)
        assert status == 401 and "a token is required" in body
        connection.sendall(b"x")  # of the body, whose rest never comes
        assert read_until_closed(connection) == b""
    known = hasty.client(world.tokens["acme"])
    answer = known.post(SEARCH, content=question(100_000), headers=JSON)
    assert answer.status_code in (200, 504)  # the body was read; within a second it may not be answered
    refused(
        hasty.client("kpt_0_0").post(SEARCH, content=question(100_000), headers=JSON), 401, "Unauthenticated"
    )


def test_the_page_may_send_a_large_form_by_its_cookie(hasty, world):
    form = {"Cookie": f"knowledge_token={world.tokens['acme']}"}
    answer = hasty.client().post("/sign-out", content=b"x" * 20_000, headers=form)
    assert answer.status_code == 403  # a form without the page's own token, but one that was read


@pytest.mark.parametrize("path", ["/webhooks/github", "/webhooks/gitlab"])
def test_large_webhooks_are_read_only_where_there_is_a_secret_to_check_them_with(world, path):
    large = b"x" * 2_000_000
    with Running(world.settings, config=world.config, webhooks=WebhookSettings()) as without:
        assert without.client().post(path, content=b"{}").status_code == 403
        refused(without.client().post(path, content=large), 413, "ContentTooLarge")
    secrets = WebhookSettings.model_validate({"github_secret": "s", "gitlab_token": "t"})
    with Running(world.settings, config=world.config, webhooks=secrets, anonymous="off") as with_secrets:
        refused(with_secrets.client().post(path, content=large), 401, "Unauthenticated")
        refused(with_secrets.client().post(f"{path}/x", content=large), 413, "ContentTooLarge")


@pytest.mark.parametrize("sent", [b"", b"GET /ready HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_connection_that_sends_no_whole_headers_is_closed(hasty, connect, sent):
    connection = connect(hasty)
    connection.sendall(sent)
    assert read_until_closed(connection) == b""


def test_headers_that_come_drop_by_drop_are_not_waited_for(hasty, connect):
    connection = connect(hasty)
    connection.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert read_answer(connection)[0] == 200
    connection.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n")  # on the same connection
    connection.settimeout(0.1)
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            connection.sendall(b"X-Slow: 1\r\n")
            assert connection.recv(1) == b""
            return
        except TimeoutError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            return
    raise AssertionError("the connection is still open")


def test_headers_without_an_end_are_refused(hasty, connect):
    connection = connect(hasty)
    connection.sendall(b"GET /ready HTTP/1.1\r\nX-Long: " + b"x" * (MAX_HEADER_BYTES + 10_000))
    assert read_answer(connection)[0] in (431, 400)  # 400: of h11, which has a limit of its own


def test_connections_beyond_the_limit_are_refused_and_the_others_are_answered(world, connect):
    with Running(world.settings, config=world.config, max_connections=3, timeout_s=600) as narrow:
        first, *others = [connect(narrow) for _ in range(3)]
        fourth = connect(narrow)
        status, retry_after, body = read_answer(fourth)
        assert (status, retry_after) == (503, "1") and "3 connections are open" in json.loads(body)["detail"]
        assert read_until_closed(fourth) == b""
        first.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_answer(first)[0] == 200
        for each in others:
            each.close()
        deadline = time.monotonic() + WAIT_S
        while (answer := narrow.client().get("/ready")).status_code == 503:
            assert time.monotonic() < deadline, answer.text
        assert answer.status_code == 200


def test_no_request_becomes_a_websocket(server):
    key = {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version": "13"}
    asked = {"Connection": "Upgrade", "Upgrade": "websocket", **key}
    refused(server.client().get("/no-such", headers=asked), 404, "HTTPError")


def test_who_asks_often_whether_it_is_ready_puts_no_load_on_the_store(own_world, monkeypatch):
    monkeypatch.setattr(health, "CACHE_TTL_S", 600.0)
    with Running(own_world.settings, config=own_world.config) as running:
        client, store = running.client(), own_world.settings.store
        assert client.get("/ready").status_code == 200
        store.rename(store.with_name("away"))
        assert client.get("/ready").status_code == 200  # what was found before
        monkeypatch.setattr(health, "CACHE_TTL_S", 0.0)
        refused(client.get("/ready"), 503, "Busy")
        store.with_name("away").rename(store)
        assert client.get("/ready").status_code == 200
