"""Retries for every connector's HTTP session.

A session waits as long as a service asks for: by `Retry-After` (RFC 9110 §10.2.3), or by the reset time
that comes with no remaining calls (GitHub, GitLab, Atlassian and others). It retries failures of the
network and of the server with growing pauses, a bounded number of times. Every request here is a query,
POST included, so that sending it twice does no harm.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter

from knowledge_pipeline.connectors.base import pause
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.times import parse_retry_after

TIMEOUT_S = 30.0  # for connecting, and between two bytes of a response
MAX_ATTEMPTS = 6
MAX_WAIT_S = 120.0  # a longer wait is an error, and left to the next refresh

_RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})
_BASE_BACKOFF_S, _MAX_BACKOFF_S = 1.0, 30.0
_RESET_HEADERS = ("x-ratelimit-reset", "ratelimit-reset", "x-rate-limit-reset")
_REMAINING_HEADERS = ("x-ratelimit-remaining", "ratelimit-remaining", "x-rate-limit-remaining")
_CONNECTION_ERRORS = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,  # the response ended before its length
    requests.exceptions.ContentDecodingError,  # or before its compression did
)

_MAX_KEPT_BYTES = 64 << 20  # of all responses together, which the sources of a pass share


class ResponseReuse:
    """Sends as little as possible in a pass over sources, which all ask about the same groups and people.

    What was answered to one source is not asked again by another; a source that repeats a request means it.
    What the pass before was given with an `ETag` is only asked to have changed: GitHub does not count that.
    Source: https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
    """

    def __init__(self, stored: Mapping[str, tuple[dict[str, str], str]]) -> None:
        self._stored = stored  # by the request's hash: headers, content
        self.kept: dict[str, requests.Response] = {}
        self._kept_bytes = 0
        self.asked: set[str] = set()
        """Hashes of requests of the present source, which whoever goes on to the next one clears."""

    def send(
        self, request: requests.PreparedRequest, send: Callable[[], requests.Response]
    ) -> requests.Response:
        """The response, by `send` unless it is there already."""
        identity = request.headers.get("Authorization")
        name = sha256(f"{request.method} {request.url} {identity} {request.body}".encode()).hexdigest()
        if name in self.kept and name not in self.asked:
            self.asked.add(name)
            return self.kept[name]
        self.asked.add(name)
        headers, content = self._stored.get(name, ({}, ""))
        if request.method == "GET" and headers:
            request.headers["If-None-Match"] = headers["ETag"]
        response = send()
        if response.status_code == 304 and content:
            response.status_code, response.encoding = 200, "utf-8"
            response.headers.update(headers)
            response._content = content.encode()  # pyright: ignore[reportPrivateUsage]  # none is public
        if response.status_code == 200 and self._kept_bytes + len(response.content) <= _MAX_KEPT_BYTES:
            self.kept[name] = response
            self._kept_bytes += len(response.content)
        return response


_reuse = ContextVar[ResponseReuse | None]("reuse", default=None)


@contextmanager
def reuse_responses(path: Path) -> Generator[ResponseReuse]:
    """Let all requests inside go by one `ResponseReuse`, kept in a file; nothing may read documents there."""
    reuse = ResponseReuse({})
    with suppress(OSError, ValueError):
        reuse = ResponseReuse(json.loads(path.read_text(encoding="utf-8")))
    token = _reuse.set(reuse)
    try:
        yield reuse
    finally:
        _reuse.reset(token)
    tagged = {name: it for name, it in reuse.kept.items() if "ETag" in it.headers}
    names = ("ETag", "Link")
    stored = {
        name: [{key: it.headers[key] for key in names if key in it.headers}, it.text]
        for name, it in tagged.items()
    }
    with suppress(OSError):  # a full disk: all is asked again
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.touch(mode=0o600)  # it has e-mail addresses
        unfinished.write_text(json.dumps(stored), encoding="utf-8")
        unfinished.replace(path)


class RetryAdapter(HTTPAdapter):
    """Sends a request until it is answered. Mount it on a session, for `https://` and `http://`.

    Raises:
        SourceUnavailable: the service limits us for longer than `MAX_WAIT_S`.
        requests.RequestException: no attempt was answered, or the certificate is not trusted, which is
            not retried.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self.no_retry_statuses: frozenset[int] = frozenset()
        """Statuses that are returned at once, to a caller that would rather send a smaller query."""
        self._service = service  # as a person knows it: "Jira at example.atlassian.net"

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # pyright: ignore[reportIncompatibleMethodOverride]  # sessions pass options by name
        """The response; the last one where every attempt failed on the server."""
        options["timeout"] = options.get("timeout") or TIMEOUT_S
        send, reuse = partial(self._send_until_answered, request, options), _reuse.get()
        return reuse.send(request, send) if reuse else send()

    def _send_until_answered(
        self, request: requests.PreparedRequest, options: dict[str, Any]
    ) -> requests.Response:
        for attempt in range(1, MAX_ATTEMPTS):
            try:
                response = self._send_once(request, options)
            except _CONNECTION_ERRORS as error:
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise
                pause(compute_backoff_s(attempt))
                continue
            wait_s = compute_wait_s(response.status_code, response.headers, attempt)
            if wait_s is None or response.status_code in self.no_retry_statuses:
                return response
            response.close()
            wait_or_raise(self._service, wait_s)
        return self._send_once(request, options)

    def _send_once(self, request: requests.PreparedRequest, options: Mapping[str, Any]) -> requests.Response:
        response = super().send(request, **options)
        if not options.get("stream"):
            _ = response.content  # a response that is cut off fails here, where it is retried
        return response


