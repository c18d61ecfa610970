"""Labels of requests by every way they come, and calls that agents report: what the logs then hold."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.config.settings import CostSettings
from knowledge_pipeline.contract.usage_labels import HEADER_NAMES, META_NAMES, UsageLabels, read_labels
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.serve.mcp_calls import over_http
from knowledge_pipeline_tests.serve.running import Running

PREFIX = "/api/v1/knowledge"
KEY = "AKIA" + "QWERTYUIOPASDFGH"
LABELS = ("session", "project", "on_behalf_of")


@pytest.mark.parametrize(
    "value, is_label",
    [
        ("fix-42", True),
        ("ann@example.com", True),
        ("Team A/b #1", True),
        ("x" * 128, True),
        ("x" * 129, False),
        (" x", False),
        ("x ", False),
        ("a\nb", False),
        ("a\n", False),
        ("ä", False),
        ("a|b", False),
        (7, False),
        ([1], False),
    ],
)
def test_a_label_is_short_and_plain(value: object, is_label: bool):
    given = {"knowledge/session": value}
    if is_label:
        assert read_labels(given, META_NAMES) == UsageLabels(session=str(value))
        return
    with pytest.raises(InvalidQuery, match="session is not a label"):
        read_labels(given, META_NAMES)


@pytest.mark.slow
def test_requests_are_logged_with_their_labels_and_reports_as_their_tokens_allow(
    project: Project, tmp_path: Path
):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# Locks\n\nLocks have a timeout.\n")
    project.declare("main", "markdown", folder)
    project.refresh()
    costs = {
        "prices": [{"model": "m-1", "price_per_million_input_tokens": 1.0}],
        "budgets": [{"per": "project", "stop_at": 5.0}],
        "keep_texts": True,
    }
    settings = project.settings.model_copy(update={"costs": CostSettings.model_validate(costs)})
    tokens = TokenStore(Lake(settings.store))
    _, reader = tokens.create("reader", tenant="acme")
    reporter, secret = tokens.create("agent", tenant="acme", scopes=("query", "report"))
    with Running(settings) as server:
        headers = {HEADER_NAMES["session"]: "s-1", HEADER_NAMES["on_behalf_of"]: "ann@example.com"}
        asked = server.client(reader, **headers).post(f"{PREFIX}/search", json={"query": "over http"})
        assert asked.status_code == 200
        wrong = server.client(reader, **{HEADER_NAMES["project"]: "a|b"})
        for reply in (
            wrong.get(f"{PREFIX}/status"),
            wrong.post(f"{PREFIX}/search", json={"query": "x"}),
            wrong.post("/mcp", json={}),
        ):
            assert (reply.status_code, "project is not a label" in reply.json()["detail"]) == (422, True)
        asyncio.run(_ask_over_mcp(server.url, reader))
        refused = server.client(reader).post(f"{PREFIX}/model-calls", json={"provider": "p", "model": "m"})
        assert refused.status_code == 403
        with KnowledgeClient(server.url, secret, session="s-2", project="shop") as client:
            client.search("by the client")
            spent = client.report_model_call(
                "openai", "m-1", input_tokens=2_000_000, seconds=1.5, prompt=f"use {KEY}", response="done"
            )
            assert spent == {"cost": 2.0, "budget": None}
            over = client.report_model_call("openai", "other", cost=3.0, error="rate_limited")
            assert over["cost"] == 3.0 and "the project 'shop' is spent" in over["budget"]
        posts = server.client(secret)
        for body in (
            {"provider": "p"},
            {"provider": "p", "model": "m", "cost": -1},
            {"provider": "p", "model": "m", "cost": 1e12},
            {"provider": "p\n", "model": "m"},
            {"provider": "p", "model": "m", "tenant": "globex"},
        ):
            assert posts.post(f"{PREFIX}/model-calls", json=body).status_code == 422, body
    queries = {row["text"]: [row[name] for name in LABELS] for row in _rows(project.lake, "queries")}
    assert queries == {
        "over http": ["s-1", None, "ann@example.com"],
        "over mcp": ["s-3", "shop", None],
        "by the client": ["s-2", "shop", None],
    }
    calls = [row for row in _rows(project.lake, "llm_calls") if row["kind"] == "completion"]
    assert [(row["tenant"], row["token"], row["interface"], row["session"]) for row in calls] == [
        ("acme", reporter.id, "http", "s-2")
    ] * 2
    first, second = calls
    assert (first["tokens"], first["input_tokens"], first["response"]) == (2_000_000, 2_000_000, "done")
    assert KEY not in first["prompt"] and first["prompt"].startswith("use ")
    assert (second["error"], second["prompt"]) == ("rate_limited", None)


async def _ask_over_mcp(url: str, token: str) -> None:
    meta: Any = {META_NAMES["session"]: "s-3", META_NAMES["project"]: "shop"}
    async with over_http(url, token) as client:
        result = await client.call_tool("knowledge_query", {"query": "over mcp"}, meta=meta)
        assert not result.is_error
        bad = await client.call_tool("knowledge_query", {"query": "x"}, meta={META_NAMES["session"]: [1]})
        assert bad.is_error and "session is not a label" in bad.content[0].text


def _rows(lake: Lake, name: str) -> list[dict[str, Any]]:
    table = lake.log_table(name)
    return sorted(table.read_rows(table.schema.names).to_pylist(), key=lambda row: row["at"])
