"""A mail server (aiosmtpd) on a real socket, with a login and STARTTLS where a test wants them."""

from __future__ import annotations

import socket
import ssl
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


class MailServer:
    """A context manager; `messages` are those that were taken, `secured` whether by TLS."""

    def __init__(
        self,
        *,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        refused: tuple[str, ...] = (),
    ) -> None:
        self.messages: list[EmailMessage] = []
        self.secured: list[bool] = []
        self._login, self._refused = login, refused
        options: dict[str, Any] = {"enable_SMTPUTF8": True}
        if login is not None:
            options |= {
                "authenticator": self._check,
                "auth_required": True,
                "auth_require_tls": tls is not None,
            }
        if tls is not None:
            options |= {"tls_context": tls, "require_starttls": True}
        self.port = _free_port()
        self._controller = Controller(self, hostname="localhost", port=self.port, **options)

    def __enter__(self) -> MailServer:
        self._controller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._controller.stop()

    def _check(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: Any
    ) -> AuthResult:
        del server, session, envelope, mechanism
        assert isinstance(given, LoginPassword)
        return AuthResult(
            success=(given.login.decode(), given.password.decode()) == self._login, handled=False
        )

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self._refused:
            return "550 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        self.messages.append(message_from_bytes(envelope.content, policy=policy.default))
        self.secured.append(session.ssl is not None)
        return "250 taken"


def _free_port() -> int:
    with socket.create_server(("localhost", 0)) as found:
        return found.getsockname()[1]
