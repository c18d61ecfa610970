"""A small embedding endpoint that speaks OpenAI's `/v1/embeddings`, on a real socket.

    with OpenAIServer() as server:
        settings = Embedding(provider="openai", base_url=server.url, api_key=server.key,
                             model="fake", dimensions=server.dimensions)

Its vectors are hashed bags of words: equal texts are equal, texts that share words are near. With
`translations`, it is a model of several languages: a sentence has the vector of its translation.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W_]")


@dataclass(frozen=True, slots=True)
class Fault:
    """How one request goes wrong. Faults are used up in order, one a request."""

    status: int = 200
    retry_after: str | None = None  # the header's value: seconds, or a date
    code: str = ""  # `error.code` of the answer
    message: str = "on purpose"  # `error.message` of the answer
    wait_s: float = 0.0  # before the answer
    cut_off: bool = False  # half of the body, then the connection is closed
    body: bytes | None = None  # this body, whatever it is
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived, and the status it was answered with."""

    texts: tuple[str, ...]
    body: dict
    authorization: str
    status: int
    at: float  # time.monotonic()


class OpenAIServer:
    """A context manager; `port` brings a server back at the same URL."""

    path = "/v1/embeddings"

    def __init__(
        self,
        *,
        key: str = "test-key",
        dimensions: int = 32,
        shuffled: bool = False,
        knows_dimensions: bool = True,
        max_words: int | None = None,
        wait_s: float = 0.0,
        gathered: int = 1,
        port: int = 0,
        ends_within_s: float = 0.02,
        translations: Mapping[str, str] | None = None,
    ) -> None:
        self.key = key
        self.dimensions = dimensions
        self.shuffled = shuffled  # answers come in another order, with their `index`
        self.knows_dimensions = knows_dimensions  # else the field `dimensions` is refused
        self.max_words = max_words  # a longer text is refused
        self.wait_s = wait_s
        self._translations = translations or {}
        self._least_at_once = gathered  # nobody is answered before so many ask
        self._gathered = threading.Event()
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.faults: deque[Fault] = deque()
        self._at_once = 0
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._go_on = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        # It looks so often whether to end, which costs where it serves for minutes.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(ends_within_s,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def texts(self) -> list[str]:
        """Every text that was embedded, in the order of the requests."""
        return [text for request in self.requests if request.status == 200 for text in request.texts]

    def fail_next(self, *faults: Fault) -> None:
        with self._lock:
            self.faults.extend(faults)

    @property
    def at_once(self) -> int:
        """Requests that wait for their answer now."""
        return self._at_once

    def go_on(self) -> None:
        """Answer those who wait now."""
        with self._lock:
            waiting, self._go_on = self._go_on, threading.Event()
        waiting.set()

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            open_connections = list(self._connections)
        for connection in open_connections:
            with suppress(OSError):  # closed meanwhile
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def answer(self, body: dict, authorization: str) -> tuple[Fault, bytes]:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            go_on = self._go_on
            if self._at_once >= self._least_at_once:
                self._gathered.set()
            fault = self.faults.popleft() if self.faults else Fault(wait_s=self.wait_s)
        self._gathered.wait(60)
        go_on.wait(fault.wait_s)
        fault = self._refusal(body, authorization) or fault
        content = fault.body if fault.body is not None else json.dumps(self._content(body, fault)).encode()
        with self._lock:
            self._at_once -= 1
            self.requests.append(
                Request(self._texts(body), body, authorization, fault.status, time.monotonic())
            )
        return fault, content

    def _texts(self, body: dict) -> tuple[str, ...]:
        texts = body.get("input", ())
        return (texts,) if isinstance(texts, str) else tuple(texts)

    def _unauthorized(self, authorization: str) -> Fault | None:
        if authorization == f"Bearer {self.key}":
            return None
        return Fault(401, code="invalid_api_key", message=f"Incorrect API key provided: {authorization}")

    def _refusal(self, body: dict, authorization: str) -> Fault | None:
        if refused := self._unauthorized(authorization):
            return refused
        if "dimensions" in body and not self.knows_dimensions:
            return Fault(400, message="this model does not support the parameter dimensions")
        texts = body["input"]
        if not texts or any(not text for text in texts):
            return Fault(400, message="input cannot be an empty string")
        if self.max_words and any(len(text.split()) > self.max_words for text in texts):
            return Fault(400, message=f"This model's maximum context length is {self.max_words} tokens")
        return None

    def _content(self, body: dict, fault: Fault) -> dict:
        if fault.status != 200:
            return {"error": {"message": fault.message, "type": "", "code": fault.code}}
        entries = [
            {
                "object": "embedding",
                "index": index,
                "embedding": word_vector(self._translate(text), self.dimensions),
            }
            for index, text in enumerate(body["input"])
        ]
        tokens = sum(len(text.split()) for text in body["input"])
        return {
            "object": "list",
            "model": body["model"],
            "data": entries[::-1] if self.shuffled else entries,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def _translate(self, text: str) -> str:
        for sentence, translation in self._translations.items():
            text = text.replace(sentence, translation)
        return text

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            server.opened(self.connection)

        def finish(self) -> None:
            server.closed(self.connection)
            super().finish()

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client has gone
                super().handle()

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != server.path:
                self._send(Fault(404), b"{}")
                return
            self._send(*server.answer(json.loads(content), self.headers.get("Authorization", "")))

        def _send(self, fault: Fault, content: bytes) -> None:
            self.send_response(fault.status)
            self.send_header("Content-Type", fault.content_type)
            self.send_header("Content-Length", str(len(content)))
            if fault.retry_after is not None:
                self.send_header("Retry-After", fault.retry_after)
            self.end_headers()
            try:
                self.wfile.write(content[: len(content) // 2] if fault.cut_off else content)
            except ConnectionError:  # the client did not wait
                self.close_connection = True
            self.close_connection = self.close_connection or fault.cut_off

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    return Handler


def word_vector(text: str, dimensions: int) -> list[float]:
    """The sum of one random direction for each word, of length 1; identifiers count as their parts."""
    words = [word.lower() for word in _WORDS.findall(text)] or [""]
    summed = [sum(signs) for signs in zip(*(_signs(word, dimensions) for word in words), strict=True)]
    length = math.sqrt(sum(value * value for value in summed))
    if length == 0:  # two words that are each other's opposite
        return word_vector(f"{text} {text} x", dimensions)
    return [value / length for value in summed]


@lru_cache(maxsize=100_000)
def _signs(word: str, dimensions: int) -> tuple[int, ...]:
    digest = hashlib.shake_256(word.encode("utf-8", "replace")).digest((dimensions + 7) // 8)
    bits = int.from_bytes(digest, "big")
    return tuple(1 if bits >> place & 1 else -1 for place in range(dimensions))
