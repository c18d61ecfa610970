"""Signs what is delivered to webhooks, so that a receiver knows who sent it, and when.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from knowledge_pipeline.errors import ConfigError

PREFIX = "whsec_"
MIN_KEY_BYTES, MAX_KEY_BYTES = 24, 64


def parse_key(secret: str) -> bytes:
    """The key of a secret, which is its base64. Raises `ConfigError`, without the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise ConfigError(
            f"events.webhooks.secret is not {PREFIX} and the base64 of {MIN_KEY_BYTES} to {MAX_KEY_BYTES} "
            f'bytes: make one with `echo "{PREFIX}$(openssl rand -base64 32)"`'
        )
    return key


def build_headers(key: bytes, id_: str, at_s: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery, sent at a Unix time in whole seconds."""
    signed = f"{id_}.{at_s}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": id_, "webhook-timestamp": str(at_s), "webhook-signature": f"v1,{signature}"}
