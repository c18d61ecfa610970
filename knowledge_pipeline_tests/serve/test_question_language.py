"""Every interface says where the embedding model does not read the language of a question."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.embedding import PROFILES, EmbeddingSettings
from knowledge_pipeline.embedding.reading import reads_only_english
from knowledge_pipeline_tests.cli.conftest import run_here
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.serve.mcp_calls import over_http, text_of
from knowledge_pipeline_tests.serve.running import Running

GERMAN, ENGLISH = "Wie lange werden Sicherungen aufbewahrt?", "How long are backups kept?"
NOTE = (
    "the embedding model reads English, and this question seems to be in German: ask in English as well, or "
    "set `embedding` to a multilingual model (docs/languages.md)"
)
SENTENCE = f"T{NOTE[1:]}."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base by the model that the package carries, which reads English."""
    root = tmp_path_factory.mktemp("english")
    project = Project(root, EmbeddingSettings(model="static-v1"))
    (root / "docs").mkdir()
    (root / "docs/backups.md").write_text("Backups are kept for thirty days.\n")
    project.declare("docs", "markdown", root / "docs")
    assert project.refresh().failures == {}
    (root / "knowledge.yaml").write_text(
        "version: 1\nstore: store\nembedding: {model: static-v1}\n"
        "sources: [{id: docs, type: markdown, connection: {type: local, path: docs}}]\n"
    )
    return root


@pytest.fixture(scope="module")
def english(folder: Path) -> Iterator[Running]:
    """Its server."""
    with KnowledgeBase.open(folder) as base, Running(base.settings) as running:
        yield running


def test_over_http_and_on_the_page(english: Running) -> None:
    client = english.client()
    for question, notes in ((GERMAN, [NOTE]), (ENGLISH, [])):
        for path, key in (("search", "query"), ("query", "query"), ("context", "task")):
            answer: Any = client.post(f"/api/v1/knowledge/{path}", json={key: question}).json()
            assert answer["notes"] == notes, path
        by_words = client.post("/api/v1/knowledge/search", json={"query": question, "mode": "words"})
        assert NOTE not in by_words.json()["notes"]
        similar = client.post("/api/v1/knowledge/similar", json={"text": question})
        assert similar.json()["notes"] == []
        page = unescape(client.get("/", params={"q": question}).text)
        assert (SENTENCE.replace("`embedding`", "<code>embedding</code>") in page) == bool(notes)


def test_over_mcp(english: Running) -> None:
    async def ask(question: str) -> list[str]:
        async with over_http(english.url, None) as client:
            calls = [
                ("knowledge_query", {"query": question}),
                ("knowledge_query", {"query": question, "compact": True}),
                ("build_context", {"task": question}),
            ]
            return [text_of(await client.call_tool(name, arguments)) for name, arguments in calls]

    for text in anyio.run(ask, GERMAN):
        assert text.count(SENTENCE) == 1
    for text in anyio.run(ask, ENGLISH):
        assert "seems to be in" not in text


def test_on_the_command_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for command in ("search", "context"):
        assert f"note: {NOTE}" in run_here(command, GERMAN).err
        assert "seems to be in" not in run_here(command, ENGLISH).err
    assert run_here("search", GERMAN, "--json").json["notes"] == [NOTE]


def test_models_that_are_known_to_read_english_alone() -> None:
    names = {model for profile in PROFILES.values() for model in profile}
    for name in (
        *names,
        "all-mpnet-base-v2",
        "sentence-transformers/all-MiniLM-L6-v2",
        "BAAI/bge-base-en-v1.5",
    ):
        assert reads_only_english(EmbeddingSettings(model=name)), name
    for name in (
        "intfloat/multilingual-e5-small",
        "BAAI/bge-m3",
        "all-MiniLM-L6-v2+BAAI/bge-m3",
        "/models/own",
    ):
        assert not reads_only_english(EmbeddingSettings(model=name)), name
    endpoint = EmbeddingSettings(
        provider="openai", model="all-MiniLM-L6-v2", base_url="http://localhost:1/v1", dimensions=384
    )
    assert not reads_only_english(endpoint)
