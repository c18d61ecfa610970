"""The identity server: its addresses and its keys, read when they are needed and kept for a while.

Of a server that does not answer, the keys that are known count for an hour more; nothing else does.
https://openid.net/specs/openid-connect-discovery-1_0.html, https://www.rfc-editor.org/rfc/rfc7517
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import httpx2

from knowledge_pipeline.config.identity import OidcSettings, is_trustworthy_url
from knowledge_pipeline.endpoints.endpoint import get_ssl_context
from knowledge_pipeline.errors import IdentityUnavailable
from knowledge_pipeline.json_values import is_list, is_object

if TYPE_CHECKING:
    from jwt import PyJWK

REFRESH_INTERVAL_S = 300.0  # older keys are read again, while they count
MAX_AGE_S = 3_600.0  # older keys do not count
RETRY_INTERVAL_S = 10.0  # between two reads, however many unknown keys are asked for
TIMEOUT_S = 5.0  # of one request
MAX_WAITING = 8  # requests that wait for keys at once, and sign-ins; the threads are needed for others

_MAX_BYTES = 1_000_000
_ALGORITHMS: Mapping[
    tuple[str, str], tuple[str, ...]
] = {  # by type and curve of a key, asymmetric ones alone
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """Addresses of an identity server, as its discovery document has them."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None
    takes_secret_in_header: bool  # at the token endpoint; otherwise in the body


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key, and the algorithms that it may be used with."""

    key: PyJWK
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What the identity server said, and when (`time.monotonic`)."""

    metadata: ProviderMetadata
    keys: Mapping[str, SigningKey]
    read_s: float


