"""A small Jira, Cloud or Server, that speaks its REST API on a real socket.

    with JiraServer(cloud=True) as server:
        uri = server.site.create("A title", "A text")
        connection = server.connection()

Cloud: version 3 of the API, Basic authentication, `search/jql` with page tokens, bulk reads, texts in
the Atlassian Document Format. Server: version 2, Bearer, `search` with offsets, wiki markup. Paths,
parameters and answers are those that the package `jira` sends and reads where it has them; bulk reads
and errors are as Atlassian's published description of version 3 has them.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pydantic import SecretStr

from knowledge_pipeline.config.connections import JiraConnection
from knowledge_pipeline_tests.fakes.jira.answers import JiraAnswers, said
from knowledge_pipeline_tests.fakes.jira.site import JiraSite
from knowledge_pipeline_tests.fakes.kept_files import KeptFile, KeptFiles
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served


@dataclass
class Fault:
    """How one request goes wrong; faults are used up in order, one a request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    wait_s: float = 0.0
    cut_off: bool = False  # half of the answer, then the connection is closed


@dataclass(frozen=True)
class Request:
    """One request as it arrived, and the status it was answered with."""

    method: str
    path: str  # below /rest/api/N/
    asked: dict[str, Any]
    authorization: str
    status: int


class JiraServer(JiraAnswers, Served):
    """A context manager. `site` is what it holds; its methods change that between calls."""

    def __init__(self, *, cloud: bool = True, zone: str = "Europe/Berlin", context: str = "") -> None:
        JiraAnswers.__init__(self, JiraSite(cloud=cloud, zone=zone))
        Served.__init__(self)
        self.email = "reader@example.com" if cloud else None
        self.token = "-".join(["canary", "token", "of", "jira"])
        self.guests = False  # a wrong token is let in as a guest, as some sites do
        self.to_login = False  # every question is sent to a login page
        self.requests: list[Request] = []
        self.context = context
        self.files, self._next_file = KeptFiles(), 90000
        self.faults: deque[Fault] = deque()
        self._limit: tuple[int, float, float | None] | None = None
        self._lock = threading.RLock()

    @property
    def url(self) -> str:
        return f"{self.address}{self.context}"

    def connection(self, **changed: Any) -> JiraConnection:
        """How to reach it."""
        told = {"type": "jira", "url": self.url, "email": self.email, "token": SecretStr(self.token)}
        return JiraConnection(**told | changed)

    def create(self, title: str, text: str) -> str:
        return self.site.create(title, text)

    def edit(self, uri: str, text: str) -> None:
        self.site.edit(uri, text)

    def delete(self, uri: str) -> None:
        self.site.delete(uri)

    def fail_next(
        self, count: int = 1, *, status: int = 503, body: bytes | None = None, **headers: str
    ) -> None:
        """The next requests fail, to be repeated at once; `headers` with `_` for `-`."""
        at_once = {"Retry-After": "0.01"} if status == 429 or status >= 500 else {}
        told = at_once | {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.extend(Fault(status, told, body) for _ in range(count))

    def answer_next(self, content: Any) -> None:
        """The next request is answered with this, whatever it asks."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.faults.append(Fault(body=body))

    def slow_next(self, wait_s: float) -> None:
        self.faults.append(Fault(wait_s=wait_s))

    def cut_off_next(self) -> None:
        self.faults.append(Fault(cut_off=True))

    def limit(self, *, after: int, reset_s: float) -> None:
        """After some more requests none is answered until the limit is reset."""
        self._limit = (len(self.requests) + after, reset_s, None)

    def counted(self, path: str = "") -> int:
        """How many requests there were, to paths that begin like this."""
        return sum(request.path.startswith(path) for request in self.requests)

    def attach(self, uri: str, name: str, payload: bytes, **more: Any) -> str:
        """A new file at a ticket; its id. `more`: how its download is answered."""
        ticket, at = self.site.of(uri), self.site.tick()
        self._next_file += 1
        id_ = str(self._next_file)
        path = (
            "/rest/api/3/attachment/content/" + id_ if self.site.cloud else f"/secure/attachment/{id_}/{name}"
        )
        self.files.by_path[f"{self.context}{path}"] = KeptFile(payload, **more)
        told = {"id": id_, "filename": name, "size": len(payload), "content": f"{self.url}{quote(path)}"}
        told |= {"author": self.site.person("Ada Lovelace"), "created": self.site.stamp(at)}
        ticket["more"].setdefault("attachment", []).append(told)
        ticket["updated"] = at
        return id_

    def detach(self, uri: str, id_: str) -> None:
        ticket = self.site.of(uri)
        ticket["more"]["attachment"] = [each for each in ticket["more"]["attachment"] if each["id"] != id_]
        ticket["updated"] = self.site.tick()

    def send(self, asked: Asked) -> Sent:
        if kept := self.files.send(asked, self._right()):
            return kept
        told: dict[str, Any] = {name: ",".join(values) for name, values in asked.query.items()}
        told = json.loads(asked.content) if asked.verb == "POST" else told
        fault = self.answer(asked.verb, asked.path, told, asked.authorization)
        return Sent(fault.status, fault.body or b"", fault.headers, fault.wait_s, fault.cut_off)

    def answer(self, method: str, path: str, asked: dict[str, Any], authorization: str) -> Fault:
        """The answer to one request; a fault is one that goes wrong."""
        with self._lock:
            fault = self.faults.popleft() if self.faults else Fault()
            below = path.split("/rest/api/", 1)[-1].partition("/")[2]
            if fault.status == 200:
                fault = self._answered(method, path, below, asked, authorization, fault)
            self.requests.append(Request(method, below, asked, authorization, fault.status))
        return fault

    def _answered(
        self, method: str, path: str, below: str, asked: dict[str, Any], authorization: str, fault: Fault
    ) -> Fault:
        if fault.body is not None:
            return fault
        if limited := self._limited():
            return limited
        if self.to_login:
            where = {"Location": f"{self.url}/login.jsp?permissionViolation=true"}
            return Fault(302, where, b"") if "/rest/" in path else Fault(body=b"<html>Log in</html>")
        version = "3" if self.site.cloud else "2"
        if not path.startswith(
            (f"{self.context}/rest/api/{version}/", f"{self.context}/rest/api/2/serverInfo")
        ):
            return Fault(404, {}, b"<html>Page not found</html>")
        known = authorization == self._right()
        if not known and below != "serverInfo" and not self.guests:
            return Fault(401, {}, _errors("Client must be authenticated to access this resource."))
        status, content = self.route(method, below, asked)
        reason = "OK" if known else "AUTHENTICATED_FAILED" if authorization else "OUT"
        headers = {"X-Seraph-LoginReason": reason, **fault.headers}
        return Fault(status, headers, json.dumps(content).encode(), fault.wait_s, fault.cut_off)

    def _limited(self) -> Fault | None:
        """What a request over the limit is answered with."""
        if self._limit is None or len(self.requests) < self._limit[0]:
            return None
        count, reset_s, until = self._limit
        until = until or time.monotonic() + reset_s
        self._limit = (count, reset_s, until) if time.monotonic() < until else None
        if self._limit is None:
            return None
        told = {"Retry-After": f"{reset_s:g}", "X-RateLimit-Limit": "350", "X-RateLimit-Remaining": "0"}
        return Fault(429, told | {"RateLimit-Reason": "jira-burst-based"}, _errors("Rate limited."))

    def _right(self) -> str:
        if not self.site.cloud:
            return f"Bearer {self.token}"
        return "Basic " + base64.b64encode(f"{self.email}:{self.token}".encode()).decode()


def _errors(message: str) -> bytes:
    return json.dumps(said(message)).encode()
