"""Sessions that open faster give the same vectors."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding import encoders, model_folders
from knowledge_pipeline.embedding.encoders import PACKAGED_MODELS, POOLING, OnnxEncoder, PackagedEmbedder
from knowledge_pipeline.embedding.model_folders import find_package_folder
from knowledge_pipeline.embedding.parallel import open_onnx_session
from knowledge_pipeline.embedding.registry import open_embedder

MODEL = PACKAGED_MODELS["bge-small-en-v1.5"]
SETTINGS = EmbeddingSettings(model="bge-small-en-v1.5")
TEXTS = ["how is a payment retried", "def f(x): return x", "", "a long text " * 60]


@pytest.fixture(autouse=True)
def _loaded_by_no_other_test() -> Iterator[None]:
    encoders._load_packaged_encoder.cache_clear()
    yield
    encoders._load_packaged_encoder.cache_clear()


@pytest.fixture
def folder() -> Path:
    found = find_package_folder(MODEL.package, MODEL.folder)
    assert found
    return found


def _embed(folder: Path, session: object) -> np.ndarray:
    return OnnxEncoder(folder, session, window=512, pool=POOLING["cls"]).encode(TEXTS)[0]


def test_the_packaged_graph_gives_the_vectors_of_the_file(folder: Path):
    expected = _embed(folder, open_onnx_session(str(folder / "model.onnx")))
    graph = gzip.decompress(MODEL.graph.read_bytes())
    assert len(graph) < 1_000_000  # the weights stay in the file
    for is_optimized in (False, True):
        session = open_onnx_session(graph, weights=folder, is_optimized=is_optimized)
        assert _embed(folder, session) == pytest.approx(expected, abs=1e-6)


def test_the_measured_file_is_read_by_the_packaged_graph(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Reading it whole takes more time and memory."""
    opened: list[object] = []

    def open_session(model: object, **options: Any) -> object:
        opened.append(model)
        return open_onnx_session(model, **options)  # pyright: ignore[reportArgumentType]  # as it is called

    monkeypatch.setattr(encoders, "open_onnx_session", open_session)
    PackagedEmbedder(SETTINGS).embed_query(TEXTS[0])
    assert opened == [gzip.decompress(MODEL.graph.read_bytes())]


def test_a_file_that_is_not_the_measured_one_is_read_itself(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its weights lie elsewhere: the packaged graph would read noise."""
    other = shutil.copytree(folder, tmp_path / "other")
    note = b"\x12\x05other"  # the field producer_name, which comes first here
    (other / "model.onnx").write_bytes(note + (folder / "model.onnx").read_bytes())
    expected = PackagedEmbedder(SETTINGS).embed_query(TEXTS[0])

    def find_other(package: str, path: str) -> Path:
        return other

    monkeypatch.setattr(model_folders, "find_package_folder", find_other)
    assert np.array_equal(PackagedEmbedder(SETTINGS).embed_query(TEXTS[0]), expected)


def test_a_process_for_one_question_has_the_vectors_of_any_other():
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
    made = subprocess.run([sys.executable, "-c", code, TEXTS[0]], capture_output=True, check=True).stdout
    assert np.frombuffer(made, expected.dtype) == pytest.approx(expected, abs=1e-6)
