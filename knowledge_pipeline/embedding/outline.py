"""Embeds the outline of a text: its header, then its words, each once, in the order in which they appear.

A transformer takes as long as its input is. Of a chunk of code, punctuation and repeated names are more than
half, and the words say most of what it is for (docs/decisions/embedding.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Embedder, Space, Usage
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.identifiers import split_identifier
from knowledge_pipeline.records import Tokenize

OUTLINE_SUFFIX = ":outline"
"""After a model's name: "all-MiniLM-L6-v2:outline"."""

OUTLINE_TOKENS = 64  # of an outline, header included; a text of code has 57 at the mean
_TEXT_TOKENS = 510  # of a text that has an outline, at most
_VERSION = 1  # of what an outline is
_MIN_WORD_CHARS = 2
_WORD = re.compile(r"\w+")
_HASH = re.compile(r"[0-9a-f]{24,}")  # says nothing, and takes dozens of tokens


def is_outline(settings: EmbeddingSettings) -> bool:
    """Whether the settings name a local model that reads outlines."""
    return settings.provider == "local" and settings.model.endswith(OUTLINE_SUFFIX)


def remove_outline_suffix(settings: EmbeddingSettings) -> EmbeddingSettings:
    """The settings of the model itself."""
    return settings.model_copy(update={"model": settings.model.removesuffix(OUTLINE_SUFFIX)})


def build_outline_space(inner: Space) -> Space:
    """The space of the outlines' vectors."""
    model = inner.model + OUTLINE_SUFFIX
    name = space_name(model, inner.name, OUTLINE_TOKENS, _VERSION)
    return replace(inner, name=name, model=model, max_tokens=_TEXT_TOKENS)


class OutlineEmbedder:
    """A model that reads the outlines of texts, and queries as they are."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.space = build_outline_space(inner.space)

    @property
    def usage(self) -> Usage:
        """Tokens of the outlines."""
        return self._inner.usage

    def tokenizer(self) -> Tokenize:
        """The model's own tokenizer."""
        return self._inner.tokenizer()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`."""
        tokenize = self._inner.tokenizer()
        return self._inner.embed([_cut(build_outline(text), tokenize) for text in texts])

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`."""
        return self._inner.embed_query(text)


def build_outline(text: str) -> str:
    """The outline of a header, an empty line and a text, see `records.build_embedded_text`."""
    header, separator, body = text.partition("\n\n")
    if not separator:
        header, body = "", text
    header = _HASH.sub("", header)
    seen = set(_iter_words(header))
    words = [word for word in dict.fromkeys(_iter_words(body)) if word not in seen]
    return "\n\n".join(filter(None, (header, " ".join(words)))) or text


def _iter_words(text: str) -> Iterator[str]:
    for run in _WORD.findall(text):
        yield from (word for word in split_identifier(run) if len(word) >= _MIN_WORD_CHARS)


def _cut(text: str, tokenize: Tokenize) -> str:
    starts = tokenize(text)
    return text if len(starts) <= OUTLINE_TOKENS else text[: starts[OUTLINE_TOKENS]]
