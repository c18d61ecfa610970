"""Sends requests, retries where that may help, and raises the server's problems as our errors.

A client may also answer with nothing and the reason, instead of raising, while its server cannot answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
import tenacity

from knowledge_pipeline import errors
from knowledge_pipeline.contract.usage_labels import HEADER_NAMES, UsageLabels
from knowledge_pipeline.errors import InvalidQuery, KnowledgeError, TransientError
from knowledge_pipeline.text import is_object
from knowledge_pipeline.times import parse_retry_after

OnError = Literal["raise", "empty"]

FAILURES_TO_OPEN = 3  # in a row
OPEN_S = 30.0  # without a request, before one is tried again

_QUERY: Mapping[str, Any] = {
    **{"query_id": "", "took_ms": 0.0, "release": 0, "degraded": ["server"]},
    **{"freshness": [], "notes": []},
}
EMPTY_RESPONSES: Mapping[str, Mapping[str, Any]] = {
    "search": {**_QUERY, "results": [], "timings_ms": {}, "cached": False, "embedded_share": 0.0},
    "related": {
        **_QUERY,
        **{"documents": [], "relations": [], "unresolved_mentions": [], "is_truncated": False},
    },
    "graph": {
        **_QUERY,
        **{"operation": "", "target": "", "nodes": [], "edges": [], "candidates": []},
        "timings_ms": {},
    },
    "context": {
        **_QUERY,
        **{"kind": "code_generation", "text": "", "tokens": 0, "max_tokens": 0, "tokenizer": ""},
        **{"template": "", "excerpts": [], "omitted": [], "searches": []},
    },
}
"""By kind of question; `problem` is added, the reason in a sentence."""


class CircuitBreaker:
    """Stops asking a server that failed several times in a row, for a while; then one request tries again."""

    def __init__(self) -> None:
        self._failures, self._open_until_s, self._reason = 0, float("-inf"), ""

    @contextmanager
    def guard(self) -> Generator[None]:
        """Count whether the server answers inside. Raises `TransientError` while it is not to be asked."""
        rest_s = self._open_until_s - monotonic()
        if rest_s > 0:
            raise TransientError(
                f"{self._reason} (it failed {self._failures} times in a row, and is asked again "
                f"in {rest_s:.0f} s)"
            )
        try:
            yield
        except TransientError as error:
            self._failures, self._reason = self._failures + 1, str(error)
            if self._failures >= FAILURES_TO_OPEN:
                self._open_until_s = monotonic() + OPEN_S
            raise
        self._failures, self._open_until_s = 0, float("-inf")


MAX_WAIT_S = 60.0  # between two tries, whatever the server asks for

_BY_STATUS: Mapping[int, type[KnowledgeError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    422: errors.InvalidQuery,
    504: errors.ResponseTimeout,
}
_NOT_SENT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_RETRY_STATUSES = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request below the address of the API."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    idempotent: bool = True  # whether doing it twice is the same as once
    empty: Mapping[str, Any] | None = None  # the response where nothing can be answered, if there may be one


class _AttemptFailed(Exception):
    """A failed attempt, with the error to raise if it was the last."""

    def __init__(self, error: KnowledgeError, *, retry: bool, wait_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.retry, self.wait_s = error, retry, wait_s


class Transport:
    """Sends requests to one server."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        timeout_s: float,
        max_attempts: int,
        on_error: OnError,
        labels: UsageLabels = UsageLabels(),  # noqa: B008 - frozen
    ) -> None:
        self._url, self._timeout_s = _check_address(url), timeout_s
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        label_headers = {header: getattr(labels, label) for label, header in HEADER_NAMES.items()}
        headers |= {header: value for header, value in label_headers.items() if value is not None}
        self._client = httpx2.AsyncClient(base_url=self._url, headers=headers, timeout=timeout_s)
        self._breaker = CircuitBreaker() if on_error == "empty" else None
        self._stop = tenacity.stop_after_attempt(max(1, max_attempts))

    async def send(self, request: ApiRequest) -> Any:
        """The JSON of the response; None if it is empty.

        Raises `KnowledgeError`: as the server reports it; `TransientError` if it does not answer. Where
        errors give empty responses, a request that has one raises only what is the caller's mistake.
        """
        if self._breaker is None or request.empty is None:
            return await self._send_patiently(request)
        try:
            with self._breaker.guard():
                return await self._send_patiently(request)
        except TransientError as error:
            return {**request.empty, "problem": str(error)}

    async def _send_patiently(self, request: ApiRequest) -> Any:
        retrying = tenacity.AsyncRetrying(
            stop=self._stop,
            wait=_compute_pause_s,
            retry=tenacity.retry_if_exception(lambda error: getattr(error, "retry", False)),
            reraise=True,
        )
        try:
            return await retrying(self._send_once, request)
        except _AttemptFailed as failed:
            raise failed.error from None

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, Any], headers: Mapping[str, str], *, read_s: float
    ) -> AsyncGenerator[httpx2.Response]:
        """A response that is read as it comes; `read_s` is how long it may be silent.

        Raises:
            KnowledgeError: as the server reports it.
            httpx2.TransportError: the connection broke, or there was none.
        """
        timeout = httpx2.Timeout(self._timeout_s, read=read_s)
        stream = self._client.stream("GET", path, params=dict(params), headers=dict(headers), timeout=timeout)
        async with stream as response:
            if not response.is_success:
                await response.aread()
                raise self._to_error(response, parse_retry_after(response.headers.get("Retry-After")) or 0.0)
            yield response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _send_once(self, request: ApiRequest) -> Any:
        """Retry a server that was not reached; a slow one does not get the same request again."""
        try:
            response = await self._client.request(request.method, request.path, json=request.body)
        except httpx2.TransportError as error:
            is_sent = not isinstance(error, _NOT_SENT_ERRORS)
            if isinstance(error, httpx2.TimeoutException) and is_sent:
                sentence = f"{self._url} did not answer within {self._timeout_s:g} s: raise timeout_s"
                raise _AttemptFailed(errors.ResponseTimeout(sentence), retry=False) from None
            unreachable = TransientError(
                f"{self._url} does not answer ({type(error).__name__}): check the address, and whether the "
                "server runs"
            )
            raise _AttemptFailed(unreachable, retry=request.idempotent or not is_sent) from None
        if response.is_success:
            try:
                return response.json() if response.content else None
            except ValueError:
                not_json = KnowledgeError(f"{response.url} does not answer with JSON: check the address")
                raise _AttemptFailed(not_json, retry=False) from None
        wait_s = parse_retry_after(response.headers.get("Retry-After")) or 0.0
        retry = response.status_code in _RETRY_STATUSES and wait_s <= MAX_WAIT_S
        if response.status_code in (502, 504) and not request.idempotent:
            retry = False
        raise _AttemptFailed(self._to_error(response, wait_s), retry=retry, wait_s=wait_s)

    def _to_error(self, response: httpx2.Response, wait_s: float) -> KnowledgeError:
        error = _to_error(response, wait_s)
        if error is not None:
            return error
        path = urlsplit(self._url).path
        hint = (
            f"is its address {self._url.removesuffix(path)}, or does no proxy forward {path} to it?"
            if path
            else "is this its address?"
        )
        return errors.NotFound(f"there is no knowledge server at {response.url}: {hint}")


