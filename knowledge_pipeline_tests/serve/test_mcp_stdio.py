"""MCP over stdin and stdout: `knowledge mcp` as a client starts it."""

from __future__ import annotations

import json
import re
import signal as signals
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from mcp.client.client import Client

from knowledge_pipeline.cli.app import app
from knowledge_pipeline_tests.fakes.openai_server import Fault
from knowledge_pipeline_tests.serve.mcp_calls import RIGHT, all_of, process, text_of
from knowledge_pipeline_tests.serve.world import SOURCES, World

READ = {"name": "get_document", "arguments": {"id": "shop-docs:README.md"}}
SLOW = {"name": "knowledge_query", "arguments": {"query": "a question that takes its time"}}


class Pipe:
    """A process, spoken to line by line."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        self.running = running
        self.lines: list[str] = []

    def send(self, message: Any) -> None:
        assert self.running.stdin
        line = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        self.running.stdin.write(line + "\n")
        self.running.stdin.flush()

    def answer(self, id_: int) -> dict[str, Any]:
        """The answer to a request; every line before it is kept."""
        assert self.running.stdout
        while True:
            line = self.running.stdout.readline()
            assert line, "the process ended without an answer"
            self.lines.append(line)
            told = json.loads(line)
            if told.get("id") == id_:
                return told

    def open(self) -> None:
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.send({"id": 0, "method": "initialize", "params": params})
        assert self.answer(0)["result"]["serverInfo"]["name"] == "knowledge"
        self.send({"method": "notifications/initialized"})


def take_signals() -> None:
    """What a child inherits: other tests' libraries may have made this process block or ignore its end."""
    signals.pthread_sigmask(signals.SIG_UNBLOCK, (signals.SIGINT, signals.SIGTERM))
    if signals.getsignal(signals.SIGTERM) == signals.SIG_IGN:
        signals.signal(signals.SIGTERM, signals.SIG_DFL)


@contextmanager
def started(world: World, *options: str, **environment: str) -> Iterator[Pipe]:
    how = process(world, *options, **environment)
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    take_signals()
    with subprocess.Popen([how.command, *how.args], env=how.env, text=True, **pipes) as running:
        try:
            yield Pipe(running)
        finally:
            running.kill()


@pytest.mark.slow
def test_every_tool_answers_the_operator_with_everything(world):
    async def asked():
        async with Client(process(world)) as client:
            return {name: await client.call_tool(name, dict(given)) for name, given in RIGHT.items()}

    results = anyio.run(asked)
    for name, result in results.items():
        assert not result.is_error, (name, text_of(result))
    seen = all_of(results["knowledge_query"])
    assert [source.id for source in SOURCES if source.canary not in seen] == []


@pytest.mark.slow
def test_nothing_but_the_protocol_is_on_stdout_a_cancelled_question_makes_room_and_the_end_of_stdin_ends_it(
    own_world, embedding_server
):
    config = json.loads(own_world.config.read_text())
    config["serve"] |= {"max_concurrent": 1, "timeout_s": 600}
    own_world.config.write_text(json.dumps(config))
    with started(own_world) as pipe:
        pipe.send("this is no message")
        pipe.open()
        pipe.send({"id": 1, "method": "tools/call", "params": READ})
        assert not pipe.answer(1)["result"]["isError"]
        embedding_server.fail_next(Fault(wait_s=600))
        pipe.send({"id": 2, "method": "tools/call", "params": SLOW})
        while not embedding_server.at_once:
            time.sleep(0.01)
        pipe.send({"method": "notifications/cancelled", "params": {"requestId": 2}})
        began = time.monotonic()
        pipe.send({"id": 3, "method": "tools/call", "params": READ})
        assert not pipe.answer(3)["result"]["isError"]
        assert embedding_server.at_once and time.monotonic() - began < 60
        embedding_server.go_on()
        pipe.send({"id": 4, "method": "tools/call", "params": SLOW})
        rest, told = pipe.running.communicate(timeout=240)  # closes stdin
    assert pipe.running.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in [*pipe.lines, *rest.splitlines()])
    assert "Traceback" not in told


@pytest.mark.slow
def test_with_a_token_it_answers_as_its_holder(world):
    async def asked():
        async with Client(process(world, KNOWLEDGE_TOKEN=world.tokens["ann"])) as client:
            return await client.call_tool("knowledge_query", {"query": "payment", "limit": 100})

    found = set(re.findall(r"source (\S+) · score", text_of(anyio.run(asked))))
    assert found == {source.id for source in world.sources_of("ann")}


@pytest.mark.parametrize(
    ("options", "environment", "sentence"),
    [
        ((), {"KNOWLEDGE_TOKEN": "kpt_x_y"}, "the token is not known, expired or revoked"),
        ((), {"KNOWLEDGE_TOKEN": ""}, "the environment variable KNOWLEDGE_TOKEN is empty"),
        (("--token-env", "TEAM_TOKEN"), {}, "the environment variable TEAM_TOKEN is not set"),
    ],
)
def test_a_token_that_is_not_there_never_makes_an_operator(
    own_world, monkeypatch, capfd, options, environment, sentence
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        app(["--config", str(own_world.config), "mcp", *options])
    said, told = capfd.readouterr()
    assert (ended.value.code in (1, 2), said) == (True, "")
    assert told.startswith(f"error: {sentence}") and told.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("signal", [2, 15])
def test_a_signal_ends_it_at_once_with_questions_under_way(world, signal):
    with started(world) as pipe:
        pipe.open()
        pipe.send({"id": 1, "method": "tools/call", "params": READ})
        pipe.answer(1)
        pipe.running.send_signal(signal)
        pipe.running.wait(timeout=240)  # with stdin still open; seconds on a busy machine
        assert pipe.running.stderr
        assert "Traceback" not in pipe.running.stderr.read()
