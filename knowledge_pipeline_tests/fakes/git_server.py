"""A git server over HTTP: git's own `http-backend`, behind a check of the credentials sent."""

from __future__ import annotations

import os
import subprocess
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served


@dataclass
class GitFault:
    """A status that requests are answered with, whose target has `only` in it: all of them, or the next."""

    status: int
    only: str = ""
    times: int | None = None  # None: all

    def refuse(self, asked: Asked) -> Sent | None:
        """The answer to a request; None: it is answered as usual."""
        if self.times == 0 or self.only not in asked.target:
            return None
        self.times = None if self.times is None else self.times - 1
        return refuse_git(self.status)


class GitServer(Served):
    """Serves the repositories below a folder; a context manager.

    `git_fault` is how its answers go wrong; `token`, where set, must come as the password of every request.
    """

    def __init__(self, root: Path, *, token: str | None = None) -> None:
        super().__init__()
        self.root = root
        self.token = token
        self.git_fault: GitFault | None = None
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return self.address

    def send(self, asked: Asked) -> Sent:
        self.requests.append(asked.target)
        if self.git_fault and (refused := self.git_fault.refuse(asked)):
            return refused
        if self.token is not None:
            return answer_git_with_token(self.root, asked, self.token)
        return answer_git(self.root, asked)


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


def answer_git_with_token(root: Path, asked: Asked, *tokens: str) -> Sent:
    """As `answer_git`, to who sends one of the tokens as the password."""
    if read_password(asked.authorization) not in tokens:
        return refuse_git(401)
    return answer_git(root, asked)


def refuse_git(status: int) -> Sent:
    """A status and nothing else."""
    headers = {"WWW-Authenticate": 'Basic realm="git"'} if status == 401 else {}
    return Sent(status, b"", headers | {"Content-Length": "0"})
