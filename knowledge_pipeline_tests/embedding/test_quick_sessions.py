"""Sessions that open faster give the same vectors."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.packaged_graph import write_graph
from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding import packaged_onnx
from knowledge_pipeline.embedding.encoders import POOLING, OnnxEncoder
from knowledge_pipeline.embedding.model_folders import find_package_folder
from knowledge_pipeline.embedding.packaged_onnx import PACKAGED_MODELS, PackagedEmbedder
from knowledge_pipeline.embedding.parallel import open_onnx_session
from knowledge_pipeline.embedding.registry import open_embedder

MODEL = PACKAGED_MODELS["bge-small-en-v1.5"]
TEXTS = ["how is a payment retried", "def f(x): return x", "", "a long text " * 60]


@pytest.fixture
def folder() -> Path:
    found = find_package_folder(MODEL.package, MODEL.folder)
    assert found
    return found


def _embed(folder: Path, session: object) -> np.ndarray:
    return OnnxEncoder(folder, session, window=512, pool=POOLING["cls"]).encode(TEXTS)[0]


def test_the_packaged_graph_is_the_model_of_the_file(folder: Path):
    graph = gzip.decompress(MODEL.graph.read_bytes())
    assert write_graph(folder / "model.onnx") == graph
    model, expected = onnx.load_model_from_string(graph), onnx.load(folder / "model.onnx")
    onnx.load_external_data_for_model(model, str(folder))
    assert model.graph.node == expected.graph.node
    for tensor, other in zip(model.graph.initializer, expected.graph.initializer, strict=True):
        assert tensor.name == other.name
        assert np.array_equal(onnx.numpy_helper.to_array(tensor), onnx.numpy_helper.to_array(other))


def test_weights_that_stay_in_the_file_give_the_very_vectors_of_the_file(folder: Path):
    expected = _embed(folder, open_onnx_session(str(folder / "model.onnx")))
    graph = gzip.decompress(MODEL.graph.read_bytes())
    assert np.array_equal(_embed(folder, open_onnx_session(graph, weights=folder)), expected)


def test_a_file_that_is_not_the_measured_one_is_read_itself(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its weights lie elsewhere: the packaged graph would read noise."""
    other = shutil.copytree(folder, tmp_path / "other")
    note = b"\x12\x05other"  # the field producer_name, which comes first here
    (other / "model.onnx").write_bytes(note + (folder / "model.onnx").read_bytes())
    settings = EmbeddingSettings(model="bge-small-en-v1.5")
    expected = PackagedEmbedder(settings).embed_query(TEXTS[0])

    def find_other(package: str, path: str) -> Path:
        return other

    monkeypatch.setattr(packaged_onnx, "find_package_folder", find_other)
    assert np.array_equal(PackagedEmbedder(settings).embed_query(TEXTS[0]), expected)


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
