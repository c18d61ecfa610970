"""The modes exact and regex over HTTP, MCP, the OpenAI tool, the client, the page and the command line."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.config import file
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.openai_tools import call_tool
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.cli.conftest import run_here
from knowledge_pipeline_tests.serve.mcp_calls import over_http
from knowledge_pipeline_tests.serve.running import Running

CODE = "import os\n\n\nclass Store:\n    def put(self, key):\n        self->bar(key)\n\tself->bar(1)\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, embedding_server: Any) -> Path:
    """A project of one released file."""
    root = tmp_path_factory.mktemp("exact")
    (root / "src").mkdir()
    (root / "src/store.py").write_text(CODE)
    embedding = {
        **{"provider": "openai", "model": "hashed-words", "base_url": embedding_server.url},
        **{"api_key": "${TEST_EMBEDDING_KEY}", "dimensions": embedding_server.dimensions},
    }
    source = {"id": "app", "type": "code", "connection": {"type": "local", "path": "src"}}
    public = {**source, "access": {"visibility": "public"}}
    config = {"store": "store", "embedding": embedding, "sources": [public]}
    (root / "knowledge.yaml").write_text(json.dumps(config))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
        settings = file.load_settings(root / "knowledge.yaml")
        assert not pipeline.refresh(Lake(settings.store), settings, settings.sources).failures
    return root


@pytest.fixture
def server(root: Path, embedding_server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
    settings = file.load_settings(root / "knowledge.yaml")
    with Running(settings, config=root / "knowledge.yaml", requests_per_minute=1_000_000) as server:
        yield server


async def call_mcp(url: str, **arguments: str) -> tuple[str, bool]:
    async with over_http(url, None) as client:
        result = await client.call_tool("knowledge_query", arguments)
    return result.content[0].text, bool(result.is_error)  # pyright: ignore


def lines_of(answer: Any) -> list[int]:
    return [match["line"] for result in answer["results"] for match in result["matches"]]


def test_every_interface_shows_the_lines_that_match(
    root: Path, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = {"query": "->bar(", "mode": "exact"}
    http = server.client()
    over_get = http.get("/api/v1/knowledge/search", params=question).json()
    over_post = http.post("/api/v1/knowledge/search", json=question).json()
    with KnowledgeClient(server.url) as client:
        by_client = client.search("->bar(", mode="exact")
    assert lines_of(over_get) == lines_of(over_post) == lines_of(by_client) == [6, 7]
    assert over_post["results"][0]["matches"][1] == {"line": 7, "text": "\tself->bar(1)"}
    said, _ = anyio.run(partial(call_mcp, server.url, query=r"^\tself", mode="regex"))
    assert "7: \tself->bar(1)" in said and "class Store" not in said
    page = http.get("/", params={"q": "->bar(", "mode": "exact"}).text
    assert page.count('class=" hit"') == 2
    with KnowledgeBase.open(root / "knowledge.yaml", access=Access.public()) as base:
        assert "6: " in call_tool(base, json.dumps(question))
    monkeypatch.chdir(root)
    shown = run_here("search", "--mode", "exact", "--", "->bar(").out
    assert "   6:         self->bar(key)" in shown and "import os" not in shown


def test_every_interface_refuses_an_expression_that_is_none(server: Running) -> None:
    http = server.client()
    refused = http.post("/api/v1/knowledge/search", json={"query": "(", "mode": "regex"})
    assert refused.status_code == 422 and "the regular expression cannot be read" in refused.json()["detail"]
    page = http.get("/", params={"q": "(", "mode": "regex"})
    assert page.status_code == 422 and '<option value="regex" selected' in page.text, (
        "corrected, it is asked so"
    )
    with KnowledgeClient(server.url) as client, pytest.raises(InvalidQuery, match="cannot be read"):
        client.search("(", mode="regex")
    said, is_error = anyio.run(partial(call_mcp, server.url, query="(", mode="regex"))
    assert is_error and "cannot be read" in said
    similar = {"text": "x", "mode": "exact"}
    assert http.post("/api/v1/knowledge/similar", json=similar).status_code == 422
