"""What all clients of an endpoint share: its address and key, its rates, and what its responses mean.

Only an endpoint's short error codes reach a message: its sentences may quote keys and texts.
"""

from __future__ import annotations

import os
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx2
import tenacity

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.model import UnsetSecret
from knowledge_pipeline.config.settings import LanguageModelSettings
from knowledge_pipeline.errors import ConfigError, TransientError
from knowledge_pipeline.text import is_list, is_object
from knowledge_pipeline.times import parse_retry_after

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_INVALID_REQUEST_STATUSES = frozenset({400, 422})
_ERROR_CODE = re.compile(r"[\w.-]{1,60}")
_DELAY = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")
_TOO_LONG = re.compile(
    r"context length|context size|too long|too large|too many tokens|maximum.{0,20}tokens|exceed"
    r"|input token count|batchsize value"  # of Vertex AI
)


@dataclass(frozen=True, slots=True)
class ConfigSection:
    """The part of `knowledge.yaml` that an endpoint is configured in, as messages name it."""

    name: str  # "embedding"
    model: str
    limit_keys: str  # the keys that a request may break: "dimensions and max_input_tokens"
    fixes: Mapping[int, str] = field(default_factory=dict[int, str])  # by status, where this endpoint differs


class EndpointUnavailable(Exception):
    """One try failed; another may succeed, after `retry_after_s` seconds at the soonest."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EndpointRefused(Exception):
    """The endpoint will refuse the same request again."""

    def __init__(self, message: str, *, status: int = 200, detail: str = "") -> None:
        super().__init__(message)
        self.status = status
        self._detail = detail  # the endpoint's words in lower case, which never reach a message

    @property
    def is_request_specific(self) -> bool:
        """Whether only this request was wrong, so that the endpoint may take another."""
        return self.status == 413 or self.status in _INVALID_REQUEST_STATUSES

    @property
    def is_too_long(self) -> bool:
        """Whether the request was too long."""
        return self.status == 413 or (
            self.status in _INVALID_REQUEST_STATUSES and bool(_TOO_LONG.search(self._detail))
        )

    def is_about_parameter(self, parameter: str) -> bool:
        """Whether the endpoint complains of a parameter of the request."""
        return self.status in _INVALID_REQUEST_STATUSES and parameter in self._detail


def parse_response(response: httpx2.Response, section: ConfigSection) -> dict[str, Any]:
    """The JSON object of a good response.

    Raises:
        EndpointUnavailable, EndpointRefused: any other response; the message completes "the … endpoint …".
    """
    try:
        payload: Any = response.json()
    except ValueError:
        payload = None
    if response.is_success:
        if is_object(payload):
            return payload
        if payload is None and "html" in response.headers.get("Content-Type", ""):
            raise EndpointRefused(
                f"answers with a web page: check {section.name}.base_url, which often ends in /v1"
            )
        raise EndpointUnavailable("sent a response that is cut off or not a JSON object")
    status = response.status_code
    sent: Any = payload.get("error", payload) if is_object(payload) else {}
    error: Mapping[str, Any] = sent if is_object(sent) else {"message": sent or ""}  # some send a bare text
    codes = (error.get("code"), error.get("type"), error.get("status"))  # OpenAI's, and Google's
    code = next((code for code in codes if isinstance(code, str) and _ERROR_CODE.fullmatch(code)), "")
    shown = f"{status} ({code})" if code else str(status)
    if (status in _TRANSIENT_STATUSES or status >= 500) and code != "insufficient_quota":
        retry_after_s = parse_retry_after(response.headers.get("Retry-After")) or _find_retry_delay_s(error)
        raise EndpointUnavailable(f"answered {shown}", retry_after_s=retry_after_s)
    fix, detail = _suggest_fix(status, section), str(error.get("message", "")).lower()
    raise EndpointRefused(f"refuses with {shown}: {fix}", status=status, detail=detail)


def _find_retry_delay_s(error: Mapping[str, Any]) -> float:
    """Seconds that an error of Google asks to wait, in one of its details; 0 where none does."""
    details: Any = error.get("details")
    for detail in details if is_list(details) else []:
        delay: Any = detail.get("retryDelay") if is_object(detail) else None
        if isinstance(delay, str) and (match := _DELAY.fullmatch(delay)):
            return float(match[1])
    return 0.0


def _suggest_fix(status: int, section: ConfigSection) -> str:
    name, model, quota = section.name, section.model, "the account has no quota left; check its billing"
    fixes = {
        401: f"set {name}.api_key to a valid key, through an environment variable",
        402: quota,
        403: f"the key may not use the model {model!r}; ask for access, or set another {name}.model",
        404: f"check {name}.base_url, and that the endpoint has the model {model!r}",
        429: quota,
        **section.fixes,
    }
    if status not in fixes and 300 <= status < 400:
        return f"it has moved; set {name}.base_url to its new address"
    other = f"check {name}.model ({model!r}), {section.limit_keys} against what the endpoint offers"
    return fixes.get(status, other)


class RateLimiter:
    """Spaces out the requests of all threads so that a rate per minute is never exceeded.

    An idle minute earns no burst, so no window of a minute sees more than the rate, however
    the endpoint counts it.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._seconds_each = 60.0 / per_minute if per_minute else 0.0
        self._free_at = 0.0
        self._lock = threading.Lock()

    def reserve(self, amount: int = 1) -> float:
        """Take a place in the queue for `amount` units; the seconds to wait until it is due."""
        with self._lock:
            now = time.monotonic()
            due = max(now, self._free_at)
            self._free_at = due + amount * self._seconds_each
            return due - now

    def estimate_wait_s(self) -> float:
        """The seconds that a place in the queue would have to wait; none is taken."""
        with self._lock:
            return max(0.0, self._free_at - time.monotonic())

    def pause(self, seconds: float) -> None:
        """Let no request start for so long."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() + seconds)


MAX_RETRY_AFTER_S = 120.0  # an endpoint that asks for a longer wait is unavailable
RETRY_IF_UNAVAILABLE = tenacity.retry_if_exception_type(EndpointUnavailable)

_BACKOFF = tenacity.wait_exponential(multiplier=0.5, max=30) + tenacity.wait_random(0, 0.5)  # seconds


class Endpoint:
    """An endpoint as its clients share it, whether they are threads or tasks."""

    def __init__(
        self,
        settings: EmbeddingSettings | LanguageModelSettings,
        section: ConfigSection,
        description: str,
        unavailable: type[TransientError],
    ) -> None:
        """Nothing is sent.

        Args:
            settings: its address, key and rates.
            section: where `knowledge.yaml` has them.
            description: what comes before the URL in messages: "the language model at".
            unavailable: the error that callers get when the endpoint does not answer.

        Raises:
            ConfigError: base_url is not a URL, or no header can carry the key.
        """
        self.url = parse_base_url(settings.base_url, section=section.name)
        self._unset_key = settings.api_key if isinstance(settings.api_key, UnsetSecret) else None
        known_key = settings.api_key if not self._unset_key else None
        key = known_key.get_secret_value().strip() if known_key else ""
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(
                f"{section.name}.api_key holds a character that no header can carry: set it again"
            )
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.name = f"{description} {self.url.copy_with(userinfo=b'', query=None)}"
        self._section, self._unavailable = section, unavailable
        self._request_limiter = RateLimiter(settings.requests_per_minute)
        self._token_limiter = RateLimiter(settings.tokens_per_minute)
        self._lock = threading.Lock()

    @property
    def headers(self) -> dict[str, str]:
        """Of every request. Raises `ConfigError`: the variable of the key is not set."""
        if self._unset_key:
            self._unset_key.get_secret_value()
        return self._headers

    def reserve(self, tokens: int, *, max_wait_s: float = float("inf")) -> float:
        """Take a place in the queue of requests; the seconds to wait until it is due.

        Raises `TransientError`: the wait is not shorter than `max_wait_s`; no place is taken.
        """
        with self._lock:  # of those who ask at once, none takes a place that it then refuses
            wait_s = max(self._request_limiter.estimate_wait_s(), self._token_limiter.estimate_wait_s())
            if wait_s >= max_wait_s:
                raise self._unavailable(f"{self.name} is at its rate limit: ask again in {wait_s:.0f} s")
            return max(self._request_limiter.reserve(), self._token_limiter.reserve(tokens))

    def parse(self, response: httpx2.Response, *, max_pause_s: float = MAX_RETRY_AFTER_S) -> dict[str, Any]:
        """The JSON object of a response; a busy endpoint holds back all requests, not this one alone.

        Raises `EndpointUnavailable`, `EndpointRefused`: as `parse_response`.
        """
        try:
            return parse_response(response, self._section)
        except EndpointUnavailable as error:
            self._request_limiter.pause(min(error.retry_after_s, max_pause_s))
            raise

    def build_error(self, error: EndpointUnavailable, *, attempt: int, max_tries: int) -> TransientError:
        """What callers get after the last try."""
        asks = f" and asks to wait {error.retry_after_s:.0f} s" if error.retry_after_s else ""
        section = self._section.name
        return self._unavailable(
            f"{self.name} {error}{asks} (try {attempt} of {max_tries}): see whether it is up, "
            f"or lower {section}.max_concurrent and {section}.requests_per_minute"
        )


def parse_base_url(base_url: str, *, section: str) -> httpx2.URL:
    """The URL that an endpoint's paths are relative to.

    Raises `ConfigError`: it is not an HTTP URL; the message names the section of `knowledge.yaml`.
    """
    try:
        url = httpx2.URL(base_url.rstrip("/"))
    except httpx2.InvalidURL:
        url = httpx2.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{section}.base_url is not a URL: write it like https://api.openai.com/v1")
    return url


def compute_retry_wait_s(state: tenacity.RetryCallState) -> float:
    """Seconds until the next try: as the endpoint asks, and longer with each failure."""
    return max(_BACKOFF(state), _read_retry_after_s(state))


class StopWaiting(tenacity.stop.stop_base):
    """Stops retries when the endpoint asks for a long wait, or the time that is left is too short."""

    def __init__(self, max_retry_after_s: float, remaining_s: Callable[[], float] = lambda: float("inf")):
        self._max_retry_after_s, self._remaining_s = max_retry_after_s, remaining_s

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        """Whether to give up after the last try."""
        asks_too_long = _read_retry_after_s(retry_state) > self._max_retry_after_s
        return asks_too_long or retry_state.upcoming_sleep >= self._remaining_s()


def _read_retry_after_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    return error.retry_after_s if isinstance(error, EndpointUnavailable) else 0.0


def get_ssl_context() -> ssl.SSLContext:
    """The certificates that clients trust, read once: each new client would spend 40 ms on them.

    As httpx2 chooses: those of `SSL_CERT_FILE` or `SSL_CERT_DIR`, else those of the system.
    """
    return _create_ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _create_ssl_context(*_environment: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
