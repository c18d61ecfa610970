"""Tokens of a GitHub App's installations, shared by all that this process reads with the App.

A token lasts an hour and reads all repositories of its installation, so that thousands of sources, and
git beside the API, need one. Tokens are held in memory alone.
Source: https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from knowledge_pipeline.config.connections.repositories import GithubApp
from knowledge_pipeline.errors import KnowledgeError

_RENEW_BEFORE_S = 300.0
_RETRY_FAILED_S = 10.0  # until then, all who wait for the token are told of the same failure

InstallationKey = tuple[str, int, str, str]
"""The API, the App, a hash of its key, and the installation or its owner."""


@dataclass(slots=True)
class _Grant:
    lock: threading.Lock = field(default_factory=threading.Lock)
    token: str = field(default="", repr=False)
    renew_at: float = 0.0
    failure: KnowledgeError | None = None


_grants: defaultdict[InstallationKey, _Grant] = defaultdict(_Grant)


def build_installation_key(url: str, app: GithubApp, owner: str) -> InstallationKey:
    """What a token is kept under; an App is installed once for an owner."""
    secret = sha256(app.private_key.get_secret_value().encode()).hexdigest()
    return url, app.id, secret, str(app.installation_id or owner.lower())


def get_installation_token(key: InstallationKey, grant: Callable[[], tuple[str, float]]) -> str:
    """The token of an installation, which `grant` asks for, with the time of its end, where it is due.

    Raises:
        SourceRefused, SourceUnavailable: as `grant` does, now or a moment ago.
    """
    known = _grants[key]
    with known.lock:
        if time.time() < known.renew_at:
            if known.failure:
                raise known.failure
            return known.token
        try:
            token, expires_at = grant()
        except KnowledgeError as error:
            known.failure, known.renew_at = error, time.time() + _RETRY_FAILED_S
            raise
        known.token, known.renew_at, known.failure = token, expires_at - _RENEW_BEFORE_S, None
        return token


def forget_installation_token(key: InstallationKey) -> None:
    """Ask for a new token the next time: this one was refused, before its end."""
    _grants.pop(key, None)
