"""What a model reads before a question and before a document: what arrives, and which space it makes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.registry import (
    describe_missing_prompts,
    find_known_prompts,
    open_embedder,
    resolve_space,
)
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.fakes.tiny_model import build_tiny_model

PASSAGES = "Represent this sentence for searching relevant passages: "
WEB = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def by_endpoint(server: OpenAIServer, model: str, **keys: object) -> EmbeddingSettings:
    place = {"provider": "openai", "base_url": server.url, "api_key": server.key, "dimensions": 32}
    return EmbeddingSettings.model_validate({**place, "model": model, **keys})


def arrived(server: OpenAIServer, settings: EmbeddingSettings) -> list[str]:
    """What the endpoint reads of a document "d" and a question "q"."""
    embedder = open_embedder(settings)
    assert embedder.space == resolve_space(settings)
    embedder.embed(["d"])
    embedder.embed_query("q")
    return server.texts[-2:]


@pytest.mark.parametrize(
    ("model", "document", "question"),
    [
        ("intfloat/e5-base-v2", "passage: ", "query: "),
        ("intfloat/multilingual-e5-large", "passage: ", "query: "),
        ("intfloat/multilingual-e5-large-instruct", "", f"{WEB} "),
        ("nomic-embed-text:latest", "search_document: ", "search_query: "),
        ("nomic-ai/nomic-embed-text-v1.5", "search_document: ", "search_query: "),
        ("nomic-ai/nomic-embed-code", "", "Represent this query for searching relevant code: "),
        ("Qwen/Qwen3-Embedding-0.6B", "", WEB),
        ("qwen3-embedding:8b", "", WEB),
        ("google/embeddinggemma-300m", "title: none | text: ", "task: search result | query: "),
        ("gemini-embedding-2", "title: none | text: ", "task: search result | query: "),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "", "query: "),
        ("snowflake-arctic-embed:33m", "", PASSAGES),
        ("BAAI/bge-large-en-v1.5", "", PASSAGES),
        ("BAAI/bge-m3", "", ""),
        ("text-embedding-3-small", "", ""),
        ("my-e5-base-v2-of-ours", "", ""),
    ],
)
def test_a_known_model_gets_what_it_was_trained_with(server, model, document, question):
    assert arrived(server, by_endpoint(server, model)) == [f"{document}d", f"{question}q"]


def test_prompts_of_the_settings_come_first(server):
    both = by_endpoint(server, "intfloat/e5-base-v2", query_prompt="Q: ", document_prompt="D: ")
    assert arrived(server, both) == ["D: d", "Q: q"]
    assert arrived(server, by_endpoint(server, "ours", query_prompt="Q: ")) == ["d", "Q: q"]
    off = by_endpoint(server, "intfloat/e5-base-v2", query_prompt="", document_prompt="")
    assert arrived(server, off) == ["d", "q"]


def test_tasks_are_sent_to_an_endpoint_that_has_them(server):
    keys = {"task_field": "task", "query_task": "retrieval.query", "document_task": "retrieval.passage"}
    settings = by_endpoint(server, "jina-embeddings-v3", **keys)
    assert arrived(server, settings) == ["d", "q"]
    assert [request.body.get("task") for request in server.requests] == [
        "retrieval.passage",
        "retrieval.query",
    ]
    arrived(server, by_endpoint(server, "plain"))
    assert all("task" not in request.body for request in server.requests[-2:])
    assert resolve_space(settings) != resolve_space(by_endpoint(server, "jina-embeddings-v3"))


def test_a_documents_prompt_is_part_of_the_space_and_a_questions_is_not(server):
    def name(**keys: object) -> str:
        return resolve_space(by_endpoint(server, "ours", **keys)).name

    assert name(query_prompt="Q: ") == name() != name(document_prompt="D: ")
    assert name(document_prompt="D: ") != name(document_prompt="E: ")
    prompted = resolve_space(by_endpoint(server, "ours", document_prompt="one two three: "))
    assert prompted.max_tokens < resolve_space(by_endpoint(server, "ours")).max_tokens, (
        "chunks leave room for it"
    )


def test_a_local_model_gets_its_prompts_too(tmp_path):
    plain = open_embedder(EmbeddingSettings(model=str(build_tiny_model(tmp_path / "plain"))))
    known = open_embedder(EmbeddingSettings(model=str(build_tiny_model(tmp_path / "e5-small-v2"))))
    np.testing.assert_array_equal(known.embed(["a text"]), plain.embed(["passage: a text"]))
    np.testing.assert_array_equal(known.embed_query("a question"), plain.embed_query("query: a question"))


def test_a_packaged_model_takes_another_prompt_for_questions():
    bare, usual = (EmbeddingSettings(model="bge-small-en-v1.5", query_prompt=each) for each in ("", None))
    question = find_known_prompts("bge-small-en-v1.5").query + "how is it signed"
    np.testing.assert_array_equal(
        open_embedder(bare).embed_query(question), open_embedder(usual).embed_query("how is it signed")
    )
    assert resolve_space(bare) == resolve_space(usual)


@pytest.mark.pytorch
@pytest.mark.slow
def test_prompts_of_a_models_folder_are_used_unless_the_settings_have_others(tmp_path):
    folder = build_tiny_model(tmp_path / "e5-small-v2")
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "own: ", "document": "ours: "}})
    )
    plain = open_embedder(EmbeddingSettings(model=str(build_tiny_model(tmp_path / "plain"))))
    own = EmbeddingSettings(model=str(folder))
    other = own.model_copy(update={"query_prompt": "new: ", "document_prompt": ""})
    for settings, before_document, before_question in ((own, "ours: ", "own: "), (other, "", "new: ")):
        embedder = open_embedder(settings)
        near = {"atol": 1e-6}
        np.testing.assert_allclose(embedder.embed(["d"]), plain.embed([f"{before_document}d"]), **near)
        np.testing.assert_allclose(
            embedder.embed_query("q"), plain.embed_query(f"{before_question}q"), **near
        )
    assert resolve_space(own) != resolve_space(other)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"query_prompt": "q: "}, "query_prompt belongs to one model, which `model` names"),
        ({"model": "a+b", "document_prompt": "d: "}, "document_prompt belongs to one model"),
        ({"model": "a", "query_task": "query"}, "query_task is sent to an endpoint"),
        ({"provider": "openai", "model": "a", "query_task": "query"}, "give query_task and document_task"),
        ({"provider": "openai", "model": "a", "task_field": "kind"}, "'input_type', 'task' or 'task_type'"),
    ],
)
def test_prompts_that_nothing_would_use_are_refused(keys, told):
    with pytest.raises(ValidationError, match=told):
        EmbeddingSettings.model_validate(keys)


def test_a_known_model_without_its_prompts_is_told():
    told = describe_missing_prompts(EmbeddingSettings(model="intfloat/e5-base-v2", query_prompt=""))
    assert told is not None and "'query: '" in told and "'passage: '" not in told
    assert describe_missing_prompts(EmbeddingSettings(model="intfloat/e5-base-v2")) is None
    assert (
        describe_missing_prompts(EmbeddingSettings(model="intfloat/e5-base-v2", query_prompt="Q: ")) is None
    )
    assert describe_missing_prompts(EmbeddingSettings(model="ours", query_prompt="")) is None


def test_a_store_whose_model_gains_a_prompt_answers_from_the_former_vectors_until_it_has_the_new(
    server, tmp_path: Path
):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.md").write_text("# Store\n\nHow to open a store.\n")
    lake = Lake(tmp_path / "store")

    def settings_with(**keys: str) -> Settings:
        source = {
            "id": "main",
            "type": "markdown",
            "connection": {"type": "local", "path": tmp_path / "files"},
        }
        embedding = by_endpoint(server, "intfloat/e5-base-v2", **keys)
        return Settings.model_validate({"store": lake.root, "embedding": embedding, "sources": [source]})

    def refresh(settings: Settings) -> set[str]:
        outcome = pipeline.refresh(lake, settings, settings.sources)
        assert not outcome.failures
        pipeline.refresh_release(lake, settings)
        return {note for stats in outcome.stats for note in stats.notes}

    def ask(settings: Settings) -> str:
        with KnowledgeBase(settings) as knowledge:
            found = knowledge.search("open the store")
        assert found.results and found.degraded == ()
        return server.texts[-1]

    before, now = settings_with(query_prompt="", document_prompt=""), settings_with()
    assert any("switch off" in note for note in refresh(before)), "that it goes without is told"
    assert ask(now) == "open the store", "as the stored vectors were made"
    told = [note for note in refresh(now) if "embedded again" in note]
    assert len(told) == 1 and "'passage: '" in told[0] and "the former vectors answer" in told[0]
    live = find_live_release(lake)
    assert live is not None
    assert list(live.tables) == [resolve_space(now.embedding).name]
    assert ask(now) == "query: open the store"
    assert not any("embedded again" in note for note in refresh(now)), "it is told once"
