"""From settings to the provider that they name."""

from __future__ import annotations

from knowledge_pipeline.config.settings import Embedding
from knowledge_pipeline.embedding.base import Embedder, Space
from knowledge_pipeline.embedding.ensemble import Ensemble, ensemble_space, is_ensemble, members
from knowledge_pipeline.embedding.packaged_onnx import EXPORTED, ExportedEmbedder, exported_space


def open_embedder(settings: Embedding) -> Embedder:
    """The embedder that the settings name; it loads weights, or connects, at the first text.

    Raises:
        ModelMissing: there is no such model on this machine.
        ConfigError: the settings of an endpoint are incomplete, or those of several models make no sense.
    """
    if settings.ray is not None:
        from knowledge_pipeline.embedding.ray_embedder import SpreadEmbedder

        alone = settings.model_copy(update={"ray": None})
        return SpreadEmbedder(alone, settings.ray, open_embedder(alone), open_embedder)
    if settings.provider == "openai":
        from knowledge_pipeline.embedding.openai import OpenAIEmbedder

        return OpenAIEmbedder(settings)
    if is_ensemble(settings):
        return Ensemble(settings.model, [open_embedder(each) for each in members(settings)])
    if settings.model in EXPORTED:
        return ExportedEmbedder(settings)
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
    if is_ensemble(settings):
        return ensemble_space(settings.model, [space_of(each) for each in members(settings)])
    if settings.model in EXPORTED:
        return exported_space(settings)
    from knowledge_pipeline.embedding.local import local_space

    return local_space(settings)
