"""Vectors from a sentence-transformers model on this machine.

Torch is imported at the first text; small files alone determine the space.
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
from knowledge_pipeline.embedding.base import Space, Usage, find_invalid_vectors
from knowledge_pipeline.embedding.loaded_model import LoadedModel
from knowledge_pipeline.embedding.model_folders import find_model_folder, hash_ends
from knowledge_pipeline.embedding.onnx_export import build_export_path
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.embedding.tokenizer import SPECIAL_TOKENS, load_model_tokenizer
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.strings import replace_surrogates

logger = logging.getLogger(__name__)

INT8_BACKEND = "onnx-int8"
"""The backend whose vectors differ from the others', so that they have a space of their own."""

_MIN_EXPORT_TEXTS = 1000  # of one process: embedding them takes a minute, the export a quarter of it
_WEIGHT_SUFFIXES = (".safetensors", ".bin")
_UNBOUNDED_TOKENS = 8192  # for a model that averages all tokens of a text, however many


def read_local_space(settings: EmbeddingSettings) -> Space:
    """The space of a local model, from its configuration and both ends of its weights.

    Raises:
        ModelError: there is no such model, or its files are damaged.
    """
    return _read_space(find_model_folder(settings.model), settings)


class LocalEmbedder:
    """One sentence-transformers model, run as `embedding.backend` says. Threads may share it.

    By default onnxruntime runs it on a CPU, once enough texts are embedded for the export to pay, and
    torch on a GPU: in 32 bits their vectors are the same, so they share a space.
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
        """The model's own tokenizer; see `load_model_tokenizer`."""
        return load_model_tokenizer(self._folder)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`; onnxruntime sorts them by length and spreads them over the cores."""
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
        """The model in memory, run by the backend of the settings, or by the one that pays."""
        backend, model_name = self._settings.backend, self._settings.model
        model = load_model(self._folder, model_name, self._settings.dimensions, backend, self.space.name)
        if model.uses_onnx or backend == "torch":
            return model
        if backend != "auto":
            if not model.can_export:
                raise ModelError(
                    f"the model {model_name!r} cannot be exported to ONNX, which only BERT-like transformers "
                    "below 1 GB can: set embedding.backend to auto"
                )
            model.switch_to_onnx(self._onnx_path, int8=backend == INT8_BACKEND)
        elif model.can_export and (
            self._onnx_path.is_file() or self.usage.texts + texts >= _MIN_EXPORT_TEXTS
        ):
            try:
                model.switch_to_onnx(self._onnx_path, int8=False)
            except ModelError as error:  # the vectors are the same without
                model.can_export = False
                logger.warning("embedding continues with torch: %s", error)
        return model

    def _require_valid_vectors(self, vectors: np.ndarray) -> None:
        if vectors.shape[1:] != (self.space.dimensions,):
            raise ModelError(
                f"the model {self.space.model!r} makes vectors of shape {vectors.shape[1:]}, but its "
                f"files promise {self.space.dimensions} dimensions: the folder is damaged, install it again"
            )
        bad = np.flatnonzero(find_invalid_vectors(vectors))
        if bad.size:
            raise ModelError(
                f"the model {self.space.model!r} made no usable vector of text {bad[0]} (counted from 0): "
                "the text has no token that the model knows, or the model's weights are damaged"
            )


@lru_cache(maxsize=4)
def load_model(folder: Path, name: str, dimensions: int | None, backend: str, space: str) -> LoadedModel:
    """The model, loaded once in a process however many sources and queries use it.

    The name of the space changes with the model's files: other files are another model.
    """
    del space
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations between torch, transformers and old model folders
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
    """Kind and folder of each step of the model; sentence-transformers averages a bare transformer."""
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
    """How many averages are concatenated; before sentence-transformers 6, each had a switch of its own."""
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
    return int(window) - SPECIAL_TOKENS


def _hash_model_files(folder: Path) -> tuple[tuple[str, str], ...]:
    """Name and hash of every file that determines the vectors; a file is read again only when it changes."""
    hashes: list[tuple[str, str]] = []
    for path in sorted(folder.rglob("*")):
        is_config = path.suffix == ".json" and path.name != "data_config.json"  # that one lists training sets
        if is_config or path.suffix in _WEIGHT_SUFFIXES:
            stat = path.stat()
            name = path.relative_to(folder).as_posix()
            hashes.append((name, _hash_file(path, stat.st_size, stat.st_mtime_ns)))
    return tuple(hashes)


@lru_cache(maxsize=256)
def _hash_file(path: Path, size: int, _modified_ns: int) -> str:
    if path.suffix in _WEIGHT_SUFFIXES:
        return hash_ends(path, prefix=str(size).encode())
    return hashlib.sha256(path.read_bytes()).hexdigest()
