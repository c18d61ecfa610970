"""What the fakes on a real socket share: a server in threads, and answers that may go wrong on their way."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as it came in."""

    verb: str
    target: str  # path and query
    headers: Mapping[str, str]  # by name, however it is spelled
    content: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query)

    @property
    def authorization(self) -> str:
        return self.headers.get("Authorization", "")


@dataclass(frozen=True, slots=True)
class Sent:
    """One answer, after `wait_s`. With `cut_off` half of it is sent, then the connection is closed."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    cut_off: bool = False


class Served(ABC):
    """A context manager that answers on 127.0.0.1 while it is open."""

    def __init__(self) -> None:
        self.connections: set[socket.socket] = set()
        self.closing = threading.Event()
        self._listen(("127.0.0.1", 0))

    @abstractmethod
    def send(self, asked: Asked) -> Sent:
        """The answer to a request; called in a thread of its own."""

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._stop_listening()

    @contextmanager
    def refusing_connections(self) -> Iterator[None]:
        """Nobody listens for a while."""
        address = self._server.server_address
        self._stop_listening()
        yield
        self._listen(("127.0.0.1", address[1]))
        self._thread.start()

    def _listen(self, address: tuple[str, int]) -> None:
        self._server = ThreadingHTTPServer(address, _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def _stop_listening(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()


def _handler(server: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            server.connections.add(self.connection)

        def finish(self) -> None:
            server.connections.discard(self.connection)
            super().finish()

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client has gone
                super().handle()

        def do_GET(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            sent = server.send(Asked(self.command, self.path, self.headers, content))
            server.closing.wait(sent.wait_s)
            self.send_response(sent.status)
            for name, value in (_described(sent.body) | dict(sent.headers)).items():
                self.send_header(name, value)
            self.end_headers()
            self.close_connection = self.close_connection or sent.cut_off
            if self.command == "HEAD":
                return
            with suppress(ConnectionError):  # the client did not wait
                self.wfile.write(sent.body[: len(sent.body) // 2] if sent.cut_off else sent.body)

        do_POST = do_PUT = do_DELETE = do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    return Handler


def _described(body: bytes) -> dict[str, str]:
    kind = "application/json" if body[:1] in (b"{", b"[") else "text/html"
    return {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
