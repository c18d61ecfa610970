"""One endpoint: its address and key, the rates that all requests share, and the errors that callers see."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import httpx2
import tenacity
from pydantic import SecretStr

from knowledge_pipeline.config.settings import EmbeddingSettings, LanguageModelSettings
from knowledge_pipeline.endpoints.rate_limit import RateLimiter
from knowledge_pipeline.endpoints.responses import ConfigSection, EndpointUnavailable, parse_response
from knowledge_pipeline.errors import ConfigError, TransientError

MAX_RETRY_AFTER_S = 120.0  # an endpoint that asks for a longer wait is unavailable
RETRY_IF_UNAVAILABLE = tenacity.retry_if_exception_type(EndpointUnavailable)

_BACKOFF = tenacity.wait_exponential_jitter(multiplier=0.5, max=30, jitter=0.5)  # seconds


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
        self.headers = _build_auth_headers(settings.api_key, section=section.name)
        self.name = f"{description} {self.url.copy_with(userinfo=b'', query=None)}"
        self._section, self._unavailable = section, unavailable
        self._request_limiter = RateLimiter(settings.requests_per_minute)
        self._token_limiter = RateLimiter(settings.tokens_per_minute)
        self._lock = threading.Lock()

    def reserve(self, tokens: int, *, max_wait_s: float = float("inf")) -> float:
        """Take a place in the queue of requests; the seconds to wait until it is due.

        Raises:
            TransientError: the wait is not shorter than `max_wait_s`; no place is taken.
        """
        with self._lock:  # of those who ask at once, none takes a place that it then refuses
            wait_s = max(self._request_limiter.estimate_wait_s(), self._token_limiter.estimate_wait_s())
            if wait_s >= max_wait_s:
                raise self._unavailable(f"{self.name} is at its rate limit: ask again in {wait_s:.0f} s")
            return max(self._request_limiter.reserve(), self._token_limiter.reserve(tokens))

    def parse(self, response: httpx2.Response, *, max_pause_s: float = MAX_RETRY_AFTER_S) -> dict[str, Any]:
        """The JSON object of a response; a busy endpoint holds back all requests, not this one alone.

        Raises:
            EndpointUnavailable, EndpointRefused: as `responses.parse_response`.
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

    Raises:
        ConfigError: it is not an HTTP URL; the message names the section of `knowledge.yaml`.
    """
    try:
        url = httpx2.URL(base_url.rstrip("/"))
    except httpx2.InvalidURL:
        url = httpx2.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{section}.base_url is not a URL: write it like https://api.openai.com/v1")
    return url


def _build_auth_headers(api_key: SecretStr | None, *, section: str) -> dict[str, str]:
    key = api_key.get_secret_value().strip() if api_key else ""
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{section}.api_key holds a character that no header can carry: set it again")
    return {"Authorization": f"Bearer {key}"} if key else {}


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
