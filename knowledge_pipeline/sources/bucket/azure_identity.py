"""Who asks Azure Blob Storage: an account's key, or a token of this machine's identity.

API: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests

from knowledge_pipeline.config.connections.buckets import AzureConnection
from knowledge_pipeline.errors import ConfigError, SourceRefused
from knowledge_pipeline.extras import describe_missing

_SCOPE = "https://storage.azure.com/.default"
_SIGNED_HEADERS = (
    *("content-encoding", "content-language", "content-length", "content-md5", "content-type", "date"),
    *("if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"),
)

Auth = Callable[[requests.PreparedRequest], requests.PreparedRequest]


def build_auth(connection: AzureConnection, service: str) -> Auth:
    """What signs each request of a session; a SAS is part of the address, and signs nothing.

    Raises:
        ConfigError: the machine's identity is needed, and its library is not installed.
        SourceRefused: the key is not one.
    """
    if connection.account_key:
        try:
            key = base64.b64decode(connection.account_key.get_secret_value(), validate=True)
        except binascii.Error:
            raise SourceRefused(
                "connection.account_key is not the key of an account: copy it again"
            ) from None
        return lambda request: _sign(request, connection.account, key)
    if connection.anonymous or connection.sas_token:
        return lambda request: request  # given, so that no other login of this machine is sent
    return _IdentityAuth(service)


class _IdentityAuth:
    """Signs in as this machine: by variables, a managed or workload identity, or the command line."""

    def __init__(self, service: str) -> None:
        try:
            from azure.identity import DefaultAzureCredential
        except ImportError:
            raise ConfigError(describe_missing("the identity of this machine at Azure", "azure")) from None
        self._service = service
        self._credential: Any = DefaultAzureCredential()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        from azure.core.exceptions import AzureError

        try:
            token = self._credential.get_token(_SCOPE).token  # kept until it expires
        except AzureError as error:
            raise SourceRefused(
                f"{self._service} needs an identity, and this machine has none ({type(error).__name__}): set "
                "connection.account_key or connection.sas_token, log in with `az login`, or set "
                "connection.anonymous for a public container"
            ) from None
        request.headers["Authorization"] = f"Bearer {token}"
        return request


def _sign(request: requests.PreparedRequest, account: str, key: bytes) -> requests.PreparedRequest:
    """Add the signature of a request that has no content."""
    request.headers["x-ms-date"] = formatdate(usegmt=True)
    address = urlsplit(str(request.url))
    headers = {name.lower(): str(value) for name, value in request.headers.items()}
    query = sorted(parse_qsl(address.query, keep_blank_values=True))
    lines = [
        str(request.method),
        *("" if name == "content-length" else headers.get(name, "") for name in _SIGNED_HEADERS),
        *(f"{name}:{value}" for name, value in sorted(headers.items()) if name.startswith("x-ms-")),
        f"/{account}{address.path}",
        *(f"{name}:{value}" for name, value in query),
    ]
    signature = base64.b64encode(hmac.digest(key, "\n".join(lines).encode(), hashlib.sha256)).decode()
    request.headers["Authorization"] = f"SharedKey {account}:{signature}"
    return request
