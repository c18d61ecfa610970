"""Asking a service over HTTP politely and stubbornly: what every connector's session is given.

A limit is waited for as the service asks: `Retry-After` (RFC 9110 §10.2.3), or the reset time that
goes with no remaining calls (GitHub, GitLab, Atlassian and others). Failures of the network and of
the server are tried again, later and later, a bounded number of times. All that is sent here is a
question, POST included, so that asking twice does no harm.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.times import parse_retry_after

TIMEOUT_S = 30.0  # for connecting, and between two bytes of an answer
MAX_ATTEMPTS = 6
MAX_WAIT_S = 120.0  # a longer one is told, and left to the next refresh

_RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})
_BASE_BACKOFF_S, _MAX_BACKOFF_S = 1.0, 30.0
_RESET_HEADERS = ("x-ratelimit-reset", "ratelimit-reset", "x-rate-limit-reset")
_REMAINING_HEADERS = ("x-ratelimit-remaining", "ratelimit-remaining", "x-rate-limit-remaining")


_CONNECTION_ERRORS = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,  # the answer ended before its length
    requests.exceptions.ContentDecodingError,  # or before its compression did
)


class RetryAdapter(HTTPAdapter):
    """Sends a request until it is answered. Mount it on a session, for `https://` and `http://`.

    Raises:
        SourceUnavailable: the service limits us for longer than `LONGEST_WAIT_S`.
        requests.RequestException: it did not answer, however often it was asked; or its certificate
            is not to be trusted, which is not asked twice.
    """

    def __init__(self, service: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__()
        self.no_retry_statuses: frozenset[int] = frozenset()
        """Statuses that are handed back at once, to a caller who would rather ask for less."""
        self._service = service  # as a person knows it: "Jira at example.atlassian.net"
        self._sleep = sleep

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """The answer; the last one where every try was answered by a failure of the server."""
        options["timeout"] = options.get("timeout") or TIMEOUT_S
        for attempt in range(1, MAX_ATTEMPTS):
            try:
                response = self._send_once(request, options)
            except _CONNECTION_ERRORS as error:
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise
                self._sleep(compute_backoff_s(attempt))
                continue
            wait_s = compute_wait_s(response.status_code, response.headers, attempt)
            if wait_s is None or response.status_code in self.no_retry_statuses:
                return response
            response.close()
            wait_or_raise(self._service, wait_s, self._sleep)
        return self._send_once(request, options)

    def _send_once(self, request: requests.PreparedRequest, options: Mapping[str, Any]) -> requests.Response:
        response = super().send(request, **options)
        if not options.get("stream"):
            _ = response.content  # an answer that is cut off fails here, where it is tried again
        return response


def mount_retries(
    session: requests.Session, service: str, *, sleep: Callable[[float], None] = time.sleep
) -> requests.Session:
    """The session, sending through a `PoliteAdapter`."""
    adapter = RetryAdapter(service, sleep=sleep)
    for scheme in ("https://", "http://"):
        session.mount(scheme, adapter)
    return session


def to_source_error(
    service: str, error: Exception, *, setting: str = "connection.url"
) -> SourceRefused | SourceUnavailable:
    """The error where no answer came. What `error` says may hold an address, so only its kind is told."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return SourceRefused(
            f"{service} shows a certificate that is not trusted here: correct {setting}, "
            "or name the authority's file in the environment's REQUESTS_CA_BUNDLE"
        )
    return SourceUnavailable(
        f"{service} did not answer ({type(error).__name__}): check {setting} and the network"
    )


def format_retries_exhausted(service: str, status: int) -> str:
    """The sentence for a status that stayed the same however often was asked."""
    return f"{service} answered {status}, however often it was asked: try later"


def shorten_reason(message: str) -> str:
    """What a service says of a refusal, on one line that fits in a sentence."""
    return " ".join(message.split())[:200] or "it gave no reason"


def wait_or_raise(service: str, wait_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait as long as the service asks for.

    Raises:
        SourceUnavailable: that is longer than `LONGEST_WAIT_S`; it says until when.
    """
    if wait_s > MAX_WAIT_S:
        until = datetime.fromtimestamp(math.ceil((time.time() + wait_s) / 60) * 60, UTC)
        raise SourceUnavailable(
            f"{service} limits our calls until {until:%Y-%m-%d %H:%M} UTC: "
            "refresh after that, what was read is kept"
        )
    sleep(wait_s)


def compute_wait_s(status: int, headers: Mapping[str, str], attempt: int) -> float | None:
    """Seconds to wait before the same is asked again; None: it was answered."""
    limited = status == 403 and (_is_quota_spent(headers) or "retry-after" in _lowercase_names(headers))
    if status not in _RETRY_STATUSES and not limited:
        return None
    requested_s = _parse_requested_wait_s(headers, limited=limited or status == 429)
    return requested_s or compute_backoff_s(
        attempt
    )  # "at once" is taken for no answer: every try would be spent


def _parse_requested_wait_s(headers: Mapping[str, str], *, limited: bool) -> float | None:
    """What the service asks for, and a second more for a clock that is not ours."""
    known = _lowercase_names(headers)
    if given := known.get("retry-after"):
        return parse_retry_after(given)
    reset = next((known[name] for name in _RESET_HEADERS if name in known), None)
    other_limit = not _is_quota_spent(headers) and any(
        name in known for name in _REMAINING_HEADERS
    )  # it has no reset time
    return parse_retry_after(reset) if limited and reset is not None and not other_limit else None


def _is_quota_spent(headers: Mapping[str, str]) -> bool:
    known = _lowercase_names(headers)
    return any(known.get(name, "").strip() in ("0", "0.0") for name in _REMAINING_HEADERS)


def _lowercase_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def compute_backoff_s(attempt: int) -> float:
    """Doubling, with jitter: so that many who wait do not come back together."""
    most = min(_MAX_BACKOFF_S, _BASE_BACKOFF_S * 2 ** (attempt - 1))
    return most * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
