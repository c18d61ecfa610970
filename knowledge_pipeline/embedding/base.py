"""The interface of every embedding provider, and the names of vector spaces.

A space is one model at one revision with one text template: its name is part of
paths and its vectors are never compared with another space's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from knowledge_pipeline.records import Tokenize

_LENGTH_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Space:
    """Identity of a vector space, known without loading the model's weights."""

    name: str  # fit for a file name: "all-minilm-l6-v2-1f2e3d4c"; changes with model, revision or template
    model: str
    dimensions: int
    max_tokens: int  # how much the model reads of one text; the rest is cut
    baseline_score: float = 0.0  # cosine, below 1, of texts that have nothing in common


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider consumed since it was opened."""

    texts: int = 0
    tokens: int = 0
    requests: int = 0
    cost: float = 0.0

    def add(self, texts: int = 0, tokens: int = 0, requests: int = 0, cost: float = 0.0) -> Usage:
        """The sum of both."""
        return Usage(self.texts + texts, self.tokens + tokens, self.requests + requests, self.cost + cost)


call_usage: ContextVar[list[Usage] | None] = ContextVar("call_usage", default=None)
"""Where an endpoint also notes what it consumes for questions of this context."""


class Embedder(Protocol):
    """Makes vectors of one space. Loads weights or connects at the first text, not before."""

    @property
    def space(self) -> Space:
        """The space that the vectors belong to."""
        ...

    @property
    def usage(self) -> Usage:
        """What the embedder consumed since it was opened."""
        ...

    def tokenizer(self) -> Tokenize:
        """The model's own tokenizer, or the nearest there is, loaded without the weights."""
        ...

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """float32, shape (texts, dimensions), rows of length 1, in the order given.

        Raises:
            ModelError: the model cannot be loaded, or the endpoint refuses access.
            EmbeddingUnavailable: the endpoint did not answer within the bounded tries.
        """
        ...

    def embed_query(self, text: str) -> np.ndarray:
        """float32, shape (dimensions,), length 1. Errors as `embed`."""
        ...


@runtime_checkable
class BatchEmbedder(Embedder, Protocol):
    """One that embeds several questions at less cost than one by one, as endpoints do."""

    @property
    def max_queries(self) -> int:
        """How many at once."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """float32, shape (texts, dimensions), rows of length 1, in the order given. Errors as `embed`."""
        ...


@runtime_checkable
class StreamEmbedder(Embedder, Protocol):
    """One that other machines embed many texts for, which come back in any order."""

    @property
    def min_stream_texts(self) -> int:
        """Of fewer, `embed` costs less."""
        ...

    def embed_stream(self, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[list[str], np.ndarray]]:
        """Embed texts, each with its key: keys, and vectors as of `embed`, in any order.

        Raises:
            ModelError: a worker cannot load the model, or what it needs is not installed.
            EmbeddingUnavailable: the other machines cannot be reached, or failed.
        """
        ...


class WrappedEmbedder:
    """An embedder that changes what another one does: by itself, nothing but the name of its space."""

    def __init__(self, inner: Embedder, space: Space) -> None:
        self._inner, self.space = inner, space

    @property
    def usage(self) -> Usage:
        """See `Embedder.usage`; of the model itself, with what it reads besides a text."""
        return self._inner.usage

    def tokenizer(self) -> Tokenize:
        """See `Embedder.tokenizer`."""
        return self._inner.tokenizer()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`."""
        return self._inner.embed(texts)

    def embed_query(self, text: str) -> np.ndarray:
        """See `Embedder.embed_query`."""
        return self._inner.embed_query(text)


@dataclass(frozen=True, slots=True)
class Prompts:
    """What stands before a question and before a document; "" for nothing.

    A model that was trained with a prompt finds less without it. The settings' prompts come first, then those
    of a model's own folder, which sentence-transformers adds, then what is known of the model's name.
    """

    query: str = ""
    document: str = ""


class PromptedEmbedder(WrappedEmbedder):
    """A model whose texts get a prompt before them."""

    def __init__(self, inner: Embedder, prompts: Prompts, space: Space) -> None:
        super().__init__(inner, space)
        self._prompts = prompts

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`."""
        return self._inner.embed([self._prompts.document + text for text in texts])

    def embed_query(self, text: str) -> np.ndarray:
        """See `Embedder.embed_query`."""
        return self._inner.embed_query(self._prompts.query + text)

    @property
    def max_queries(self) -> int:
        """See `BatchEmbedder.max_queries`; 1 for a model that takes one after the other."""
        return self._inner.max_queries if isinstance(self._inner, BatchEmbedder) else 1

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """See `BatchEmbedder.embed_queries`."""
        if isinstance(self._inner, BatchEmbedder):
            return self._inner.embed_queries([self._prompts.query + text for text in texts])
        return np.stack([self.embed_query(text) for text in texts])


def find_invalid_vectors(vectors: np.ndarray) -> np.ndarray:
    """Which vectors, of shape (texts, dimensions), are not finite or not of length 1: bool, (texts,)."""
    lengths = np.linalg.norm(vectors, axis=1)
    return ~np.isfinite(lengths) | (np.abs(lengths - 1) > _LENGTH_TOLERANCE)


TEXT_TEMPLATE = "header, empty line, text; vectors of length 1"
"""What `records.build_embedded_text` and the providers do; a change makes every space a new one."""


def space_name(model: str, *identity: object) -> str:
    """`all-minilm-l6-v2-1f2e3d4c`: the model's last name, and 8 hex digits of its identity.

    Args:
        model: a name, a hub name ("owner/name"), or the path of a folder.
        identity: everything that determines the vectors; the text template is always part of it.
    """
    last = re.split(r"[/\\]", model.rstrip("/\\"))[-1]
    slug = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:40] or "model"
    digest = hashlib.sha256(repr((TEXT_TEMPLATE, *identity)).encode())
    return f"{slug}-{digest.hexdigest()[:8]}"
