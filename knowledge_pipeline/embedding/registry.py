"""Opens the provider that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from knowledge_pipeline.embedding.prompts import (
    PromptedEmbedder,
    Prompts,
    build_prompted_space,
    find_known_prompts,
    resolve_prompts,
)

if TYPE_CHECKING:
    from knowledge_pipeline.embedding.remote.embedder import RemoteEmbedder


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
    if settings.provider != "local":
        return _add_prompts(_open_remote(settings), settings)
    if is_ensemble(settings):
        return EnsembleEmbedder(
            settings.model, [open_embedder(each) for each in split_member_settings(settings)]
        )
    if is_outline(settings):
        return OutlineEmbedder(open_embedder(remove_outline_suffix(settings)))
    if settings.model in PACKAGED_MODELS:
        return _add_prompts(PackagedEmbedder(settings), settings)
    from knowledge_pipeline.embedding.local import LocalEmbedder

    return _add_prompts(LocalEmbedder(settings), settings)


def resolve_space(settings: EmbeddingSettings) -> Space:
    """The space that the settings name, without torch and without a connection; a few milliseconds.

    Only a hub model that was never used on this machine is downloaded first.
    Errors as `open_embedder`.
    """
    if settings.provider != "local":
        return _add_prompts_to_space(_build_remote_space(settings), settings)
    if is_ensemble(settings):
        return build_ensemble_space(
            settings.model, [resolve_space(each) for each in split_member_settings(settings)]
        )
    if is_outline(settings):
        return build_outline_space(resolve_space(remove_outline_suffix(settings)))
    if settings.model in PACKAGED_MODELS:
        return _add_prompts_to_space(read_packaged_space(settings), settings)
    from knowledge_pipeline.embedding.local import read_local_space

    return _add_prompts_to_space(read_local_space(settings), settings)


def check_endpoint(settings: EmbeddingSettings) -> list[str]:
    """Ask an endpoint for its model and one vector; what the settings may be corrected in, as sentences.

    Raises:
        ModelError: it has no such model, or refuses access.
        EmbeddingUnavailable: it does not answer.
        ConfigError: the settings are incomplete.
    """
    return _open_remote(settings).check_model()


def _open_remote(settings: EmbeddingSettings) -> RemoteEmbedder:
    if settings.provider == "vertex":
        from knowledge_pipeline.embedding.remote.vertex import VertexEmbedder

        return VertexEmbedder(settings)
    if settings.provider == "ollama":
        from knowledge_pipeline.embedding.remote.ollama import OllamaEmbedder

        return OllamaEmbedder(settings)
    from knowledge_pipeline.embedding.remote.openai import OpenAIEmbedder

    return OpenAIEmbedder(settings)


def _build_remote_space(settings: EmbeddingSettings) -> Space:
    if settings.provider == "vertex":
        from knowledge_pipeline.embedding.remote.vertex import build_vertex_space

        return build_vertex_space(settings)
    if settings.provider == "ollama":
        from knowledge_pipeline.embedding.remote.ollama import build_ollama_space

        return build_ollama_space(settings)
    from knowledge_pipeline.embedding.remote.openai import build_openai_space

    return build_openai_space(settings)


def _add_prompts(embedder: Embedder, settings: EmbeddingSettings) -> Embedder:
    """The embedder of one model, with what its texts get before them."""
    prompts, space = _resolve_prompts(settings), _add_prompts_to_space(embedder.space, settings)
    is_bare = prompts == Prompts() and space == embedder.space
    return embedder if is_bare else PromptedEmbedder(embedder, prompts, space)


def _add_prompts_to_space(space: Space, settings: EmbeddingSettings) -> Space:
    replaces_own = settings.document_prompt is not None and _has_own_prompts(settings)
    return build_prompted_space(space, _resolve_prompts(settings), replaces_own=replaces_own)


def _resolve_prompts(settings: EmbeddingSettings) -> Prompts:
    return resolve_prompts(settings, has_own=_has_own_prompts(settings))


def _has_own_prompts(settings: EmbeddingSettings) -> bool:
    """Whether prompts in the folder of a local model count; looked at only where others would come first."""
    is_set = settings.query_prompt is not None or settings.document_prompt is not None
    is_needed = is_set or find_known_prompts(settings.model) != Prompts()
    if not is_needed or settings.provider != "local" or settings.model in PACKAGED_MODELS:
        return False
    from knowledge_pipeline.embedding.model_config import has_prompts
    from knowledge_pipeline.embedding.model_folders import find_model_folder

    return has_prompts(find_model_folder(settings.model))


def count_read_tokens(settings: EmbeddingSettings, space: Space) -> int:
    """Tokens of a text that take time: of a longer one, a model reads the beginning or an outline."""
    return OUTLINE_TOKENS if OUTLINE_SUFFIX in settings.model else space.max_tokens
