"""Vectors of local models: importing torch and sentence-transformers alone takes seconds."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline_tests.fakes.tiny_model import build_tiny_model

pytestmark = pytest.mark.slow

_TEXTS = ["hello world", "def f(x): return x", "hello big world", "zzz", "a" * 5000, "日本 語 x", "q\udcff"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def minilm():
    return open_embedder(EmbeddingSettings(model="all-MiniLM-L6-v2"))


def test_vectors_are_normalised_in_order_and_the_same_each_time(tiny):
    vectors = open_embedder(EmbeddingSettings(model=str(tiny))).embed(_TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(_TEXTS), 32), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    again = open_embedder(EmbeddingSettings(model=str(tiny), batch_size=1))
    one_by_one = np.stack([again.embed_query(text) for text in _TEXTS])
    np.testing.assert_allclose(one_by_one, vectors, atol=1e-6)
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[1]


def test_no_texts_make_no_vectors(tiny):
    assert open_embedder(EmbeddingSettings(model=str(tiny))).embed([]).shape == (0, 32)


def test_a_text_without_any_known_token_is_named_by_its_index(tiny):
    with pytest.raises(ModelError, match="no usable vector of text 1 "):
        open_embedder(EmbeddingSettings(model=str(tiny))).embed(["fine", "", "fine"])


def test_fewer_dimensions_are_the_first_ones_normalised_anew(tiny):
    whole = open_embedder(EmbeddingSettings(model=str(tiny))).embed(["hello world"])
    cut = open_embedder(EmbeddingSettings(model=str(tiny), dimensions=8)).embed(["hello world"])
    np.testing.assert_allclose(cut, whole[:, :8] / np.linalg.norm(whole[:, :8]), atol=1e-6)


def test_damaged_weights_say_what_to_do(tmp_path):
    folder = build_tiny_model(tmp_path / "damaged")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ModelError, match="install or download it again"):
        open_embedder(EmbeddingSettings(model=str(folder))).embed(["text"])


def test_weights_that_change_in_their_folder_are_loaded_anew(tmp_path):
    folder = build_tiny_model(tmp_path / "changing")
    first = open_embedder(EmbeddingSettings(model=str(folder)))
    vectors = first.embed(_TEXTS)
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    header_bytes = 8 + int.from_bytes(content[:8], "little")
    for at in range(header_bytes + 2, len(content), 4):
        content[at] ^= 64  # half of a number's fraction
    weights.write_bytes(content)
    second = open_embedder(EmbeddingSettings(model=str(folder)))
    assert second.space.name != first.space.name
    assert np.abs(second.embed(_TEXTS) - vectors).max() > 1e-4


def test_threads_share_one_model(tiny):
    embedder = open_embedder(EmbeddingSettings(model=str(tiny)))
    alone = embedder.embed(_TEXTS)
    with ThreadPoolExecutor(8) as pool:
        for vectors in pool.map(lambda _: embedder.embed(_TEXTS), range(20)):
            np.testing.assert_array_equal(vectors, alone)
    assert embedder.usage.texts == 21 * len(_TEXTS)


def test_a_real_model_puts_what_is_alike_together(minilm):
    texts = ["How do I read a file in Python?", "open(path).read() loads a file", "The cat sleeps in the sun"]
    query, code, cat = minilm.embed(texts)
    assert query @ code > query @ cat + 0.2
    np.testing.assert_allclose(minilm.embed_query(texts[0]), query, atol=1e-5)


def test_a_real_model_gives_even_an_empty_text_a_vector(minilm):
    np.testing.assert_allclose(np.linalg.norm(minilm.embed(["", " "]), axis=1), 1, atol=1e-5)


def test_a_text_beyond_the_window_is_cut_where_the_space_says(minilm):
    words = ["one", "two", "three", "four", "five"] * 80
    window = minilm.space.max_tokens
    inside, longer, shorter = (" ".join(words[:count]) for count in (window, 400, window - 1))
    first, second, third = minilm.embed([inside, longer, shorter])
    np.testing.assert_allclose(first, second, atol=1e-5)
    assert np.abs(first - third).max() > 1e-4
