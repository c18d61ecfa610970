"""Checks the signature and the claims of tokens. No part of a token is in an error or a log."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from knowledge_pipeline.config.identity import OidcSettings
from knowledge_pipeline.errors import Forbidden, Unauthenticated
from knowledge_pipeline.json_values import is_list
from knowledge_pipeline.serve.oidc.provider import IdentityProvider

MAX_TOKEN_CHARS = 32_000

_NOT_VALID = "the token is not one that the identity server signed for this server: sign in again"
_OTHER_ISSUER = "the token is of another issuer than serve.oidc.issuer: get one from that"
_UNKNOWN_KEY = "the token is signed with a key that the identity server does not have: sign in again"
_NO_ACCESS_TOKEN = "the token identifies a person to a client: send the access token instead"  # noqa: S105
_OTHER_CLIENT = (
    "the token was given to a client that is not allowed here: add it to serve.oidc.allowed_clients"
)
_OTHER_SIGN_IN = "the identity server answered another sign-in than this one: start it again"

_CLAIMS_OF_ID_TOKENS = ("at_hash", "c_hash", "events")
_CLIENT_CLAIMS = ("azp", "appid", "client_id", "cid")  # OpenID, Entra's version 1, RFC 9068, Okta
_TYPES_OF_OTHER_TOKENS = ("id", "refresh", "offline", "logout")  # Keycloak's claim `typ`


class JwtVerifier:
    """Checks tokens of one identity server. Threads may share it."""

    def __init__(self, settings: OidcSettings, provider: IdentityProvider) -> None:
        self._settings = settings
        self._provider = provider

    def verify_access_token(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that a program sends with its requests.

        Raises:
            Unauthenticated: it is not valid, or not meant for this server.
            IdentityUnavailable: its key is not known, and cannot be had now.
        """
        claims = self._verify(token, audience=self._settings.audience or self._settings.client_id)
        kind = str(claims.get("typ", "")).lower()
        if kind in _TYPES_OF_OTHER_TOKENS or any(name in claims for name in _CLAIMS_OF_ID_TOKENS):
            raise Unauthenticated(_NO_ACCESS_TOKEN)
        return claims

    def require_allowed(self, claims: Mapping[str, Any]) -> None:
        """Raise `Forbidden` unless an access token has the scopes, and is of a client, that are asked for."""
        settings = self._settings
        client = next((claims[name] for name in _CLIENT_CLAIMS if name in claims), None)
        if settings.allowed_clients and client not in settings.allowed_clients:
            raise Forbidden(_OTHER_CLIENT)
        missing = set(settings.required_scopes) - set(_list_scopes(claims))
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
        found = self._provider.find_key(key_id)
        if found is None:
            raise Unauthenticated(_UNKNOWN_KEY)
        try:
            return jwt.decode(
                token,
                found.key.key,
                algorithms=[name for name in found.algorithms if name == algorithm],
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


def _list_scopes(claims: Mapping[str, Any]) -> list[str]:
    """Those of a token: text with spaces (`scope`, Entra's `scp`) or a list (`scp` of others)."""
    given = claims.get("scope", claims.get("scp", ""))
    return [str(each) for each in given] if is_list(given) else str(given).split()
