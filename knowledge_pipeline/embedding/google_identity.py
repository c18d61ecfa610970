"""Access tokens of Google Cloud: of a service account by its key, or of the identity of this machine.

Neither keys nor tokens are ever part of a message, nor what Google says of them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import google.auth
import httpx2
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from google.auth.transport import Request, Response
from google.oauth2.service_account import Credentials
from pydantic import SecretStr

from knowledge_pipeline.endpoints import EndpointRefused, EndpointUnavailable, get_ssl_context
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.text import is_object

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TRANSIENT_STATUSES = frozenset({408, 429})
_KEY = "embedding.service_account"
_FIX = f"set {_KEY} to a service account's key, or to the path of the file that holds it"


class GoogleIdentity:
    """Who asks Google. A token is kept until four minutes before it expires; threads may share it."""

    def __init__(self, service_account: SecretStr | None, *, timeout_s: float) -> None:
        """Nothing is sent. Without a key, or the path of a file with one, it is this machine's identity.

        Raises `ConfigError`: it is not the key of a service account.
        """
        self._credentials: Any = _load_key(service_account) if service_account else None
        self._transport = _HttpTransport(timeout_s)
        self._lock = threading.Lock()

    def get_token(self) -> str:
        """An access token that is valid for some minutes at least.

        Raises:
            EndpointUnavailable: Google does not answer.
            EndpointRefused: Google does not accept the identity, or this machine has none.
        """
        with self._lock:  # of the threads that share a token, one asks for the next
            if self._credentials is None:
                self._credentials = _find_default_credentials()
            if not self._credentials.valid or self._credentials.expired:
                self._refresh()
            return self._credentials.token

    def renew_token(self, refused: str) -> str:
        """Another token than one that was refused. Errors as `get_token`."""
        with self._lock:
            if self._credentials.token == refused:
                self._refresh()
            return self._credentials.token

    def _refresh(self) -> None:
        try:
            self._credentials.refresh(self._transport)
        except TransportError as error:
            raise EndpointUnavailable(f"gets no token, as Google's identity service {error}") from None
        except (GoogleAuthError, ValueError) as error:  # ValueError: the response is no token
            raise EndpointRefused(
                f"gets no token ({type(error).__name__}): see whether the key is deleted or the clock wrong, "
                f"and {_FIX}"
            ) from None


class _HttpTransport(Request):
    """How google-auth asks for tokens: with the certificates that all endpoints trust."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> Response:
        """The response; raises TransportError where another try may get one, which is not for google-auth."""
        try:
            with httpx2.Client(timeout=timeout or self._timeout_s, verify=get_ssl_context()) as client:
                response = client.request(method, url, content=body, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise TransportError(f"does not answer ({type(error).__name__})") from None
        if response.status_code in _TRANSIENT_STATUSES or response.status_code >= 500:
            raise TransportError(f"answers {response.status_code}")
        content: Any = SimpleNamespace(
            status=response.status_code, headers=response.headers, data=response.content
        )
        return content


def _load_key(service_account: SecretStr) -> Any:
    """The credentials of a key; ConfigError, which shows nothing of a key, where it is none."""
    text = service_account.get_secret_value().strip()
    is_key = text.startswith("{")
    try:
        key: Any = json.loads(text if is_key else Path(text).expanduser().read_text("utf-8"))
        if not is_object(key):
            raise ValueError
        return Credentials.from_service_account_info(key, scopes=[_SCOPE])  # pyright: ignore[reportUnknownMemberType]  # google-auth leaves it untyped
    except (OSError, RuntimeError) as error:  # RuntimeError: a home folder that does not exist
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(f"{_KEY} names a file that cannot be read ({why}): {_FIX}") from None
    except (GoogleAuthError, ValueError):
        raise ConfigError(f"{_KEY} is not the key of a service account: {_FIX}") from None


def _find_default_credentials() -> Any:
    try:
        return google.auth.default(scopes=[_SCOPE])[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # google-auth leaves it untyped
    except DefaultCredentialsError:
        raise EndpointRefused(
            f"needs an identity: {_FIX}, or log in with `gcloud auth application-default login`"
        ) from None