def mount_retries(session: requests.Session, service: str) -> requests.Session:
    """The session, sending through a `RetryAdapter`."""
    adapter = RetryAdapter(service)
    for scheme in ("https://", "http://"):
        session.mount(scheme, adapter)
    return session


def to_source_error(
    service: str, error: Exception, *, setting: str = "connection.url"
) -> SourceRefused | SourceUnavailable:
    """The error where no response came. It names only the type of `error`, whose text may hold an address."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return SourceRefused(
            f"{service} presents a certificate that this machine does not trust: correct {setting}, "
            "or name the authority's file in the environment's REQUESTS_CA_BUNDLE"
        )
    return SourceUnavailable(
        f"{service} did not answer ({type(error).__name__}): check {setting} and the network"
    )


def format_retries_exhausted(service: str, status: int) -> str:
    """The sentence for a status that every attempt was answered with."""
    return f"{service} answered {status} to every attempt: try again later"


def shorten_reason(message: str) -> str:
    """The reason that a service gives, on one line that fits in a sentence."""
    return " ".join(message.split())[:200] or "it gave no reason"


def wait_or_raise(service: str, wait_s: float) -> None:
    """Wait as long as the service asks for; SourceUnavailable where that is longer than `MAX_WAIT_S`."""
    if wait_s > MAX_WAIT_S:
        until = datetime.fromtimestamp(math.ceil((time.time() + wait_s) / 60) * 60, UTC)
        raise SourceUnavailable(
            f"{service} limits our calls until {until:%Y-%m-%d %H:%M} UTC: "
            "try again after that; what was read is kept"
        )
    pause(wait_s)


def compute_wait_s(status: int, headers: Mapping[str, str], attempt: int) -> float | None:
    """Seconds to wait before the next attempt; None: this response is final."""
    lowered = {name.lower(): value for name, value in headers.items()}
    is_quota_spent = any(lowered.get(name, "").strip() in ("0", "0.0") for name in _REMAINING_HEADERS)
    limited = status == 403 and (is_quota_spent or "retry-after" in lowered)
    if status not in _RETRY_STATUSES and not limited:
        return None
    requested = lowered.get("retry-after")
    # where calls remain, another limit was hit, which has no reset time
    other_limit = not is_quota_spent and any(name in lowered for name in _REMAINING_HEADERS)
    if not requested and (limited or status == 429) and not other_limit:
        requested = next((lowered[name] for name in _RESET_HEADERS if name in lowered), None)
    # 0 counts as no wait given: all attempts would be spent
    return parse_retry_after(requested) or compute_backoff_s(attempt)


def compute_backoff_s(attempt: int) -> float:
    """Doubles with each attempt, with jitter so that many clients do not come back together."""
    most = min(_MAX_BACKOFF_S, _BASE_BACKOFF_S * 2 ** (attempt - 1))
    return most * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


def read_complete(answer: requests.Response, limit_bytes: int) -> bytes | None:
    """The first bytes of a streamed response, one more than the limit at most; None where it broke off."""
    with suppress(urllib3.exceptions.HTTPError):
        payload = answer.raw.read(limit_bytes + 1, decode_content=False)
        if len(payload) >= min(int(answer.headers.get("Content-Length", 0)), limit_bytes + 1):
            return payload
    return None
