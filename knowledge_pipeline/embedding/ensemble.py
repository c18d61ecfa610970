"""Embedders made of others: several models whose vectors are concatenated, and one that reads outlines.

The cosine of two concatenated vectors is the weighted mean of the models' own cosines. Small models err in
different places, so two of them together find more than each alone. A text may be as long as the model
with the longest window reads; the others read its beginning (docs/decisions/embedding.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.base import Embedder, Space, Usage, WrappedEmbedder, space_name
from knowledge_pipeline.embedding.parallel import map_on_cores
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.words import split_identifier

MODEL_SEPARATOR = "+"
"""Between the models' names: "all-MiniLM-L6-v2+bge-small-en-v1.5"."""

_WEIGHTS = {"bge-small-en-v1.5": 2.0, "static-v1": 0.5}
"""Weights of cosines, by default 1: those of bge-small-en-v1.5 lie half as far apart as those of
all-MiniLM-L6-v2, so they count twice for an equal influence. The static model finds less and counts half."""


def is_ensemble(settings: EmbeddingSettings) -> bool:
    """Whether the settings name several local models."""
    return settings.provider == "local" and MODEL_SEPARATOR in settings.model


def split_member_settings(settings: EmbeddingSettings) -> list[EmbeddingSettings]:
    """The settings of each model.

    Raises `ConfigError`: a name is missing, or vectors are to be cut, which only one model's can be.
    """
    names = [name.strip() for name in settings.model.split(MODEL_SEPARATOR)]
    if not all(names) or len(set(names)) < len(names):
        raise ConfigError(
            f"embedding.model is {settings.model!r}: give each model once, with {MODEL_SEPARATOR} between two"
        )
    if settings.dimensions:
        raise ConfigError(
            "embedding.dimensions cuts the vectors of one model only: leave it out, or name one model"
        )
    return [settings.model_copy(update={"model": name}) for name in names]


def build_ensemble_space(model: str, spaces: Sequence[Space]) -> Space:
    """The space of the concatenated vectors."""
    weights = [_weight_of(space) for space in spaces]
    return Space(
        name=space_name(model, *(space.name for space in spaces), weights),
        model=model,
        dimensions=sum(space.dimensions for space in spaces),
        max_tokens=max(space.max_tokens for space in spaces),
        baseline_score=float(np.average([space.baseline_score for space in spaces], weights=weights)),
    )


class EnsembleEmbedder:
    """Embeds texts with one model after another, since each uses all cores, and queries with all models
    at once, since one text uses one core."""

    def __init__(self, model: str, embedders: Sequence[Embedder]) -> None:
        self._embedders = embedders
        spaces = [embedder.space for embedder in embedders]
        self.space = build_ensemble_space(model, spaces)
        weights = np.sqrt([_weight_of(space) for space in spaces])
        self._member_scales = weights / np.linalg.norm(weights)

    @property
    def usage(self) -> Usage:
        """Texts count once; tokens by every model that read them."""
        used = [embedder.usage for embedder in self._embedders]
        return replace(used[0], tokens=sum(usage.tokens for usage in used))

    def tokenizer(self) -> Tokenize:
        """The tokenizer of the model with the longest window, which limits count with."""
        return max(self._embedders, key=lambda embedder: embedder.space.max_tokens).tokenizer()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`."""
        return self._concatenate([embedder.embed(texts) for embedder in self._embedders])

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`."""
        return self._concatenate(map_on_cores(lambda embedder: embedder.embed_query(text), self._embedders))

    def _concatenate(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        parts = [scale * part for scale, part in zip(self._member_scales, vectors, strict=True)]
        return np.concatenate(parts, axis=-1, dtype=np.float32)


def _weight_of(space: Space) -> float:
    return _WEIGHTS.get(space.model, 1.0)


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


class OutlineEmbedder(WrappedEmbedder):
    """A model that reads the outlines of texts, and queries as they are.

    A transformer takes as long as its input is. Of a chunk of code, punctuation and repeated names are more
    than half, and the words say most of what it is for (docs/decisions/embedding.md).
    """

    def __init__(self, inner: Embedder) -> None:
        super().__init__(inner, build_outline_space(inner.space))

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`."""
        tokenize, outlines = self._inner.tokenizer(), list(map(build_outline, texts))
        starts = map(tokenize, outlines)
        cut = [
            text if len(tokens) <= OUTLINE_TOKENS else text[: tokens[OUTLINE_TOKENS]]
            for text, tokens in zip(outlines, starts, strict=True)
        ]
        return self._inner.embed(cut)


def build_outline(text: str) -> str:
    """The outline of a header, an empty line and a text (see `records.build_embedded_text`).

    That is the header, then the words of the text, each once, in the order in which they appear.
    """
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
