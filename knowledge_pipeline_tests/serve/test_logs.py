"""What a server writes, as one line each, for programs and for people."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from knowledge_pipeline.config.operation import ServeSettings
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.serve.logs import configure_logging
from knowledge_pipeline.serve.mcp.server import QUERY_ID_NAME
from knowledge_pipeline_tests.serve.mcp_calls import over_http
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World

API = "/api/v1/knowledge"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def logging_to(stream: io.StringIO, world: World, **serve) -> Iterator[Running]:
    with (
        configure_logging(ServeSettings(**serve), stream),
        Running(world.settings, config=world.config, **serve) as running,
    ):
        yield running


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_door_s_requests_are_told_in_one_line_of_the_same_facts(world):
    stream = io.StringIO()

    async def ask(url: str) -> str:
        async with over_http(url, world.tokens["gil"]) as client:
            answer = await client.call_tool("knowledge_query", {"query": "payments"})
            return answer.meta[QUERY_ID_NAME]

    with logging_to(stream, world) as running:
        asker = running.client(world.tokens["ann"])
        answers = [asker.post(f"{API}/search", json={"query": "payments"}).json() for _ in range(2)]
        asker.get("/", params={"q": "payments"})
        asked = anyio.run(ask, running.url)
    told = lines(stream)
    first, again = [line for line in told if line["route"] == f"{API}/search"]
    assert [line["query_id"] for line in (first, again)] == [answer["query_id"] for answer in answers]
    assert [line["cached"] for line in (first, again)] == [False, True]
    facts = {"interface": "http", "token": world.ids["ann"], "method": "POST", "status": 200, "degraded": []}
    assert first | facts == first and first["duration_ms"] > 0 and first["level"] == "info"
    (page,) = [line for line in told if line["route"] == "/"]
    assert (page["interface"], page["token"]) == ("page", world.ids["ann"]) and page["query_id"]
    (agent,) = [line for line in told if line["query_id"] == asked]
    assert (agent["interface"], agent["route"], agent["token"]) == ("mcp", "/mcp", world.ids["gil"])
    assert len({line["request_id"] for line in told}) == len(told)


def test_content_and_tokens_are_in_no_line(world):
    stream = io.StringIO()
    with logging_to(stream, world) as running:
        asker = running.client(world.tokens["ann"])
        asker.post(f"{API}/search", json={"query": "payments of xylophones"})
        asker.get("/", params={"q": "payments of xylophones"})
        asker.get(f"{API}/docs/acme-docs:README.md")
        running.client("kpt_no_token").get(f"{API}/status")
    hidden = ("xylophones", "README", "canary", "kpt_", "question", str(world.root))
    assert not [each for each in hidden if each in stream.getvalue()]
    assert lines(stream)[-1]["status"] == 401


def test_questions_are_told_without_their_secrets_where_that_is_wanted(world):
    stream, secret = io.StringIO(), "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    with logging_to(stream, world, log_queries=True) as running:
        asker = running.client(world.tokens["ann"])
        asker.post(f"{API}/search", json={"query": f"payments retried {secret}"})
        asker.get(f"{API}/collections")
    first, second = lines(stream)
    assert first["query"].startswith("payments retried [REDACTED") and secret not in stream.getvalue()
    assert "query" not in second


def test_on_a_terminal_lines_are_for_people(world):
    stream = Terminal()
    with logging_to(stream, world) as running:
        running.client(world.tokens["ann"]).post(f"{API}/search", json={"query": "payments"})
    (line,) = stream.getvalue().splitlines()
    start, facts = line.split(" ms ")
    assert re.match(rf"^\S+ info    POST {API}/search 200, [\d.]+$", start), line
    told = dict(fact.split("=") for fact in facts.split(" "))
    assert list(told) == ["request_id", "query_id", "token", "interface", "cached"]
    assert (told["interface"], told["token"], told["cached"]) == ("http", world.ids["ann"], "False")
    assert logged(ServeSettings(log_format="json"), Terminal()).startswith("{")
    assert not logged(ServeSettings(log_format="text"), io.StringIO()).startswith("{")


def logged(serve: ServeSettings, stream: io.StringIO, error: Exception | None = None) -> str:
    with configure_logging(serve, stream):
        try:
            raise error or ValueError("the text of somebody")
        except Exception:
            logging.getLogger("somewhere").exception("it went wrong")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("serve", "error", "said"),
    [
        (ServeSettings(), ValueError("the text of somebody"), None),
        (ServeSettings(log_queries=True), ValueError("the text of somebody"), "the text of somebody"),
        (ServeSettings(), NotFound("there is no such source"), "there is no such source"),
        (
            ServeSettings(),
            OSError(28, "No space left on device", "/srv/some/file"),
            "No space left on device",
        ),
    ],
)
def test_of_an_error_is_told_what_and_where_and_no_content(serve, error, said):
    (line,) = [json.loads(each) for each in logged(serve, io.StringIO(), error).splitlines()]
    assert (line["level"], line["logger"], line["message"]) == ("error", "somewhere", "it went wrong")
    assert (line["error"], line.get("error_message")) == (type(error).__name__, said)
    assert re.fullmatch(rf"{__name__}:\d+ logged", line["frames"][-1])
    assert "/srv" not in json.dumps(line)


def test_what_nobody_foresaw_is_told_under_the_id_of_its_request(world):
    stream = io.StringIO()
    with logging_to(stream, world) as running:

        async def broken(**_):
            raise RuntimeError("payments of xylophones")

        running.service.base.status = broken
        answer = running.client(world.tokens["ann"]).get(f"{API}/status")
    error, access = lines(stream)
    assert answer.status_code == access["status"] == 500
    assert error["request_id"] == access["request_id"] == answer.headers["x-request-id"]
    assert (error["error"], error["interface"], error["token"]) == ("RuntimeError", "http", world.ids["ann"])
    assert "xylophones" not in stream.getvalue()


@pytest.mark.parametrize(
    "name", ["uvicorn.error", "mcp.server.streamable_http_manager", "knowledge_pipeline.x"]
)
def test_what_libraries_say_goes_the_same_way(name):
    stream = io.StringIO()
    with configure_logging(ServeSettings(), stream):
        logging.getLogger(name).warning("odd: %s", "token=" + "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8")
        logging.getLogger(name).debug("of no interest")
    (line,) = lines(stream)
    assert (line["logger"], line["level"]) == (name, "warning")
    assert line["message"].startswith("odd: ") and "a1B2" not in line["message"]


def test_a_message_forges_no_line():
    stream = Terminal()
    with configure_logging(ServeSettings(), stream):
        logging.getLogger("somewhere").warning("odd: %s", "x\n2026-01-01 info all is well")
    assert len(stream.getvalue().splitlines()) == 1


def test_afterwards_logging_is_as_it_was():
    names = (None, "knowledge_pipeline", "knowledge_pipeline.access")
    logs = [logging.getLogger(name) for name in names]
    before = [(log.handlers, log.level, log.propagate) for log in logs]
    with configure_logging(ServeSettings(), sys.stderr):
        pass
    assert [(log.handlers, log.level, log.propagate) for log in logs] == before
