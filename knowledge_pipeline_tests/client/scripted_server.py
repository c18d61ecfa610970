"""A server that gives the answers that a test has written down, one a request, and then the last again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Scripted:
    """One answer."""

    status: int = 200
    told: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_up: bool = False  # close the connection without an answer
    wait_s: float = 0.0


class ScriptedServer:
    """A context manager with a `url`."""

    def __init__(self, *answers: Scripted) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []  # method, path, body
        self.tokens: list[str | None] = []
        self.times_s: list[float] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def next(self, request: BaseHTTPRequestHandler, body: Any) -> Scripted:
        with self._lock:
            self.asked.append((request.command, request.path, body))
            self.tokens.append(request.headers.get("Authorization"))
            self.times_s.append(time.monotonic())
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            answer = server.next(self, json.loads(self.rfile.read(length)) if length else None)
            server.closing.wait(answer.wait_s)
            if answer.hang_up or server.closing.is_set():
                return
            content = answer.told if isinstance(answer.told, bytes) else json.dumps(answer.told).encode()
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer

        def log_message(self, *_: object) -> None:
            pass

    return Handler
