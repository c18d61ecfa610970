"""What every embedding endpoint shares, whatever protocol it speaks: batches, rates, tries, threads, usage.

Neither keys nor texts are ever part of a message.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
import numpy as np
import tenacity

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Space, Usage
from knowledge_pipeline.embedding.remote.batching import split_batches
from knowledge_pipeline.endpoints.endpoint import (
    MAX_RETRY_AFTER_S,
    RETRY_IF_UNAVAILABLE,
    Endpoint,
    StopWaiting,
    compute_retry_wait_s,
    get_ssl_context,
)
from knowledge_pipeline.endpoints.responses import EndpointRefused, EndpointUnavailable
from knowledge_pipeline.endpoints.token_estimates import estimate_token_starts, truncate_to_tokens
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.strings import replace_surrogates

SECTION = "embedding"
"""The part of `knowledge.yaml` that all of these endpoints are configured in."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What an endpoint takes in one request."""

    max_texts: int
    max_tokens: int  # estimated


@dataclass(frozen=True, slots=True)
class Tasks:
    """What some endpoints want to be told that a text is for; None: nothing is told."""

    query: str | None = None
    document: str | None = None


@dataclass(frozen=True, slots=True)
class _RequestOptions:
    """What differs between documents and a question, which works without vectors and so waits less."""

    max_tries: int
    task: str | None = None
    max_retry_after_s: float = MAX_RETRY_AFTER_S
    max_queue_s: float = float("inf")  # for the rate limits
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, of which each try sends the same."""

    path: str
    body: dict[str, Any]
    texts: int
    tokens: int  # estimated


class RemoteEmbedder(ABC):
    """One model of one endpoint. Threads may share it; the limits hold for all of them together."""

    def __init__(
        self,
        settings: EmbeddingSettings,
        space: Space,
        endpoint: Endpoint,
        limits: RequestLimits,
        tasks: Tasks,
    ) -> None:
        """Nothing is sent.

        Args:
            settings: of the model.
            space: what the vectors belong to.
            endpoint: where requests go.
            limits: of a request.
            tasks: sent with texts.
        """
        self.space = space
        self.usage = Usage()
        self._settings, self._endpoint, self._limits, self._tasks = settings, endpoint, limits, tasks
        self._http_client: httpx2.Client | None = None
        self._lock = threading.Lock()

    @abstractmethod
    def _build_request(self, texts: list[str], task: str | None) -> tuple[str, dict[str, Any]]:
        """The path below the endpoint's URL, and the body."""

    @abstractmethod
    def _parse_response(self, payload: dict[str, Any], count: int) -> tuple[np.ndarray, int | None]:
        """The vectors of `count` texts, and the tokens that are billed; None where it names none.

        Raises:
            EndpointUnavailable, EndpointRefused: it is not that.
        """

    def _adapt_to(self, refusal: EndpointRefused, body: dict[str, Any]) -> bool:
        """Whether a request with the same texts is now built in another way, which the endpoint may take."""
        return False

    def _post(self, path: str, body: dict[str, Any]) -> httpx2.Response:
        return self._get_client().post(path, json=body)

    def tokenizer(self) -> Tokenize:
        """An estimate: an endpoint does not reveal its tokens."""
        return estimate_token_starts

    def check_model(self) -> list[str]:
        """Ask the endpoint for one vector; what the settings leave out or ask too much, as sentences.

        Raises:
            ModelError, EmbeddingUnavailable: it has no such model, or does not answer.
        """
        self.embed_query("is the model there")
        return []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`; a text longer than `max_input_tokens` is cut at a token."""
        settings, limits = self._settings, self._limits
        inputs = [_truncate(text, settings.max_input_tokens) for text in texts]
        sizes = [len(estimate_token_starts(text)) for text in inputs]
        max_tokens = min(limits.max_tokens, settings.tokens_per_minute or limits.max_tokens)
        batches = list(split_batches(sizes, max_texts=limits.max_texts, max_tokens=max_tokens))
        vectors = np.empty((len(texts), self.space.dimensions), np.float32)
        options = _RequestOptions(settings.max_tries, self._tasks.document)
        pool = ThreadPoolExecutor(max(1, min(settings.max_concurrent, len(batches))))
        try:
            parts = {
                pool.submit(self._request_vectors, inputs[batch.start : batch.stop], options): batch
                for batch in batches
            }
            for part in as_completed(parts):  # the first error, whichever batch it is of
                batch = parts[part]
                vectors[batch.start : batch.stop] = part.result()
        finally:  # after an error, no thread waits or sends any longer
            options.stop.set()
            pool.shutdown(cancel_futures=True)
        return vectors

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; gives up soon, because full-text search can answer alone."""
        return self.embed_queries([text])[0]

    @property
    def max_queries(self) -> int:
        """See `base.BatchEmbedder.max_queries`."""
        return self._limits.max_texts

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.BatchEmbedder.embed_queries`; gives up as soon as `embed_query`."""
        settings = self._settings
        options = _RequestOptions(
            min(2, settings.max_tries), self._tasks.query, max_retry_after_s=2.0, max_queue_s=2.0
        )
        return self._request_vectors([_truncate(text, settings.max_input_tokens) for text in texts], options)

    def _request_vectors(self, inputs: list[str], options: _RequestOptions) -> np.ndarray:
        """Vectors of one request's texts.

        An endpoint that counts more tokens than we estimate gets the texts one by one, the longest halved.
        """
        path, body = self._build_request(inputs, options.task)
        tokens = sum(len(estimate_token_starts(text)) for text in inputs)
        request = _Request(path, body, len(inputs), tokens)
        try:
            return self._request_with_retries(request, options)
        except EndpointRefused as refusal:
            if self._adapt_to(refusal, body):
                return self._request_vectors(inputs, options)
            if refusal.is_too_long and len(inputs) > 1:
                middle = len(inputs) // 2
                halves = (inputs[:middle], inputs[middle:])
                return np.vstack([self._request_vectors(half, options) for half in halves])
            shorter = _truncate(inputs[0], len(estimate_token_starts(inputs[0])) // 2)
            if refusal.is_too_long and len(shorter) > 1:
                return self._request_vectors([shorter], options)
            raise ModelError(f"{self._endpoint.name} {refusal}") from None

    def _request_with_retries(self, request: _Request, options: _RequestOptions) -> np.ndarray:
        tries = tenacity.Retrying(
            retry=RETRY_IF_UNAVAILABLE,
            stop=tenacity.stop_any(
                tenacity.stop_after_attempt(options.max_tries),
                tenacity.stop_when_event_set(options.stop),
                StopWaiting(options.max_retry_after_s),
            ),
            wait=compute_retry_wait_s,
            sleep=tenacity.sleep_using_event(options.stop),
            reraise=True,
        )
        try:
            return tries(self._send_request, request, options)
        except EndpointUnavailable as error:
            attempt = tries.statistics["attempt_number"]
            raise self._endpoint.build_error(error, attempt=attempt, max_tries=options.max_tries) from None

    def _send_request(self, request: _Request, options: _RequestOptions) -> np.ndarray:
        wait_s = self._endpoint.reserve(request.tokens, max_wait_s=options.max_queue_s)
        if wait_s and options.stop.wait(wait_s):
            raise EmbeddingUnavailable(
                f"no request was sent to {self._endpoint.name}, because another one had failed"
            )
        try:
            response = self._post(request.path, request.body)
        except httpx2.TransportError as error:
            raise EndpointUnavailable(f"did not answer ({type(error).__name__})") from None
        finally:
            self._add_usage(requests=1)
        payload = self._endpoint.parse(response, max_pause_s=options.max_retry_after_s)
        vectors, billed = self._parse_response(payload, request.texts)
        self._add_usage(texts=request.texts, tokens=billed or request.tokens)
        return vectors

    def _get_client(self) -> httpx2.Client:
        with self._lock:
            if self._http_client is None:
                client = httpx2.Client(
                    base_url=self._endpoint.url,
                    headers=self._endpoint.headers,
                    timeout=self._settings.timeout_s,
                    verify=get_ssl_context(),
                )
                weakref.finalize(self, client.close)
                self._http_client = client
            return self._http_client

    def _add_usage(self, *, texts: int = 0, tokens: int = 0, requests: int = 0) -> None:
        with self._lock:
            used = self.usage
            self.usage = replace(
                used,
                texts=used.texts + texts,
                tokens=used.tokens + tokens,
                requests=used.requests + requests,
                cost=used.cost + tokens * self._settings.price_per_million_tokens / 1e6,
            )


def require_dimensions(settings: EmbeddingSettings) -> int:
    """The length of the vectors, which an endpoint is not asked for; raises ConfigError without one."""
    if settings.dimensions is None:
        raise ConfigError(
            f"embedding.dimensions is missing for the model {settings.model!r}: "
            "set it to the length of the model's vectors"
        )
    return settings.dimensions


def _truncate(text: str, max_tokens: int) -> str:
    kept = truncate_to_tokens(replace_surrogates(text), max_tokens)
    return kept if kept.strip() else " "  # OpenAI refuses an empty text
