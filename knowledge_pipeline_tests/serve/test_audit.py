"""The logs of queries and of refusals as an audit: each request is in one; what happens on a full disk."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from knowledge_pipeline.config.operation import LogSettings
from knowledge_pipeline.errors import Unauthenticated
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.logs import RefusalLog
from knowledge_pipeline.serve.service import Origin
from knowledge_pipeline.store.lake import Lake, lock_log
from knowledge_pipeline.store.local_state import FILE, has_waiting_rows
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World

API = "/api/v1/knowledge"


def serving(world: World, **logs: bool) -> Running:
    settings = world.settings.model_copy(update={"logs": LogSettings(**logs)})
    return Running(settings, config=world.config, metrics=True)


def block_state(world: World) -> Path:
    """Let a folder stand where the file of the state should be, as no disk space would."""
    folder = Lake(world.settings.store).folder / FILE
    folder.unlink(missing_ok=True)
    folder.mkdir()
    return folder


def search(client: httpx2.Client) -> httpx2.Response:
    return client.post(f"{API}/search", json={"query": "payments"})


def is_log_up(running: Running, world: World) -> bool:
    metrics = running.client(world.tokens["monitor"]).get("/metrics").text
    return "knowledge_query_log_up 1.0" in metrics


def test_an_answer_that_cannot_be_logged_is_refused_where_the_log_is_required(own_world: World) -> None:
    in_the_way = block_state(own_world)
    with serving(own_world, required=True) as running:
        client = running.client(own_world.tokens["ann"])
        refused = search(client)
        assert refused.status_code == 503 and "results" not in refused.json()
        assert refused.json()["detail"].startswith("queries cannot be logged, and `logs.required`")
        assert client.get("/", params={"q": "payments"}).status_code == 503
        assert client.get(f"{API}/docs/acme-docs:README.md").status_code == 503
        health = client.get("/health").json()
        assert health["status"] == "degraded" and "refused" in health["components"]["query_log"]["detail"]
        assert not is_log_up(running, own_world)
        in_the_way.rmdir()
        answer = search(client)
        assert answer.status_code == 200 and is_log_up(running, own_world)
    logged = Lake(own_world.settings.store).log_table("queries").read_rows(["query_id"]).to_pydict()
    assert logged["query_id"] == [answer.json()["query_id"]]


def test_answers_go_on_without_a_row_by_default_and_health_and_metrics_say_so(
    own_world: World,
) -> None:
    in_the_way = block_state(own_world)
    with serving(own_world) as running:
        client = running.client(own_world.tokens["ann"])
        assert search(client).status_code == 200
        part = client.get("/health").json()["components"]["query_log"]
        assert part["status"] == "unhealthy" and str(own_world.root) not in part["detail"]
        assert not is_log_up(running, own_world)
        in_the_way.rmdir()
        assert search(client).status_code == 200 and is_log_up(running, own_world)


def refusals(world: World) -> list[tuple[str, str, str | None, int]]:
    """Outcome, interface, token and number of requests, as the table has them."""
    columns = ["at", "outcome", "interface", "token", "requests", "reason"]
    rows = Lake(world.settings.store).log_table("refusals").read_rows(columns).to_pylist()
    rows.sort(key=lambda row: row["at"])
    return [(row["outcome"], row["interface"], row["token"], row["requests"]) for row in rows]


def test_each_refused_request_is_in_one_row_with_who_sent_it(own_world: World) -> None:
    ann, slow = own_world.ids["ann"], own_world.ids["slow"]
    with serving(own_world) as running:
        client = running.client(own_world.tokens["ann"])
        assert running.client("kpt_no_such").get(f"{API}/collections").status_code == 401
        assert running.client(Authorization="Basic eDp5").get(f"{API}/collections").status_code == 401
        assert client.get(f"{API}/sync/status").status_code == 403
        assert client.get(f"{API}/docs/shop-docs:no.md").status_code == 404
        assert client.get("/doc", params={"id": "shop-docs:no.md"}).status_code == 404
        assert running.client().post("/webhooks/github", content=b"{}").status_code == 401
        many = [search(running.client(own_world.tokens["slow"])).status_code for _ in range(6)]
        with pytest.raises(Unauthenticated):
            running.service.identify("kpt_no_such", Origin("mcp", None))
        assert search(client).status_code == 200
    told = refusals(own_world)
    assert told[:2] == [("unauthenticated", "http", None, 1)] * 2
    assert told[2:6] == [
        ("forbidden", "http", ann, 1),
        ("not_found", "http", ann, 1),
        ("not_found", "page", ann, 1),
        ("unauthenticated", "http", None, 1),
    ]
    limited = [row for row in told if row[0] == "rate_limited"]
    assert {row[:3] for row in limited} == {("rate_limited", "http", slow)}
    assert sum(row[3] for row in limited) == many.count(429) > 0
    assert [row for row in told if row[1] == "mcp"] == [("unauthenticated", "mcp", None, 1)]
    assert Lake(own_world.settings.store).log_table("queries").count_rows() == 1 + many.count(200)


def count_rows(world: World) -> tuple[list[tuple[str, str]], list[tuple[str, str, str | None, int]]]:
    rows = Lake(world.settings.store).log_table("queries").read_rows(["interface", "type"]).to_pylist()
    return sorted((row["interface"], row["type"]) for row in rows), refusals(world)


def test_an_answer_that_asks_several_times_has_one_row(own_world: World) -> None:
    with serving(own_world) as running:
        client = running.client(own_world.tokens["acme"])
        chunk = search(client).json()["results"][0]["id"]
        for path in ("/doc", "/similar"):
            assert client.get(path, params={"id": chunk}).status_code == 200
        document = client.get(f"{API}/docs/{chunk}")
        assert document.status_code == 200
        hints = client.get("/", params={"q": "get_paymnt", "source": "nothing"})
        assert "Did you mean" in hints.text
    asked, refused = count_rows(own_world)
    assert asked == [
        ("http", "get"), ("http", "semantic"), ("page", "get"), ("page", "semantic"), ("page", "similar")
    ]  # fmt: skip
    assert refused == []


def test_a_token_without_the_scope_of_metrics_and_an_address_that_is_none_have_their_rows(
    own_world: World,
) -> None:
    ann = own_world.ids["ann"]
    with serving(own_world) as running:
        client = running.client(own_world.tokens["ann"])
        assert client.get("/metrics").status_code == 403
        assert client.get(f"{API}/docs/no-id").status_code == 404
        assert running.client("kpt_no_such").get(f"{API}/no/such/address").status_code == 404
        assert client.get("/no-page").status_code == 404
    assert refusals(own_world) == [
        ("forbidden", "http", ann, 1),
        ("not_found", "http", ann, 1),
        ("not_found", "http", None, 1),
    ]


def test_a_thousand_refusals_of_one_reason_are_one_row(own_world: World) -> None:
    lake = Lake(own_world.settings.store)
    log = RefusalLog(lake, flush_interval_s=600)
    with lock_log(lake, "refusals"):  # so that they are written together
        for number in range(1000):
            reason = f"the token has the secret ghp_{'a1B2c3D4' * 4}a1B2" if number % 2 else "no"
            log.record("unauthenticated", reason, Access.public(), "192.0.2.1")
    log.close(wait_s=60)
    rows = lake.log_table("refusals").read_rows(["requests", "reason", "address"]).to_pylist()
    assert sum(row["requests"] for row in rows) == 1000 and len(rows) <= 4
    assert not any("ghp_" in row["reason"] for row in rows)


def test_refusals_that_a_killed_server_left_are_written_by_the_next(own_world: World) -> None:
    lake = Lake(own_world.settings.store)
    killed = RefusalLog(lake, flush_interval_s=600)
    killed.record("forbidden", "no", Access.public(), None)
    assert has_waiting_rows(lake.folder, "refusals") and not lake.log_table("refusals").exists
    with serving(own_world) as running:
        running.client("kpt_no_such").get(f"{API}/collections")
    assert sorted(row[0] for row in refusals(own_world)) == ["forbidden", "unauthenticated"]
