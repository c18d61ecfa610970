"""`kill -9` of a server under load: every question that a client has an answer to is in the log after."""

from __future__ import annotations

import signal
import threading
import time

import httpx2
import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.serve.test_http_process import Process
from knowledge_pipeline_tests.serve.test_http_search import API

pytestmark = pytest.mark.slow

CLIENTS = 8


def asked_until_it_is_gone(url: str, token: str, number: int, answered: list[str]) -> None:
    """Ask one question after the other; note the id of each answer that came."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=url, headers=headers, timeout=240, trust_env=False) as client:
        for count in range(100_000):
            asked = {"query": f"payments {number} {count}", "limit": 2}
            try:
                told = client.post(f"{API}/search", json=asked)
            except httpx2.TransportError:
                return
            assert told.status_code == 200, told.text
            answered.append(told.json()["query_id"])


def test_no_answered_question_is_missing_in_the_log_after_a_kill(own_world, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    server, answered = Process(own_world.config), list[str]()
    names = ("acme", "gil", "public", "ida")
    clients = [
        threading.Thread(
            target=asked_until_it_is_gone,
            args=(server.url, own_world.tokens[names[number % len(names)]], number, answered),
        )
        for number in range(CLIENTS)
    ]
    try:
        for client in clients:
            client.start()
        deadline = time.monotonic() + 240
        while len(answered) < 40 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
    finally:
        server.child.send_signal(signal.SIGKILL)
        for client in clients:
            client.join(120)
    assert server.ended() == -signal.SIGKILL
    assert server.child.stderr
    server.child.stderr.close()
    assert len(answered) >= 40
    with KnowledgeBase(own_world.settings, audited=True) as base:  # the next start
        base.search("what was asked before")
    logged = Lake(own_world.settings.store).log_table("queries").read_rows(["query_id", "token"]).to_pylist()
    assert set(answered) <= {row["query_id"] for row in logged}
    assert len(answered) == len(set(answered))
    tokens = {own_world.ids[name] for name in names}
    assert {row["token"] for row in logged if row["query_id"] in set(answered)} == tokens
