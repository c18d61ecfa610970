"""Opens the provider that the settings name."""

from __future__ import annotations

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Embedder, Space
from knowledge_pipeline.embedding.ensemble import (
    EnsembleEmbedder,
    build_ensemble_space,
    is_ensemble,
    split_member_settings,
)
from knowledge_pipeline.embedding.outline import (
    OUTLINE_SUFFIX,
    OUTLINE_TOKENS,
    OutlineEmbedder,
    build_outline_space,
    is_outline,
    remove_outline_suffix,
)
from knowledge_pipeline.embedding.packaged_onnx import PACKAGED_MODELS, PackagedEmbedder, read_packaged_space


def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """The embedder that the settings name; it loads weights, or connects, at the first text.

    Raises:
        ModelError: there is no such model on this machine.
        ConfigError: the settings of an endpoint are incomplete, or those of several models are invalid.
    """
    if settings.ray is not None:
        from knowledge_pipeline.embedding.ray_embedder import RayEmbedder

        alone = settings.model_copy(update={"ray": None})
        return RayEmbedder(alone, settings.ray, open_embedder(alone), open_embedder)
    if settings.provider == "openai":
        from knowledge_pipeline.embedding.openai import OpenAIEmbedder

        return OpenAIEmbedder(settings)
    if is_ensemble(settings):
        return EnsembleEmbedder(
            settings.model, [open_embedder(each) for each in split_member_settings(settings)]
        )
    if is_outline(settings):
        return OutlineEmbedder(open_embedder(remove_outline_suffix(settings)))
    if settings.model in PACKAGED_MODELS:
        return PackagedEmbedder(settings)
    from knowledge_pipeline.embedding.local import LocalEmbedder

    return LocalEmbedder(settings)


def resolve_space(settings: EmbeddingSettings) -> Space:
    """The space that the settings name, without torch and without a connection; a few milliseconds.

    Only a hub model that was never used on this machine is downloaded first.
    Errors as `open_embedder`.
    """
    if settings.provider == "openai":
        from knowledge_pipeline.embedding.openai import build_openai_space

        return build_openai_space(settings)
    if is_ensemble(settings):
        return build_ensemble_space(
            settings.model, [resolve_space(each) for each in split_member_settings(settings)]
        )
    if is_outline(settings):
        return build_outline_space(resolve_space(remove_outline_suffix(settings)))
    if settings.model in PACKAGED_MODELS:
        return read_packaged_space(settings)
    from knowledge_pipeline.embedding.local import read_local_space

    return read_local_space(settings)


def count_read_tokens(settings: EmbeddingSettings, space: Space) -> int:
    """Tokens of a text that take time: of a longer one, a model reads the beginning or an outline."""
    return OUTLINE_TOKENS if OUTLINE_SUFFIX in settings.model else space.max_tokens
