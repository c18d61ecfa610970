"""Opens the provider that the settings name, with the prompts that its model wants before texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.base import Embedder, PromptedEmbedder, Prompts, Space, space_name
from knowledge_pipeline.embedding.encoders import PACKAGED_MODELS, PackagedEmbedder, read_packaged_space
from knowledge_pipeline.embedding.ensemble import (
    OUTLINE_SUFFIX,
    OUTLINE_TOKENS,
    EnsembleEmbedder,
    OutlineEmbedder,
    build_ensemble_space,
    build_outline_space,
    is_ensemble,
    is_outline,
    remove_outline_suffix,
    split_member_settings,
)
from knowledge_pipeline.text import estimate_token_starts

if TYPE_CHECKING:
    from knowledge_pipeline.embedding.endpoints import RemoteEmbedder


_PASSAGES = "Represent this sentence for searching relevant passages: "
_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

KNOWN_PROMPTS: tuple[tuple[str, Prompts], ...] = (
    (r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?", Prompts("query: ", "passage: ")),
    (r"multilingual-e5-large-instruct|e5-mistral-7b-instruct", Prompts(f"{_WEB_SEARCH} ")),
    (
        r"nomic-embed-text(-v1|-v1\.5|-v2-moe|-v1-unsupervised)?",
        Prompts("search_query: ", "search_document: "),
    ),
    (r"nomic-embed-code|coderankembed", Prompts("Represent this query for searching relevant code: ")),
    (r"qwen3-embedding(-(0\.6|4|8)b)?", Prompts(_WEB_SEARCH)),
    (r"gte-qwen2-(1\.5|7)b-instruct", Prompts(f"{_WEB_SEARCH} ")),
    (
        r"embeddinggemma(-300m)?|gemini-embedding-2(-preview)?",
        Prompts("task: search result | query: ", "title: none | text: "),
    ),
    (r"snowflake-arctic-embed-[ml]-v2\.0|snowflake-arctic-embed2", Prompts("query: ")),
    (r"snowflake-arctic-embed(-(xs|s|m|l|m-long|m-v1\.5))?", Prompts(_PASSAGES)),
    (r"bge-(small|base|large)-en(-v1\.5)?|mxbai-embed-(large|xsmall)(-v1)?", Prompts(_PASSAGES)),
    (r"bge-(small|base|large)-zh(-v1\.5)?", Prompts("为这个句子生成表示以用于检索相关文章：")),
)
"""By the last part of a model's name, in lower case; where each is from: docs/decisions/embedding.md."""


@lru_cache(maxsize=64)
def find_known_prompts(model: str) -> Prompts:
    """What the authors of a model put before texts; nothing for a model that is not known.

    Args:
        model: a name, a hub name ("owner/name"), a folder, or as Ollama writes it ("name:0.6b").
    """
    name = re.split(r"[/\\]", model.rstrip("/\\"))[-1].partition(":")[0].lower()
    return next((prompts for pattern, prompts in KNOWN_PROMPTS if re.fullmatch(pattern, name)), Prompts())


def resolve_prompts(settings: EmbeddingSettings) -> Prompts:
    """What to put before texts; nothing where the model's folder has prompts, and the settings have none."""
    prompts = Prompts() if _has_own_prompts(settings) else find_known_prompts(settings.model)
    chosen = {"query": settings.query_prompt, "document": settings.document_prompt}
    return replace(prompts, **{name: prompt for name, prompt in chosen.items() if prompt is not None})


def list_former_settings(settings: EmbeddingSettings) -> list[EmbeddingSettings]:
    """What may have made vectors before the model's prompt was known, or before it was switched off."""
    if not settings.document_prompt and not find_known_prompts(settings.model).document:
        return []
    unset, bare = {"query_prompt": None, "document_prompt": None}, {"query_prompt": "", "document_prompt": ""}
    return [settings.model_copy(update=update) for update in (unset, bare)]


def describe_missing_prompts(settings: EmbeddingSettings) -> str | None:
    """A sentence where the settings leave out what a known model was trained with; None if they do not."""
    defaults = find_known_prompts(settings.model)
    missing = [
        f"embedding.{name}_prompt {value!r}"
        for name, value, default in (
            ("query", defaults.query, settings.query_prompt),
            ("document", defaults.document, settings.document_prompt),
        )
        if value and default is not None and not default.strip()
    ]
    if not missing:
        return None
    return (
        f"the model {settings.model!r} was trained with {' and '.join(missing)}, which the settings "
        "switch off: remove the empty keys, unless the endpoint adds prompts by itself"
    )


