"""Streams of events: who is told what, from where, and until when."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.config import file
from knowledge_pipeline.errors import Forbidden
from knowledge_pipeline.serve import events as streams
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import record_event
from knowledge_pipeline.store.progress import SourceProgress
from knowledge_pipeline_tests.serve.running import Running

EVENTS = "/api/v1/knowledge/events"
CONFIG = """
version: 1
store: .knowledge
sources:
  - {id: guide, type: markdown, connection: {type: local, path: .}}
  - {id: a, type: markdown, connection: {type: local, path: .}, access: {visibility: tenant, tenant: acme}}
  - {id: b, type: markdown, connection: {type: local, path: .}, access: {visibility: tenant, tenant: globex}}
"""


@dataclass(frozen=True)
class Served:
    """A server with the events of three sources and one release."""

    lake: Lake
    running: Running
    tokens: dict[str, str]

    def client(self, name: str) -> httpx2.Client:
        return self.running.client(self.tokens[name])

    def record(self, source: str) -> None:
        record_event(self.lake, "index.refreshed", {"source": source}, at=datetime.now(UTC), source=source)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root: Path = tmp_path_factory.mktemp("events")
    (root / "knowledge.yaml").write_text(CONFIG)
    settings = file.load_settings(root / "knowledge.yaml")
    lake = Lake(settings.store)
    store, tokens = TokenStore(lake), dict[str, str]()
    for name, allowed in {
        "operator": {"everything": True, "scopes": ("events",)},
        "acme": {"tenant": "acme", "scopes": ("events",)},
        "nobody": {"scopes": ("events",)},
        "reader": {"everything": True},
        "member": {"tenant": "acme"},
        "leaver": {"tenant": "acme", "scopes": ("events",)},
    }.items():
        _, tokens[name] = store.create(name, **allowed)
    with Running(settings, config=root / "knowledge.yaml") as running:
        made = Served(lake, running, tokens)
        for source in ("guide", "a", "b", "removed"):
            made.record(source)
        release = {"release": 1, "rows": 7, "spaces": ["small"], "embedded_share": 1.0}
        record_event(lake, "release.published", release, at=datetime.now(UTC), release=1)
        yield made


def read_stream(text: str) -> list[dict[str, Any]]:
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines]


def test_callers_are_told_of_the_sources_that_they_manage(served: Served) -> None:
    told = {}
    for name in ("operator", "acme", "nobody"):
        answer = served.client(name).get(EVENTS, params={"follow": False, "after": 0})
        assert answer.headers["content-type"].startswith("text/event-stream")
        told[name] = [
            each["data"].get("source", each["data"].get("rows")) for each in read_stream(answer.text)
        ]
    assert told == {
        "operator": ["guide", "a", "b", "removed", 7],
        "acme": ["a", None],  # of a release, its number alone
        "nobody": [None],
    }
    wanted = {"follow": False, "after": 0, "types": ["release.published"]}
    assert len(read_stream(served.client("acme").get(EVENTS, params=wanted).text)) == 1


@pytest.mark.parametrize(
    ("name", "params", "headers", "status", "sentence"),
    [
        ("reader", {}, {}, 403, "requires the scope 'events'"),
        ("operator", {"types": "index.gone"}, {}, 422, "'index.refreshed', 'release.published'"),
        ("operator", {}, {"Last-Event-ID": "x"}, 422, "leave it out to start now"),
        ("operator", {}, {"Last-Event-ID": "9" * 30}, 422, "leave it out to start now"),
        ("operator", {"after": -1}, {}, 422, "greater than or equal to 0"),
    ],
)
def test_a_stream_is_refused_with_a_sentence(served: Served, name, params, headers, status, sentence) -> None:
    answer = served.client(name).get(EVENTS, params=params, headers=headers)
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert sentence in answer.json()["detail"]


def test_a_health_check_is_told_that_no_watcher_runs(served: Served) -> None:
    answer = served.running.client().get("/health/watcher")  # anybody may ask
    assert (answer.status_code, answer.json()["status"]) == (503, "absent")
    assert "start `knowledge watch`" in answer.json()["detail"]


def test_a_client_follows_from_now_on_and_goes_on_where_it_was(served: Served) -> None:
    assert served.client("acme").head(EVENTS).status_code == 200  # a stream that nobody reads has no end
    with KnowledgeClient(served.running.url, served.tokens["acme"]) as client:
        events = client.events(after="0")
        first = next(events)
        assert (first["type"], first["data"]) == ("index.refreshed", {"source": "a"})
        assert next(events)["data"] == {"release": 1}
        served.record("b")
        served.record("a")
        new = next(events)  # by another process or this one, a moment later
        assert new["data"] == {"source": "a"} and new["position"] > first["position"]
        events.close()
        resumed = client.events(after=first["position"], types=["index.refreshed"])
        assert next(resumed) == new
        resumed.close()  # else it ends when it is collected, which may be after the client's event loop
    with KnowledgeClient(served.running.url, served.tokens["reader"]) as client, pytest.raises(Forbidden):
        next(client.events())


def test_progress_is_shown_to_who_sees_the_whole_source(served: Served) -> None:
    files = [SourceProgress(served.lake.folder, source) for source in ("guide", "a", "b", "removed")]
    for each in files:
        each.show()
        each.report("chunks", 1, 4, 2.0, 1.5)
    told = {}
    for name in ("reader", "member", None):
        client = served.client(name) if name else served.running.client()
        answer = client.get("/progress", params={"follow": False})
        (told[name],) = read_stream(answer.text)
    for each in files:
        each.hide()
    assert {name: sorted(each["sources"]) for name, each in told.items()} == {
        "reader": ["a", "b", "guide", "removed"],
        "member": ["a", "guide"],
        None: ["guide"],
    }
    assert told[None]["sources"]["guide"] == "splitting into chunks, 1 of 4, 2/s, 0:02 left"
    assert 'aria-label="guide: splitting into chunks" max="1" value="0.250"' in told[None]["html"]
    visitor = served.running.client()
    again = visitor.get("/progress", params={"follow": False}, headers={"Last-Event-ID": "0"}).text
    assert [each.get("release", each.get("sources")) for each in read_stream(again)] == [1, {}]
    assert visitor.get("/progress", headers={"Last-Event-ID": "x"}).status_code == 422
    assert served.client("operator").get("/progress").status_code == 403  # without the scope to query


def test_streams_are_few_beat_and_end_with_their_token(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(streams, "MAX_STREAMS_PER_CALLER", 1)
    client = served.client("leaver")
    with client.stream("GET", EVENTS) as response:
        lines = response.iter_lines()
        beat = next(line for line in lines if line.startswith(":"))
        assert beat == ": still here"
        refused = served.client("leaver").get(EVENTS)
        assert refused.status_code == 429 and "Retry-After" in refused.headers
        TokenStore(served.lake).revoke("leaver")
        started = time.monotonic()
        assert not [line for line in lines if line.startswith("data")]  # it ends
    assert time.monotonic() - started < 60
