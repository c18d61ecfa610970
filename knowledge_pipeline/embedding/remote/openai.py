"""Vectors from any endpoint that speaks OpenAI's `/embeddings`: OpenAI, vLLM, OpenRouter, xAI and others.

API: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

from typing import Any

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
from knowledge_pipeline.embedding.remote.response_vectors import parse_billed_tokens, parse_vectors
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.endpoints.endpoint import Endpoint, parse_base_url
from knowledge_pipeline.endpoints.responses import ConfigSection, EndpointRefused
from knowledge_pipeline.errors import EmbeddingUnavailable

_BATCH_SIZE = 128
_REQUEST_TOKENS = 100_000  # estimated; OpenAI takes 300,000


def build_openai_space(settings: EmbeddingSettings) -> Space:
    """The space of an endpoint's model; no request is sent.

    Raises:
        ConfigError: `dimensions` is missing, or `base_url` is not a URL.
    """
    url = parse_base_url(settings.base_url, section=SECTION).copy_with(userinfo=b"")
    model, dimensions, max_tokens = settings.model, require_dimensions(settings), settings.max_input_tokens
    identity = [str(url), model, dimensions, max_tokens]
    if settings.document_task is not None:
        identity += [settings.task_field, settings.document_task]
    return Space(space_name(model, *identity), model, dimensions, max_tokens)


class OpenAIEmbedder(RemoteEmbedder):
    """One model of one endpoint."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        space = build_openai_space(settings)
        section = ConfigSection(SECTION, settings.model, "dimensions and max_input_tokens")
        endpoint = Endpoint(settings, section, "the embedding endpoint", EmbeddingUnavailable)
        limits = RequestLimits(settings.batch_size or _BATCH_SIZE, _REQUEST_TOKENS)
        super().__init__(
            settings, space, endpoint, limits, Tasks(settings.query_task, settings.document_task)
        )
        self._sends_dimensions = True

    def _build_request(self, texts: list[str], task: str | None) -> tuple[str, dict[str, Any]]:
        body: dict[str, Any] = {"model": self._settings.model, "input": texts, "encoding_format": "float"}
        if task is not None:
            body[self._settings.task_field] = task
        if self._sends_dimensions:
            body["dimensions"] = self.space.dimensions
        return "embeddings", body

    def _parse_response(self, payload: dict[str, Any], count: int) -> tuple[np.ndarray, int | None]:
        return parse_vectors(payload, count, self.space.dimensions), parse_billed_tokens(payload)

    def _adapt_to(self, refusal: EndpointRefused, body: dict[str, Any]) -> bool:
        """Leave out the dimensions where a model has one length only, which is checked."""
        if "dimensions" not in body or not refusal.is_about_parameter("dimension"):
            return False
        self._sends_dimensions = False
        return True
