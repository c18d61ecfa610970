"""Vectors from a model on this machine, in the layout of sentence-transformers.

Small files alone determine the space. Most small models run without torch (`encoders.py`); others import
it at the first text.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import logging
import os
import sys
import threading
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding import model_folders
from knowledge_pipeline.embedding.base import Space, space_name
from knowledge_pipeline.embedding.encoders import ModelEmbedder, has_8_bit_table, is_encoder, load_encoder
from knowledge_pipeline.embedding.onnx_export import build_export_path, export_to_onnx, is_exportable
from knowledge_pipeline.embedding.parallel import count_usable_cores, map_on_cores, open_onnx_session
from knowledge_pipeline.embedding.tokenizer import SPECIAL_TOKENS
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.extras import describe_missing

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer


_CPU_BATCH_TEXTS = 4  # on a CPU bigger batches pay for padding and cache misses
_GPU_BATCH_TEXTS = 64
_GROUP_TEXTS = 8  # texts that a thread takes at a time


class LoadedModel:
    """One model. Threads may share it: each that computes has a copy of everything but the weights.

    A fast tokenizer that two threads use at once raises "Already borrowed". Torch uses all cores by
    itself, so it has one copy; onnxruntime has one for each core, which computes one text at a time.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        self.on_cpu = model.device.type == "cpu"
        self.can_export = self.on_cpu and is_exportable(model[0])
        self.uses_onnx = False
        self._switch_lock = threading.Lock()
        self._idle_copies: SimpleQueue[_ModelCopy] = SimpleQueue()
        self._idle_copies.put(_ModelCopy(model))

    def encode(
        self, texts: Sequence[str], method: str, batch_size: int | None, *, with_own_prompt: bool = True
    ) -> tuple[np.ndarray, int]:
        """Vectors of length 1 in the order of the texts, and how many tokens were read.

        `method` is `encode_document` or `encode_query`. So many texts are padded to one length; without
        `batch_size`, what is best. A prompt of the model's folder stands before them `with_own_prompt`.
        """
        best = 1 if self.uses_onnx else _CPU_BATCH_TEXTS if self.on_cpu else _GPU_BATCH_TEXTS
        batch_size = batch_size or best
        prompt = {} if with_own_prompt else {"prompt": ""}

        def encode_some(some: Sequence[str]) -> tuple[np.ndarray, int]:
            model_copy = self._idle_copies.get()
            try:
                return model_copy.encode(some, method, batch_size=batch_size, **prompt)
            finally:
                self._idle_copies.put(model_copy)

        if not self.uses_onnx:
            return encode_some(texts)
        # Longest texts first, in small groups, so that no core waits long for another at the end.
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        size = max(batch_size, min(_GROUP_TEXTS, -(-len(texts) // count_usable_cores())))
        groups = [order[start : start + size] for start in range(0, len(order), size)]
        parts = map_on_cores(lambda group: encode_some([texts[at] for at in group]), groups)
        vectors = np.empty((len(texts), parts[0][0].shape[1]), np.float32)
        for group, (rows, _) in zip(groups, parts, strict=True):
            vectors[group] = rows
        return vectors, sum(tokens for _, tokens in parts)

    def switch_to_onnx(self, path: Path, *, int8: bool) -> None:
        """Replace torch's weights with an exported file, and drop them.

        Args:
            path: of the file, which is exported first where it does not exist; see `build_export_path`.
            int8: whether the exported weights are quantised.

        Raises:
            ModelError: it cannot be exported; torch still runs the model.
        """
        with self._switch_lock:
            if self.uses_onnx:
                return
            copies = [first] = [self._idle_copies.get()]
            inner: Any = first.model[0]
            torch_model = inner.model
            try:
                export_to_onnx(inner, path, int8=int8)
                inner.model = build_onnx_module(path, torch_model.config)
                copies += [_ModelCopy(copy.deepcopy(first.model)) for _ in range(count_usable_cores() - 1)]
                self.uses_onnx = True
            except BaseException:
                inner.model = torch_model
                copies = [first]
                raise
            finally:
                for model_copy in copies:
                    self._idle_copies.put(model_copy)


class _ModelCopy:
    """A model that one thread at a time uses, and the number of tokens that it read."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model
        self._token_count = 0
        # Tokens are counted here, because tokenizing again costs as much.
        preprocess = type(model).preprocess  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # of any input

        def preprocess_and_count(*args: Any, **kwargs: Any) -> Any:  # as sentence-transformers calls it
            features = preprocess(model, *args, **kwargs)
            mask = features.get("attention_mask")
            if mask is None:  # of a static model: no special tokens, no padding
                self._token_count += int(features["input_ids"].numel())
            else:
                self._token_count += int(mask.sum()) - SPECIAL_TOKENS * len(mask)
            return features

        model.preprocess = preprocess_and_count

    def encode(self, texts: Sequence[str], method: str, **options: Any) -> tuple[np.ndarray, int]:
        self._token_count = 0
        encode = getattr(self.model, method)
        vectors = encode(list(texts), normalize_embeddings=True, show_progress_bar=False, **options)
        return np.asarray(vectors, dtype=np.float32), self._token_count


def build_onnx_module(path: Path, config: Any) -> torch.nn.Module:
    """A module that replaces the transformer of a sentence-transformers model; copies share its session."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    class OnnxModel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = config
            self.session: Any = open_onnx_session(str(path))
            self.input_names = {input_.name for input_ in self.session.get_inputs()}

        def __deepcopy__(self, memo: dict[int, Any]) -> OnnxModel:
            return self

        def forward(self, **inputs: Any) -> BaseModelOutput:
            fed = {name: value.numpy() for name, value in inputs.items() if name in self.input_names}
            (hidden,) = self.session.run(None, fed)
            return BaseModelOutput(last_hidden_state=torch.from_numpy(hidden))  # pyright: ignore[reportUnknownMemberType]  # it has no types

    return OnnxModel()


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

    Raises `ModelError`: there is no such model, or its files are damaged.
    """
    return _build_space(_read_model_files(settings.model), settings)


class LocalEmbedder(ModelEmbedder):
    """One model, run as `embedding.backend` says.

    By default a model that needs no torch runs without it, on a CPU. Torch runs any other model, until
    enough texts are embedded for an export to onnxruntime to pay, and every model on a GPU. In 32 bits
    the vectors are the same, so they share a space. A model with prompts for queries gets them, or the
    settings'.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        files = _read_model_files(settings.model)
        super().__init__(_build_space(files, settings), files.folder)
        self._settings = settings
        is_32_bits = settings.backend in ("auto", "onnx")
        self._is_table = files.has_8_bit_table
        with _name_damage(settings.model):
            self._needs_no_torch = files.is_encoder and (is_32_bits or self._is_table)
        is_int8 = settings.backend == INT8_BACKEND
        self._onnx_path = build_export_path(settings.model, *files.hashes, int8=is_int8)

    def _compute(self, texts: list[str], *, is_query: bool) -> tuple[np.ndarray, int]:
        settings = self._settings
        is_for_cpu = is_query or self._is_table or settings.backend == "onnx" or not _has_gpu()
        if self._needs_no_torch and is_for_cpu:
            encoder = load_encoder(self._folder, self.space.name)
            vectors, tokens = encoder.encode(texts)
            if settings.dimensions is None:
                self._query_encoder = encoder
            if settings.dimensions is not None and vectors.shape[1] > settings.dimensions:
                cut = vectors[:, : settings.dimensions]
                vectors = cut / np.linalg.norm(cut, axis=1, keepdims=True)
            return vectors, tokens
        batch_size = None if settings.backend == INT8_BACKEND else settings.batch_size
        configured = settings.query_prompt if is_query else settings.document_prompt
        method = "encode_query" if is_query else "encode_document"
        model = self._open_model(len(texts))
        return model.encode(texts, method, batch_size, with_own_prompt=configured is None)

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

    def _build_vector_error(self, text: int) -> ModelError:
        return ModelError(
            f"the model {self.space.model!r} made no usable vector of text {text} (counted from 0): "
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
            missing = describe_missing(f"the model {name!r}", "local")
            raise ModelError(f"{missing}, or name another") from error
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


@dataclass(frozen=True)
class ModelFiles:
    """What the small files of a model say, and which files determine its vectors."""

    folder: Path
    hashes: HashedFiles
    dimensions: int
    max_tokens: int  # that are read of a text

    @cached_property
    def is_encoder(self) -> bool:
        """Whether `encoders` runs it, without torch."""
        return is_encoder(self.folder)

    @cached_property
    def has_8_bit_table(self) -> bool:
        """Whether it is a table that only `encoders` reads."""
        return has_8_bit_table(self.folder)


@contextmanager
def _name_damage(model: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ModelError(
            f"the folder of the model {model!r} is damaged ({type(error).__name__}): "
            "install or download it again"
        ) from error


def _read_model_files(model: str) -> ModelFiles:
    folder = model_folders.find_model_folder(model)
    with _name_damage(model):
        return _read_small_files(folder, _hash_model_files(folder))


@lru_cache(maxsize=64)
def _read_small_files(folder: Path, hashes: HashedFiles) -> ModelFiles:
    """Read again where a file has changed."""
    modules = model_folders.read_modules(folder)
    dimensions, max_tokens = model_folders.read_dimensions(modules), model_folders.read_max_tokens(modules)
    return ModelFiles(folder, hashes, dimensions, max_tokens)


def _build_space(files: ModelFiles, settings: EmbeddingSettings) -> Space:
    dimensions, identity = files.dimensions, list(files.hashes)
    if settings.dimensions:
        dimensions = min(dimensions, settings.dimensions)
    if settings.backend == INT8_BACKEND:
        identity.append(("backend", INT8_BACKEND))
    name = space_name(settings.model, dimensions, *identity)
    return Space(name=name, model=settings.model, dimensions=dimensions, max_tokens=files.max_tokens)


def _has_gpu() -> bool:
    """Whether torch is installed and may find a GPU, without importing it."""
    if sys.platform != "darwin" and not any(device.exists() for device in _GPU_DEVICES):
        return False
    return importlib.util.find_spec("torch") is not None


def _hash_model_files(folder: Path) -> HashedFiles:
    """Name and hash of every file that determines the vectors; a file is read again only when it changes."""
    hashes: list[tuple[str, str]] = []
    suffixes = (".json", *_WEIGHT_SUFFIXES)
    paths = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    for path in sorted(paths):
        if path.name.endswith(suffixes) and path.name != "data_config.json":  # that one lists training sets
            stat = path.stat()
            name = path.relative_to(folder).as_posix()
            hashes.append((name, _hash_file(path, stat.st_size, stat.st_mtime_ns)))
    return tuple(hashes)


@lru_cache(maxsize=256)
def _hash_file(path: Path, size: int, _modified_ns: int) -> str:
    if path.suffix in _WEIGHT_SUFFIXES:
        return model_folders.hash_ends(path, prefix=str(size).encode())
    return hashlib.sha256(path.read_bytes()).hexdigest()
