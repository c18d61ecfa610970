"""A small Vertex AI that embeds by `:predict`, and the token endpoint of its service account.

    with VertexServer() as server:
        settings = server.settings(model="text-embedding-005")

It has the documented limits of texts and tokens, Google's errors, and a quota. A token counts as a word.

API: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline_tests.fakes.google.service_account import build_key, check_grant
from knowledge_pipeline_tests.fakes.openai_server import word_vector
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
EMAIL = "embedder@the-project.iam.gserviceaccount.com"
MAX_REQUEST_TOKENS, MAX_TEXT_TOKENS = 20_000, 2048
TASKS = {
    *("RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "SEMANTIC_SIMILARITY", "CLASSIFICATION", "CLUSTERING"),
    *("QUESTION_ANSWERING", "FACT_VERIFICATION", "CODE_RETRIEVAL_QUERY"),
}
_PATH = re.compile(r"/v1/projects/([^/]+)/locations/([^/]+)/publishers/google/models/([^/:]+):predict")


@dataclass(frozen=True, slots=True)
class Model:
    """What a model takes and makes."""

    dimensions: int
    max_texts: int = 250
    is_normalized: bool = True  # whether shorter vectors have length 1, too


MODELS = {
    "text-embedding-005": Model(768),
    "text-multilingual-embedding-002": Model(768),
    "gemini-embedding-001": Model(3072, max_texts=1, is_normalized=False),
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request of `predict` as it arrived, and the status it was answered with."""

    path: str
    texts: tuple[str, ...]
    tasks: tuple[str | None, ...]
    parameters: dict[str, Any]
    status: int


@dataclass(frozen=True, slots=True)
class Fault:
    """How one request goes wrong. Faults are used up in order, one a request."""

    status: int = 429
    reason: str = "RESOURCE_EXHAUSTED"
    retry_delay: str | None = None  # as "1.5s", in a detail of the error
    at_token: bool = False  # of the token endpoint's next request
    body: bytes | None = None  # this body, whatever it is


class VertexServer(Served):
    """A context manager; one project in one location, and one service account."""

    def __init__(self, *, project: str = "the-project", location: str = "europe-west1") -> None:
        super().__init__()
        self.project, self.location = project, location
        self.lifetime_s = 3600  # of a token
        self.known = True  # whether the account's key is valid
        self.requests: list[Request] = []
        self.token_requests = 0
        self.valid_tokens: set[str] = set()
        self.faults: deque[Fault] = deque()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.address}/v1"

    @property
    def key(self) -> dict[str, Any]:
        """The content of the account's key file."""
        return build_key(f"{self.address}/token", email=EMAIL)

    @property
    def texts(self) -> list[str]:
        """Every text that was embedded."""
        return [text for request in self.requests if request.status == 200 for text in request.texts]

    def settings(self, **changes: Any) -> EmbeddingSettings:
        """Those of a client with the account's key."""
        given = {"provider": "vertex", "model": "text-embedding-005", "base_url": self.url}
        given |= {"project": self.project, "location": self.location}
        if "api_key" not in changes:
            given["service_account"] = json.dumps(self.key)
        return EmbeddingSettings.model_validate({**given, **changes})

    def fail_next(self, *faults: Fault) -> None:
        self.faults.extend(faults)

    def send(self, asked: Asked) -> Sent:
        with self._lock:
            if asked.path == "/token" and asked.verb == "POST":
                return self._token(asked)
            return self._predict(asked)

    def _token(self, asked: Asked) -> Sent:
        self.token_requests += 1
        if self.faults and self.faults[0].at_token:
            fault = self.faults.popleft()
            return Sent(fault.status, fault.body or b'{"error": "internal_failure"}')
        form = parse_qs(asked.content.decode())
        refused = check_grant(form, email=EMAIL, scope=SCOPE)
        if refused or not self.known:
            return _json(400, {"error": refused or "invalid_grant", "error_description": "Invalid JWT"})
        token = "-".join(("vertex", "token", "canary", str(self.token_requests)))
        self.valid_tokens.add(token)
        return _json(200, {"access_token": token, "expires_in": self.lifetime_s, "token_type": "Bearer"})

    def _predict(self, asked: Asked) -> Sent:
        body = json.loads(asked.content or b"{}")
        sent = self._fault() or self._refusal(asked, body) or _json(200, _predictions(asked.path, body))
        instances = body.get("instances", ())
        texts = tuple(instance.get("content", "") for instance in instances)
        tasks = tuple(instance.get("task_type") for instance in instances)
        self.requests.append(Request(asked.path, texts, tasks, body.get("parameters", {}), sent.status))
        return sent

    def _fault(self) -> Sent | None:
        if not self.faults or self.faults[0].at_token:
            return None
        fault = self.faults.popleft()
        if fault.body is not None:
            return Sent(fault.status, fault.body)
        details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fault.retry_delay}]
        message = "Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model"
        return _error(fault.status, fault.reason, message, details if fault.retry_delay else [])

    def _refusal(self, asked: Asked, body: dict[str, Any]) -> Sent | None:
        place = _PATH.fullmatch(asked.path)
        if asked.verb != "POST" or place is None:
            return Sent(404, b"<html>The requested URL was not found on this server.</html>")
        if asked.authorization.removeprefix("Bearer ") not in self.valid_tokens:
            return _error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
        if place[1] != self.project:
            return _error(403, "PERMISSION_DENIED", f"Permission denied on resource project {place[1]}.")
        if place[2] != self.location or place[3] not in MODELS:
            return _error(404, "NOT_FOUND", f"Publisher Model `{asked.path}` is not found.")
        return _find_invalid_argument(MODELS[place[3]], body)


