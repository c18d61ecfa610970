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

import httpx
import numpy as np
import tenacity

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Space, Usage
from knowledge_pipeline.embedding.batching import split_batches
from knowledge_pipeline.embedding.openai_responses import parse_billed_tokens, parse_vectors
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.endpoints import token_estimates
from knowledge_pipeline.endpoints.address import (
    build_auth_headers,
    format_url,
    get_ssl_context,
    parse_endpoint_url,
)
from knowledge_pipeline.endpoints.rate_limit import RateLimiter, compute_retry_wait_s, read_retry_after_s
from knowledge_pipeline.endpoints.responses import (
    ConfigSection,
    EndpointRefused,
    EndpointUnavailable,
    parse_response,
)
from knowledge_pipeline.endpoints.token_estimates import estimate_token_starts, replace_surrogates
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError
from knowledge_pipeline.records import Tokenize

_BATCH_SIZE = 128
_REQUEST_TOKENS = 100_000  # estimated; OpenAI takes 300,000
_SECTION = "embedding"  # of knowledge.yaml


@dataclass(frozen=True, slots=True)
class _RetryPolicy:
    """How long a caller waits: a query, which can do without vectors, not as long as an index."""

    max_tries: int
    max_retry_after_s: float = 120.0  # an endpoint that asks for more is unavailable
    max_queue_s: float = float("inf")  # for the rate limits
    stop: threading.Event = field(default_factory=threading.Event)


def build_openai_space(settings: EmbeddingSettings) -> Space:
    """The space of an endpoint's model; nothing is asked of the endpoint.

    Raises:
        ConfigError: `dimensions` is missing, or `base_url` is no URL.
    """
    place = parse_endpoint_url(settings.base_url, section=_SECTION).copy_with(userinfo=b"")
    if settings.dimensions is None:
        raise ConfigError(
            f"embedding.dimensions is missing for the model {settings.model!r}: "
            "set it to the length of the model's vectors"
        )
    name = space_name(
        settings.model, str(place), settings.model, settings.dimensions, settings.max_input_tokens
    )
    return Space(name, settings.model, settings.dimensions, settings.max_input_tokens)


