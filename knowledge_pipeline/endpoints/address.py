"""Where an endpoint is, and who asks."""

from __future__ import annotations

import os
import ssl
from functools import cache

import httpx
from pydantic import SecretStr

from knowledge_pipeline.errors import ConfigError


def parse_endpoint_url(base_url: str, *, section: str) -> httpx.URL:
    """The URL that an endpoint's paths are relative to.

    Raises:
        ConfigError: it is no HTTP URL; the message names the section of `knowledge.yaml`.
    """
    try:
        url = httpx.URL(base_url.rstrip("/"))
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{section}.base_url is no URL: write it like https://api.openai.com/v1")
    return url


def format_url(url: httpx.URL) -> str:
    """The URL as messages name it: without user, password and query."""
    return str(url.copy_with(userinfo=b"", query=None))


def build_auth_headers(api_key: SecretStr | None, *, section: str) -> dict[str, str]:
    """The header that carries the key; none without a key.

    Raises:
        ConfigError: no header can carry the key.
    """
    key = api_key.get_secret_value().strip() if api_key else ""
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{section}.api_key holds a character that no header can carry: set it again")
    return {"Authorization": f"Bearer {key}"} if key else {}


def get_ssl_context() -> ssl.SSLContext:
    """Whose certificates a client takes, read once: 40 ms, which each new client would pay again.

    As httpx chooses: those of `SSL_CERT_FILE` or `SSL_CERT_DIR`, or else those of certifi.
    """
    return _create_ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _create_ssl_context(*_environment: str | None) -> ssl.SSLContext:
    return httpx.create_ssl_context()
