"""The log of queries as an audit: what a server does where it cannot be written."""

from __future__ import annotations

from pathlib import Path

import httpx2

from knowledge_pipeline.config.operation import LogSettings
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World

API = "/api/v1/knowledge"


def serving(world: World, **logs: bool) -> Running:
    settings = world.settings.model_copy(update={"logs": LogSettings(**logs)})
    return Running(settings, config=world.config, metrics=True)


def block_journal(world: World) -> Path:
    """Let a file stand where the folder of the journal should be, as no disk space would."""
    folder = Lake(world.settings.store).folder / "logs" / "journal"
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("in the way")
    return folder


def search(client: httpx2.Client) -> httpx2.Response:
    return client.post(f"{API}/search", json={"query": "payments"})


def is_log_up(running: Running, world: World) -> bool:
    metrics = running.client(world.tokens["monitor"]).get("/metrics").text
    return "knowledge_query_log_up 1.0" in metrics


def test_an_answer_that_cannot_be_logged_is_refused_where_the_log_is_required(own_world: World) -> None:
    in_the_way = block_journal(own_world)
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
        in_the_way.unlink()
        answer = search(client)
        assert answer.status_code == 200 and is_log_up(running, own_world)
    logged = Lake(own_world.settings.store).log_table("queries").read_rows(["query_id"]).to_pydict()
    assert logged["query_id"] == [answer.json()["query_id"]]


def test_answers_go_on_without_a_row_by_default_and_health_and_metrics_say_so(
    own_world: World,
) -> None:
    in_the_way = block_journal(own_world)
    with serving(own_world) as running:
        client = running.client(own_world.tokens["ann"])
        assert search(client).status_code == 200
        part = client.get("/health").json()["components"]["query_log"]
        assert part["status"] == "unhealthy" and str(own_world.root) not in part["detail"]
        assert not is_log_up(running, own_world)
        in_the_way.unlink()
        assert search(client).status_code == 200 and is_log_up(running, own_world)