def build_prompted_space(inner: Space, prompts: Prompts, *, replaces_own: bool) -> Space:
    """The space of documents that a prompt stands before; the question's changes no vector that is stored.

    The prompt may stand in the place of one in the model's folder.
    """
    if not prompts.document and not replaces_own:
        return inner
    name = space_name(inner.model, inner.name, "document_prompt", prompts.document)
    read_before = len(estimate_token_starts(prompts.document))
    return replace(inner, name=name, max_tokens=max(16, inner.max_tokens - read_before))


def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """The embedder that the settings name; it loads weights, or connects, at the first text.

    Raises:
        ModelError: there is no such model on this machine.
        ConfigError: the settings of an endpoint are incomplete, or those of several models are invalid.
    """
    if settings.ray is not None:
        from knowledge_pipeline.embedding.ray import RayEmbedder

        alone = settings.model_copy(update={"ray": None})
        return RayEmbedder(alone, settings.ray, open_embedder(alone), open_embedder)
    if is_ensemble(settings):
        members = split_member_settings(settings)
        return EnsembleEmbedder(settings.model, list(map(open_embedder, members)))
    if is_outline(settings):
        return OutlineEmbedder(open_embedder(remove_outline_suffix(settings)))
    _, open_model = _load_provider(settings)
    embedder = open_model(settings)
    prompts, space = resolve_prompts(settings), _add_prompts_to_space(embedder.space, settings)
    is_bare = prompts == Prompts() and space == embedder.space
    return embedder if is_bare else PromptedEmbedder(embedder, prompts, space)


def resolve_space(settings: EmbeddingSettings) -> Space:
    """The space that the settings name, without torch and without a connection; a few milliseconds.

    Only a hub model that was never used on this machine is downloaded first.
    Errors as `open_embedder`.
    """
    if is_ensemble(settings):
        members = split_member_settings(settings)
        return build_ensemble_space(settings.model, list(map(resolve_space, members)))
    if is_outline(settings):
        return build_outline_space(resolve_space(remove_outline_suffix(settings)))
    read_space, _ = _load_provider(settings)
    return _add_prompts_to_space(read_space(settings), settings)


def check_endpoint(settings: EmbeddingSettings) -> list[str]:
    """Ask an endpoint for its model and one vector; what the settings may be corrected in, as sentences.

    Raises:
        ModelError: it has no such model, or refuses access.
        EmbeddingUnavailable: it does not answer.
        ConfigError: the settings are incomplete.
    """
    _, open_model = _load_provider(settings)
    return cast("RemoteEmbedder", open_model(settings)).check_model()


def _load_provider(
    settings: EmbeddingSettings,
) -> tuple[Callable[[EmbeddingSettings], Space], Callable[[EmbeddingSettings], Embedder]]:
    """What reads the space of one model, and what opens it."""
    if settings.provider == "vertex":
        from knowledge_pipeline.embedding.vertex import VertexEmbedder, build_vertex_space

        return build_vertex_space, VertexEmbedder
    if settings.provider != "local":
        from knowledge_pipeline.embedding import endpoints

        if settings.provider == "ollama":
            return endpoints.build_ollama_space, endpoints.OllamaEmbedder
        return endpoints.build_openai_space, endpoints.OpenAIEmbedder
    if settings.model in PACKAGED_MODELS:
        return read_packaged_space, PackagedEmbedder
    from knowledge_pipeline.embedding.local import LocalEmbedder, read_local_space

    return read_local_space, LocalEmbedder


def _add_prompts_to_space(space: Space, settings: EmbeddingSettings) -> Space:
    replaces_own = settings.document_prompt is not None and _has_own_prompts(settings)
    return build_prompted_space(space, resolve_prompts(settings), replaces_own=replaces_own)


def _has_own_prompts(settings: EmbeddingSettings) -> bool:
    """Whether prompts in the folder of a local model count; looked at only where others would come first."""
    is_set = settings.query_prompt is not None or settings.document_prompt is not None
    is_needed = is_set or find_known_prompts(settings.model) != Prompts()
    if not is_needed or settings.provider != "local" or settings.model in PACKAGED_MODELS:
        return False
    from knowledge_pipeline.embedding.model_folders import find_model_folder, has_prompts

    return has_prompts(find_model_folder(settings.model))


def count_read_tokens(settings: EmbeddingSettings, space: Space) -> int:
    """Tokens of a text that take time: of a longer one, a model reads the beginning or an outline."""
    return OUTLINE_TOKENS if OUTLINE_SUFFIX in settings.model else space.max_tokens
