"""Vectors from endpoints that speak the protocols of OpenAI or Ollama, and what all endpoints share.

That is batches, rates, tries, threads and usage. Neither keys nor texts are ever part of a message.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np
import tenacity

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.base import Space, Usage, call_usage, space_name
from knowledge_pipeline.endpoints import (
    MAX_RETRY_AFTER_S,
    RETRY_IF_UNAVAILABLE,
    ConfigSection,
    Endpoint,
    EndpointRefused,
    EndpointUnavailable,
    StopWaiting,
    compute_retry_wait_s,
    get_ssl_context,
    parse_base_url,
)
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.text import (
    estimate_token_starts,
    is_list,
    is_object,
    replace_surrogates,
    truncate_to_tokens,
)


def split_batches(sizes: Sequence[int], *, max_texts: int, max_tokens: int) -> Iterator[range]:
    """Cut consecutive texts into batches of at most `max_texts` texts and `max_tokens` tokens.

    Only a text larger than `max_tokens` by itself, alone in its batch, exceeds the limit.

    Args:
        sizes: tokens of each text, in order.

    Yields:
        Ranges of positions in `sizes`, in order, none empty, none left out.
    """
    start, tokens = 0, 0
    for position, size in enumerate(sizes):
        full = position - start == max_texts or tokens + size > max_tokens
        if full and position > start:
            yield range(start, position)
            start, tokens = position, 0
        tokens += size
    if start < len(sizes):
        yield range(start, len(sizes))


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
        """Nothing is sent."""
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

        Raises `ModelError`, `EmbeddingUnavailable`: it has no such model, or does not answer.
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
        settings, task = self._settings, self._tasks.query
        options = _RequestOptions(min(2, settings.max_tries), task, max_retry_after_s=2.0, max_queue_s=2.0)
        return self._request_vectors([_truncate(text, settings.max_input_tokens) for text in texts], options)

    def _request_vectors(self, inputs: list[str], options: _RequestOptions) -> np.ndarray:
        """Vectors of one request's texts.

        An endpoint that counts more tokens than we estimate gets the texts one by one, the longest halved.
        """
        path, body = self._build_request(inputs, options.task)
        try:
            return self._send_with_retries(path, body, inputs, options)
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

    def _send_with_retries(
        self, path: str, body: dict[str, Any], inputs: list[str], options: _RequestOptions
    ) -> np.ndarray:
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
            return tries(self._send, path, body, inputs, options)
        except EndpointUnavailable as error:
            attempt = tries.statistics["attempt_number"]
            raise self._endpoint.build_error(error, attempt=attempt, max_tries=options.max_tries) from None

    def _send(
        self, path: str, body: dict[str, Any], inputs: list[str], options: _RequestOptions
    ) -> np.ndarray:
        tokens = sum(len(estimate_token_starts(text)) for text in inputs)
        wait_s = self._endpoint.reserve(tokens, max_wait_s=options.max_queue_s)
        if wait_s and options.stop.wait(wait_s):
            raise EmbeddingUnavailable(
                f"no request was sent to {self._endpoint.name}, because another one had failed"
            )
        try:
            response = self._post(path, body)
        except httpx2.TransportError as error:
            raise EndpointUnavailable(f"did not answer ({type(error).__name__})") from None
        finally:
            self._add_usage(requests=1)
        payload = self._endpoint.parse(response, max_pause_s=options.max_retry_after_s)
        vectors, billed = self._parse_response(payload, len(inputs))
        self._add_usage(texts=len(inputs), tokens=billed or tokens)
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
        cost = tokens * self._settings.price_per_million_tokens / 1e6
        with self._lock:
            self.usage = self.usage.add(texts, tokens, requests, cost)
        if (parts := call_usage.get()) is not None:
            parts.append(Usage(texts, tokens, requests, cost))


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


_NOT_VECTORS = "answered with something that is not one vector for each text"


def parse_vectors(payload: dict[str, Any], count: int, dimensions: int) -> np.ndarray:
    """Vectors of OpenAI's `data[].embedding`: float32, shape (count, dimensions), in the order of the texts.

    Rows have length 1.

    Raises:
        EndpointUnavailable: not one finite vector for each text.
        EndpointRefused: vectors of another length.
    """
    entries = _require_entries(payload.get("data"), count)
    try:
        order = [entry.get("index", position) for position, entry in enumerate(entries)]
        rows = [entry["embedding"] for entry in entries]
        if sorted(order) != list(range(count)):
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise EndpointUnavailable(_NOT_VECTORS) from None
    vectors = np.empty((count, dimensions), np.float32)
    vectors[order] = _normalize_rows(rows, dimensions, order)
    return vectors


def parse_billed_tokens(payload: dict[str, Any]) -> int | None:
    """The tokens that a response of OpenAI bills; None where it names none."""
    usage = payload.get("usage")
    billed = usage.get("total_tokens") or usage.get("prompt_tokens") if is_object(usage) else None
    return billed if isinstance(billed, int) and billed > 0 else None


def parse_embeddings(payload: dict[str, Any], count: int, dimensions: int) -> np.ndarray:
    """Vectors of Ollama's `embeddings`, as `parse_vectors`."""
    return _normalize_rows(_require_entries(payload.get("embeddings"), count), dimensions, range(count))


