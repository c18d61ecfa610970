"""Vectors from a model on this machine, in the layout of sentence-transformers.

Small files alone determine the space. Most small models run without torch (`encoders.py`); others import
it at the first text.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding import model_config
from knowledge_pipeline.embedding.base import Space, Usage, find_invalid_vectors
from knowledge_pipeline.embedding.carriers import verify_carried_files
from knowledge_pipeline.embedding.encoders import has_8_bit_table, is_encoder, load_encoder
from knowledge_pipeline.embedding.loaded_model import LoadedModel
from knowledge_pipeline.embedding.model_folders import find_model_folder, hash_ends
from knowledge_pipeline.embedding.onnx_export import build_export_path
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.embedding.tokenizer import load_model_tokenizer
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.strings import replace_surrogates

logger = logging.getLogger(__name__)

INT8_BACKEND = "onnx-int8"
"""The backend whose vectors differ from the others', so that they have a space of their own."""

_MIN_EXPORT_TEXTS = 1000  # of one process: embedding them takes a minute, the export a quarter of it
_WEIGHT_SUFFIXES = (".safetensors", ".bin")
HashedFiles = tuple[tuple[str, str], ...]
"""The files of a model that determine its vectors, each with its hash."""

_load_lock = threading.Lock()  # of several that ask at once, one loads
_GPU_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/kfd"))


def read_local_space(settings: EmbeddingSettings) -> Space:
    """The space of a local model, from its configuration and both ends of its weights.

    Raises:
        ModelError: there is no such model, or its files are damaged.
    """
    folder = find_model_folder(settings.model)
    return _read_space(folder, _list_hashed_files(folder, settings.model), settings)


