"""Whether a delivery is of the service that it claims to be of. Every comparison takes constant time.

Sources: https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries,
https://docs.slack.dev/authentication/verifying-requests-from-slack,
https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import SecretStr

from knowledge_pipeline.config.operation import GcsPushSettings
from knowledge_pipeline.errors import Unauthenticated

if TYPE_CHECKING:
    from knowledge_pipeline.serve.oidc.jwt_verifier import JwtVerifier

Headers = Mapping[str, str]  # by name in lower case

SLACK_TOLERANCE_S = 300.0


def require_signature(secret: SecretStr, key: str, body: bytes, signature: str | None) -> None:
    """Raise `Unauthenticated` unless a signature `sha256=...` is that of the body."""
    if not _equals("sha256=" + _sign(secret, body), signature):
        raise Unauthenticated(f"the signature is not that of serve.webhooks.{key} and this body")


def require_token(token: SecretStr, key: str, received: str | None) -> None:
    """Raise `Unauthenticated` unless a token is the one of the settings."""
    if not _equals(token.get_secret_value(), received):
        raise Unauthenticated(f"the token is not the one of serve.webhooks.{key}")


def require_bearer(token: SecretStr, key: str, headers: Headers) -> None:
    """Raise `Unauthenticated` unless `Authorization` has the token of the settings."""
    scheme, _, received = headers.get("authorization", "").partition(" ")
    require_token(token, key, received.strip() if scheme.lower() == "bearer" else None)


def require_signature_or_bearer(secret: SecretStr, key: str, body: bytes, headers: Headers) -> None:
    """Raise `Unauthenticated` unless the body is signed, as webhooks do, or the secret itself is sent.

    Rules of Atlassian's automation cannot sign what they send.
    """
    if "x-hub-signature" in headers:
        require_signature(secret, key, body, headers["x-hub-signature"])
    else:
        require_bearer(secret, key, headers)


def require_slack_signature(secret: SecretStr, body: bytes, headers: Headers) -> None:
    """Raise `Unauthenticated` unless Slack signed the body within the last five minutes."""
    stamp = headers.get("x-slack-request-timestamp", "")
    is_time = stamp.isascii() and stamp.isdecimal() and len(stamp) <= 12
    if not is_time or abs(time.time() - int(stamp)) > SLACK_TOLERANCE_S:
        raise Unauthenticated("the delivery has no time of the last five minutes: see this machine's clock")
    expected = "v0=" + _sign(secret, b"v0:" + stamp.encode() + b":" + body)
    if not _equals(expected, headers.get("x-slack-signature")):
        raise Unauthenticated("the signature is not that of serve.webhooks.slack_secret and this body")


def require_google_token(settings: GcsPushSettings, headers: Headers) -> None:
    """Raise `Unauthenticated` unless a token of Google names the audience and the service account.

    Waits for Google's keys, where they are not known yet.

    Raises:
        IdentityUnavailable: they cannot be had now.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise Unauthenticated("there is no token")
        claims = _build_verifier(settings.issuer, settings.audience).verify_access_token(token.strip())
    except Unauthenticated:
        raise Unauthenticated(
            "the delivery has no token of Google's for serve.webhooks.gcs.audience"
        ) from None
    is_account = _equals(settings.service_account, str(claims.get("email", "")))
    if not is_account or claims.get("email_verified") is not True:
        raise Unauthenticated("the token is not of the account in serve.webhooks.gcs.service_account")


@lru_cache(maxsize=4)
def _build_verifier(issuer: str, audience: str) -> JwtVerifier:
    from knowledge_pipeline.config.identity import OidcSettings
    from knowledge_pipeline.serve.oidc.jwt_verifier import JwtVerifier
    from knowledge_pipeline.serve.oidc.provider import IdentityProvider

    # nobody signs in here: only the keys of the issuer are asked for
    settings = OidcSettings(issuer=issuer, client_id=audience, public_url="https://localhost")
    return JwtVerifier(settings, IdentityProvider(settings))


def _sign(secret: SecretStr, content: bytes) -> str:
    return hmac.new(secret.get_secret_value().encode(), content, hashlib.sha256).hexdigest()


def _equals(expected: str, received: str | None) -> bool:
    return hmac.compare_digest(expected.encode(), (received or "").encode("utf-8", "replace"))