def parse_predictions(payload: dict[str, Any], count: int, dimensions: int) -> tuple[np.ndarray, int, int]:
    """Vectors of Vertex AI's `predictions[].embeddings.values`, as `parse_vectors`.

    Returns:
        The vectors, the tokens that are billed (0 where they are not told), and how many texts were cut.
    """
    entries = _require_entries(payload.get("predictions"), count)
    try:
        embeddings = [entry["embeddings"] for entry in entries]
        rows = [embedding["values"] for embedding in embeddings]
        listed = [embedding.get("statistics") for embedding in embeddings]
        statistics = [statistic for statistic in listed if is_object(statistic)]
        tokens = sum(int(statistic.get("token_count") or 0) for statistic in statistics)
        truncated = sum(statistic.get("truncated") is True for statistic in statistics)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise EndpointUnavailable(_NOT_VECTORS) from None
    return _normalize_rows(rows, dimensions, range(count)), tokens, truncated


def _require_entries(entries: Any, count: int) -> list[Any]:
    if is_list(entries) and len(entries) == count:
        return entries
    count_text = len(entries) if is_list(entries) else "no"
    raise EndpointUnavailable(f"answered with {count_text} vectors for {count} texts")


def _normalize_rows(rows: list[Any], dimensions: int, positions: Sequence[int]) -> np.ndarray:
    """The rows with length 1; `positions` are those of their texts, which errors name."""
    try:
        vectors = np.asarray(rows, dtype=np.float32)
        if vectors.ndim != 2:
            raise ValueError
    except (TypeError, ValueError):
        raise EndpointUnavailable(_NOT_VECTORS) from None
    if vectors.shape[1] != dimensions:
        raise EndpointRefused(
            f"answers with vectors of {vectors.shape[1]} dimensions, not {dimensions}: "
            f"set embedding.dimensions to {vectors.shape[1]}"
        )
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 1e-12)))
    if bad.size:
        raise EndpointUnavailable(
            f"answered with an empty or infinite vector of text {positions[bad[0]]} of {len(rows)} (from 0)"
        )
    return (vectors / lengths[:, None]).astype(np.float32, copy=False)


_OLLAMA_BATCH_SIZE = 64
_OLLAMA_REQUEST_TOKENS = 50_000  # estimated; Ollama has no limit, but answers a request as a whole


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
    """One model of one Ollama, by its own API, which also says what a model reads, and keeps it in memory.

    API: https://github.com/ollama/ollama/blob/main/docs/api.md
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        space = build_ollama_space(settings)
        pull = f"run `ollama pull {settings.model}` there, or correct embedding.model or embedding.base_url"
        fixes = {404: f"it has no model {settings.model!r}: {pull}"}
        section = ConfigSection(SECTION, settings.model, "dimensions and options", fixes)
        endpoint = Endpoint(settings, section, "Ollama at", EmbeddingUnavailable)
        limits = RequestLimits(settings.batch_size or _OLLAMA_BATCH_SIZE, _OLLAMA_REQUEST_TOKENS)
        super().__init__(settings, space, endpoint, limits, Tasks())
        self._fields: dict[str, Any] = {"model": settings.model, "truncate": True}
        self._fields["dimensions"] = settings.dimensions
        if settings.keep_alive is not None:  # a number is seconds, and below zero for ever
            is_number = settings.keep_alive.lstrip("-").isdigit()
            self._fields["keep_alive"] = int(settings.keep_alive) if is_number else settings.keep_alive
        if settings.options is not None:
            self._fields["options"] = settings.options.model_dump(exclude_none=True)

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
        options, values = self._settings.options, model if is_object(model) else {}
        lengths = [value for key, value in values.items() if key.endswith(".context_length")]
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


_BATCH_SIZE = 128
_REQUEST_TOKENS = 100_000  # estimated; OpenAI takes 300,000


def build_openai_space(settings: EmbeddingSettings) -> Space:
    """The space of an endpoint's model; no request is sent.

    Raises `ConfigError`: `dimensions` is missing, or `base_url` is not a URL.
    """
    url = parse_base_url(settings.base_url, section=SECTION).copy_with(userinfo=b"")
    model, dimensions, max_tokens = settings.model, require_dimensions(settings), settings.max_input_tokens
    identity = [str(url), model, dimensions, max_tokens]
    if settings.document_task is not None:
        identity += [settings.task_field, settings.document_task]
    return Space(space_name(model, *identity), model, dimensions, max_tokens)


class OpenAIEmbedder(RemoteEmbedder):
    """One model of one endpoint that speaks OpenAI's `/embeddings`: OpenAI, vLLM, OpenRouter, xAI and others.

    API: https://platform.openai.com/docs/api-reference/embeddings/create
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        space = build_openai_space(settings)
        section = ConfigSection(SECTION, settings.model, "dimensions and max_input_tokens")
        endpoint = Endpoint(settings, section, "the embedding endpoint", EmbeddingUnavailable)
        limits = RequestLimits(settings.batch_size or _BATCH_SIZE, _REQUEST_TOKENS)
        tasks = Tasks(settings.query_task, settings.document_task)
        super().__init__(settings, space, endpoint, limits, tasks)
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
