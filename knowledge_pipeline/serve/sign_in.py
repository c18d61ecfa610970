"""Signing in by an identity server: the authorization code flow with PKCE, state and nonce, and sessions.

What a browser has to bring back is kept by the browser itself, in a cookie that no script reads.
https://openid.net/specs/openid-connect-core-1_0.html#CodeFlowAuth, https://www.rfc-editor.org/rfc/rfc7636
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

from pydantic import TypeAdapter

from knowledge_pipeline.config.operation import OidcSettings
from knowledge_pipeline.errors import Forbidden, Unauthenticated
from knowledge_pipeline.serve import oidc
from knowledge_pipeline.serve.tokens import CALLBACK_PATH, MAX_PENDING_S, hash_secret
from knowledge_pipeline.store.local_state import SharedState
from knowledge_pipeline.text import is_object

PREFIX = "kps_"

_MAX_PATH_CHARS = 1_500
_MAX_ENTRIES = 10_000  # sessions, and sign-ins that were answered: anybody can begin one
_ERROR_NAME = re.compile(r"[a-z_]{1,60}")
_AGAIN = "this sign-in was not begun in this browser, or is over: start it again"


@dataclass(frozen=True, slots=True)
class _PendingSignIn:
    """What one sign-in has to be answered with; the text of a cookie while it is under way."""

    state: str
    nonce: str
    code_verifier: str
    path: str  # of the page that is shown next

    def to_cookie(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def from_cookie(cls, text: str) -> _PendingSignIn:
        """Raises `Unauthenticated` for what is none."""
        try:
            fields: Any = json.loads(base64.urlsafe_b64decode(text))
        except (ValueError, binascii.Error, RecursionError):
            fields = None
        names = cls.__dataclass_fields__
        if not is_object(fields) or fields.keys() != names.keys() or not all(fields[name] for name in names):
            raise Unauthenticated(_AGAIN)
        return cls(**{name: str(fields[name]) for name in names})


class OidcAuthenticator:
    """One identity server: signing in there, and the sessions of those who did. Threads may share it.

    A session is kept by a digest of its secret, and ends with the token that it began with, when its person
    signs out, and with the server.
    """

    def __init__(self, settings: OidcSettings, state: SharedState | None = None) -> None:
        """Prepare; with a `state`, sessions and sign-ins are those of all processes that share it."""
        self._settings = settings
        self._provider = oidc.IdentityProvider(settings)
        self._verifier = oidc.JwtVerifier(settings, self._provider)
        self._state = state or SharedState(None)
        self._subjects = TypeAdapter(oidc.OidcSubject)
        self._redirect_uri = f"{settings.origin}{CALLBACK_PATH}"

    def identify(self, secret: str) -> oidc.OidcSubject:
        """Whose access token or session it is. Raises as `Service.identify`."""
        if secret.startswith(PREFIX):
            content = self._state.get("session", hash_secret(secret))
            if content is None:
                raise Unauthenticated("the session is over: sign in again")
            return self._subjects.validate_json(content)
        return self._resolve(self._verifier.verify_access_token(secret), is_access_token=True)

    def begin_sign_in(self, path: str) -> tuple[str, str]:
        """The address to send a browser to, and the cookie to keep there. Raises `IdentityUnavailable`."""
        kept = path if len(path) <= _MAX_PATH_CHARS else "/"
        state, nonce, code_verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = hashlib.sha256(code_verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        address = _add_query(self._provider.get_metadata().authorization_endpoint, query)
        return address, _PendingSignIn(state, nonce, code_verifier, kept).to_cookie()

    def finish_sign_in(self, answer: Mapping[str, str], cookie: str) -> tuple[oidc.OidcSubject, str, str]:
        """Who has signed in, the secret of their session, and the path to show next. Raises as `identify`."""
        pending = _PendingSignIn.from_cookie(cookie)
        sent_state = answer.get("state", "").encode("utf-8", "replace")
        if not hmac.compare_digest(sent_state, pending.state.encode()):
            raise Unauthenticated(_AGAIN)
        is_first = self._state.put(
            "sign-in", pending.state, b"", ttl_s=MAX_PENDING_S, max_entries=_MAX_ENTRIES
        )
        if not is_first or answer.get("iss", self._settings.issuer) != self._settings.issuer:
            raise Unauthenticated(_AGAIN)
        if "code" not in answer:
            error = answer.get("error", "")
            name = error if _ERROR_NAME.fullmatch(error) else "without a reason"
            raise Unauthenticated(f"the identity server refused the sign-in ({name}): start it again")
        claims = self._verifier.verify_id_token(self._redeem(answer["code"], pending), nonce=pending.nonce)
        subject = self._resolve(claims, is_access_token=False)
        secret = f"{PREFIX}{secrets.token_urlsafe(32)}"
        ttl_s = max(0.0, subject.expires_at_s - time.time())
        content = self._subjects.dump_json(subject)
        self._state.put("session", hash_secret(secret), content, ttl_s=ttl_s, max_entries=_MAX_ENTRIES)
        return subject, secret, pending.path

    def end_session(self, secret: str) -> bool:
        """End a session; whether there was one."""
        return self._state.remove("session", hash_secret(secret))

    def build_sign_out_url(self) -> str | None:
        """Where the person can sign out of the identity server itself; None where it has no such page."""
        endpoint = self._provider.get_metadata().end_session_endpoint
        page = f"{self._settings.origin}/"
        query = {"client_id": self._settings.client_id, "post_logout_redirect_uri": page}
        return endpoint and _add_query(endpoint, query)

    def warm(self) -> None:
        """Begin to read the keys, before the first token has to wait for them."""
        self._provider.start_reading()

    def close(self) -> None:
        """Read nothing any more."""
        self._provider.close()

    def _redeem(self, code: str, pending: _PendingSignIn) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": pending.code_verifier,
        }
        try:
            token: object = self._provider.exchange(form).get("id_token")
        except oidc.IdentityServerRefused as error:
            raise Unauthenticated(str(error)) from None
        if not isinstance(token, str):
            raise Unauthenticated(
                "the identity server sent no ID token: serve.oidc.scopes has to contain openid"
            )
        return token

    def _resolve(self, claims: Mapping[str, Any], *, is_access_token: bool) -> oidc.OidcSubject:
        subject_id = oidc.name_subject(self._settings, claims)
        try:
            if is_access_token:
                self._verifier.require_allowed(claims)
            return oidc.resolve_subject(self._settings, claims, subject_id)
        except Forbidden as error:
            raise Forbidden(str(error), subject=subject_id) from None


def _add_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"
