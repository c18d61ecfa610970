"""Requests and answers: tries again what may help, and raises what the server says as our errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import tenacity

from knowledge_pipeline import errors
from knowledge_pipeline.errors import KnowledgeError, TransientError

LONGEST_WAIT_S = 60.0  # between two tries, whatever the server asks for

_BY_STATUS: Mapping[int, type[KnowledgeError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    422: errors.QuestionRefused,
    504: errors.AnswerTimedOut,
}
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Request:
    """One request below the address of the API."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    repeatable: bool = True  # whether doing it twice is the same as once


class _Failed(Exception):
    """One try that did not work, and how it is told if it was the last."""

    def __init__(self, error: KnowledgeError, *, again: bool, wait_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.again, self.wait_s = error, again, wait_s


class Wire:
    """Sends requests to one server, from plain or from asynchronous code."""

    def __init__(self, url: str, token: str | None, *, timeout_s: float, tries: int) -> None:
        self._url = url.rstrip("/")
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._how: dict[str, Any] = {"base_url": self._url, "headers": headers, "timeout": timeout_s}
        self._tries: dict[str, Any] = {
            "stop": tenacity.stop_after_attempt(max(1, tries)),
            "wait": _pause,
            "retry": tenacity.retry_if_exception(lambda error: isinstance(error, _Failed) and error.again),
            "reraise": True,
        }
        self._plain: httpx.Client | None = None
        self._waiting: httpx.AsyncClient | None = None

    def send(self, request: Request) -> Any:
        """The JSON that the server answers; None for an empty answer.

        Raises:
            KnowledgeError: as the server tells it, or `TransientError` where it does not answer.
        """
        self._plain = self._plain or httpx.Client(**self._how)
        client = self._plain
        try:
            return tenacity.Retrying(**self._tries)(self._try, client, request)
        except _Failed as failed:
            raise failed.error from None

    async def asend(self, request: Request) -> Any:
        """See `send`."""
        self._waiting = self._waiting or httpx.AsyncClient(**self._how)
        client = self._waiting
        try:
            return await tenacity.AsyncRetrying(**self._tries)(self._atry, client, request)
        except _Failed as failed:
            raise failed.error from None

    def close(self) -> None:
        """Close what `send` has opened."""
        if self._plain is not None:
            self._plain.close()
            self._plain = None

    async def aclose(self) -> None:
        """Close what `send` and `asend` have opened."""
        self.close()
        if self._waiting is not None:
            await self._waiting.aclose()
            self._waiting = None

    def _try(self, client: httpx.Client, request: Request) -> Any:
        try:
            answer = client.request(request.method, request.path, json=request.body)
        except httpx.TransportError as error:
            raise self._unsent(error, request) from None
        return _read(answer, request)

    async def _atry(self, client: httpx.AsyncClient, request: Request) -> Any:
        try:
            answer = await client.request(request.method, request.path, json=request.body)
        except httpx.TransportError as error:
            raise self._unsent(error, request) from None
        return _read(answer, request)

    def _unsent(self, error: httpx.TransportError, request: Request) -> _Failed:
        """A server that was not reached; one that was, and is slow, is not asked the same again."""
        if isinstance(error, httpx.TimeoutException) and not isinstance(error, _NEVER_SENT):
            slow = errors.AnswerTimedOut(
                f"{self._url} did not answer within {self._how['timeout']:g} s: allow more by timeout_s"
            )
            return _Failed(slow, again=False)
        said = TransientError(
            f"{self._url} does not answer ({type(error).__name__}): check the address, and whether the "
            "server runs"
        )
        return _Failed(said, again=request.repeatable or isinstance(error, _NEVER_SENT))


def _pause(state: tenacity.RetryCallState) -> float:
    """As long as the server asks for, and at least a random time that grows with each try."""
    error = state.outcome.exception() if state.outcome else None
    asked_s = error.wait_s if isinstance(error, _Failed) else 0.0
    return asked_s + tenacity.wait_random_exponential(multiplier=0.25, max=10)(state)


def _read(answer: httpx.Response, request: Request) -> Any:
    if answer.is_success:
        try:
            return answer.json() if answer.content else None
        except ValueError:
            said = KnowledgeError(f"{answer.url} answers no JSON: check the address")
            raise _Failed(said, again=False) from None
    wait_s = _wait_s(answer)
    again = answer.status_code in _AGAIN and wait_s <= LONGEST_WAIT_S
    if answer.status_code in (502, 504) and not request.repeatable:
        again = False
    raise _Failed(_error(answer, wait_s), again=again, wait_s=wait_s)


def _wait_s(answer: httpx.Response) -> float:
    """What `Retry-After` says, where it says seconds, as our server does."""
    try:
        found = float(answer.headers.get("retry-after", "0"))
    except ValueError:
        return 0.0
    return max(0.0, found) if math.isfinite(found) else 0.0


def _error(answer: httpx.Response, wait_s: float) -> KnowledgeError:
    """The problem that an answer tells, as the error that the server itself had."""
    told = _problem(answer)
    sentence = str(told.get("detail") or f"{answer.url} answers {answer.status_code}: check the address")
    if answer.status_code == 429:
        return errors.TooManyRequests(sentence, wait_s)
    named = getattr(errors, str(told.get("code")), None)
    if isinstance(named, type) and issubclass(named, KnowledgeError):
        return named(sentence)
    transient = TransientError if answer.status_code in _AGAIN else KnowledgeError
    return _BY_STATUS.get(answer.status_code, transient)(sentence)


def _problem(answer: httpx.Response) -> Mapping[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
