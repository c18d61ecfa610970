"""Models that run without torch: by onnxruntime, or, where tokens have fixed vectors, by numpy alone.

They start in a fraction of a second, and give the vectors that sentence-transformers gives, to rounding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from knowledge_pipeline.embedding import model_config
from knowledge_pipeline.embedding.bert_graph import build_bert_graph, is_bert
from knowledge_pipeline.embedding.parallel import (
    count_usable_cores,
    map_on_cores,
    open_onnx_session,
    opens_for_one_text,
)
from knowledge_pipeline.embedding.safetensors_file import Tensor, read_tensors
from knowledge_pipeline.embedding.tokenizer import SPECIAL_TOKENS, open_tokenizer
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.extras import describe_missing

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
        self._session = session
        self._input_names = {given.name for given in self._session.get_inputs()}
        self._pool = pool
        self._slots = threading.BoundedSemaphore(count_usable_cores())
        self._last: tuple[str, tuple[np.ndarray, int]] | None = None
        self._last_lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """See `Encoder.encode`; longest texts first, so that no core waits long for another at the end.

        A process for one text asks for it again, in each space that has the model.
        """
        if len(texts) != 1 or not opens_for_one_text():
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
        given = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        inputs = {name: np.array([row], np.int64) for name, row in given.items() if name in self._input_names}
        with self._slots:
            hidden = self._session.run(None, inputs)[0]
        return self._pool(hidden[0]), len(encoding.ids) - SPECIAL_TOKENS


class StaticEncoder:
    """A table of one vector for each token; a text's is their mean.

    The table has 32 bits, or 8 and a scale for each token.
    """

    def __init__(self, folder: Path) -> None:
        self._tokenizer = open_tokenizer(folder / "tokenizer.json")
        self._tokenizer.no_padding()
        path = _find_weights(folder)
        tensors = read_tensors(path)
        self._table = _map_array(path, tensors[_STATIC_TABLE])
        self._scales = _map_array(path, tensors[_STATIC_SCALES]) if _STATIC_SCALES in tensors else None
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

    Raises:
        OSError, ValueError, KeyError: they are damaged.
    """
    modules = model_config.read_modules(folder)
    kinds = [kind for kind, _ in modules if kind != "Normalize"]
    first = modules[0][1]
    if model_config.has_prompts(folder) or not (first / "tokenizer.json").is_file():
        return False
    if kinds == ["StaticEmbedding"]:
        return _has_static_table(first)
    if kinds not in (["Transformer"], ["Transformer", "Pooling"]):
        return False
    if model_config.read_json(first / "sentence_bert_config.json").get("do_lower_case"):
        return False
    return _read_pooling(modules) is not None and is_bert(first, _find_weights(first))


def has_8_bit_table(folder: Path) -> bool:
    """Whether a model is a table of 8 bits, which only `StaticEncoder` reads."""
    try:
        kind, first = model_config.read_modules(folder)[0]
        return kind == "StaticEmbedding" and _STATIC_SCALES in read_tensors(_find_weights(first))
    except (OSError, ValueError, KeyError, IndexError):  # damaged, which `is_encoder` reports
        return False


def load_encoder(folder: Path, space: str) -> Encoder:
    """A model for which `is_encoder` holds, loaded once in a process, whoever asks for it at once.

    Args:
        folder: of the model.
        space: its name, which changes with the model's files.

    Raises:
        ModelError: the files are damaged.
    """
    with _load_lock:
        return _load_encoder(folder, space)


@lru_cache(maxsize=4)
def _load_encoder(folder: Path, space: str) -> Encoder:
    try:
        modules = model_config.read_modules(folder)
        kind, first = modules[0]
        if kind == "StaticEmbedding":
            return StaticEncoder(first)
        window = model_config.read_max_tokens(modules) + SPECIAL_TOKENS
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


def _has_static_table(folder: Path) -> bool:
    types = {name: tensor.dtype for name, tensor in read_tensors(_find_weights(folder)).items()}
    return types in ({_STATIC_TABLE: "F32"}, {_STATIC_TABLE: "I8", _STATIC_SCALES: "F32"})


def _map_array(path: Path, tensor: Tensor) -> np.ndarray:
    """A tensor in its file: of a table, a question needs a few rows, and processes share what they read."""
    dtype = np.int8 if tensor.dtype == "I8" else np.float32
    return np.asarray(np.memmap(path, dtype, "r", tensor.offset, tensor.shape))


def _read_pooling(modules: list[tuple[str, Path]]) -> str | None:
    """The one way in which the tokens' vectors become one; None where `POOLING` has it not."""
    modes = [model_config.read_pooling_modes(place) for kind, place in modules if kind == "Pooling"]
    chosen = modes[0] if modes else ["mean"]
    return chosen[0] if len(chosen) == 1 and chosen[0] in POOLING else None


def _scale_to_length_one(vectors: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
