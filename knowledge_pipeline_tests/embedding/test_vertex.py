"""Embedding with Vertex AI, over its own protocol and with tokens of a service account."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr, ValidationError

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.registry import check_endpoint, open_embedder, resolve_space
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError
from knowledge_pipeline_tests.fakes.google.vertex_server import EMAIL, Fault, VertexServer
from knowledge_pipeline_tests.fakes.openai_server import word_vector

_TEXTS = [f"text number {number}" for number in range(10)]


@pytest.fixture
def server() -> Iterator[VertexServer]:
    with VertexServer() as running:
        yield running


def expected(texts: list[str], dimensions: int = 768) -> np.ndarray:
    return np.asarray([word_vector(text, dimensions) for text in texts], np.float32)


def test_documents_and_questions_carry_their_task_types_and_one_token_serves_all(server: VertexServer):
    embedder = open_embedder(server.settings(batch_size=3, price_per_million_tokens=2.0))
    vectors = embedder.embed(_TEXTS)
    np.testing.assert_allclose(vectors, expected(_TEXTS), atol=1e-6)
    embedder.embed_query("where is it")
    *documents, question = server.requests
    assert len(documents) == 4 and server.token_requests == 1
    assert {task for request in documents for task in request.tasks} == {"RETRIEVAL_DOCUMENT"}
    assert question.tasks == ("RETRIEVAL_QUERY",)
    assert question.parameters == {"autoTruncate": True, "outputDimensionality": 768}
    usage = embedder.usage
    assert (usage.texts, usage.tokens, usage.requests) == (11, 33, 5)
    assert usage.cost == pytest.approx(66e-6)


def test_requests_keep_to_the_limits_of_each_model(server: VertexServer):
    gemini = server.settings(model="gemini-embedding-001", dimensions=64)
    vectors = open_embedder(gemini).embed(_TEXTS)  # one a request, and shorter vectors than it makes
    np.testing.assert_allclose(vectors, expected(_TEXTS, 64), atol=1e-6)
    assert [len(request.texts) for request in server.requests] == [1] * len(_TEXTS)

    server.requests.clear()
    several = open_embedder(gemini.model_copy(update={"batch_size": 4})).embed(_TEXTS[:4])
    np.testing.assert_allclose(several, vectors[:4], atol=1e-6)
    assert (len(server.requests[0].texts), server.requests[0].status) == (4, 400)  # then halved

    server.requests.clear()
    many = [f"w{number}" for number in range(300)] + ["word " * 2000] * 12
    open_embedder(server.settings(max_concurrent=1, dimensions=8)).embed(many)
    assert [len(request.texts) for request in server.requests] == [250, 57, 5]
    assert {request.status for request in server.requests} == {200}

    server.requests.clear()
    dense = ["a\n" * 2048] * 12  # 24,576 of Google's tokens; white space is what the estimate leaves out
    open_embedder(server.settings(dimensions=8)).embed(dense)
    assert len(server.texts) == 12


def test_a_quota_is_waited_for_and_named_after_the_last_try(server: VertexServer):
    server.fail_next(Fault(retry_delay="0.7s"))
    embedder, started = open_embedder(server.settings(max_tries=2)), time.monotonic()
    np.testing.assert_allclose(embedder.embed(["text"]), expected(["text"]), atol=1e-6)
    assert time.monotonic() - started > 0.7 and embedder.usage.requests == 2
    for fault, problem in (
        (Fault(), r"429 \(RESOURCE_EXHAUSTED\)"),
        (Fault(503, "UNAVAILABLE"), r"503 \(UNAVAILABLE\)"),
        (Fault(200, body=b'{"predictions": []}'), "with 0 vectors for 1 texts"),
        (
            Fault(200, body=b'{"predictions": [{"embeddings": {}}]}'),
            "not one vector for each text",
        ),
    ):
        server.fail_next(fault)
        with pytest.raises(
            EmbeddingUnavailable, match=rf"{problem} \(try 1 of 1\).* or lower embedding\.max_con"
        ):
            open_embedder(server.settings(max_tries=1)).embed(["text"])
    server.fail_next(Fault(retry_delay="3600s"))
    with pytest.raises(EmbeddingUnavailable, match="asks to wait 3600 s"):
        open_embedder(server.settings()).embed(["text"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"project": "other"},
            r"403 \(PERMISSION_DENIED\): give the identity the role Vertex AI User .*'other'",
        ),
        ({"location": "us-east1"}, r"404 \(NOT_FOUND\): .*'us-east1' has the model 'text-embedding-005'"),
        ({"model": "text-embedding-9", "dimensions": 8}, "404 .*'text-embedding-9'"),
        (
            {"query_task": "SEARCH", "document_task": "SEARCH"},
            r"400 \(INVALID_ARGUMENT\): check embedding.model",
        ),
        ({"api_key": "old-token"}, r"401 \(UNAUTHENTICATED\): set embedding.api_key to an access token"),
    ],
)
def test_a_refusal_says_what_to_correct(server: VertexServer, changes: dict, message: str):
    with pytest.raises(ModelError, match=message):
        check_endpoint(server.settings(**changes))
    assert {request.status for request in server.requests} < {400, 401, 403, 404}


def test_a_token_is_renewed_before_it_expires_and_when_it_is_withdrawn(server: VertexServer):
    embedder = open_embedder(server.settings(batch_size=1, max_concurrent=4))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(embedder.embed_query, _TEXTS))
    assert server.token_requests == 1
    server.valid_tokens.clear()
    embedder.embed_query("text")
    assert server.token_requests == 2
    server.lifetime_s = 60  # it is about to expire: the next request needs another
    server.valid_tokens.clear()
    embedder.embed_query("text")
    embedder.embed_query("text")
    assert server.token_requests == 4
    ready = server.settings(api_key=min(server.valid_tokens))
    assert open_embedder(ready).embed_query("text").shape == (768,)
    assert server.token_requests == 4


def test_keys_come_as_a_path_or_as_json_and_reach_no_message_or_log(
    server: VertexServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    file, secret = tmp_path / "key.json", server.key["private_key"].splitlines()[3]
    file.write_text(json.dumps(server.key))
    by_file = server.settings(service_account=str(file))
    assert open_embedder(by_file).embed_query("text").shape == (768,)
    messages = []
    for wrong in (
        str(tmp_path / "gone.json"),
        "{" + secret,
        json.dumps({"private_key": secret}),
        "[]",
        secret,
    ):
        with pytest.raises(
            ConfigError, match=r"set embedding\.service_account to a service account's key"
        ) as refused:
            open_embedder(server.settings(service_account=wrong))
        messages.append(str(refused.value))
    server.known = False
    with pytest.raises(
        ModelError, match=r"gets no token \(RefreshError\): see whether the key is deleted"
    ) as refused:
        open_embedder(by_file).embed(["a private text"])
    server.known = True
    server.fail_next(Fault(500, at_token=True))
    with pytest.raises(EmbeddingUnavailable, match="as Google's identity service answers 500") as busy:
        open_embedder(server.settings(max_tries=1)).embed(["a private text"])
    told = " ".join([*messages, str(refused.value), str(busy.value), caplog.text, repr(by_file)])
    assert "predict" in caplog.text  # httpx2 tells the URL
    for hidden in (secret, "private text", "vertex-token-canary", EMAIL):
        assert hidden not in told


def test_a_text_that_google_cuts_is_logged_once(server: VertexServer, caplog: pytest.LogCaptureFixture):
    embedder = open_embedder(server.settings(max_input_tokens=3000))
    for _ in range(2):
        embedder.embed(["tok " * 2500])
    assert caplog.text.count("lower embedding.max_input_tokens") == 1


def test_a_space_is_the_same_in_each_project_and_changes_with_model_dimensions_and_document_task():
    settings = EmbeddingSettings(provider="vertex", model="text-embedding-005", project="a")
    space = resolve_space(settings)
    assert (space.dimensions, space.max_tokens) == (768, 2048)
    assert settings.base_url == "https://us-central1-aiplatform.googleapis.com/v1"
    moved = EmbeddingSettings(provider="vertex", model="text-embedding-005", project="b", location="global")
    assert moved.base_url == "https://aiplatform.googleapis.com/v1"
    assert resolve_space(moved) == space
    asked = {"query_task": "QUESTION_ANSWERING", "document_task": "RETRIEVAL_DOCUMENT"}
    assert resolve_space(settings.model_copy(update=asked)) == space
    changes = [
        {},
        {"model": "text-multilingual-embedding-002"},
        {"dimensions": 256},
        {"max_input_tokens": 512},
        {"query_task": "CLUSTERING", "document_task": "CLUSTERING"},
    ]
    assert len({resolve_space(settings.model_copy(update=change)).name for change in changes}) == 5
    assert resolve_space(settings.model_copy(update={"model": "gemini-embedding-001"})).dimensions == 3072


def test_questions_to_code_alone_are_questions_to_code():
    vertex = {"provider": "vertex", "model": "text-embedding-005", "project": "p"}
    sources = [
        {"id": kind, "type": kind, "connection": {"type": "local", "path": "/"}}
        for kind in ("code", "markdown")
    ]

    def tasks(sources: list[dict], **keys: object) -> list[str | None]:
        settings = Settings.model_validate({"store": "/", "sources": sources, **keys})
        return [each.query_task for each in settings.list_embeddings()]

    assert tasks(sources[:1], embedding=vertex) == ["CODE_RETRIEVAL_QUERY"]
    assert tasks(sources, embedding=vertex) == [None]  # one space of both
    other = {**vertex, "dimensions": 256}
    assert tasks(sources, embedding=vertex, embedding_by_content={"code": other}) == [
        "CODE_RETRIEVAL_QUERY",
        None,
    ]
    own = {**vertex, "query_task": "QUESTION_ANSWERING", "document_task": "RETRIEVAL_DOCUMENT"}
    assert tasks(sources[:1], embedding=own) == ["QUESTION_ANSWERING"]
    code = Settings.model_validate({"store": "/", "sources": sources[:1], "embedding": vertex})
    assert resolve_space(code.list_embeddings()[0]) == resolve_space(code.embedding)


def test_without_its_extra_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "google.auth", None)
    monkeypatch.delitem(sys.modules, "knowledge_pipeline.embedding.google_identity", raising=False)
    settings = EmbeddingSettings(provider="vertex", model="text-embedding-005", project="p")
    with pytest.raises(ConfigError, match=r"pip install 'knowledge-pipeline\[vertex\]'"):
        open_embedder(settings)
    ready = settings.model_copy(update={"api_key": SecretStr("t")})
    assert open_embedder(ready).space == resolve_space(settings)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"project": None}, "embedding.project is missing"),
        ({"location": "Europe"}, "embedding.location is not a region"),
        ({"model": ""}, "embedding.model is missing"),
        ({"model": "other"}, "embedding.dimensions is missing"),
        ({"dimensions": 769}, "the vectors of text-embedding-005 have 768"),
        ({"model": "gemini-embedding-2"}, "does not answer by its method predict"),
        ({"api_key": None, "base_url": "https://x.example/googleapis.com/v1"}, "is not sent elsewhere"),
    ],
)
def test_incomplete_settings_are_refused_before_anything_is_asked(keys: dict, message: str):
    given = {"provider": "vertex", "model": "text-embedding-005", "project": "p", "api_key": SecretStr("t")}
    with pytest.raises(ConfigError, match=message):
        open_embedder(EmbeddingSettings.model_validate({**given, **keys}))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"provider": "openai", "project": "p"}, "project is for the provider vertex"),
        ({"service_account": "x"}, "service_account is for the provider vertex"),
        ({"provider": "vertex", "options": {}}, "options is for the provider ollama"),
        ({"provider": "vertex", "task_field": "task"}, "task_field is for the provider openai"),
        ({"provider": "ollama", "query_task": "a", "document_task": "b"}, "which Ollama has none of"),
        ({"provider": "ollama", "keep_alive": "soon"}, "keep_alive"),
    ],
)
def test_keys_of_another_provider_are_refused(keys: dict, message: str):
    with pytest.raises(ValidationError, match=message):
        EmbeddingSettings.model_validate({"model": "m", **keys})
