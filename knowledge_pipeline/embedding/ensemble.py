"""Several models read the same text, and their vectors are concatenated.

The cosine of two such vectors is the weighted mean of the models' own cosines. Small models err in
different places, so two of them together find more than each alone. A text may be as long as the model
with the longest window reads; the others read its beginning (docs/decisions/embedding.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Embedder, Space, Usage
from knowledge_pipeline.embedding.parallel import map_on_cores
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.records import Tokenize

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

    Raises:
        ConfigError: a name is missing, or vectors are to be cut, which only one model's can be.
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
        spaces = [each.space for each in embedders]
        self.space = build_ensemble_space(model, spaces)
        weights = np.sqrt([_weight_of(space) for space in spaces])
        self._member_scales = weights / np.linalg.norm(weights)

    @property
    def usage(self) -> Usage:
        """Texts count once; tokens by every model that read them."""
        used = [each.usage for each in self._embedders]
        return replace(used[0], tokens=sum(each.tokens for each in used))

    def tokenizer(self) -> Tokenize:
        """The tokenizer of the model with the longest window, which limits count with."""
        return max(self._embedders, key=lambda each: each.space.max_tokens).tokenizer()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`."""
        return self._concatenate([each.embed(texts) for each in self._embedders])

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`."""
        return self._concatenate(map_on_cores(lambda each: each.embed_query(text), self._embedders))

    def _concatenate(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        parts = [scale * part for scale, part in zip(self._member_scales, vectors, strict=True)]
        return np.concatenate(parts, axis=-1, dtype=np.float32)


def _weight_of(space: Space) -> float:
    return _WEIGHTS.get(space.model, 1.0)
