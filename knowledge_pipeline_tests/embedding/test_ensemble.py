"""Several models side by side: one of a few hundred kilobytes, and one that a package carries."""

import numpy as np
import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline_tests.fakes.tiny_model import DIMENSIONS, build_tiny_model

BGE = "bge-small-en-v1.5"
TEXTS = ["how sessions are signed", "def sign(session): ...", "the cat sleeps", "a dog"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(build_tiny_model(tmp_path_factory.mktemp("models") / "tiny"))


def both(*names: str) -> EmbeddingSettings:
    return EmbeddingSettings(model="+".join(names))


def test_the_space_of_several_is_as_wide_as_all_of_them(tiny):
    space = resolve_space(both(tiny, BGE))
    assert space.dimensions == DIMENSIONS + 384
    assert space.max_tokens == max(resolve_space(both(tiny)).max_tokens, resolve_space(both(BGE)).max_tokens)


def test_another_order_or_another_model_is_another_space(tiny):
    names = [resolve_space(both(*each)).name for each in ((tiny, BGE), (BGE, tiny), (tiny,), (BGE,))]
    assert len(set(names)) == 4


def test_a_cosine_is_the_weighted_mean_of_the_models_cosines(tiny):
    one, other, together = (open_embedder(each) for each in (both(tiny), both(BGE), both(tiny, BGE)))
    vectors = together.embed(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (4, DIMENSIONS + 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    alone, beside = one.embed(TEXTS), other.embed(TEXTS)
    np.testing.assert_allclose(vectors @ vectors.T, (alone @ alone.T + 2 * beside @ beside.T) / 3, atol=1e-5)


def test_a_question_is_asked_of_each_model_in_its_own_way(tiny):
    one, other, together = (open_embedder(each) for each in (both(tiny), both(BGE), both(tiny, BGE)))
    question = together.embed_query("how is it signed")
    assert question.shape == (DIMENSIONS + 384,)
    expected = (
        one.embed_query("how is it signed") @ one.embed(TEXTS).T
        + 2 * other.embed_query("how is it signed") @ other.embed(TEXTS).T
    ) / 3
    np.testing.assert_allclose(question @ together.embed(TEXTS).T, expected, atol=1e-5)


def test_texts_count_once_and_tokens_by_every_model(tiny):
    together = open_embedder(both(tiny, BGE))
    together.embed(["two words", "three more words"])
    assert together.usage.texts == 2
    assert together.usage.tokens > 5


@pytest.mark.parametrize("model", ["+", "a+", "+a", f"{BGE}+{BGE}", "a+ +b"])
def test_a_missing_or_repeated_name_is_refused(model):
    with pytest.raises(ConfigError, match="give each model once"):
        resolve_space(EmbeddingSettings(model=model))


def test_vectors_of_several_models_are_not_cut(tiny):
    with pytest.raises(ConfigError, match="one model only"):
        resolve_space(EmbeddingSettings(model=f"{tiny}+{BGE}", dimensions=16))