def _find_invalid_argument(model: Model, body: dict[str, Any]) -> Sent | None:
    instances, parameters = body.get("instances", ()), body.get("parameters", {})
    if not instances or any(not instance.get("content") for instance in instances):
        return _error(400, "INVALID_ARGUMENT", "The text content is empty.")
    if any(instance.get("task_type", "RETRIEVAL_QUERY") not in TASKS for instance in instances):
        return _error(
            400, "INVALID_ARGUMENT", "Unable to submit request because it has an invalid task_type."
        )
    if len(instances) > model.max_texts:
        found = f"a batchSize value of {len(instances)} but the supported range is from 1 (inclusive)"
        message = f"Unable to submit request because it has {found} to {model.max_texts + 1} (exclusive)."
        return _error(400, "INVALID_ARGUMENT", message)
    sizes = [len(instance["content"].split()) for instance in instances]
    if sum(sizes) > MAX_REQUEST_TOKENS:
        found = f"the input token count is {sum(sizes)} but the model supports up to {MAX_REQUEST_TOKENS}"
        return _error(400, "INVALID_ARGUMENT", f"Unable to submit request because {found}.")
    if max(sizes) > MAX_TEXT_TOKENS and parameters.get("autoTruncate") is False:
        return _error(400, "INVALID_ARGUMENT", "The input token count of a text is too long.")
    if not 1 <= parameters.get("outputDimensionality", 1) <= model.dimensions:
        return _error(400, "INVALID_ARGUMENT", "Unable to submit request because of output_dimensionality.")
    return None


def _predictions(path: str, body: dict[str, Any]) -> dict[str, Any]:
    model = MODELS[_PATH.fullmatch(path)[3]]
    dimensions = body.get("parameters", {}).get("outputDimensionality", model.dimensions)
    length = 1.0 if model.is_normalized or dimensions == model.dimensions else 0.7
    predictions = []
    for instance in body["instances"]:
        words = instance["content"].split()
        vector = word_vector(" ".join(words[:MAX_TEXT_TOKENS]), dimensions)
        counted = {"token_count": min(len(words), MAX_TEXT_TOKENS), "truncated": len(words) > MAX_TEXT_TOKENS}
        values = [value * length for value in vector]
        predictions.append({"embeddings": {"values": values, "statistics": counted}})
    return {"predictions": predictions, "metadata": {"billableCharacterCount": 1}}


def _json(status: int, value: Any) -> Sent:
    return Sent(status, json.dumps(value).encode())


def _error(status: int, reason: str, message: str, details: list[Any] | None = None) -> Sent:
    error: dict[str, Any] = {"code": status, "message": message, "status": reason}
    return _json(status, {"error": error | ({"details": details} if details else {})})
