"""What the client does when a server is slow, busy, gone, or says no."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from knowledge_pipeline import Filters, errors
from knowledge_pipeline.client import AsyncKnowledgeClient, KnowledgeClient
from knowledge_pipeline_tests.client.scripted_server import Scripted, ScriptedServer

ANSWER = {"query_id": "q", "results": []}


def problem(status: int, code: str, **headers: str) -> Scripted:
    return Scripted(status, {"status": status, "code": code, "detail": f"a sentence of {code}"}, headers)


def searched(url: str, *, asynchronous: bool, tries: int = 4, timeout_s: float = 60.0):
    async def awaited():
        async with AsyncKnowledgeClient(url, "secret", tries=tries, timeout_s=timeout_s) as client:
            return await client.search("payments")

    if asynchronous:
        return asyncio.run(awaited())
    with KnowledgeClient(url, "secret", tries=tries, timeout_s=timeout_s) as client:
        return client.search("payments")


both = pytest.mark.parametrize("asynchronous", [False, True], ids=["plain", "asynchronous"])


@both
@pytest.mark.parametrize(
    "first",
    [
        problem(429, "TooManyRequests"),
        problem(503, "Busy"),
        problem(504, "ResponseTimeout"),
        Scripted(502, b"<html>Bad Gateway</html>"),
        Scripted(hang_up=True),
    ],
    ids=["busy", "unavailable", "timed out", "a proxy's error", "hung up"],
)
def test_what_may_pass_is_tried_again(asynchronous, first):
    with ScriptedServer(first, first, Scripted(told=ANSWER)) as server:
        assert searched(server.url, asynchronous=asynchronous) == ANSWER
    assert len(server.asked) == 3
    assert server.tokens == ["Bearer secret"] * 3


@both
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(401, "Unauthenticated"), errors.Unauthenticated),
        (problem(403, "Forbidden"), errors.Forbidden),
        (problem(404, "NotFound"), errors.NotFound),
        (problem(422, "InvalidQuery"), errors.InvalidQuery),
        (problem(422, "ConfigError"), errors.ConfigError),
        (Scripted(500, {"code": "InternalError", "detail": "a sentence"}), errors.KnowledgeError),
        (problem(404, "os"), errors.NotFound),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_refusal_is_raised_at_once_as_the_server_s_own_error(asynchronous, answer, error):
    with ScriptedServer(answer) as server, pytest.raises(errors.KnowledgeError) as raised:
        searched(server.url, asynchronous=asynchronous)
    assert type(raised.value) is error
    assert str(raised.value) == answer.told["detail"]
    assert len(server.asked) == 1


@both
def test_the_server_says_how_long_to_wait(asynchronous):
    with ScriptedServer(
        problem(429, "TooManyRequests", **{"Retry-After": "1"}), Scripted(told=ANSWER)
    ) as server:
        searched(server.url, asynchronous=asynchronous)
    first, second = server.times_s
    assert 1.0 <= second - first < 3.0


@both
def test_whoever_is_to_wait_for_long_is_told_so_instead(asynchronous):
    busy = problem(429, "TooManyRequests", **{"Retry-After": "3600"})
    with ScriptedServer(busy) as server, pytest.raises(errors.TooManyRequests) as raised:
        searched(server.url, asynchronous=asynchronous)
    assert raised.value.retry_after_s == 3600
    assert len(server.asked) == 1


@both
def test_after_the_last_try_the_last_error_is_raised(asynchronous):
    with (
        ScriptedServer(problem(503, "Busy")) as server,
        pytest.raises(errors.Busy, match="a sentence of Busy"),
    ):
        searched(server.url, asynchronous=asynchronous, tries=2)
    assert len(server.asked) == 2


@both
def test_a_server_that_is_not_there_is_told_with_its_address(asynchronous):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(errors.TransientError, match=f"^{url} does not answer") as raised:
        searched(url, asynchronous=asynchronous, tries=2)
    assert raised.value.__cause__ is None and "secret" not in str(raised.value)


@both
def test_a_server_may_be_below_a_path(asynchronous):
    with ScriptedServer(Scripted(told=ANSWER)) as server:
        assert searched(f"{server.url}/kb/", asynchronous=asynchronous) == ANSWER
    assert [path for _, path, _ in server.asked] == ["/kb/api/v1/knowledge/search"]


@both
@pytest.mark.parametrize(
    "answer",
    [
        Scripted(404, {"status": 404, "code": "HTTPError", "detail": "Not Found"}),
        Scripted(404, b"<html>Not Found</html>"),
    ],
    ids=["a knowledge server", "another server"],
)
def test_where_no_knowledge_server_is_it_says_so_and_of_a_path_what_may_be_wrong(asynchronous, answer):
    with ScriptedServer(answer) as server:
        with pytest.raises(errors.NotFound) as raised:
            searched(f"{server.url}/kb", asynchronous=asynchronous)
        assert str(raised.value) == (
            f"there is no knowledge server at {server.url}/kb/api/v1/knowledge/search: is its address "
            f"{server.url}, or does no proxy forward /kb to it?"
        )
        with pytest.raises(errors.NotFound, match="knowledge/search: is this its address"):
            searched(server.url, asynchronous=asynchronous)


@both
def test_a_slow_server_is_not_asked_the_same_again(asynchronous):
    with ScriptedServer(Scripted(told=ANSWER, wait_s=600)) as server, pytest.raises(errors.ResponseTimeout):
        searched(server.url, asynchronous=asynchronous, timeout_s=2)
    assert len(server.asked) == 1


@both
def test_an_answer_that_is_no_json_names_the_address(asynchronous):
    with (
        ScriptedServer(Scripted(told=b"<html>a login page</html>")) as server,
        pytest.raises(errors.KnowledgeError, match="does not answer with JSON: check the address"),
    ):
        searched(server.url, asynchronous=asynchronous)


def test_feedback_that_may_have_arrived_is_not_sent_twice():
    with (
        ScriptedServer(Scripted(hang_up=True)) as server,
        KnowledgeClient(server.url) as client,
        pytest.raises(errors.TransientError),
    ):
        client.feedback("q", "r", "useful")
    assert len(server.asked) == 1


def test_filters_are_sent_as_the_python_door_takes_them():
    filters = Filters(languages=("go",), since=datetime(2026, 1, 31, tzinfo=UTC))
    with ScriptedServer(Scripted(told=ANSWER)) as server, KnowledgeClient(f"{server.url}/") as client:
        client.search("payments", filters=filters, limit=3, type=None)
        client.get("docs:guides/a b.md")
    told = {"languages": ["go"], "since": "2026-01-31T00:00:00+00:00"}
    assert server.asked == [
        ("POST", "/api/v1/knowledge/search", {"query": "payments", "filters": told, "limit": 3}),
        ("GET", "/api/v1/knowledge/docs%3Aguides%2Fa%20b.md", None),
    ]


def test_the_client_loads_nothing_of_the_knowledge_base():
    code = (
        "import sys, knowledge_pipeline.client; "
        "print([name for name in ('lancedb', 'torch', 'numpy', 'pyarrow', 'knowledge_pipeline.query') "
        "if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
