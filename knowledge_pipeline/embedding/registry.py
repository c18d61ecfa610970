"""From settings to the provider that they name."""

from __future__ import annotations

from knowledge_pipeline.config import Embedding
from knowledge_pipeline.embedding.base import Embedder, Space


def open_embedder(settings: Embedding) -> Embedder:
    """The embedder that the settings name; it loads weights, or connects, at the first text.

    Raises:
        ModelMissing: there is no such model on this machine.
        ConfigError: the settings of an endpoint are incomplete.
    """
    if settings.provider == "openai":
        from knowledge_pipeline.embedding.openai import OpenAIEmbedder

        return OpenAIEmbedder(settings)
    from knowledge_pipeline.embedding.local import LocalEmbedder

    return LocalEmbedder(settings)


def space_of(settings: Embedding) -> Space:
    """The space that the settings name, without torch and without a connection; a few milliseconds.

    Only a hub model that was never used on this machine is downloaded first.
    Errors as `open_embedder`.
    """
    if settings.provider == "openai":
        from knowledge_pipeline.embedding.openai import openai_space

        return openai_space(settings)
    from knowledge_pipeline.embedding.local import local_space

    return local_space(settings)
