"""What Prometheus scrapes, after real questions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import SOURCES, World

API = "/api/v1/knowledge"
LABELS = {"interface", "outcome", "type", "step", "le", "state", "source_type", "version"}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str, parse=text_string_to_metric_families) -> Samples:
    families = parse(text)
    return {(each.name, frozenset(each.labels.items())): each.value for f in families for each in f.samples}


def scraped(client: httpx2.Client) -> Samples:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


@pytest.fixture(scope="module")
def measured(world: World) -> Iterator[Running]:
    with Running(world.settings, config=world.config, metrics=True) as running:
        yield running


def test_answers_are_timed_by_door_type_and_step(measured, world):
    client = measured.client(world.tokens["ann"])
    before = scraped(measured.client(world.tokens["monitor"]))
    for _ in range(2):
        assert client.post(f"{API}/search", json={"query": "payments retried"}).status_code == 200
    assert client.get("/", params={"q": "payments", "type": "code"}).status_code == 200
    assert client.post(f"{API}/graph/usages", json={"target": "Store.put_payment"}).status_code == 200
    after = scraped(measured.client(world.tokens["monitor"]))

    def more(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    answered = "knowledge_search_duration_seconds_count"
    assert more(answered, interface="http", type="semantic") == 2
    assert more(answered, interface="page", type="code") == 1
    assert more(answered, interface="http", type="graph") == 1
    assert more("knowledge_search_cache_hits_total", type="semantic") == 1
    assert more("knowledge_search_step_duration_seconds_count", step="open") == 4
    assert more("knowledge_search_step_duration_seconds_count", step="retrieve") == 2
    assert more("knowledge_query_duration_seconds_count", interface="http") == 3
    took_s = value(after, "knowledge_search_step_duration_seconds_sum", step="retrieve")
    assert 0 < took_s < 300


def test_every_way_that_a_question_ends_is_counted(measured, world):
    client, slow = measured.client(world.tokens["public"]), measured.client(world.tokens["slow"])
    before = scraped(measured.client(world.tokens["monitor"]))
    client.post(f"{API}/search", json={"query": "  "})
    client.get(f"{API}/docs/shop-docs:no.md")
    measured.client("kpt_no_such").get(f"{API}/collections")
    client.get(f"{API}/sync/status")
    for _ in range(3):
        slow.get(f"{API}/collections")
    after = scraped(measured.client(world.tokens["monitor"]))
    ended = {
        outcome: value(after, "knowledge_queries_total", interface="http", outcome=outcome)
        - value(before, "knowledge_queries_total", interface="http", outcome=outcome)
        for outcome in ("ok", "invalid", "not_found", "unauthenticated", "forbidden", "rate_limited")
    }
    assert ended == {
        "ok": 2,
        "invalid": 1,
        "not_found": 1,
        "unauthenticated": 1,
        "forbidden": 1,
        "rate_limited": 1,
    }
    assert value(after, "knowledge_queries_in_progress") == value(after, "knowledge_queries_queued") == 0


def test_an_answer_that_takes_too_long_is_counted_as_such(world):
    with Running(world.settings, config=world.config, metrics=True, timeout_s=0.000_1) as hurried:
        assert hurried.client(world.tokens["public"]).get(f"{API}/collections").status_code == 504
        samples = scraped(hurried.client(world.tokens["monitor"]))
    assert value(samples, "knowledge_queries_total", interface="http", outcome="timeout") == 1


def test_what_an_answer_does_without_is_counted(world):
    unreachable = world.settings.embedding.model_copy(update={"base_url": "http://127.0.0.1:9"})
    settings = world.settings.model_copy(update={"embedding": unreachable})
    with Running(settings, config=world.config, metrics=True) as running:
        told = running.client(world.tokens["public"]).post(f"{API}/search", json={"query": "payments"}).json()
        assert told["degraded"] == ["vector"]
        samples = scraped(running.client(world.tokens["monitor"]))
    assert value(samples, "knowledge_degraded_answers_total", step="vector") == 1


def test_the_live_release_and_how_fresh_each_type_is_are_told(measured, world):
    samples = scraped(measured.client(world.tokens["monitor"]))
    assert value(samples, "knowledge_store_up") == 1
    assert value(samples, "knowledge_release_number") == 2
    now_s = time.time()
    since_s = value(samples, "knowledge_release_created_timestamp_seconds")
    assert now_s - 3600 < since_s <= now_s
    types = {source.type for source in SOURCES}
    fresh = "knowledge_oldest_source_refresh_timestamp_seconds"
    assert all(now_s - 3600 < value(samples, fresh, source_type=type_) <= now_s for type_ in types)
    assert value(samples, "process_resident_memory_bytes") > 1e6
    assert now_s - 86400 < value(samples, "process_start_time_seconds") <= now_s


def test_refreshes_are_counted_by_how_they_end(own_world):
    failing = RefreshQueue(own_world.config, own_world.root, cli_command=("false",))
    with Running(own_world.settings, config=own_world.config, refreshes=failing, metrics=True) as running:
        admin, monitor = (
            running.client(own_world.tokens["operator"]),
            running.client(own_world.tokens["monitor"]),
        )
        assert value(scraped(monitor), "knowledge_refreshes_finished_total", state="failed") == 0
        assert admin.post(f"{API}/sync/shop-docs").status_code == 202
        deadline = time.monotonic() + 120
        while not value(scraped(monitor), "knowledge_refreshes_finished_total", state="failed"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert value(scraped(monitor), "knowledge_refreshes_active", state="running") == 0


def test_labels_name_nothing_that_belongs_to_somebody(measured, world):
    for name in ("ann", "gil", "operator"):
        measured.client(world.tokens[name]).post(f"{API}/search", json={"query": "payments of somebody"})
    told = measured.client(world.tokens["monitor"]).get("/metrics").text
    assert {label for _, labels in parsed(told) for label, _ in labels} <= LABELS
    private = ("acme", "globex", "initech", "somebody", "canary", str(world.root))
    assert not [each for each in (*private, *world.ids.values()) if each in told]
    assert len(parsed(told)) < 1000


def test_metrics_come_in_the_form_that_is_asked_for(measured, world):
    client = measured.client(world.tokens["monitor"])
    plain = client.get("/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    modern = client.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
    assert modern.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert value(parsed(modern.text, openmetrics), "knowledge_release_number") == 2


def test_metrics_are_for_monitors_alone(own_world):
    with Running(own_world.settings, config=own_world.config, metrics=True) as running:

        def status(name: str) -> int:
            return running.client(own_world.tokens[name]).get("/metrics").status_code

        assert [status(name) for name in ("monitor", "operator", "admin", "public", "ann")] == [
            *(200, 200, 403, 403, 403)
        ]
        assert running.client().get("/metrics").status_code == 403
        assert running.client(**{"X-Forwarded-For": "192.0.2.1"}).get("/metrics").status_code == 401


def test_a_monitor_reads_no_content_and_manages_nothing(own_world):
    with Running(own_world.settings, config=own_world.config, metrics=True) as running:
        client = running.client(own_world.tokens["monitor"])
        assert client.post(f"{API}/search", json={"query": "payments"}).status_code == 403
        for answer in (client.get(f"{API}/sources"), client.post(f"{API}/sync", json={})):
            assert answer.status_code == 403 and "scope 'admin'" in answer.json()["detail"]


def test_who_manages_needs_a_tenant_or_everything(own_world):
    tokens = TokenStore(Lake(own_world.settings.store))
    with pytest.raises(InvalidQuery, match="--tenant NAME or --everything"):
        tokens.create("monitor", scopes=("admin",))


def test_without_being_turned_on_there_are_none(server):
    assert server.client().get("/metrics").status_code == 404
    assert server.service.metrics is None


def test_a_store_that_cannot_be_read_is_told_and_hides_no_other_number(own_world):
    for manifest in (own_world.settings.store / "releases.lance" / "_versions").iterdir():
        manifest.write_bytes(b"torn")
    with Running(own_world.settings, config=own_world.config, metrics=True) as running:
        samples = scraped(running.client(own_world.tokens["monitor"]))
    assert value(samples, "knowledge_store_up") == 0
    assert value(samples, "process_resident_memory_bytes") > 1e6


def test_the_documentation_names_metrics_that_exist(measured, world):
    page = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
    named = set(re.findall(r"\b(?:knowledge|process)_\w+", page)) - {"knowledge_pipeline"}
    told = measured.client(world.tokens["monitor"]).get("/metrics").text
    families = {re.sub("_(bucket|count|sum)$", "", name) for name in named}
    assert [name for name in families if f"# TYPE {name} " not in told] == []
    assert len(named) >= 15
