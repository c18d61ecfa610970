"""Several workers behind one port are one server: limits, answers, sign-ins, metrics and the audit log.

Which worker answers is decided by stopping the other one (SIGSTOP).
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import yaml

from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline_tests.serve.conftest import copy_world
from knowledge_pipeline_tests.serve.test_http_process import Process, wait_until_closed
from knowledge_pipeline_tests.serve.test_http_search import API, ask
from knowledge_pipeline_tests.serve.world import World

pytestmark = pytest.mark.slow


class Workers(Process):
    """A server with two workers."""

    def __init__(self, config: Path) -> None:
        super().__init__(config, "--workers", "2")

    @property
    def pids(self) -> list[int]:
        """The workers, the oldest first."""
        found: list[int] = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                command = (entry / "cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(parent) == self.child.pid and "spawn_main" in command:
                found.append(int(entry.name))
        return sorted(found)

    @contextmanager
    def only(self, at: int) -> Iterator[httpx2.Client]:
        """A client that one of the workers answers."""
        others = [pid for number, pid in enumerate(self.pids) if number != at]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        try:
            with self.client() as client:
                yield client
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)

    def client(self, token: str | None = None) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(base_url=self.url, timeout=240, trust_env=False, headers=headers)

    def await_workers(self, without: set[int]) -> None:
        """Until two others answer."""
        deadline = time.monotonic() + 240
        while len(set(self.pids) - without) < 2 or not self._both_answer():
            assert time.monotonic() < deadline, self.lines
            time.sleep(0.1)

    def _both_answer(self) -> bool:
        for at in (0, 1):
            with self.only(at) as client:
                try:
                    client.get("/health", timeout=5)
                except (httpx2.TimeoutException, httpx2.TransportError):
                    return False
        return True


def end(workers: Workers) -> None:
    if workers.child.poll() is None:
        workers.child.send_signal(signal.SIGTERM)
    workers.ended()
    assert workers.child.stderr
    workers.child.stderr.close()


@pytest.fixture(scope="module")
def shared_world(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A copy of the world with metrics."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("DAGSTER_HOME", raising=False)
        copy = copy_world(world, tmp_path_factory.mktemp("workers") / "world", patched)
        configure(copy, serve={"metrics": True})
        yield copy


@pytest.fixture(scope="module")
def shared(shared_world: World) -> Iterator[Workers]:
    """Workers for all tests that leave them as they are."""
    started = Workers(shared_world.config)
    yield started
    end(started)


@pytest.fixture
def workers(own_world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Workers of its own for a test."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    started = Workers(own_world.config)
    yield started
    end(started)


def configure(world: World, **settings: dict[str, object]) -> None:
    content = yaml.safe_load(world.config.read_text())
    for name, keys in settings.items():
        content[name] = {**content.get(name, {}), **keys}
    world.config.write_text(yaml.safe_dump(content))


def test_a_rate_holds_over_all_workers(shared: Workers, shared_world: World) -> None:
    lake = Lake(shared_world.settings.store)
    _, secret = TokenStore(lake).create("a program", tenant="acme", requests_per_minute=30)
    bearer = {"Authorization": f"Bearer {secret}"}
    counts: Counter[int] = Counter()
    began = time.monotonic()
    for at in (0, 1):
        with shared.only(at) as client:
            ask(client, "search", query="warm up")
            for _ in range(20):
                answer = client.post(f"{API}/search", json={"query": "refunds"}, headers=bearer)
                counts[answer.status_code] += 1
    refused = client_refusal(shared, secret)
    if time.monotonic() - began < 60:  # else the first requests no longer count
        assert counts == {200: 30, 429: 10}
        assert 1 <= int(refused.headers["retry-after"]) <= 60


def client_refusal(workers: Workers, secret: str) -> httpx2.Response:
    with workers.client(secret) as client:
        return client.post(f"{API}/search", json={"query": "refunds"})


def test_answers_and_sign_ins_are_those_of_all_workers_until_the_next_release(
    shared: Workers, shared_world: World
) -> None:
    link = shared.line(r"(/sign-in\?token=\S+)")[1]
    question = {"query": "how are orders refunded"}
    with shared.only(0) as client:
        first = ask(client, "search", **question)
        assert client.get(link).status_code == 303
        cookies = dict(client.cookies)
    with shared.only(1) as client:
        second = ask(client, "search", **question)
        client.cookies.update(cookies)
        page = client.get("/", follow_redirects=False)
    assert (first["cached"], second["cached"]) == (False, True)
    assert second["results"] == first["results"] != []
    assert page.status_code == 200
    assert "canaryacme" not in str(second)
    (shared_world.root / "shop-docs/guides/refunds.md").write_text(
        "# Refunds\n\nHow orders are refunded now.\n"
    )
    operator = shared_world.tokens["operator"]
    with shared.client(operator) as client:
        started = client.post(f"{API}/sync/shop-docs")
    assert started.status_code == 202
    await_refresh(shared, operator, started.json()["id"])
    with shared.only(1) as client:
        third = ask(client, "search", **question)
    assert third["release"] == first["release"] + 1
    assert not third["cached"]


def await_refresh(workers: Workers, operator: str, wanted: str) -> None:
    """Until a refresh is done, as each worker tells it."""
    deadline = time.monotonic() + 240
    for at in (0, 1):
        while True:
            with workers.only(at) as client:
                headers = {"Authorization": f"Bearer {operator}"}
                every = client.get(f"{API}/sync/status", headers=headers).json()["refreshes"]
            (refresh,) = (each for each in every if each["id"] == wanted)
            if refresh["status"] not in ("queued", "running"):
                break
            assert time.monotonic() < deadline
            time.sleep(0.3)
        assert (refresh["status"], refresh["error"]) == ("succeeded", None)


def test_a_worker_that_is_killed_is_replaced_and_no_answer_is_missing_in_the_log(
    workers: Workers, own_world: World
) -> None:
    given: list[str] = []
    before = set(workers.pids)
    for at in (0, 1):
        with workers.only(at) as client:
            given += [
                ask(client, "search", query=f"question {at} {number}")["query_id"] for number in range(5)
            ]
    os.kill(workers.pids[0], signal.SIGKILL)
    with ThreadPoolExecutor(4) as pool:
        given += [each for each in pool.map(lambda at: ask_again(workers, at), range(8)) if each]
    workers.line(r"ended with exit code -9: it is replaced")
    workers.await_workers(without={min(before)} if len(before) else set())
    with workers.only(1) as client:
        given.append(ask(client, "search", query="after")["query_id"])
    workers.child.send_signal(signal.SIGTERM)
    assert workers.ended() == 0
    rows = open_log(Lake(own_world.settings.store), "queries").read_rows(["query_id"]).to_pydict()
    assert Counter(given) - Counter(rows["query_id"]) == Counter()
    assert max(Counter(rows["query_id"]).values()) == 1


def ask_again(workers: Workers, at: int) -> str | None:
    """A question as a client sends it that tries once more where its connection ended."""
    for _ in range(2):
        try:
            with workers.client() as client:
                return ask(client, "search", query=f"while one is dead {at}")["query_id"]
        except httpx2.TransportError:
            continue
    return None


def test_the_configuration_is_read_again_and_a_wrong_one_leaves_the_workers_as_they_are(
    workers: Workers, own_world: World
) -> None:
    configure(own_world, limits={"results": 20})
    old = set(workers.pids)
    workers.child.send_signal(signal.SIGHUP)
    workers.line("all workers have read the configuration again")
    for at in (0, 1):
        with workers.only(at) as client:
            answer = client.post(f"{API}/search", json={"query": "refunds", "limit": 21})
            assert answer.status_code == 422
            assert "limits.results" in answer.text
    new = set(workers.pids)
    assert old.isdisjoint(new)
    own_world.config.write_text("version: 1\nsources: 3\n")
    workers.child.send_signal(signal.SIGHUP)
    workers.line("the configuration is not read again, workers stay as they are")
    assert set(workers.pids) == new
    with workers.client() as client:
        assert ask(client, "search", query="refunds")["results"]
    workers_end_with_their_supervisor_and_free_the_port(workers)


def workers_end_with_their_supervisor_and_free_the_port(workers: Workers) -> None:
    os.kill(workers.child.pid, signal.SIGKILL)
    wait_until_closed(workers.url)


def test_metrics_are_those_of_all_workers(shared: Workers, shared_world: World) -> None:
    def count_queries(at: int) -> float:
        with shared.only(at) as client:
            headers = {"Authorization": f"Bearer {shared_world.tokens['operator']}"}
            shown = client.get("/metrics", headers=headers).text
        assert "knowledge_release_number" in shown
        assert shown.count("# TYPE knowledge_query_log_up gauge") == 1
        (line,) = re.findall(r'^knowledge_queries_total{interface="http",outcome="ok"} (\S+)$', shown, re.M)
        return float(line)

    with shared.only(0) as client:
        ask(client, "search", query="the first of all")
    before = count_queries(0)
    for at in (0, 1):
        with shared.only(at) as client:
            for number in range(3):
                ask(client, "search", query=f"{at} {number}")
    assert [count_queries(at) - before for at in (0, 1)] == [6.0, 6.0]