class IdentityProvider:
    """One identity server. Threads may share it; nothing is sent before it is asked for something."""

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._snapshot: _Snapshot | None = None
        self._reading: Future[_Snapshot] | None = None
        self._failed_s = -float("inf")
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="identity-server")
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._exchanging = threading.BoundedSemaphore(MAX_WAITING)  # sign-ins keep no token waiting

    def get_metadata(self) -> ProviderMetadata:
        """Its addresses. Raises `IdentityUnavailable`."""
        return self._get_snapshot(max_age_s=MAX_AGE_S).metadata

    def find_key(self, key_id: str) -> SigningKey | None:
        """The key of an id; None if it has none.

        Keys are read again for an id that is not known, at most every `RETRY_INTERVAL_S`.

        Raises:
            IdentityUnavailable: it would have to be asked, and does not answer, or too many wait for that.
        """
        known = self._get_snapshot(max_age_s=MAX_AGE_S).keys
        if key_id not in known:
            known = self._get_snapshot(max_age_s=RETRY_INTERVAL_S).keys
        return known.get(key_id)

    def exchange(self, form: Mapping[str, str]) -> dict[str, Any]:
        """The response of the token endpoint to a form, to which the client's own credentials are added.

        Raises:
            IdentityServerRefused: it refuses the form, or the client.
            IdentityUnavailable: it does not answer, or too many wait for that.
        """
        metadata, secret = self.get_metadata(), self._settings.client_secret
        client_id, auth, sent = self._settings.client_id, None, dict(form)
        if secret is not None and metadata.takes_secret_in_header:
            auth = httpx2.BasicAuth(_encode_form(client_id), _encode_form(secret.get_secret_value()))
        else:
            sent["client_id"] = client_id
            if secret is not None:
                sent["client_secret"] = secret.get_secret_value()
        with self._hold(self._exchanging), self._open_client() as client:
            request = client.build_request("POST", metadata.token_endpoint, data=sent)
            return self._read_json(request, client, auth=auth, refusal=IdentityServerRefused)

    def warm(self) -> None:
        """Begin to read, and wait for nothing."""
        self._start_reading()

    def close(self) -> None:
        """Read nothing any more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _get_snapshot(self, *, max_age_s: float) -> _Snapshot:
        """What it said, at most so long ago; if it is to be read first, wait for that."""
        known, now_s = self._snapshot, time.monotonic()
        if known and now_s - known.read_s <= max_age_s:
            if now_s - known.read_s > REFRESH_INTERVAL_S:
                self._start_reading()
            return known
        reading = self._start_reading()
        if reading is None:
            raise self._build_error("did not answer a moment ago")
        with self._hold(self._waiting):
            try:
                return reading.result(3 * TIMEOUT_S)
            except FutureTimeout:
                raise self._build_error("does not answer") from None

    def _start_reading(self) -> Future[_Snapshot] | None:
        """The read that is under way, or a new one; None so soon after one that failed."""
        with self._lock:
            if self._reading and not self._reading.done():
                return self._reading
            if time.monotonic() - self._failed_s < RETRY_INTERVAL_S:
                return None
            self._reading = self._executor.submit(self._read_snapshot)
            return self._reading

    def _read_snapshot(self) -> _Snapshot:
        self._failed_s = time.monotonic()  # until it has succeeded
        try:
            with self._open_client() as client:
                metadata = self._read_metadata(client)
                keys = self._read_json(client.build_request("GET", metadata.jwks_uri), client)
        except IdentityUnavailable as error:
            _log.warning("%s", error)
            raise
        self._snapshot = _Snapshot(metadata, _parse_keys(keys), time.monotonic())
        self._failed_s = -float("inf")
        return self._snapshot

    def _read_metadata(self, client: httpx2.Client) -> ProviderMetadata:
        issuer = self._settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self._read_json(client.build_request("GET", url), client)
        if found.get("issuer") != issuer:
            raise self._build_error("calls itself by another issuer: set serve.oidc.issuer to what it says")
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        endpoints = [self._parse_endpoint(found.get(name), name) for name in names]
        end_session = found.get("end_session_endpoint")
        methods: object = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return ProviderMetadata(
            *endpoints,
            end_session_endpoint=end_session and self._parse_endpoint(end_session, "end_session_endpoint"),
            takes_secret_in_header=not is_list(methods) or "client_secret_basic" in methods,
        )

    def _parse_endpoint(self, value: object, name: str) -> str:
        if not isinstance(value, str) or not is_trustworthy_url(value):
            raise self._build_error(f"has no {name} with https in its discovery document")
        return value

    @contextmanager
    def _hold(self, places: threading.BoundedSemaphore) -> Generator[None]:
        if not places.acquire(blocking=False):
            raise self._build_error("has too many requests waiting for it")
        try:
            yield
        finally:
            places.release()

    def _open_client(self) -> httpx2.Client:
        return httpx2.Client(
            verify=get_ssl_context(), timeout=TIMEOUT_S, headers={"Accept": "application/json"}
        )

    def _read_json(
        self,
        request: httpx2.Request,
        client: httpx2.Client,
        *,
        auth: httpx2.BasicAuth | None = None,
        refusal: type[IdentityUnavailable] = IdentityUnavailable,
    ) -> dict[str, Any]:
        """The object of a response; neither its text nor what was sent is in an error."""
        until_s, received = time.monotonic() + TIMEOUT_S, bytearray()
        try:
            response = client.send(request, auth=auth, stream=True)
            try:
                for part in response.iter_bytes():
                    received += part
                    if len(received) > _MAX_BYTES or time.monotonic() > until_s:
                        raise self._build_error("sends too much, or too slowly")
            finally:
                response.close()
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._build_error(f"does not answer ({type(error).__name__})") from None
        if response.status_code != 200:
            error = refusal if response.status_code in (400, 401, 403) else IdentityUnavailable
            raise error(self._describe(f"answers with the status {response.status_code}"))
        try:
            found = json.loads(received)
        except (ValueError, RecursionError):
            found = None
        if not is_object(found):
            raise self._build_error("answers with something that is not a JSON object")
        return found

    def _build_error(self, what: str) -> IdentityUnavailable:
        return IdentityUnavailable(self._describe(what))

    def _describe(self, what: str) -> str:
        return (
            f"the identity server {self._settings.issuer} {what}; "
            "tokens of `knowledge token create` go on working"
        )


class IdentityServerRefused(IdentityUnavailable):
    """The token endpoint refuses what it was sent: a code that is used, or the client's secret."""


def _parse_keys(document: Mapping[str, Any]) -> dict[str, SigningKey]:
    """The keys that signatures can be checked with, by id; others are left out."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    found, listed = dict[str, SigningKey](), document.get("keys")
    for each in listed if is_list(listed) else ():
        if not is_object(each) or each.get("use", "sig") != "sig" or not isinstance(each.get("kid"), str):
            continue
        curve = "" if each.get("kty") == "RSA" else str(each.get("crv"))
        possible = _ALGORITHMS.get((str(each.get("kty")), curve), ())
        algorithms = tuple(name for name in possible if each.get("alg", name) == name)
        try:
            if algorithms:
                found[each["kid"]] = SigningKey(PyJWK(each, algorithms[0]), algorithms)
        except (PyJWTError, ValueError, TypeError):
            _log.warning("a key of the identity server cannot be used")
    return found


def _encode_form(text: str) -> str:
    """As RFC 6749 writes credentials in a header, section 2.3.1."""
    return quote_plus(text)
