"""What runs a local model: the real one, exported into an empty cache, over this repository's own texts."""

import json
import logging
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import knowledge_pipeline
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding import local
from knowledge_pipeline.embedding.model_folders import find_model_folder
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline_tests.fakes.tiny_model import build_tiny_model

MINILM = "all-MiniLM-L6-v2"
_HARDLY_ANY = ("", "x", "日本 語", "q\udcff")


def by(backend: str, model: str = MINILM) -> EmbeddingSettings:
    return EmbeddingSettings.model_validate({"model": model, "backend": backend})


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The user's cache, empty; models are loaded anew before and after."""
    folder = tmp_path_factory.mktemp("cache")
    local.load_model.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder
    local.load_model.cache_clear()


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> str:
    """The same model with a setting that only sentence-transformers knows, so that it is exported."""
    folder = tmp_path_factory.mktemp("models") / "lower-case"
    shutil.copytree(find_model_folder(MINILM), folder)
    config = {"max_seq_length": 256, "do_lower_case": True}
    (folder / "sentence_bert_config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Code and prose of a line to a page, and texts that are hardly any, last."""
    package = Path(knowledge_pipeline.__file__).parent
    code = [package / "store/tables.py", package / "embedding/local.py"]
    whole = [path.read_text(encoding="utf-8") for path in (*code, *_prose(package.parent))]
    paragraphs = [part for text in whole for part in re.split(r"\n\n+", text) if len(part) > 60]
    return [*paragraphs[:: len(paragraphs) // 36][:36], "\n\n".join(paragraphs[:9]), *_HARDLY_ANY]


def _prose(root: Path) -> list[Path]:
    found = sorted((root / "docs").glob("decisions/*.md"))[:6]
    assert found, "the tests run from a checkout, beside its docs"
    return found


@pytest.fixture(scope="module")
def reference(texts) -> np.ndarray:
    return open_embedder(by("torch")).embed(texts)


def test_only_what_changes_the_vectors_changes_the_space():
    names = {backend: resolve_space(by(backend)).name for backend in ("auto", "torch", "onnx", "onnx-int8")}
    assert names["auto"] == names["torch"] == names["onnx"] != names["onnx-int8"]
    both = f"{MINILM}+bge-small-en-v1.5"
    assert resolve_space(by("onnx-int8", both)).name != resolve_space(by("auto", both)).name


@pytest.mark.pytorch
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_auto_makes_an_export_when_it_pays_and_takes_one_that_is_there(
    cache, monkeypatch, exported, texts, reference
):
    monkeypatch.setattr(local, "_MIN_EXPORT_TEXTS", 20)
    auto = open_embedder(by("auto", exported))
    if not auto._open_model(0).on_cpu:
        pytest.skip("on a GPU torch goes on")
    np.testing.assert_allclose(auto.embed(texts[:10]), reference[:10], atol=1e-5)
    assert not list(cache.iterdir())  # this test is the first one with the cache
    np.testing.assert_allclose(auto.embed(texts[10:20]), reference[10:20], atol=1e-5)
    assert [path.suffix for path in (cache / "knowledge_pipeline/onnx").glob("*.onnx")] == [".onnx"]

    local.load_model.cache_clear()
    again = open_embedder(by("auto", exported))
    again.embed_query("sessions")
    assert again._open_model(0).uses_onnx


@pytest.mark.pytorch
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("backend", ["auto", "onnx"])
def test_a_model_that_needs_no_torch_gives_its_vectors(backend, texts, reference):
    vectors = open_embedder(by(backend)).embed(texts)
    np.testing.assert_allclose(vectors, reference, atol=1e-5)
    assert (vectors * reference).sum(axis=1).min() > 0.99999


@pytest.mark.pytorch
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_onnx_gives_the_vectors_of_torch(cache, exported, texts, reference):
    vectors = open_embedder(by("onnx", exported)).embed(texts)
    np.testing.assert_allclose(vectors, reference, atol=1e-5)
    assert (vectors * reference).sum(axis=1).min() > 0.99999
    kept = sorted(path.name for path in (cache / "knowledge_pipeline" / "onnx").glob("*"))
    assert [name.rpartition(".")[2] for name in kept] == ["lock", "onnx"]  # nothing half written stays


@pytest.mark.pytorch
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_company_of_a_text_does_not_change_its_vector(cache, exported, texts, reference):
    onnx = open_embedder(by("onnx", exported))
    together = onnx.embed(texts)
    np.testing.assert_allclose(np.stack([onnx.embed([text])[0] for text in texts]), together, atol=1e-5)
    np.testing.assert_allclose(onnx.embed(texts[::-1])[::-1], together, atol=1e-5)
    padded = open_embedder(by("onnx", exported).model_copy(update={"batch_size": 16}))
    np.testing.assert_allclose(padded.embed(texts), reference, atol=1e-5)
    alone = np.stack([open_embedder(by("torch")).embed([text])[0] for text in texts[:8]])
    np.testing.assert_allclose(alone, reference[:8], atol=1e-5)


@pytest.mark.pytorch
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_int8_stays_near_and_finds_the_same_neighbours(cache, texts, reference):
    int8 = open_embedder(by("onnx-int8"))
    vectors = int8.embed(texts)
    cosines = (vectors * reference).sum(axis=1)[: -len(_HARDLY_ANY)]
    assert cosines.mean() > 0.99
    assert cosines.min() > 0.97
    np.testing.assert_array_equal(vectors[:6], np.stack([int8.embed([text])[0] for text in texts[:6]]))
    nearest, expected = ((v @ v.T).argsort(axis=1)[:, -6:] for v in (vectors, reference))
    shared = [len(set(a) & set(b)) / 6 for a, b in zip(nearest, expected, strict=True)]
    assert np.mean(shared) > 0.8


@pytest.mark.pytorch
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_tokens_are_counted_as_the_tokenizer_counts_them(cache, exported, texts):
    for backend in ("torch", "onnx"):
        embedder = open_embedder(by(backend, exported))
        embedder.embed(texts[:9])
        tokenize, most = embedder.tokenizer(), embedder.space.max_tokens
        assert embedder.usage.tokens == sum(min(len(tokenize(text)), most) for text in texts[:9])
        assert embedder.usage.texts == 9


@pytest.mark.pytorch
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_threads_share_an_exported_model(cache, exported, texts, reference):
    onnx = open_embedder(by("onnx", exported))
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(onnx.embed_query, texts[:12] * 2))
    np.testing.assert_allclose(np.stack(made), np.vstack([reference[:12]] * 2), atol=1e-5)
    assert onnx.usage.texts == 24


@pytest.mark.pytorch
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_where_the_cache_cannot_be_written_torch_goes_on_and_onnx_says_so(
    tmp_path, monkeypatch, caplog, exported, texts, reference
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(local, "_MIN_EXPORT_TEXTS", 1)
    local.load_model.cache_clear()
    with caplog.at_level(logging.WARNING):
        np.testing.assert_allclose(
            open_embedder(by("auto", exported)).embed(texts[:4]), reference[:4], atol=1e-5
        )
    assert "embedding continues with torch" in caplog.text
    with pytest.raises(ModelError, match="cannot be exported"):
        open_embedder(by("onnx", exported)).embed(texts[:1])
    local.load_model.cache_clear()


@pytest.mark.pytorch
@pytest.mark.slow
def test_a_model_that_is_no_transformer_is_run_by_torch_or_refused(tmp_path):
    folder = build_tiny_model(tmp_path / "tiny")
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "query: "}}')
    tiny = str(folder)
    assert open_embedder(by("auto", tiny)).embed(["a text"]).shape == (1, 32)
    with pytest.raises(ModelError, match="cannot be exported to ONNX"):
        open_embedder(by("onnx", tiny)).embed(["a text"])
