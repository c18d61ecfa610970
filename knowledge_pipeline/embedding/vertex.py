"""Vectors from Vertex AI, by the `predict` method of Google's text embedding models.

API: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api
Limits: https://cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2
import numpy as np

from knowledge_pipeline.config.embedding import DOCUMENT_TASK, QUERY_TASK, EmbeddingSettings
from knowledge_pipeline.embedding.base import Space, space_name
from knowledge_pipeline.embedding.endpoints import (
    SECTION,
    RemoteEmbedder,
    RequestLimits,
    Tasks,
    parse_predictions,
    require_dimensions,
)
from knowledge_pipeline.endpoints import ConfigSection, Endpoint
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable
from knowledge_pipeline.extras import describe_missing

if TYPE_CHECKING:
    from knowledge_pipeline.embedding.google_identity import GoogleIdentity


_log = logging.getLogger(__name__)

_REQUEST_TOKENS = 15_000  # estimated, without the white space; Google counts at most 20,000
_MAX_TEXTS = 250
_LOCATION = re.compile(r"[a-z]{2,20}(-[a-z]{1,20}\d{1,3})?")


_DIMENSIONS = {
    **dict.fromkeys(("text-embedding-005", "text-embedding-004", "text-multilingual-embedding-002"), 768),
    "gemini-embedding-001": 3072,
}
_ONE_TEXT_MODEL = "gemini-embedding-001"  # of which a request has no more


def build_vertex_space(settings: EmbeddingSettings) -> Space:
    """The space of a model of Google, which is the same in all projects and locations; no request is sent.

    Raises `ConfigError`: the model is missing, or of another protocol; or nothing tells its `dimensions`.
    """
    model = settings.model
    if not model:
        raise ConfigError("embedding.model is missing: set it to text-embedding-005 or another of Vertex AI")
    if model.startswith("gemini-embedding-2"):
        raise ConfigError(
            f"embedding.model is {model!r}, which Vertex AI does not answer by its method predict: "
            "set it to gemini-embedding-001 or text-embedding-005"
        )
    own = _DIMENSIONS.get(model)
    dimensions = own if own and not settings.dimensions else require_dimensions(settings)
    if own and dimensions > own:
        raise ConfigError(
            f"embedding.dimensions is {dimensions}, and the vectors of {model} have {own}: "
            "set it to fewer, or leave it out"
        )
    identity = ["vertex", model, dimensions, settings.max_input_tokens, _choose_tasks(settings).document]
    return Space(space_name(model, *identity), model, dimensions, settings.max_input_tokens)


class VertexEmbedder(RemoteEmbedder):
    """One model of Google, in one project and location."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        """Raises ConfigError where the project, the location or the identity cannot be."""
        space = build_vertex_space(settings)
        if not settings.project:
            raise ConfigError("embedding.project is missing: set it to the ID of a Google Cloud project")
        if not _LOCATION.fullmatch(settings.location):
            raise ConfigError("embedding.location is not a region: write it like europe-west1, or `global`")
        keys = "location, dimensions and batch_size"
        section = ConfigSection(SECTION, settings.model, keys, _list_fixes(settings))
        endpoint = Endpoint(settings, section, "Vertex AI at", EmbeddingUnavailable)
        batch_size = settings.batch_size or (1 if settings.model == _ONE_TEXT_MODEL else _MAX_TEXTS)
        limits = RequestLimits(min(batch_size, _MAX_TEXTS), _REQUEST_TOKENS)
        super().__init__(settings, space, endpoint, limits, _choose_tasks(settings))
        self._identity = None if settings.api_key else _open_identity(settings, endpoint.url.host)
        self._path = (
            f"projects/{quote(settings.project, safe='')}/locations/{settings.location}"
            f"/publishers/google/models/{quote(settings.model, safe='')}:predict"
        )
        self._has_truncated = False

    def _build_request(self, texts: list[str], task: str | None) -> tuple[str, dict[str, Any]]:
        return self._path, {
            "instances": [{"content": text, "task_type": task} for text in texts],
            "parameters": {"autoTruncate": True, "outputDimensionality": self.space.dimensions},
        }

    def _post(self, path: str, body: dict[str, Any]) -> httpx2.Response:
        if self._identity is None:
            return super()._post(path, body)
        token = self._identity.get_token()
        response = self._post_with_token(path, body, token)
        if response.status_code != 401:
            return response
        return self._post_with_token(path, body, self._identity.renew_token(token))  # it was withdrawn

    def _post_with_token(self, path: str, body: dict[str, Any], token: str) -> httpx2.Response:
        return self._get_client().post(path, json=body, headers={"Authorization": f"Bearer {token}"})

    def _parse_response(self, payload: dict[str, Any], count: int) -> tuple[np.ndarray, int | None]:
        vectors, tokens, truncated = parse_predictions(payload, count, self.space.dimensions)
        if truncated and not self._has_truncated:
            self._has_truncated = True
            remedy = "lower embedding.max_input_tokens to cut them into smaller chunks"
            _log.warning("%s reads only the beginning of some texts: %s", self._endpoint.name, remedy)
        return vectors, tokens or None


def _choose_tasks(settings: EmbeddingSettings) -> Tasks:
    return Tasks(settings.query_task or QUERY_TASK, settings.document_task or DOCUMENT_TASK)


def _open_identity(settings: EmbeddingSettings, host: str) -> GoogleIdentity:
    """Who asks; the identity of this machine, which nobody had to name, is shown to Google alone."""
    if settings.service_account is None and not host.endswith(".googleapis.com"):
        raise ConfigError(
            "embedding.base_url is not an address of Google: set embedding.service_account or "
            "embedding.api_key, since the identity of this machine is not sent elsewhere"
        )
    try:
        from knowledge_pipeline.embedding.google_identity import GoogleIdentity
    except ModuleNotFoundError:
        raise ConfigError(describe_missing("embedding with Vertex AI", "vertex")) from None
    return GoogleIdentity(settings.service_account, timeout_s=settings.timeout_s)


def _list_fixes(settings: EmbeddingSettings) -> dict[int, str]:
    project, location = settings.project, f"the location {settings.location!r}"
    key = "embedding.api_key to an access token that has not expired"
    if not settings.api_key:
        key = "embedding.service_account to a key that is not deleted"
    return {
        401: f"set {key}",
        403: (
            f"give the identity the role Vertex AI User in the project {project!r}, and enable the Vertex AI "
            "API (aiplatform.googleapis.com) there, or correct embedding.project"
        ),
        404: (
            f"check embedding.base_url, and that {location} has the model {settings.model!r}; "
            "set another embedding.location or embedding.model"
        ),
    }
