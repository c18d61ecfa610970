"""Identities of an OpenID provider: its keys, its tokens, and whom they name.

Its addresses and keys are read when they are needed and kept for a while. If it does not answer, its keys
count for an hour more; nothing else does. No part of a token is in an error or a log.
https://openid.net/specs/openid-connect-discovery-1_0.html, https://www.rfc-editor.org/rfc/rfc7517
"""

from __future__ import annotations

import hmac
import json
import logging
import threading
import time
from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unicodedata import normalize
from urllib.parse import quote_plus

import httpx2

from knowledge_pipeline.config.operation import GroupMapping, OidcSettings, is_trustworthy_url
from knowledge_pipeline.endpoints import get_ssl_context
from knowledge_pipeline.errors import Forbidden, IdentityUnavailable, Unauthenticated
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.serve.tokens import Scope
from knowledge_pipeline.text import is_list, is_object

if TYPE_CHECKING:
    from jwt import PyJWK


REFRESH_INTERVAL_S = 300.0  # older keys are read again, while they count
MAX_AGE_S = 3_600.0  # older keys do not count
RETRY_INTERVAL_S = 10.0  # between two reads, however many unknown keys are asked for
TIMEOUT_S = 5.0  # of one request
MAX_WAITING = 8  # requests that wait for keys at once, and sign-ins; the threads are needed for others

