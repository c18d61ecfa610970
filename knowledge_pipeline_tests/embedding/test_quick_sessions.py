"""Sessions that open faster give the same vectors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.encoders import POOLING, OnnxEncoder
from knowledge_pipeline.embedding.model_folders import find_package_folder
from knowledge_pipeline.embedding.onnx_format import separate_weights
from knowledge_pipeline.embedding.packaged_onnx import PACKAGED_MODELS
from knowledge_pipeline.embedding.parallel import open_onnx_session
from knowledge_pipeline.embedding.registry import open_embedder

TEXTS = ["how is a payment retried", "def f(x): return x", "", "a long text " * 60]


@pytest.fixture
def folder() -> Path:
    model = PACKAGED_MODELS["bge-small-en-v1.5"]
    found = find_package_folder(model.package, model.folder)
    assert found
    return found


def _embed(folder: Path, session: object) -> np.ndarray:
    return OnnxEncoder(folder, session, window=512, pool=POOLING["cls"]).encode(TEXTS)[0]


def test_weights_that_stay_in_the_file_give_the_very_vectors_of_the_file(folder: Path):
    path = folder / "model.onnx"
    model = separate_weights(path)
    assert len(model) < path.stat().st_size / 20
    expected = _embed(folder, open_onnx_session(str(path)))
    assert np.array_equal(_embed(folder, open_onnx_session(model, weights=folder)), expected)


def test_a_file_that_is_cut_off_is_no_model(folder: Path, tmp_path: Path):
    cut = tmp_path / "model.onnx"
    cut.write_bytes((folder / "model.onnx").read_bytes()[:1_000_000])
    with pytest.raises((ValueError, IndexError)):
        separate_weights(cut)


def test_a_process_for_one_question_has_the_vectors_of_any_other(tmp_path: Path):
    """The first keeps a graph as onnxruntime has optimised it; one that is damaged is made anew."""
    code = (
        "import sys\n"
        "from knowledge_pipeline.config.settings import EmbeddingSettings\n"
        "from knowledge_pipeline.embedding.parallel import open_sessions_for_one_text\n"
        "from knowledge_pipeline.embedding.registry import open_embedder\n"
        "open_sessions_for_one_text()\n"
        "vector = open_embedder(EmbeddingSettings()).embed_query(sys.argv[1])\n"
        "sys.stdout.buffer.write(vector.tobytes())\n"
    )
    expected = open_embedder(EmbeddingSettings()).embed_query(TEXTS[0])

    def embed(cache: Path) -> bytes:
        command = [sys.executable, "-c", code, TEXTS[0]]
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        made = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
        assert np.frombuffer(made, expected.dtype) == pytest.approx(expected, abs=1e-6)
        return made

    first = embed(tmp_path / "cache")
    (kept,) = (tmp_path / "cache").rglob("optimized/*/model.onnx")
    content = kept.read_bytes()
    assert [path.name for path in kept.parent.parent.iterdir()] == [kept.parent.name]
    assert embed(tmp_path / "cache") == first and kept.read_bytes() == content
    kept.write_bytes(content[:1000])
    assert embed(tmp_path / "cache") == first and kept.read_bytes() == content
    (tmp_path / "file").write_text("no folder")
    assert embed(tmp_path / "file") == first
