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

from knowledge_pipeline.config.settings import Embedding
from knowledge_pipeline.embedding.base import Space, Usage
from knowledge_pipeline.embedding.batching import batches
from knowledge_pipeline.embedding.openai_responses import parse_vectors, used_tokens
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.endpoints import token_estimates
from knowledge_pipeline.endpoints.address import authorization, endpoint_url, shown, trusted
from knowledge_pipeline.endpoints.rate_limit import Pace, asked_to_wait_s, wait_s
from knowledge_pipeline.endpoints.responses import Refusal, Section, Trouble, parse_answer
from knowledge_pipeline.endpoints.token_estimates import encodable, estimated_tokens
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelMissing
from knowledge_pipeline.records import Tokenize

_BATCH_SIZE = 128
_REQUEST_TOKENS = 100_000  # estimated; OpenAI takes 300,000
_SECTION = "embedding"  # of knowledge.yaml


@dataclass(frozen=True, slots=True)
class _Patience:
    """How long a caller waits: a query, which can do without vectors, not as long as an index."""

    tries: int
    retry_after_s: float = 120.0  # an endpoint that asks for more is unavailable
    queue_s: float = float("inf")  # for the rate limits
    stop: threading.Event = field(default_factory=threading.Event)


def openai_space(settings: Embedding) -> Space:
    """The space of an endpoint's model; nothing is asked of the endpoint.

    Raises:
        ConfigError: `dimensions` is missing, or `base_url` is no URL.
    """
    place = endpoint_url(settings.base_url, section=_SECTION).copy_with(userinfo=b"")
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

    def __init__(self, settings: Embedding) -> None:
        self.space = openai_space(settings)
        self.usage = Usage()
        self._settings = settings
        self._section = Section(_SECTION, settings.model, "dimensions and max_input_tokens")
        self._headers = authorization(settings.api_key, section=_SECTION)
        self._place = f"the embedding endpoint {shown(endpoint_url(settings.base_url, section=_SECTION))}"
        self._requests = Pace(settings.requests_per_minute)
        self._tokens = Pace(settings.tokens_per_minute)
        self._asks_dimensions = True
        self._connected: httpx.Client | None = None
        self._lock = threading.Lock()

    def tokenizer(self) -> Tokenize:
        """An estimate: an endpoint does not tell its tokens."""
        return estimated_tokens

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`; a text longer than `max_input_tokens` is cut at a token."""
        inputs = [_cut(text, self._settings.max_input_tokens) for text in texts]
        sizes = [len(estimated_tokens(text)) for text in inputs]
        most_tokens = min(_REQUEST_TOKENS, self._settings.tokens_per_minute or _REQUEST_TOKENS)
        parts = list(
            batches(sizes, max_texts=self._settings.batch_size or _BATCH_SIZE, max_tokens=most_tokens)
        )
        vectors = np.empty((len(texts), self.space.dimensions), np.float32)
        patience = _Patience(self._settings.max_tries)
        pool = ThreadPoolExecutor(max(1, min(self._settings.max_concurrent, len(parts))))
        try:
            answers = pool.map(lambda part: self._ask(inputs[part.start : part.stop], patience), parts)
            for part, rows in zip(parts, answers, strict=True):
                vectors[part.start : part.stop] = rows
        finally:  # after an error nobody goes on waiting or asking
            patience.stop.set()
            pool.shutdown(cancel_futures=True)
        return vectors

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; gives up soon, because full-text search can answer alone."""
        patience = _Patience(min(2, self._settings.max_tries), retry_after_s=2.0, queue_s=2.0)
        return self._ask([_cut(text, self._settings.max_input_tokens)], patience)[0]

    def _ask(self, inputs: list[str], patience: _Patience) -> np.ndarray:
        """Vectors of one request's texts.

        An endpoint that counts more tokens than we estimate gets the texts one by one, the longest halved.
        """
        asked_dimensions = self._asks_dimensions
        try:
            return self._retried(inputs, patience)
        except Refusal as refusal:
            if refusal.is_about("dimension") and asked_dimensions:
                self._asks_dimensions = False  # the model has but one length, which is checked
                return self._ask(inputs, patience)
            if refusal.about_length and len(inputs) > 1:
                middle = len(inputs) // 2
                return np.vstack([self._ask(half, patience) for half in (inputs[:middle], inputs[middle:])])
            shorter = _cut(inputs[0], len(estimated_tokens(inputs[0])) // 2)
            if refusal.about_length and len(shorter) > 1:
                return self._ask([shorter], patience)
            raise ModelMissing(f"{self._place} {refusal}") from None

    def _retried(self, inputs: list[str], patience: _Patience) -> np.ndarray:
        tries = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Trouble),
            stop=lambda state: _gives_up(state, patience),
            wait=wait_s,
            sleep=tenacity.sleep_using_event(patience.stop),
            reraise=True,
        )
        try:
            return tries(self._once, inputs, patience)
        except Trouble as trouble:
            asked = f" and asks to wait {trouble.retry_after_s:.0f} s" if trouble.retry_after_s else ""
            raise EmbeddingUnavailable(
                f"{self._place} {trouble}{asked} "
                f"(try {tries.statistics['attempt_number']} of {patience.tries}): see whether it is up, "
                "or lower embedding.max_concurrent and requests_per_minute, and start again"
            ) from None

    def _once(self, inputs: list[str], patience: _Patience) -> np.ndarray:
        tokens = sum(len(estimated_tokens(text)) for text in inputs)
        self._queue(tokens, patience)
        try:
            response = self._client().post("embeddings", json=self._body(inputs))
        except httpx.TransportError as error:
            self._add(requests=1)
            raise Trouble(f"did not answer ({type(error).__name__})") from None
        self._add(requests=1)
        try:
            answer = parse_answer(response, self._section)
        except Trouble as trouble:
            self._requests.hold(
                min(trouble.retry_after_s, patience.retry_after_s)
            )  # all threads wait, not this alone
            raise
        vectors = parse_vectors(answer, len(inputs), self.space.dimensions)
        self._add(texts=len(inputs), tokens=used_tokens(answer, tokens))
        return vectors

    def _queue(self, tokens: int, patience: _Patience) -> None:
        """Wait until the rates per minute allow a request."""
        wait_s = max(self._requests.reserve(), self._tokens.reserve(tokens))
        if wait_s > patience.queue_s:
            raise EmbeddingUnavailable(f"{self._place} is at its rate limit: ask again in {wait_s:.0f} s")
        if wait_s and patience.stop.wait(wait_s):
            raise EmbeddingUnavailable(f"{self._place} was not asked, because another request had failed")

    def _body(self, inputs: list[str]) -> dict[str, object]:
        body: dict[str, object] = {"model": self._settings.model, "input": inputs, "encoding_format": "float"}
        return body | {"dimensions": self.space.dimensions} if self._asks_dimensions else body

    def _client(self) -> httpx.Client:
        with self._lock:
            if self._connected is None:
                settings = self._settings
                client = httpx.Client(
                    base_url=settings.base_url,
                    headers=self._headers,
                    timeout=settings.timeout_s,
                    verify=trusted(),
                )
                weakref.finalize(self, client.close)
                self._connected = client
            return self._connected

    def _add(self, *, texts: int = 0, tokens: int = 0, requests: int = 0) -> None:
        with self._lock:
            used = self.usage
            self.usage = replace(
                used,
                texts=used.texts + texts,
                tokens=used.tokens + tokens,
                requests=used.requests + requests,
                cost=used.cost + tokens * self._settings.price_per_million_tokens / 1e6,
            )


def _gives_up(state: tenacity.RetryCallState, patience: _Patience) -> bool:
    return (
        state.attempt_number >= patience.tries
        or patience.stop.is_set()
        or asked_to_wait_s(state) > patience.retry_after_s
    )


def _cut(text: str, max_tokens: int) -> str:
    kept = token_estimates.cut(encodable(text), max_tokens)
    return kept if kept.strip() else " "  # OpenAI refuses an empty text
