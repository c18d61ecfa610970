"""Sessions of people who have signed in at the identity server, in the memory of this process or shared.

A session ends with the token that it began with, when its person signs out, and with the server.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict

from pydantic import TypeAdapter

from knowledge_pipeline.serve.oidc.principals import OidcSubject
from knowledge_pipeline.store.shared_state import SharedState

PREFIX = "kps_"

_MAX_SESSIONS = 10_000  # the oldest ends for one more


class PageSessions:
    """All sessions, by a digest of their secret. Threads may share it."""

    def __init__(self) -> None:
        self._subjects: OrderedDict[str, OidcSubject] = OrderedDict()
        self._lock = threading.Lock()

    def create(self, subject: OidcSubject) -> str:
        """The secret of a new session."""
        secret = f"{PREFIX}{secrets.token_urlsafe(32)}"
        with self._lock:
            self._subjects[_hash(secret)] = subject
            while len(self._subjects) > _MAX_SESSIONS:
                self._subjects.popitem(last=False)
        return secret

    def find(self, secret: str) -> OidcSubject | None:
        """Whose session it is; None if it is not known, or over."""
        digest = _hash(secret)
        with self._lock:
            subject = self._subjects.get(digest)
            if subject and subject.expires_at_s <= time.time():
                del self._subjects[digest]
                return None
            return subject

    def end(self, secret: str) -> bool:
        """End a session; whether there was one."""
        with self._lock:
            return self._subjects.pop(_hash(secret), None) is not None


class SharedPageSessions(PageSessions):
    """The sessions of all processes that share a state."""

    def __init__(self, state: SharedState) -> None:
        super().__init__()
        self._state = state

    def create(self, subject: OidcSubject) -> str:
        """See `PageSessions.create`."""
        secret = f"{PREFIX}{secrets.token_urlsafe(32)}"
        content = TypeAdapter(OidcSubject).dump_json(subject)
        ttl_s = max(0.0, subject.expires_at_s - time.time())
        self._state.put("session", _hash(secret), content, ttl_s=ttl_s)
        return secret

    def find(self, secret: str) -> OidcSubject | None:
        """See `PageSessions.find`."""
        content = self._state.get("session", _hash(secret))
        return TypeAdapter(OidcSubject).validate_json(content) if content else None

    def end(self, secret: str) -> bool:
        """See `PageSessions.end`."""
        return self._state.remove("session", _hash(secret))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
