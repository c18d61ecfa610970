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

_MAX_PATH_CHARS = 1_500
_ERROR_NAME = re.compile(r"[a-z_]{1,60}")
_AGAIN = "this sign-in was not begun in this browser, or is over: start it again"


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """What one sign-in has to be answered with."""

    state: str
    nonce: str
    code_verifier: str
    path: str  # of the page that is shown next

    def to_cookie(self) -> str:
        """Its text in a cookie."""
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def from_cookie(cls, text: str) -> PendingSignIn:
        """The one of a cookie. Raises `Unauthenticated` for what is none."""
        try:
            fields: Any = json.loads(base64.urlsafe_b64decode(text))
        except (ValueError, binascii.Error, RecursionError):
            fields = None
        names = cls.__dataclass_fields__
        if not is_object(fields) or fields.keys() != names.keys() or not all(fields[name] for name in names):
            raise Unauthenticated(_AGAIN)
        return cls(**{name: str(fields[name]) for name in names})


class SignInFlow:
    """Begins and ends sign-ins at one identity server. Threads may share it."""

    def __init__(
        self,
        settings: OidcSettings,
        provider: oidc.IdentityProvider,
        verifier: oidc.JwtVerifier,
        state: SharedState,
    ) -> None:
        """Prepare; a sign-in is finished once by all that share a `state`."""
        self._settings, self._provider, self._verifier, self._state = settings, provider, verifier, state

    def begin(self, path: str) -> tuple[str, PendingSignIn]:
        """The address to send a browser to, and what it has to keep. Raises `IdentityUnavailable`."""
        kept = path if len(path) <= _MAX_PATH_CHARS else "/"
        state, nonce, code_verifier = (secrets.token_urlsafe(32) for _ in range(3))
        pending = PendingSignIn(state, nonce, code_verifier, kept)
        challenge = hashlib.sha256(pending.code_verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self._settings.scopes),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return _add_query(self._provider.get_metadata().authorization_endpoint, query), pending

    def finish(self, answer: Mapping[str, str], pending: PendingSignIn) -> Mapping[str, Any]:
        """The claims of the person whom the identity server has sent back with an answer.

        Raises `Unauthenticated` for an answer to no sign-in of this browser, or to one that is over or
        refused, and `IdentityUnavailable`.
        """
        sent_state = answer.get("state", "").encode("utf-8", "replace")
        if not hmac.compare_digest(sent_state, pending.state.encode()):
            raise Unauthenticated(_AGAIN)
        is_first = self._state.put("sign-in", pending.state, b"", ttl_s=MAX_PENDING_S)
        if not is_first or answer.get("iss", self._settings.issuer) != self._settings.issuer:
            raise Unauthenticated(_AGAIN)
        if "code" not in answer:
            error = answer.get("error", "")
            name = error if _ERROR_NAME.fullmatch(error) else "without a reason"
            raise Unauthenticated(f"the identity server refused the sign-in ({name}): start it again")
        return self._verifier.verify_id_token(self._redeem(answer["code"], pending), nonce=pending.nonce)

    def build_sign_out_url(self) -> str | None:
        """Where the person can sign out of the identity server itself; None where it has no such page."""
        endpoint = self._provider.get_metadata().end_session_endpoint
        query = {
            "client_id": self._settings.client_id,
            "post_logout_redirect_uri": f"{self._settings.origin}/",
        }
        return endpoint and _add_query(endpoint, query)

    def _redeem(self, code: str, pending: PendingSignIn) -> str:
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

    @property
    def _redirect_uri(self) -> str:
        return f"{self._settings.origin}{CALLBACK_PATH}"


def _add_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


PREFIX = "kps_"


class PageSessions:
    """All sessions in a state, by a digest of their secret. Threads may share it.

    A session ends with the token that it began with, when its person signs out, and with the server.
    """

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._adapter = TypeAdapter(oidc.OidcSubject)

    def create(self, subject: oidc.OidcSubject) -> str:
        """The secret of a new session."""
        secret = f"{PREFIX}{secrets.token_urlsafe(32)}"
        ttl_s = max(0.0, subject.expires_at_s - time.time())
        self._state.put("session", hash_secret(secret), self._adapter.dump_json(subject), ttl_s=ttl_s)
        return secret

    def find(self, secret: str) -> oidc.OidcSubject | None:
        """Whose session it is; None if it is not known, or over."""
        content = self._state.get("session", hash_secret(secret))
        return self._adapter.validate_json(content) if content else None

    def end(self, secret: str) -> bool:
        """End a session; whether there was one."""
        return self._state.remove("session", hash_secret(secret))


_SESSION_OVER = "the session is over: sign in again"


class OidcAuthenticator:
    """One identity server, and the sessions of those who signed in there. Threads may share it."""

    def __init__(self, settings: OidcSettings, state: SharedState | None = None) -> None:
        """Prepare; with a `state`, sessions are those of all processes that share it."""
        self._settings = settings
        self._provider = oidc.IdentityProvider(settings)
        self._verifier = oidc.JwtVerifier(settings, self._provider)
        state = state or SharedState(None)
        self.sign_in = SignInFlow(settings, self._provider, self._verifier, state)
        self.sessions = PageSessions(state)

    def identify(self, secret: str) -> oidc.OidcSubject:
        """Whose access token or session it is. Raises as `Service.identify`."""
        if secret.startswith(PREFIX):
            subject = self.sessions.find(secret)
            if subject is None:
                raise Unauthenticated(_SESSION_OVER)
            return subject
        return self._resolve(self._verifier.verify_access_token(secret), is_access_token=True)

    def finish_sign_in(self, answer: Mapping[str, str], cookie: str) -> tuple[oidc.OidcSubject, str, str]:
        """Who has signed in, the secret of their session, and the path to show next. Raises as `identify`."""
        pending = PendingSignIn.from_cookie(cookie)
        subject = self._resolve(self.sign_in.finish(answer, pending), is_access_token=False)
        return subject, self.sessions.create(subject), pending.path

    def warm(self) -> None:
        """Begin to read the keys, before the first token has to wait for them."""
        self._provider.start_reading()

    def close(self) -> None:
        """Read nothing any more."""
        self._provider.close()

    def _resolve(self, claims: Mapping[str, Any], *, is_access_token: bool) -> oidc.OidcSubject:
        subject_id = oidc.name_subject(self._settings, claims)
        try:
            if is_access_token:
                self._verifier.require_allowed(claims)
            return oidc.resolve_subject(self._settings, claims, subject_id)
        except Forbidden as error:
            raise Forbidden(str(error), subject=subject_id) from None
