"""A service account of Google: its key, made once a process, and how the token endpoint checks a request."""

from __future__ import annotations

from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "https://oauth2.googleapis.com/token"  # of every assertion, wherever it is sent
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
MAX_LIFETIME_S = 3600  # of an assertion, as Google has it


@cache
def _make_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def build_key(token_uri: str, *, email: str = "reader@example.org") -> dict[str, Any]:
    """The content of a key file."""
    pem = _make_key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "project_id": "p", "client_email": email}
    return account | {"private_key": pem.decode(), "private_key_id": "1", "token_uri": token_uri}


def check_grant(form: dict[str, list[str]], *, email: str, scope: str) -> str | None:
    """Why a request for a token is refused, or None; the signature and the claims count.

    https://developers.google.com/identity/protocols/oauth2/service-account#httprest
    """
    if form.get("grant_type") != [GRANT]:
        return "unsupported_grant_type"
    try:
        claims = jwt.decode(
            form["assertion"][0],
            _make_key().public_key(),
            algorithms=["RS256"],
            audience=AUDIENCE,
            issuer=email,
            options={"require": ["exp", "iat", "iss", "aud", "scope"]},
        )
    except (jwt.InvalidTokenError, KeyError):
        return "invalid_grant"
    if claims["exp"] - claims["iat"] > MAX_LIFETIME_S:
        return "invalid_grant"
    return None if scope in claims["scope"].split() else "invalid_scope"
