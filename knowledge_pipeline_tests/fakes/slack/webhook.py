"""A Slack incoming webhook on a real socket.

Answers as https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks says: 200 "ok",
400 invalid_payload or no_text, 404 no_service for another URL, 429 with Retry-After.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Answer:
    """What the next request is answered with, whatever it says."""

    status: int
    body: str
    retry_after: str | None = None


class SlackWebhook:
    """A context manager; `texts` are the messages that reached the channel."""

    def __init__(self) -> None:
        self.secret = "/".join(("T0000000", "B0000000", "x" * 24))
        self.texts: list[str] = []
        self.times: list[float] = []  # of all requests, time.monotonic()
        self._next: deque[Answer] = deque()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/services/{self.secret}"

    def answer_next(self, *answers: Answer) -> None:
        self._next.extend(answers)

    def __enter__(self) -> SlackWebhook:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, body: bytes) -> Answer:
        self.times.append(time.monotonic())
        if self._next:
            return self._next.popleft()
        if path != f"/services/{self.secret}":
            return Answer(404, "no_service")
        try:
            message = json.loads(body)
        except ValueError:
            return Answer(400, "invalid_payload")
        if not isinstance(message, dict):
            return Answer(400, "invalid_payload")
        if not message.get("text"):
            return Answer(400, "no_text")
        self.texts.append(message["text"])
        return Answer(200, "ok")


def _handler(webhook: SlackWebhook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = webhook.answer(self.path, body)
            content = answer.body.encode()
            self.send_response(answer.status)
            if answer.retry_after is not None:
                self.send_header("Retry-After", answer.retry_after)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing: tests read `texts`."""

    return Handler
