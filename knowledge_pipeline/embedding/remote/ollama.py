"""Vectors from Ollama by its own API, which also says what a model reads, and keeps it in memory.

API: https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from __future__ import annotations

from typing import Any

import httpx2
import numpy as np

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Space
from knowledge_pipeline.embedding.remote.embedder import (
    SECTION,
    RemoteEmbedder,
    RequestLimits,
    Tasks,
    require_dimensions,
)
from knowledge_pipeline.embedding.remote.response_vectors import parse_embeddings
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.endpoints.endpoint import Endpoint, parse_base_url
from knowledge_pipeline.endpoints.responses import ConfigSection, EndpointRefused, EndpointUnavailable
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError
from knowledge_pipeline.json_values import is_list, is_object

_BATCH_SIZE = 64
_REQUEST_TOKENS = 50_000  # estimated; Ollama has no limit, but answers a request as a whole


def build_ollama_space(settings: EmbeddingSettings) -> Space:
    """The space of a model of Ollama; no request is sent.

    It is that of the same model by Ollama's OpenAI-compatible API (`/v1`), whose vectors are the same.

    Raises:
        ConfigError: the model or `dimensions` are missing, or `base_url` is not that of Ollama's own API.
    """
    url = parse_base_url(settings.base_url, section=SECTION).copy_with(userinfo=b"")
    if url.path.rstrip("/").endswith(("/v1", "/api")):
        raise ConfigError(
            "embedding.base_url ends in a path of one API: write it like http://localhost:11434, or set "
            "embedding.provider to openai"
        )
    if not settings.model:
        raise ConfigError("embedding.model is missing: set it to a model that `ollama list` shows")
    model, dimensions, max_tokens = settings.model, require_dimensions(settings), settings.max_input_tokens
    identity: list[Any] = [f"{str(url).rstrip('/')}/v1", model, dimensions, max_tokens]
    if settings.options and settings.options.num_ctx:
        identity += ["num_ctx", settings.options.num_ctx]
    return Space(space_name(model, *identity), model, dimensions, max_tokens)


class OllamaEmbedder(RemoteEmbedder):
    """One model of one Ollama."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        space = build_ollama_space(settings)
        pull = f"run `ollama pull {settings.model}` there, or correct embedding.model or embedding.base_url"
        fixes = {404: f"it has no model {settings.model!r}: {pull}"}
        section = ConfigSection(SECTION, settings.model, "dimensions and options", fixes)
        endpoint = Endpoint(settings, section, "Ollama at", EmbeddingUnavailable)
        limits = RequestLimits(settings.batch_size or _BATCH_SIZE, _REQUEST_TOKENS)
        super().__init__(settings, space, endpoint, limits, Tasks())
        self._fields = _list_fields(settings)

    def check_model(self) -> list[str]:
        """See `RemoteEmbedder.check_model`; Ollama also says how much of a text the model reads."""
        try:
            response = self._get_client().post("api/show", json={"model": self._settings.model})
            shown = self._endpoint.parse(response)
        except EndpointRefused as refusal:
            raise ModelError(f"{self._endpoint.name} {refusal}") from None
        except EndpointUnavailable as error:
            raise self._endpoint.build_error(error, attempt=1, max_tries=1) from None
        except httpx2.TransportError as error:
            problem = EndpointUnavailable(f"did not answer ({type(error).__name__})")
            raise self._endpoint.build_error(problem, attempt=1, max_tries=1) from None
        capabilities: Any = shown.get("capabilities")
        if is_list(capabilities) and "embedding" not in capabilities:
            raise ModelError(
                f"the model {self._settings.model!r} of {self._endpoint.name} makes no embeddings: "
                "set embedding.model to one that does, such as nomic-embed-text"
            )
        super().check_model()
        return self._compare_lengths(shown.get("model_info"))

    def _compare_lengths(self, model: Any) -> list[str]:
        """What the model reads of a text, where the settings promise more."""
        options = self._settings.options
        lengths = (
            [value for key, value in model.items() if key.endswith(".context_length")]
            if is_object(model)
            else []
        )
        context = next((value for value in lengths if isinstance(value, int)), None)
        if options and options.num_ctx:
            context = min(context or options.num_ctx, options.num_ctx)
        if context is None or context >= self._settings.max_input_tokens:
            return []
        return [
            f"the model {self._settings.model!r} reads {context} tokens of a text, and "
            f"embedding.max_input_tokens is {self._settings.max_input_tokens}: set it to {context}, so that "
            "chunks are cut to fit"
        ]

    def _build_request(self, texts: list[str], task: str | None) -> tuple[str, dict[str, Any]]:
        return "api/embed", {**self._fields, "input": texts}

    def _parse_response(self, payload: dict[str, Any], count: int) -> tuple[np.ndarray, int | None]:
        tokens = payload.get("prompt_eval_count")
        vectors = parse_embeddings(payload, count, self.space.dimensions)
        return vectors, tokens if isinstance(tokens, int) and tokens > 0 else None


def _list_fields(settings: EmbeddingSettings) -> dict[str, Any]:
    """What each request says beside its texts."""
    fields: dict[str, Any] = {
        "model": settings.model,
        "truncate": True,
        "dimensions": settings.dimensions,
    }
    if settings.keep_alive is not None:  # a number is seconds, and below zero for ever
        is_number = settings.keep_alive.lstrip("-").isdigit()
        fields["keep_alive"] = int(settings.keep_alive) if is_number else settings.keep_alive
    if settings.options is not None:
        fields["options"] = settings.options.model_dump(exclude_none=True)
    return fields