_INTERFACES = ("/api/v1/knowledge", "/mcp")


def _check_address(url: str) -> str:
    """The address of a server, which may have a path. Raises `InvalidQuery`: it is none."""
    try:
        parts = urlsplit(url)
    except ValueError:  # half an address in brackets
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidQuery(f"{url[:200]!r} is no address of a server: write https://knowledge.example.org")
    address = url.rstrip("/")
    if interface := next((path for path in _INTERFACES if address.endswith(path)), None):
        server = address.removesuffix(interface)
        raise InvalidQuery(f"{url[:200]!r} is the address of an interface: write the server's, {server}")
    return address


def _compute_pause_s(state: tenacity.RetryCallState) -> float:
    """The time that the server asks for, and a random time that grows with each attempt."""
    error = state.outcome.exception() if state.outcome else None
    requested_s = error.wait_s if isinstance(error, _AttemptFailed) else 0.0
    return requested_s + tenacity.wait_random_exponential(multiplier=0.25, max=10)(state)


def _to_error(response: httpx2.Response, wait_s: float) -> KnowledgeError | None:
    """What a server reports; None: it has no such route."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    problem = problem if is_object(problem) else {}
    if response.status_code == 404 and problem.get("code", "HTTPError") == "HTTPError":
        return None
    sentence = str(
        problem.get("detail") or f"{response.url} answers {response.status_code}: check the address"
    )
    if response.status_code == 429:
        return errors.TooManyRequests(sentence, wait_s)
    error_type = getattr(errors, str(problem.get("code")), None)
    if isinstance(error_type, type) and issubclass(error_type, KnowledgeError):
        return error_type(sentence)
    transient = TransientError if response.status_code in _RETRY_STATUSES else KnowledgeError
    return _BY_STATUS.get(response.status_code, transient)(sentence)