_MAX_BYTES = 1_000_000
_ALGORITHMS = {  # by type and curve of a key, asymmetric ones alone
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
    metadata: ProviderMetadata
    keys: Mapping[str, SigningKey]
    read_s: float


class IdentityProvider:
    """One identity server. Threads may share it; nothing is sent before something is needed."""

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
        """The key of an id; None if it has none. Raises `IdentityUnavailable`.

        Keys are read again for an id that is not known, at most every `RETRY_INTERVAL_S`.
        """
        keys = self._get_snapshot(max_age_s=MAX_AGE_S).keys
        if key_id not in keys:
            keys = self._get_snapshot(max_age_s=RETRY_INTERVAL_S).keys
        return keys.get(key_id)

    def exchange(self, form: Mapping[str, str]) -> dict[str, Any]:
        """The response of the token endpoint to a form, to which the client's own credentials are added.

        Raises `IdentityServerRefused` where it refuses the form or the client, else `IdentityUnavailable`.
        """
        metadata, secret = self.get_metadata(), self._settings.client_secret
        client_id, auth, sent = self._settings.client_id, None, dict(form)
        if secret is not None and metadata.takes_secret_in_header:
            # https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1: both are encoded as in a form
            auth = httpx2.BasicAuth(quote_plus(client_id), quote_plus(secret.get_secret_value()))
        else:
            sent["client_id"] = client_id
            if secret is not None:
                sent["client_secret"] = secret.get_secret_value()
        with self._hold(self._exchanging):
            url, refusal = metadata.token_endpoint, IdentityServerRefused
            return self._request_json("POST", url, form=sent, auth=auth, refusal=refusal)

    def close(self) -> None:
        """Read nothing any more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _get_snapshot(self, *, max_age_s: float) -> _Snapshot:
        """What it said, at most so long ago; if it is to be read first, wait for that."""
        snapshot, now_s = self._snapshot, time.monotonic()
        if snapshot and now_s - snapshot.read_s <= max_age_s:
            if now_s - snapshot.read_s > REFRESH_INTERVAL_S:
                self.start_reading()
            return snapshot
        reading = self.start_reading()
        if reading is None:
            raise self._build_error("did not answer a moment ago")
        with self._hold(self._waiting):
            try:
                return reading.result(3 * TIMEOUT_S)
            except FutureTimeout:
                raise self._build_error("does not answer") from None

    def start_reading(self) -> Future[_Snapshot] | None:
        """Wait for nothing: the read that is under way, or a new one; None so soon after one that failed."""
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
            metadata = self._read_metadata()
            keys = self._request_json("GET", metadata.jwks_uri)
        except IdentityUnavailable as error:
            _log.warning("%s", error)
            raise
        self._snapshot = _Snapshot(metadata, _parse_keys(keys), time.monotonic())
        self._failed_s = -float("inf")
        return self._snapshot

    def _read_metadata(self) -> ProviderMetadata:
        issuer = self._settings.issuer
        document = self._request_json("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != issuer:
            raise self._build_error("calls itself by another issuer: set serve.oidc.issuer to what it says")
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        endpoints = [self._parse_endpoint(document.get(name), name) for name in names]
        end_session = document.get("end_session_endpoint")
        methods: object = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
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
    def _hold(self, slots: threading.BoundedSemaphore) -> Generator[None]:
        if not slots.acquire(blocking=False):
            raise self._build_error("has too many requests waiting for it")
        try:
            yield
        finally:
            slots.release()

    def _request_json(
        self,
        method: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        auth: httpx2.BasicAuth | None = None,
        refusal: type[IdentityUnavailable] = IdentityUnavailable,
    ) -> dict[str, Any]:
        """The object of a response; neither its text nor what was sent is in an error."""
        until_s, received = time.monotonic() + TIMEOUT_S, bytearray()
        headers = {"Accept": "application/json"}
        client = httpx2.Client(verify=get_ssl_context(), timeout=TIMEOUT_S, headers=headers)
        try:
            with client, client.stream(method, url, data=form, auth=auth) as response:
                for part in response.iter_bytes():
                    received += part
                    if len(received) > _MAX_BYTES or time.monotonic() > until_s:
                        raise self._build_error("sends too much, or too slowly")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._build_error(f"does not answer ({type(error).__name__})") from None
        if response.status_code != 200:
            error = refusal if response.status_code in (400, 401, 403) else IdentityUnavailable
            raise self._build_error(f"answers with the status {response.status_code}", error)
        try:
            content = json.loads(received)
        except (ValueError, RecursionError):
            content = None
        if not is_object(content):
            raise self._build_error("answers with something that is not a JSON object")
        return content

    def _build_error(
        self, what: str, kind: type[IdentityUnavailable] = IdentityUnavailable
    ) -> IdentityUnavailable:
        server, working = f"the identity server {self._settings.issuer}", "tokens of `knowledge token create`"
        return kind(f"{server} {what}; {working} go on working")


class IdentityServerRefused(IdentityUnavailable):
    """The token endpoint refuses what it was sent: a code that is used, or the client's secret."""


def _parse_keys(document: Mapping[str, Any]) -> dict[str, SigningKey]:
    """The keys that signatures can be checked with, by id; others are left out."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    keys, listed = dict[str, SigningKey](), document.get("keys")
    for jwk in listed if is_list(listed) else ():
        if not is_object(jwk) or jwk.get("use", "sig") != "sig" or not isinstance(jwk.get("kid"), str):
            continue
        curve = "" if jwk.get("kty") == "RSA" else str(jwk.get("crv"))
        possible = _ALGORITHMS.get((str(jwk.get("kty")), curve), ())
        algorithms = tuple(name for name in possible if jwk.get("alg", name) == name)
        try:
            if algorithms:
                keys[jwk["kid"]] = SigningKey(PyJWK(jwk, algorithms[0]), algorithms)
        except (PyJWTError, ValueError, TypeError):
            _log.warning("a key of the identity server cannot be used")
    return keys


_MAX_SUBJECT_CHARS = 300

_OVERAGE = (
    "the identity server left out your groups, because they are too many for a token: have it send those "
    "alone that are assigned to this application (Entra: groupMembershipClaims `ApplicationGroup`), or "
    "application roles, with serve.oidc.claims.groups `roles`"
)


@dataclass(frozen=True, slots=True)
class OidcSubject:
    """A person or program that the identity server knows."""

    id: str  # issuer and user, as the audit log has them
    access: Access
    scopes: frozenset[Scope]
    expires_at_s: int  # of their token, in seconds since 1970

    def access_by(self, interface: str) -> Access:
        """What they may see, as they ask by an interface."""
        return replace(self.access, caller=Caller(interface, self.id))


def name_subject(settings: OidcSettings, claims: Mapping[str, Any]) -> str:
    """Issuer and user of a valid token. Raises `Unauthenticated` where its claim names nobody."""
    user = _find_claim(claims, settings.user_claim)
    if not isinstance(user, str) or not 0 < len(user) <= _MAX_SUBJECT_CHARS or not user.isprintable():
        raise Unauthenticated(
            f"the token names nobody in its claim {settings.user_claim}: correct serve.oidc.claims.user"
        )
    return f"{settings.issuer}#{user}"


def resolve_subject(settings: OidcSettings, claims: Mapping[str, Any], subject_id: str) -> OidcSubject:
    """Whom the claims of a valid token name. Raises `Unauthenticated` for their form, and `Forbidden`."""
    groups = _read_groups(settings, claims)
    listed = [group for group in settings.groups if group.group in groups]
    if settings.only_listed_groups and not listed:
        raise Forbidden("none of your groups may use this server: see serve.oidc.groups")
    scopes = frozenset[Scope](scope for group in listed for scope in group.scopes)
    try:
        access = _build_access(settings, claims, groups, listed)
    except ValueError:
        raise Unauthenticated("the token has a group or tenant whose name cannot be stored") from None
    return OidcSubject(subject_id, access, scopes or frozenset({"query"}), int(claims["exp"]))


def _build_access(
    settings: OidcSettings, claims: Mapping[str, Any], groups: frozenset[str], listed: list[GroupMapping]
) -> Access:
    """Raises ValueError: a name cannot be that of a tenant or a principal."""
    if any(group.everything for group in listed):
        return Access(None, frozenset(), everything=True)
    tenant = _resolve_tenant(settings, claims, listed)
    principals = {name for group in listed for name in group.principals}
    if settings.group_names_are_principals:
        unlisted = groups - {group.group for group in listed}
        principals |= {name for name in unlisted if "@" not in normalize("NFKC", name)}  # no person's address
    email = _find_claim(claims, settings.claims.email)
    is_verified = settings.emails_are_verified or claims.get("email_verified") is True
    if is_verified and isinstance(email, str) and "@" in email:  # else they may have chosen it themselves
        principals.add(email)
    return Access(tenant, frozenset(principals) if tenant else frozenset())


def _resolve_tenant(
    settings: OidcSettings, claims: Mapping[str, Any], listed: list[GroupMapping]
) -> str | None:
    """The tenant of the subject's groups, else of the claim, else of all subjects. Raises `Forbidden`."""
    of_groups = {group.tenant for group in listed if group.tenant}
    if len(of_groups) > 1:
        raise Forbidden("your groups are of several tenants: serve.oidc.groups has to give you one")
    if of_groups or not settings.tenant_claim:
        return of_groups.pop() if of_groups else settings.tenant
    value = _find_claim(claims, settings.tenant_claim)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Unauthenticated(f"the claim {settings.tenant_claim} of the token is not text")
    if not settings.tenants:
        return value
    mapped = [tenant.tenant for tenant in settings.tenants if tenant.value == value]
    if not mapped:
        raise Forbidden("your organisation is none of serve.oidc.tenants: have it added")
    return mapped[0]


def _read_groups(settings: OidcSettings, claims: Mapping[str, Any]) -> frozenset[str]:
    """Raises `Forbidden` where they were left out, and `Unauthenticated` where they make no sense."""
    name = settings.groups_claim
    left_out = claims.get("_claim_names")
    if (is_object(left_out) and name in left_out) or claims.get("hasgroups"):
        raise Forbidden(_OVERAGE)
    value = _find_claim(claims, name)
    groups = [value] if isinstance(value, str) else [] if value is None else value
    if not is_list(groups) or not all(isinstance(group, str) and group for group in groups):
        raise Unauthenticated(
            f"the claim {name} of the token is not a list of names: correct serve.oidc.claims"
        )
    return frozenset(groups)


def _find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of a name, which may have dots itself, else the one that it leads to through objects."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if is_object(value) else None
    return value


MAX_TOKEN_CHARS = 32_000

_NOT_VALID = "the token is not one that the identity server signed for this server: sign in again"
_OTHER_ISSUER = "the token is of another issuer than serve.oidc.issuer: get one from that"
_UNKNOWN_KEY = "the token is signed with a key that the identity server does not have: sign in again"
_NO_ACCESS_TOKEN = "the token identifies a person to a client: send the access token instead"  # noqa: S105
_UNKNOWN_KIND = (
    "the token does not say that it is an access token, and one that identifies a person to a client has the "
    "same audience: send an access token, or give them an audience of their own in serve.oidc.audience"
)
_OTHER_CLIENT = (
    "the token was given to a client that is not allowed here: add it to serve.oidc.allowed_clients"
)
_OTHER_SIGN_IN = "the identity server answered another sign-in than this one: start it again"

_CLAIMS_OF_ID_TOKENS = ("at_hash", "c_hash", "events")
_CLAIMS_OF_ACCESS_TOKENS = ("scope", "scp", "client_id", "cid", "appid", "azpacr")  # RFC 9068, Okta, Entra
_CLIENT_CLAIMS = ("azp", "appid", "client_id", "cid")  # OpenID, Entra's version 1, RFC 9068, Okta
_TYPES_OF_OTHER_TOKENS = ("id", "refresh", "offline", "logout")  # Keycloak's claim `typ`


def _is_access_token(token: str, claims: Mapping[str, Any]) -> bool:
    """Whether a valid token says that it is an access token: an ID token need not say what it is."""
    import jwt

    kinds = str(jwt.get_unverified_header(token).get("typ", "")).lower(), str(claims.get("typ", "")).lower()
    is_named = kinds[0].removeprefix("application/") == "at+jwt" or kinds[1] == "bearer"  # RFC 9068, Keycloak
    return is_named or any(name in claims for name in _CLAIMS_OF_ACCESS_TOKENS)


class JwtVerifier:
    """Checks the signature and the claims of tokens of one identity server. Threads may share it."""

    def __init__(self, settings: OidcSettings, provider: IdentityProvider) -> None:
        self._settings = settings
        self._provider = provider

    def verify_access_token(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that a program sends. Raises `Unauthenticated`, or `IdentityUnavailable`."""
        claims, settings = self.verify_bearer_token(token), self._settings
        if settings.audience in (None, settings.client_id) and not _is_access_token(token, claims):
            raise Unauthenticated(_UNKNOWN_KIND)
        return claims

    def verify_bearer_token(self, token: str) -> Mapping[str, Any]:
        """The same of a service's token, which nobody signs in with and which need not say what it is."""
        claims = self._verify(token, audience=self._settings.audience or self._settings.client_id)
        kind = str(claims.get("typ", "")).lower()
        if kind in _TYPES_OF_OTHER_TOKENS or any(name in claims for name in _CLAIMS_OF_ID_TOKENS):
            raise Unauthenticated(_NO_ACCESS_TOKEN)
        return claims

    def require_allowed(self, claims: Mapping[str, Any]) -> None:
        """Raise `Forbidden` unless an access token has the required scopes, and is of an allowed client."""
        settings = self._settings
        client = next((claims[name] for name in _CLIENT_CLAIMS if name in claims), None)
        if settings.allowed_clients and client not in settings.allowed_clients:
            raise Forbidden(_OTHER_CLIENT)
        scopes = claims.get("scope", claims.get("scp", ""))  # text with spaces, as Entra's `scp`, or a list
        granted = map(str, scopes) if is_list(scopes) else str(scopes).split()
        missing = set(settings.required_scopes) - set(granted)
        if missing:
            raise Forbidden(f"the token lacks the scope {', '.join(sorted(missing))}: ask for it at sign-in")

    def verify_id_token(self, token: str, *, nonce: str) -> Mapping[str, Any]:
        """The claims of a token that answers a sign-in with this nonce; raises as `verify_access_token`.

        https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation
        """
        client_id = self._settings.client_id
        claims = self._verify(token, audience=client_id)
        audience = claims["aud"]
        several = is_list(audience) and len(audience) > 1
        if (several or "azp" in claims) and claims.get("azp") != client_id:
            raise Unauthenticated(_NOT_VALID)
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode("utf-8", "replace"), nonce.encode()):
            raise Unauthenticated(_OTHER_SIGN_IN)
        return claims

    def _verify(self, token: str, *, audience: str) -> dict[str, Any]:
        import jwt
        from jwt import exceptions as invalid

        algorithm, key_id = self._read_header(token)
        signing_key = self._provider.find_key(key_id)
        if signing_key is None:
            raise Unauthenticated(_UNKNOWN_KEY)
        try:
            return jwt.decode(
                token,
                signing_key.key.key,
                algorithms=[name for name in signing_key.algorithms if name == algorithm],
                audience=audience,
                issuer=self._settings.issuer,
                leeway=self._settings.leeway_s,
                options={"require": ["exp", "iat", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except invalid.ExpiredSignatureError:
            reason = "the token has expired: sign in again"
        except invalid.ImmatureSignatureError:
            reason = "the token is not valid yet: see whether this machine's clock is right"
        except invalid.InvalidAudienceError:
            reason = f"the token is meant for others: get one for the audience {audience}"
        except invalid.MissingRequiredClaimError as error:
            reason = f"the token has no claim {error.claim}: get an access token that is a JWT"
        except (invalid.PyJWTError, ValueError, TypeError):
            reason = _NOT_VALID
        raise Unauthenticated(reason)

    def _read_header(self, token: str) -> tuple[str, str]:
        """Algorithm and key id of a token that claims to be the issuer's: no key is sought for another."""
        import jwt
        from jwt.exceptions import PyJWTError

        if len(token) > MAX_TOKEN_CHARS or token.count(".") != 2 or not token.isascii():
            raise Unauthenticated(_NOT_VALID)
        try:
            parts = jwt.decode_complete(token, options={"verify_signature": False})
        except (PyJWTError, ValueError, TypeError, RecursionError):
            raise Unauthenticated(_NOT_VALID) from None
        header: dict[str, Any] = parts["header"]
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(key_id, str) or "crit" in header:
            raise Unauthenticated(_NOT_VALID)
        if algorithm == "none" or algorithm.upper().startswith("HS"):
            raise Unauthenticated("the token has no signature with a public key: sign in again")
        if parts["payload"].get("iss") != self._settings.issuer:
            raise Unauthenticated(_OTHER_ISSUER)
        return algorithm, key_id
