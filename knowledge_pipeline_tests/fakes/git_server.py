"""A git server over HTTP: git's own `http-backend`, behind a check of the credentials sent."""

from __future__ import annotations

import os
import subprocess
import threading
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from knowledge_pipeline_tests.fakes.served import Asked, Sent


class GitServer:
    """Serves the repositories below a folder; a context manager.

    `answer_with` makes every request end with that status; `token`, where set, must come
    as the password of every request.
    """

    def __init__(self, root: Path, *, token: str | None = None) -> None:
        self.root = root
        self.token = token
        self.answer_with: int | None = None
        self.requests: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> GitServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def read_password(authorization: str) -> str | None:
    """The password of a header `Authorization: Basic`."""
    kind, _, credentials = authorization.partition(" ")
    return b64decode(credentials).decode().partition(":")[2] if kind == "Basic" else None


def answer_git(root: Path, asked: Asked) -> Sent:
    """What git answers from a repository below a folder.

    CGI, as https://git-scm.com/docs/git-http-backend describes it.
    """
    parts = urlsplit(asked.target)
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": asked.verb,
        "PATH_INFO": parts.path,
        "QUERY_STRING": parts.query,
        "CONTENT_TYPE": asked.headers.get("Content-Type", ""),
        "HTTP_CONTENT_ENCODING": asked.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": asked.headers.get("Git-Protocol", ""),
    }
    done = subprocess.run(["git", "http-backend"], input=asked.content, capture_output=True, env=environment)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
    status = int(fields.pop("Status", "200").split()[0])
    return Sent(status, content, fields | {"Content-Length": str(len(content))})


def answer_git_with_token(root: Path, token: str, asked: Asked) -> Sent:
    """As `answer_git`, to who sends a token as the password."""
    if read_password(asked.authorization) != token:
        return Sent(401, b"", {"WWW-Authenticate": 'Basic realm="git"', "Content-Length": "0"})
    return answer_git(root, asked)


def _handler(server: GitServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _answer(self, body: bytes) -> None:
            server.requests.append(self.path)
            if server.answer_with is not None:
                return self._status(server.answer_with)
            if (
                server.token is not None
                and read_password(self.headers.get("Authorization", "")) != server.token
            ):
                return self._status(401)
            self._backend(body)

        def _status(self, status: int) -> None:
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _backend(self, body: bytes) -> None:
            sent = answer_git(server.root, Asked(self.command, self.path, self.headers, body))
            self.send_response(sent.status)
            for name, value in sent.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent.body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing: tests read `requests`."""

    return Handler
