"""Identifies people and programs by an identity server: all that the rest of the server uses of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge_pipeline.config.identity import OidcSettings
from knowledge_pipeline.errors import Forbidden, Unauthenticated
from knowledge_pipeline.serve.oidc.jwt_verifier import JwtVerifier
from knowledge_pipeline.serve.oidc.principals import OidcSubject, name_subject, resolve_subject
from knowledge_pipeline.serve.oidc.provider import IdentityProvider
from knowledge_pipeline.serve.oidc.sessions import PREFIX, PageSessions, SharedPageSessions
from knowledge_pipeline.serve.oidc.sign_in import PendingSignIn, SignInFlow
from knowledge_pipeline.store.shared_state import SharedState

_SESSION_OVER = "the session is over: sign in again"


class OidcAuthenticator:
    """One identity server, and the sessions of those who signed in there. Threads may share it."""

    def __init__(self, settings: OidcSettings, state: SharedState | None = None) -> None:
        """Prepare; with a `state`, sessions are those of all processes that share it."""
        self._settings = settings
        self._provider = IdentityProvider(settings)
        self._verifier = JwtVerifier(settings, self._provider)
        self.sign_in = SignInFlow(settings, self._provider, self._verifier, state)
        self.sessions = SharedPageSessions(state) if state else PageSessions()

    def identify(self, secret: str) -> OidcSubject:
        """Whose access token or session it is.

        Raises:
            Unauthenticated: it is not valid.
            Forbidden: they may not use this server.
            IdentityUnavailable: the identity server would have to be asked, and does not answer.
        """
        if secret.startswith(PREFIX):
            subject = self.sessions.find(secret)
            if subject is None:
                raise Unauthenticated(_SESSION_OVER)
            return subject
        claims = self._verifier.verify_access_token(secret)
        return self._resolve(claims, is_access_token=True)

    def finish_sign_in(self, answer: Mapping[str, str], cookie: str) -> tuple[OidcSubject, str, str]:
        """Who has signed in, the secret of their session, and the path to show next.

        Raises as `identify`.
        """
        pending = PendingSignIn.from_cookie(cookie)
        subject = self._resolve(self.sign_in.finish(answer, pending), is_access_token=False)
        return subject, self.sessions.create(subject), pending.path

    def warm(self) -> None:
        """Begin to read the keys, before the first token has to wait for them."""
        self._provider.warm()

    def close(self) -> None:
        """Read nothing any more."""
        self._provider.close()

    def _resolve(self, claims: Mapping[str, Any], *, is_access_token: bool) -> OidcSubject:
        subject_id = name_subject(self._settings, claims)
        try:
            if is_access_token:
                self._verifier.require_allowed(claims)
            return resolve_subject(self._settings, claims, subject_id)
        except Forbidden as error:
            raise Forbidden(str(error), subject=subject_id) from None
