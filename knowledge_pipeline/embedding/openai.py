"""Vectors from any endpoint that speaks OpenAI's `/embeddings`: OpenAI, Ollama, vLLM, OpenRouter, xAI.

Neither keys nor texts are ever part of a message.
API: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx2
import numpy as np
import tenacity

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Space, Usage
from knowledge_pipeline.embedding.batching import split_batches
from knowledge_pipeline.embedding.openai_responses import parse_billed_tokens, parse_vectors
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.endpoints.endpoint import (
    MAX_RETRY_AFTER_S,
    RETRY_IF_UNAVAILABLE,
    Endpoint,
    StopWaiting,
    compute_retry_wait_s,
    get_ssl_context,
    parse_base_url,
)
from knowledge_pipeline.endpoints.responses import ConfigSection, EndpointRefused, EndpointUnavailable
from knowledge_pipeline.endpoints.token_estimates import estimate_token_starts, truncate_to_tokens
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.strings import replace_surrogates

_BATCH_SIZE = 128
_REQUEST_TOKENS = 100_000  # estimated; OpenAI takes 300,000
_SECTION = "embedding"  # of knowledge.yaml


@dataclass(frozen=True, slots=True)
class _RequestOptions:
    """What differs between documents and a question.

    A question, which works without vectors, waits less than an index; some endpoints want to be told which
    of the two a text is.
    """

    max_tries: int
    task: str | None = None  # the value of `embedding.task_field`
    max_retry_after_s: float = MAX_RETRY_AFTER_S
    max_queue_s: float = float("inf")  # for the rate limits
    stop: threading.Event = field(default_factory=threading.Event)


def build_openai_space(settings: EmbeddingSettings) -> Space:
    """The space of an endpoint's model; no request is sent.

    Raises:
        ConfigError: `dimensions` is missing, or `base_url` is not a URL.
    """
    url = parse_base_url(settings.base_url, section=_SECTION).copy_with(userinfo=b"")
    if settings.dimensions is None:
        raise ConfigError(
            f"embedding.dimensions is missing for the model {settings.model!r}: "
            "set it to the length of the model's vectors"
        )
    model, dimensions, max_tokens = settings.model, settings.dimensions, settings.max_input_tokens
    identity = [str(url), model, dimensions, max_tokens]
    if settings.document_task is not None:
        identity += [settings.task_field, settings.document_task]
    return Space(space_name(model, *identity), model, dimensions, max_tokens)


class OpenAIEmbedder:
    """One model of one endpoint. Threads may share it; the limits hold for all of them together."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self.space = build_openai_space(settings)
        self.usage = Usage()
        self._settings = settings
        section = ConfigSection(_SECTION, settings.model, "dimensions and max_input_tokens")
        self._endpoint = Endpoint(settings, section, "the embedding endpoint", EmbeddingUnavailable)
        self._sends_dimensions = True
        self._http_client: httpx2.Client | None = None
        self._lock = threading.Lock()

    def tokenizer(self) -> Tokenize:
        """An estimate: an endpoint does not reveal its tokens."""
        return estimate_token_starts

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`; a text longer than `max_input_tokens` is cut at a token."""
        settings = self._settings
        inputs = [_truncate(text, settings.max_input_tokens) for text in texts]
        sizes = [len(estimate_token_starts(text)) for text in inputs]
        max_tokens = min(_REQUEST_TOKENS, settings.tokens_per_minute or _REQUEST_TOKENS)
        max_texts = settings.batch_size or _BATCH_SIZE
        batches = list(split_batches(sizes, max_texts=max_texts, max_tokens=max_tokens))
        vectors = np.empty((len(texts), self.space.dimensions), np.float32)
        options = _RequestOptions(settings.max_tries, settings.document_task)
        pool = ThreadPoolExecutor(max(1, min(settings.max_concurrent, len(batches))))
        try:
            requests = (inputs[batch.start : batch.stop] for batch in batches)
            parts = pool.map(partial(self._request_vectors, options=options), requests)
            for batch, rows in zip(batches, parts, strict=True):
                vectors[batch.start : batch.stop] = rows
        finally:  # after an error, no thread waits or sends any longer
            options.stop.set()
            pool.shutdown(cancel_futures=True)
        return vectors

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; gives up soon, because full-text search can answer alone."""
        settings = self._settings
        options = _RequestOptions(
            min(2, settings.max_tries), settings.query_task, max_retry_after_s=2.0, max_queue_s=2.0
        )
        return self._request_vectors([_truncate(text, settings.max_input_tokens)], options)[0]

    def _request_vectors(self, inputs: list[str], options: _RequestOptions) -> np.ndarray:
        """Vectors of one request's texts.

        An endpoint that counts more tokens than we estimate gets the texts one by one, the longest halved.
        """
        sent_dimensions = self._sends_dimensions
        try:
            return self._request_with_retries(inputs, options)
        except EndpointRefused as refusal:
            if refusal.is_about_parameter("dimension") and sent_dimensions:
                self._sends_dimensions = False  # the model has one length only, which is checked
                return self._request_vectors(inputs, options)
            if refusal.is_too_long and len(inputs) > 1:
                middle = len(inputs) // 2
                halves = (inputs[:middle], inputs[middle:])
                return np.vstack([self._request_vectors(half, options) for half in halves])
            shorter = _truncate(inputs[0], len(estimate_token_starts(inputs[0])) // 2)
            if refusal.is_too_long and len(shorter) > 1:
                return self._request_vectors([shorter], options)
            raise ModelError(f"{self._endpoint.name} {refusal}") from None

    def _request_with_retries(self, inputs: list[str], options: _RequestOptions) -> np.ndarray:
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
            return tries(self._send_request, inputs, options)
        except EndpointUnavailable as error:
            attempt = tries.statistics["attempt_number"]
            raise self._endpoint.build_error(error, attempt=attempt, max_tries=options.max_tries) from None

    def _send_request(self, inputs: list[str], options: _RequestOptions) -> np.ndarray:
        tokens = sum(len(estimate_token_starts(text)) for text in inputs)
        wait_s = self._endpoint.reserve(tokens, max_wait_s=options.max_queue_s)
        if wait_s and options.stop.wait(wait_s):
            raise EmbeddingUnavailable(
                f"no request was sent to {self._endpoint.name}, because another one had failed"
            )
        body: dict[str, Any] = {"model": self._settings.model, "input": inputs, "encoding_format": "float"}
        if options.task is not None:
            body[self._settings.task_field] = options.task
        if self._sends_dimensions:
            body["dimensions"] = self.space.dimensions
        try:
            response = self._get_client().post("embeddings", json=body)
        except httpx2.TransportError as error:
            raise EndpointUnavailable(f"did not answer ({type(error).__name__})") from None
        finally:
            self._add_usage(requests=1)
        payload = self._endpoint.parse(response, max_pause_s=options.max_retry_after_s)
        vectors = parse_vectors(payload, len(inputs), self.space.dimensions)
        self._add_usage(texts=len(inputs), tokens=parse_billed_tokens(payload, tokens))
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


def _truncate(text: str, max_tokens: int) -> str:
    kept = truncate_to_tokens(replace_surrogates(text), max_tokens)
    return kept if kept.strip() else " "  # OpenAI refuses an empty text
