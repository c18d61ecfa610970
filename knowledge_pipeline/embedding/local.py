"""Vectors from a sentence-transformers model on this machine.

Torch is imported at the first text; a space is told from small files alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Space, Usage
from knowledge_pipeline.embedding.loaded_model import LoadedModel
from knowledge_pipeline.embedding.model_folders import find_model_folder
from knowledge_pipeline.embedding.onnx_export import build_export_path
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.embedding.tokenizer import load_model_tokenizer
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.strings import replace_surrogates

logger = logging.getLogger(__name__)

INT8_BACKEND = "onnx-int8"
"""The backend whose vectors are others, so that they are a space of their own."""

_MIN_EXPORT_TEXTS = 1000  # in one process: their embedding takes a minute, the export a quarter of it
_WEIGHT_SUFFIXES = (".safetensors", ".bin")
_EDGE_BYTES = 1 << 20  # of weights: this much of both ends is hashed
_SPECIAL_TOKENS = 2  # of the window, one before and one after the text
_UNBOUNDED_TOKENS = 8192  # for a model that averages all tokens of a text, however many


def read_local_space(settings: EmbeddingSettings) -> Space:
    """The space of a local model, from its configuration and both ends of its weights.

    Raises:
        ModelMissing: there is no such model, or its files are damaged.
    """
    return _read_space(find_model_folder(settings.model), settings)


class LocalEmbedder:
    """One sentence-transformers model, run as `embedding.backend` says. Threads may share it.

    By itself it is run by onnxruntime on a CPU, once so much is embedded that the export pays, and by
    torch on a GPU: in 32 bits their vectors are the same, so that it is one space.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        self._folder = find_model_folder(settings.model)
        self._settings = settings
        self.space = _read_space(self._folder, settings)
        self.usage = Usage()
        self._usage_lock = threading.Lock()
        self._onnx_path = build_export_path(
            settings.model, *_hash_model_files(self._folder), int8=settings.backend == INT8_BACKEND
        )

    def tokenizer(self) -> Tokenize:
        """The model's own tokenizer; see `tokens.model_tokenizer`."""
        return _load_tokenizer(self._folder)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`; texts are sorted by length, and spread over the cores by onnxruntime."""
        return self._encode(texts, "encode_document")

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; a model with prompts for queries gets them."""
        return self._encode([text], "encode_query")[0]

    def _encode(self, texts: Sequence[str], method: str) -> np.ndarray:
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        model = self._open_model(len(texts))
        batch_size = None if self._settings.backend == INT8_BACKEND else self._settings.batch_size
        vectors, tokens = model.encode([replace_surrogates(text) for text in texts], method, batch_size)
        with self._usage_lock:
            used = self.usage
            self.usage = replace(used, texts=used.texts + len(texts), tokens=used.tokens + tokens)
        self._require_valid_vectors(vectors)
        return vectors

    def _open_model(self, texts: int) -> LoadedModel:
        """The model in memory, run by what the settings name, or by what is worth it."""
        backend = self._settings.backend
        model = _load_model(self._folder, self._settings.model, self._settings.dimensions, backend)
        if model.uses_onnx or backend == "torch":
            return model
        if backend != "auto":
            _require_exportable(model, self._settings)
            model.switch_to_onnx(self._onnx_path, int8=backend == INT8_BACKEND)
        elif model.can_export and (
            self._onnx_path.is_file() or self.usage.texts + texts >= _MIN_EXPORT_TEXTS
        ):
            self._try_onnx(model)
        return model

    def _try_onnx(self, model: LoadedModel) -> None:
        try:
            model.switch_to_onnx(self._onnx_path, int8=False)
        except ModelError as error:  # the vectors are the same without
            model.can_export = False
            logger.warning("torch goes on embedding: %s", error)

    def _require_valid_vectors(self, vectors: np.ndarray) -> None:
        if vectors.shape[1:] != (self.space.dimensions,):
            raise ModelError(
                f"the model {self.space.model!r} makes vectors of shape {vectors.shape[1:]}, but its "
                f"files promise {self.space.dimensions} dimensions: the folder is damaged, install it again"
            )
        bad = np.flatnonzero(~(np.abs(np.linalg.norm(vectors, axis=1) - 1.0) < 1e-3))  # NaN compares false
        if bad.size:
            raise ModelError(
                f"the model {self.space.model!r} made no usable vector of text {bad[0]} (counted from 0): "
                "the text has no token that the model knows, or the model's weights are damaged"
            )


@lru_cache(maxsize=4)
def _load_tokenizer(folder: Path) -> Tokenize:
    return load_model_tokenizer(folder)


@lru_cache(maxsize=4)
def _load_model(folder: Path, name: str, dimensions: int | None, backend: str) -> LoadedModel:
    """The model, loaded once in a process however many sources and questions use it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecations between torch, transformers and old model folders
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        device = "cpu" if backend.startswith("onnx") else None
        try:
            model = SentenceTransformer(
                str(folder), truncate_dim=dimensions, local_files_only=True, device=device
            )
        except Exception as error:  # whatever torch, transformers or safetensors raise of damaged files
            raise ModelError(
                f"sentence-transformers cannot load the model {name!r} ({type(error).__name__}): "
                "its files are damaged, or of a kind that needs another version; install or download it again"
            ) from error
    return LoadedModel(model)


def _require_exportable(model: LoadedModel, settings: EmbeddingSettings) -> None:
    if not model.can_export:
        raise ModelError(
            f"the model {settings.model!r} cannot be exported to ONNX, which only BERT-like transformers "
            "below 1 GB can: set embedding.backend to auto"
        )


def _read_space(folder: Path, settings: EmbeddingSettings) -> Space:
    try:
        modules = _read_modules(folder)
        dimensions, max_tokens = _read_dimensions(folder, modules), _read_max_tokens(folder, modules)
        identity = list(_hash_model_files(folder))
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"the folder of the model {settings.model!r} is damaged ({type(error).__name__} in its "
            "configuration): install or download it again"
        ) from error
    if settings.dimensions:
        dimensions = min(dimensions, settings.dimensions)
    if settings.backend == INT8_BACKEND:
        identity.append(("backend", INT8_BACKEND))
    name = space_name(settings.model, dimensions, *identity)
    return Space(name=name, model=settings.model, dimensions=dimensions, max_tokens=max_tokens)


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _read_modules(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each step of the model; a bare transformer is averaged by sentence-transformers."""
    path = folder / "modules.json"
    if not path.is_file():
        return [("Transformer", folder)]
    steps = json.loads(path.read_text(encoding="utf-8"))
    return [(step["type"].rpartition(".")[2], folder / step["path"]) for step in steps]


def _read_dimensions(folder: Path, modules: list[tuple[str, Path]]) -> int:
    for kind, place in reversed(modules):
        config = _read_json(place / "config.json")
        if kind == "Dense":
            return config["out_features"]
        if kind == "StaticEmbedding":
            return _read_table_width(place / "model.safetensors")
        if kind == "Pooling":
            width = config.get("embedding_dimension") or config["word_embedding_dimension"]
            return width * _count_pooling_modes(config)
        if kind == "Transformer":
            return config.get("hidden_size") or config.get("dim") or config["d_model"]
    raise KeyError("no module of the model gives vectors")


def _count_pooling_modes(config: dict[str, Any]) -> int:
    """How many averages are put side by side: named since sentence-transformers 6, one switch each before."""
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    return 1 if isinstance(modes, str) else max(len(modes), 1)


def _read_table_width(weights: Path) -> int:
    with weights.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return next(entry["shape"][1] for key, entry in header.items() if key.startswith("embedding"))


def _read_max_tokens(folder: Path, modules: list[tuple[str, Path]]) -> int:
    kind, place = modules[0]
    if kind == "StaticEmbedding":
        return _UNBOUNDED_TOKENS
    window = _read_json(place / "sentence_bert_config.json").get("max_seq_length")
    if not window:
        limits = (
            _read_json(place / "config.json").get("max_position_embeddings"),
            _read_json(place / "tokenizer_config.json").get("model_max_length"),
        )
        window = min((limit for limit in limits if limit), default=512)
    return int(window) - _SPECIAL_TOKENS


def _hash_model_files(folder: Path) -> tuple[tuple[str, str], ...]:
    """Name and hash of every file that decides the vectors; read again only where a file changed."""
    deciding = [path for path in sorted(folder.rglob("*")) if _affects_vectors(path)]
    stamps = ((each.st_size, each.st_mtime_ns) for each in (path.stat() for path in deciding))
    return _hash_files(folder, tuple(zip(deciding, stamps, strict=True)))


def _affects_vectors(path: Path) -> bool:
    if path.suffix == ".json":
        return path.name != "data_config.json"  # that one lists training sets
    return path.suffix in _WEIGHT_SUFFIXES


@lru_cache(maxsize=16)
def _hash_files(
    folder: Path, stamped_files: tuple[tuple[Path, tuple[int, int]], ...]
) -> tuple[tuple[str, str], ...]:
    return tuple((path.relative_to(folder).as_posix(), _hash_file(path)) for path, _ in stamped_files)


def _hash_file(path: Path) -> str:
    return (
        _hash_ends(path) if path.suffix in _WEIGHT_SUFFIXES else hashlib.sha256(path.read_bytes()).hexdigest()
    )


def _hash_ends(path: Path) -> str:
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_EDGE_BYTES))
        file.seek(max(size - _EDGE_BYTES, 0))
        digest.update(file.read(_EDGE_BYTES))
    return digest.hexdigest()