class LocalEmbedder:
    """One model, run as `embedding.backend` says. Threads may share it.

    By default a model that needs no torch runs without it, on a CPU. Torch runs any other model, until
    enough texts are embedded for an export to onnxruntime to pay, and every model on a GPU. In 32 bits
    the vectors are the same, so they share a space.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        self._folder = find_model_folder(settings.model)
        self._settings = settings
        files = _list_hashed_files(self._folder, settings.model)
        self.space = _read_space(self._folder, files, settings)
        self.usage = Usage()
        self._usage_lock = threading.Lock()
        is_32_bits = settings.backend in ("auto", "onnx")
        self._is_table = _has_8_bit_table(self._folder, files)
        is_encoder = _is_encoder(self._folder, files, settings.model)
        self._needs_no_torch = (is_32_bits or self._is_table) and is_encoder
        is_int8 = settings.backend == INT8_BACKEND
        self._onnx_path = build_export_path(settings.model, *files, int8=is_int8)

    def tokenizer(self) -> Tokenize:
        """The model's own tokenizer; see `load_model_tokenizer`."""
        return load_model_tokenizer(self._folder)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`; onnxruntime sorts them by length and spreads them over the cores."""
        verify_carried_files(self._folder)
        return self._encode(texts, "encode_document")

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; a model with prompts for queries gets them, or the settings'."""
        return self._encode([text], "encode_query")[0]

    def _encode(self, texts: Sequence[str], method: str) -> np.ndarray:
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        vectors, tokens = self._compute([replace_surrogates(text) for text in texts], method)
        with self._usage_lock:
            used = self.usage
            self.usage = replace(used, texts=used.texts + len(texts), tokens=used.tokens + tokens)
        self._require_valid_vectors(vectors)
        return vectors

    def _compute(self, texts: list[str], method: str) -> tuple[np.ndarray, int]:
        is_query = method == "encode_query"
        is_for_cpu = is_query or self._is_table or self._settings.backend == "onnx" or not _has_gpu()
        if self._needs_no_torch and is_for_cpu:
            vectors, tokens = load_encoder(self._folder, self.space.name).encode(texts)
            return self._cut_dimensions(vectors), tokens
        batch_size = None if self._settings.backend == INT8_BACKEND else self._settings.batch_size
        configured = self._settings.query_prompt if is_query else self._settings.document_prompt
        model = self._open_model(len(texts))
        return model.encode(texts, method, batch_size, with_own_prompt=configured is None)

    def _cut_dimensions(self, vectors: np.ndarray) -> np.ndarray:
        if self._settings.dimensions is None or vectors.shape[1] <= self._settings.dimensions:
            return vectors
        cut = vectors[:, : self._settings.dimensions]
        return cut / np.linalg.norm(cut, axis=1, keepdims=True)

    def _open_model(self, texts: int) -> LoadedModel:
        """The model in memory, run by the backend of the settings, or by the one that pays."""
        backend, model_name = self._settings.backend, self._settings.model
        with _load_lock:
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
    """The model by sentence-transformers, loaded once in a process however many sources and queries use it.

    The name of the space changes with the model's files: other files are another model.
    """
    del space
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations between torch, transformers and old model folders
        try:
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging as transformers_logging
        except ImportError as error:
            raise ModelError(
                describe_missing(f"the model {name!r}", "local") + ", or name another"
            ) from error
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


def _list_hashed_files(folder: Path, model: str) -> HashedFiles:
    try:
        return _hash_model_files(folder)
    except OSError as error:
        raise _build_damaged_error(model, error) from error


def _read_space(folder: Path, files: HashedFiles, settings: EmbeddingSettings) -> Space:
    dimensions, max_tokens = _read_sizes(folder, files, settings.model)
    identity = list(files)
    if settings.dimensions:
        dimensions = min(dimensions, settings.dimensions)
    if settings.backend == INT8_BACKEND:
        identity.append(("backend", INT8_BACKEND))
    name = space_name(settings.model, dimensions, *identity)
    return Space(name=name, model=settings.model, dimensions=dimensions, max_tokens=max_tokens)


@lru_cache(maxsize=64)
def _read_sizes(folder: Path, files: HashedFiles, model: str) -> tuple[int, int]:
    """Dimensions of the vectors, and tokens that are read of a text; read again where a file has changed."""
    del files
    try:
        modules = model_config.read_modules(folder)
        return model_config.read_dimensions(modules), model_config.read_max_tokens(modules)
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise _build_damaged_error(model, error) from error


@lru_cache(maxsize=64)
def _has_8_bit_table(folder: Path, files: HashedFiles) -> bool:
    del files
    return has_8_bit_table(folder)


@lru_cache(maxsize=64)
def _is_encoder(folder: Path, files: HashedFiles, model: str) -> bool:
    del files
    try:
        return is_encoder(folder)
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise _build_damaged_error(model, error) from error


def _build_damaged_error(model: str, error: Exception) -> ModelError:
    return ModelError(
        f"the folder of the model {model!r} is damaged ({type(error).__name__}): install or download it again"
    )


def _has_gpu() -> bool:
    """Whether torch is installed and may find a GPU, without importing it."""
    if sys.platform != "darwin" and not any(device.exists() for device in _GPU_DEVICES):
        return False
    return importlib.util.find_spec("torch") is not None


def _hash_model_files(folder: Path) -> HashedFiles:
    """Name and hash of every file that determines the vectors; a file is read again only when it changes."""
    hashes: list[tuple[str, str]] = []
    suffixes = (".json", *_WEIGHT_SUFFIXES)
    found = (
        Path(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(suffixes)
    )
    for path in sorted(found):
        if path.name != "data_config.json":  # that one lists training sets
            stat = path.stat()
            name = path.relative_to(folder).as_posix()
            hashes.append((name, _hash_file(path, stat.st_size, stat.st_mtime_ns)))
    return tuple(hashes)


@lru_cache(maxsize=256)
def _hash_file(path: Path, size: int, _modified_ns: int) -> str:
    if path.suffix in _WEIGHT_SUFFIXES:
        return hash_ends(path, prefix=str(size).encode())
    return hashlib.sha256(path.read_bytes()).hexdigest()
