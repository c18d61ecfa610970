"""`knowledge serve` as a process: what signals do, and a refresh from the request to the new answer."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import httpx2
import pytest

from knowledge_pipeline_tests.fakes.openai_server import Fault
from knowledge_pipeline_tests.serve.test_http_search import API, ask

pytestmark = pytest.mark.slow


class Process:
    """The server, its address, and what it writes to stderr."""

    def __init__(self, config, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "knowledge_pipeline.cli",
            "serve",
            "--port",
            "0",
            "--config",
            str(config),
            *options,
        ]
        self.child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.line(r"Answering on (\S+)")[1]

    def line(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and (self.child.poll() is None or self._reader.is_alive()):
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found
            time.sleep(0.02)
        raise AssertionError(f"no line {pattern!r} in {self.lines}")

    def ended(self) -> int:
        code = self.child.wait(240)
        self._reader.join(60)
        return code

    def _read(self) -> None:
        assert self.child.stderr
        self.lines.extend(iter(self.child.stderr.readline, ""))


@pytest.fixture
def process(own_world, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    started = Process(own_world.config)
    yield started
    started.child.kill()
    started.ended()
    started.child.stderr.close()


def wait_until_closed(url: str) -> None:
    """Until nobody listens there any more."""
    address = urlsplit(url)
    with suppress(ConnectionRefusedError):
        while True:
            socket.create_connection((address.hostname, address.port)).close()
            time.sleep(0.02)


def test_what_is_being_answered_when_the_server_is_told_to_end_is_answered(process, embedding_server):
    with (
        httpx2.Client(base_url=process.url, timeout=240, trust_env=False) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        ask(client, "search", query="warm up")
        embedding_server.fail_next(Fault(wait_s=600))
        answer = pool.submit(client.post, f"{API}/search", json={"query": "a slow question"})
        while not embedding_server.at_once:
            time.sleep(0.01)
        process.child.send_signal(signal.SIGTERM)
        wait_until_closed(process.url)
        assert not answer.done()
        embedding_server.go_on()
        told = answer.result(120)
    assert told.status_code == 200 and told.json()["degraded"] == []
    assert process.ended() in (0, -signal.SIGTERM)
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{process.url}/health", trust_env=False)
    logged = [json.loads(line) for line in process.lines if line.startswith("{")]
    assert told.json()["query_id"] in {line["query_id"] for line in logged}
    assert "slow question" not in "".join(process.lines)


def test_a_change_is_found_after_a_sync(process, own_world):
    acme = {"Authorization": f"Bearer {own_world.tokens['acme']}"}
    with httpx2.Client(base_url=process.url, timeout=240, trust_env=False, headers=acme) as client:
        guide = own_world.root / "acme-docs/guides/refunds.md"
        guide.write_text("# Refunds\n\nHow a zebrastripe is refunded.\n")
        before = ask(client, "search", query="zebrastripe")["release"]
        admin = {"Authorization": f"Bearer {own_world.tokens['operator']}"}
        assert client.post(f"{API}/sync/acme-docs", headers=admin).status_code == 202
        deadline = time.monotonic() + 240
        while True:
            (refresh,) = client.get(f"{API}/sync/status", headers=admin).json()["refreshes"]
            if refresh["status"] not in ("queued", "running"):
                break
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert (refresh["status"], refresh["error"]) == ("succeeded", None)
        after = ask(client, "search", query="zebrastripe")
    assert after["release"] == refresh["release"] == before + 1
    assert "acme-docs" in {result["citation"]["source"] for result in after["results"]}


def test_refreshes_that_wait_when_the_server_is_killed_are_done_by_the_next(process, own_world):
    admin = {"Authorization": f"Bearer {own_world.tokens['operator']}"}
    (own_world.root / "acme-docs/guides/refunds.md").write_text(
        "# Refunds\n\nHow a zebrastripe is refunded.\n"
    )
    with httpx2.Client(base_url=process.url, timeout=240, trust_env=False, headers=admin) as client:
        running, waiting = (
            client.post(f"{API}/sync", json={"sources": sources}).json()["id"]
            for sources in (["globex-docs"], ["acme-docs"])
        )
    process.child.send_signal(signal.SIGKILL)
    process.ended()
    later = Process(own_world.config)
    try:
        with httpx2.Client(base_url=later.url, timeout=240, trust_env=False, headers=admin) as client:
            deadline = time.monotonic() + 240
            while True:
                refreshes = client.get(f"{API}/sync/status").json()["refreshes"]
                if all(each["status"] == "succeeded" for each in refreshes):
                    break
                assert time.monotonic() < deadline, refreshes
                time.sleep(0.2)
            assert [each["id"] for each in refreshes] == [waiting, running]
            found = ask(client, "search", query="zebrastripe")["results"]
    finally:
        later.child.kill()
        later.ended()
        later.child.stderr.close()
    assert "acme-docs" in {result["citation"]["source"] for result in found}