class OpenAIEmbedder:
    """One model of one endpoint. Threads may share it; the limits hold for all of them together."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self.space = build_openai_space(settings)
        self.usage = Usage()
        self._settings = settings
        self._section = ConfigSection(_SECTION, settings.model, "dimensions and max_input_tokens")
        self._headers = build_auth_headers(settings.api_key, section=_SECTION)
        self._endpoint_name = (
            f"the embedding endpoint {format_url(parse_endpoint_url(settings.base_url, section=_SECTION))}"
        )
        self._request_limiter = RateLimiter(settings.requests_per_minute)
        self._token_limiter = RateLimiter(settings.tokens_per_minute)
        self._sends_dimensions = True
        self._http_client: httpx.Client | None = None
        self._lock = threading.Lock()

    def tokenizer(self) -> Tokenize:
        """An estimate: an endpoint does not tell its tokens."""
        return estimate_token_starts

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`; a text longer than `max_input_tokens` is cut at a token."""
        inputs = [_truncate(text, self._settings.max_input_tokens) for text in texts]
        sizes = [len(estimate_token_starts(text)) for text in inputs]
        most_tokens = min(_REQUEST_TOKENS, self._settings.tokens_per_minute or _REQUEST_TOKENS)
        parts = list(
            split_batches(sizes, max_texts=self._settings.batch_size or _BATCH_SIZE, max_tokens=most_tokens)
        )
        vectors = np.empty((len(texts), self.space.dimensions), np.float32)
        patience = _RetryPolicy(self._settings.max_tries)
        pool = ThreadPoolExecutor(max(1, min(self._settings.max_concurrent, len(parts))))
        try:
            answers = pool.map(
                lambda part: self._request_vectors(inputs[part.start : part.stop], patience), parts
            )
            for part, rows in zip(parts, answers, strict=True):
                vectors[part.start : part.stop] = rows
        finally:  # after an error nobody goes on waiting or asking
            patience.stop.set()
            pool.shutdown(cancel_futures=True)
        return vectors

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; gives up soon, because full-text search can answer alone."""
        patience = _RetryPolicy(min(2, self._settings.max_tries), max_retry_after_s=2.0, max_queue_s=2.0)
        return self._request_vectors([_truncate(text, self._settings.max_input_tokens)], patience)[0]

    def _request_vectors(self, inputs: list[str], policy: _RetryPolicy) -> np.ndarray:
        """Vectors of one request's texts.

        An endpoint that counts more tokens than we estimate gets the texts one by one, the longest halved.
        """
        asked_dimensions = self._sends_dimensions
        try:
            return self._request_with_retries(inputs, policy)
        except EndpointRefused as refusal:
            if refusal.is_about_parameter("dimension") and asked_dimensions:
                self._sends_dimensions = False  # the model has but one length, which is checked
                return self._request_vectors(inputs, policy)
            if refusal.is_too_long and len(inputs) > 1:
                middle = len(inputs) // 2
                return np.vstack(
                    [self._request_vectors(half, policy) for half in (inputs[:middle], inputs[middle:])]
                )
            shorter = _truncate(inputs[0], len(estimate_token_starts(inputs[0])) // 2)
            if refusal.is_too_long and len(shorter) > 1:
                return self._request_vectors([shorter], policy)
            raise ModelError(f"{self._endpoint_name} {refusal}") from None

    def _request_with_retries(self, inputs: list[str], policy: _RetryPolicy) -> np.ndarray:
        tries = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(EndpointUnavailable),
            stop=lambda state: _should_give_up(state, policy),
            wait=compute_retry_wait_s,
            sleep=tenacity.sleep_using_event(policy.stop),
            reraise=True,
        )
        try:
            return tries(self._send_request, inputs, policy)
        except EndpointUnavailable as trouble:
            asked = f" and asks to wait {trouble.retry_after_s:.0f} s" if trouble.retry_after_s else ""
            raise EmbeddingUnavailable(
                f"{self._endpoint_name} {trouble}{asked} "
                f"(try {tries.statistics['attempt_number']} of {policy.max_tries}): see whether it is up, "
                "or lower embedding.max_concurrent and requests_per_minute, and start again"
            ) from None

    def _send_request(self, inputs: list[str], policy: _RetryPolicy) -> np.ndarray:
        tokens = sum(len(estimate_token_starts(text)) for text in inputs)
        self._wait_for_rate_limit(tokens, policy)
        try:
            response = self._get_client().post("embeddings", json=self._build_body(inputs))
        except httpx.TransportError as error:
            self._add_usage(requests=1)
            raise EndpointUnavailable(f"did not answer ({type(error).__name__})") from None
        self._add_usage(requests=1)
        try:
            answer = parse_response(response, self._section)
        except EndpointUnavailable as trouble:
            self._request_limiter.pause(
                min(trouble.retry_after_s, policy.max_retry_after_s)
            )  # all threads wait, not this alone
            raise
        vectors = parse_vectors(answer, len(inputs), self.space.dimensions)
        self._add_usage(texts=len(inputs), tokens=parse_billed_tokens(answer, tokens))
        return vectors

    def _wait_for_rate_limit(self, tokens: int, policy: _RetryPolicy) -> None:
        """Wait until the rates per minute allow a request."""
        wait_s = max(self._request_limiter.reserve(), self._token_limiter.reserve(tokens))
        if wait_s > policy.max_queue_s:
            raise EmbeddingUnavailable(
                f"{self._endpoint_name} is at its rate limit: ask again in {wait_s:.0f} s"
            )
        if wait_s and policy.stop.wait(wait_s):
            raise EmbeddingUnavailable(
                f"{self._endpoint_name} was not asked, because another request had failed"
            )

    def _build_body(self, inputs: list[str]) -> dict[str, object]:
        body: dict[str, object] = {"model": self._settings.model, "input": inputs, "encoding_format": "float"}
        return body | {"dimensions": self.space.dimensions} if self._sends_dimensions else body

    def _get_client(self) -> httpx.Client:
        with self._lock:
            if self._http_client is None:
                settings = self._settings
                client = httpx.Client(
                    base_url=settings.base_url,
                    headers=self._headers,
                    timeout=settings.timeout_s,
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


def _should_give_up(state: tenacity.RetryCallState, policy: _RetryPolicy) -> bool:
    return (
        state.attempt_number >= policy.max_tries
        or policy.stop.is_set()
        or read_retry_after_s(state) > policy.max_retry_after_s
    )


def _truncate(text: str, max_tokens: int) -> str:
    kept = token_estimates.truncate_to_tokens(replace_surrogates(text), max_tokens)
    return kept if kept.strip() else " "  # OpenAI refuses an empty text
