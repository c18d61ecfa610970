"""Embedding with Ollama by its own API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import numpy as np
import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.registry import check_endpoint, open_embedder, resolve_space
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError
from knowledge_pipeline_tests.fakes.ollama_server import OllamaServer
from knowledge_pipeline_tests.fakes.openai_server import word_vector
from knowledge_pipeline_tests.fakes.served import Sent

_TEXTS = [f"text number {number}" for number in range(10)]


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        running.pull("words")
        yield running


def by_ollama(server: OllamaServer, **changes: Any) -> EmbeddingSettings:
    given = {"provider": "ollama", "model": "words", "base_url": server.url, "dimensions": 32}
    return EmbeddingSettings.model_validate({**given, **changes})


def test_vectors_come_in_order_with_what_the_settings_say_of_the_model(server: OllamaServer):
    options = {"num_ctx": 4096, "num_thread": 4}
    embedder = open_embedder(by_ollama(server, batch_size=4, keep_alive="24h", options=options))
    vectors = embedder.embed(_TEXTS)
    np.testing.assert_allclose(vectors, [word_vector(text, 32) for text in _TEXTS], atol=1e-6)
    assert len(server.bodies) == 3
    body = {"model": "words", "truncate": True, "dimensions": 32, "keep_alive": "24h", "options": options}
    assert all({**body, "input": sent["input"]} == sent for sent in server.bodies)
    assert (embedder.usage.texts, embedder.usage.tokens, embedder.usage.requests) == (10, 30, 3)
    for given, sent in (("-1", -1), ("300", 300), ("10m", "10m")):
        open_embedder(by_ollama(server, keep_alive=given)).embed_query("text")
        assert server.bodies[-1]["keep_alive"] == sent
    assert "options" not in server.bodies[-1]


def test_a_model_that_is_not_pulled_or_of_another_kind_says_what_to_run(server: OllamaServer):
    missing = by_ollama(server, model="nomic-embed-text")
    for ask in (check_endpoint, lambda settings: open_embedder(settings).embed(["text"])):
        with pytest.raises(
            ModelError, match=r"has no model 'nomic-embed-text': run `ollama pull nomic-embed-text`"
        ):
            ask(missing)
    server.pull("llama", capabilities=("completion",))
    with pytest.raises(ModelError, match="makes no embeddings"):
        check_endpoint(by_ollama(server, model="llama:latest"))
    with pytest.raises(ModelError, match=r"32 dimensions, not 64: set embedding.dimensions to 32"):
        check_endpoint(by_ollama(server, dimensions=64))
    server.fail_next(*[Sent(500, b'{"error": "llama runner process has terminated"}')] * 2)
    with pytest.raises(EmbeddingUnavailable, match=r"Ollama at http://127.* answered 500"):
        check_endpoint(by_ollama(server, max_tries=1))
    with pytest.raises(EmbeddingUnavailable, match="did not answer"):
        check_endpoint(by_ollama(server, base_url="http://127.0.0.1:9"))


def test_a_model_that_reads_less_than_the_settings_say_is_told(server: OllamaServer):
    assert check_endpoint(by_ollama(server)) == []
    server.pull("short", context_length=512)
    (note,) = check_endpoint(by_ollama(server, model="short"))
    assert "reads 512 tokens of a text" in note and "max_input_tokens is 8191: set it to 512" in note
    assert check_endpoint(by_ollama(server, model="short", max_input_tokens=512)) == []
    (note,) = check_endpoint(by_ollama(server, max_input_tokens=512, options={"num_ctx": 256}))
    assert "reads 256 tokens" in note


def test_a_space_is_that_of_the_same_model_by_the_openai_api_and_known_prompts_are_added(
    server: OllamaServer,
):
    settings = by_ollama(server)
    openai = {"provider": "openai", "base_url": f"{server.url}/v1", "model": "words", "dimensions": 32}
    assert resolve_space(settings) == resolve_space(EmbeddingSettings.model_validate(openai))
    assert resolve_space(by_ollama(server, options={"num_thread": 2})) == resolve_space(settings)
    assert resolve_space(by_ollama(server, options={"num_ctx": 512})) != resolve_space(settings)
    assert EmbeddingSettings(provider="ollama", model="m").base_url == "http://localhost:11434"
    server.pull("nomic-embed-text")
    open_embedder(by_ollama(server, model="nomic-embed-text")).embed(["text"])
    assert server.bodies[-1]["input"] == ["search_document: text"]
    for keys, message in (
        ({"base_url": f"{server.url}/v1"}, "base_url ends in a path of one API"),
        ({"dimensions": None}, "dimensions is missing"),
        ({"model": ""}, "model is missing"),
    ):
        with pytest.raises(ConfigError, match=message):
            open_embedder(by_ollama(server, **keys))


def test_the_fake_answers_as_ollama_does(server: OllamaServer):
    short = {"model": "words", "input": ["a b c"], "options": {"num_ctx": 2}}
    with httpx2.Client(base_url=server.url, verify=False) as client:
        assert client.get("/api/tags").json()["models"][0]["name"] == "words:latest"
        assert client.post("/api/show", json={"model": "words"}).json()["capabilities"] == ["embedding"]
        assert client.post("/api/embed", json=short).json()["embeddings"] == [word_vector("a b", 32)]
        counted = client.post("/api/embed", json={"model": "words:latest", "input": "a b"}).json()
        assert counted["prompt_eval_count"] == 2
        refused = [
            client.post("/api/embed", json=each) for each in ({**short, "truncate": False}, {"model": "x"})
        ]
        assert [each.status_code for each in (*refused, client.get("/v1"))] == [400, 404, 404]
