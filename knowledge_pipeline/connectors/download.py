"""Downloads of what a service keeps: bounded, and with our identity for the service alone.

A service often redirects to a store of another company, by an address that is a permission in itself. Our
identity is sent to the service's own origins and to no other, wherever an address or a redirect leads.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from http.cookiejar import DefaultCookiePolicy
from urllib.parse import urljoin, urlsplit

import requests
from pydantic import SecretStr

from knowledge_pipeline.connectors.base import format_too_large, pause
from knowledge_pipeline.connectors.http_retry import (
    compute_backoff_s,
    format_retries_exhausted,
    mount_retries,
    to_source_error,
)
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable

_MAX_REDIRECTS = 5
_MAX_BODY_READS = 3  # of an answer that ends early
_PIECE_BYTES = 65_536
_SIGN_IN_PATH = re.compile(r"/(?:login|sign[-_]?in|sso|saml)(?:\.[a-z]{1,10})?(?:/|$)", re.IGNORECASE)
_SIGN_IN_REASON = (
    "the service answered with a web page, as a sign-in page is, instead of the file: give the token the "
    "permission for attachments that the source's page in docs/sources names, then run "
    "`knowledge reindex --source ID`"
)
_REFUSED_REASON = (
    "the service forbids us to download it (403): give the token the permission for attachments that the "
    "source's page in docs/sources names, then run `knowledge reindex --source ID`"
)


class Downloader:
    """Downloads files of one service; nothing is sent before the first."""

    def __init__(
        self, service: str, origins: Iterable[str], identity: Mapping[str, str] | None = None
    ) -> None:
        """`origins` are addresses whose scheme, host and port are the service's; `identity` are headers.

        `service` is as a person knows it: "Jira at example.atlassian.net".
        """
        self._service = service
        self._origins = frozenset(map(_find_origin, origins))
        self._identity = identity or {}
        self._session: requests.Session | None = None

    def close(self) -> None:
        """Close the connections; a later download opens new ones."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def read(self, address: str, name: str, max_bytes: int) -> bytes:
        """The bytes of a file at an absolute address; its name tells whether it may be a web page.

        DocumentSkipped where it is not there, not for us, too large, or a web page in its place; other errors
        as `Source`.
        """
        for attempt in range(1, _MAX_BODY_READS + 1):
            try:
                return self._read_once(address, name, max_bytes)
            except (requests.exceptions.ChunkedEncodingError, requests.ConnectionError) as error:
                if attempt == _MAX_BODY_READS:
                    raise to_source_error(self._service, error) from None
                pause(compute_backoff_s(attempt))
            except requests.RequestException as error:
                raise to_source_error(self._service, error) from None
        raise AssertionError("every attempt returns or raises")

    def _read_once(self, address: str, name: str, max_bytes: int) -> bytes:
        is_encrypted = address.startswith("https://")
        for _ in range(_MAX_REDIRECTS + 1):
            if not address.startswith("https://" if is_encrypted else ("https://", "http://")):
                raise DocumentSkipped("the service leads to an address that is not encrypted")
            identity = self._identity if _find_origin(address) in self._origins else {}
            if self._session is None:
                self._session = mount_retries(requests.Session(), self._service)
                self._session.auth = lambda request: request  # no .netrc is read
                self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
            with self._session.get(
                address, headers=dict(identity), allow_redirects=False, stream=True
            ) as response:
                if not response.is_redirect:
                    self._require_success(response, is_known=bool(identity))
                    return _read_body(response, name, max_bytes)
                address = urljoin(address, response.headers["Location"])
            if _SIGN_IN_PATH.search(urlsplit(address).path):
                raise DocumentSkipped(_SIGN_IN_REASON)
        raise DocumentSkipped(f"the service redirects us more than {_MAX_REDIRECTS} times")

    def _require_success(self, response: requests.Response, *, is_known: bool) -> None:
        status = response.status_code
        if status == 200:
            return
        if status == 401 and is_known:
            raise SourceRefused(
                f"{self._service} does not accept our token for attachments (401): give it the permission "
                "that the source's page in docs/sources names, or set the source's attachments to false"
            )
        if status == 429 or status >= 500:
            raise SourceUnavailable(format_retries_exhausted(self._service, status))
        if status in (401, 403):
            raise DocumentSkipped(_REFUSED_REASON.replace("403", str(status)))
        if status in (404, 410):
            raise DocumentSkipped(f"the service has no such file, or does not show it to us ({status})")
        raise DocumentSkipped(f"the service answered {status} instead of the file")


def build_identity(token: SecretStr | None, email: str | None = None) -> Mapping[str, str]:
    """The header that says who we are: with an e-mail as Atlassian's Cloud takes it, else a bearer's."""
    if token is None:
        return {}
    secret = token.get_secret_value()
    if email is None:
        return {"Authorization": f"Bearer {secret}"}
    return {"Authorization": f"Basic {base64.b64encode(f'{email}:{secret}'.encode()).decode()}"}


def _read_body(response: requests.Response, name: str, max_bytes: int) -> bytes:
    """The body, unless it is too large, or a web page where none is wanted."""
    promised = response.headers.get("Content-Length", "")
    if promised.isdecimal() and int(promised) > max_bytes:
        raise DocumentSkipped(format_too_large(int(promised), max_bytes))
    is_page = name.lower().endswith((".html", ".htm", ".xhtml"))
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "text/html" and not is_page:
        raise DocumentSkipped(_SIGN_IN_REASON)
    payload = bytearray()
    for piece in response.iter_content(_PIECE_BYTES):
        payload += piece
        if len(payload) > max_bytes:
            raise DocumentSkipped(f"larger than {max_bytes} bytes, whatever the service says of its size")
    head = bytes(payload[:1024]).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if b'type="password"' in payload if is_page else head.startswith((b"<!doctype html", b"<html")):
        raise DocumentSkipped(_SIGN_IN_REASON)
    return bytes(payload)


def _find_origin(address: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(address)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
        return parts.scheme, parts.hostname or "", port
    except ValueError:
        return "", "", 0
