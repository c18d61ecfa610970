"""A small Confluence that speaks the REST APIs of Cloud (v2, and v1's search) or Server, on a real socket.

    with ConfluenceServer("cloud") as server:
        uri = server.create("On call", "who wakes up")
        pages = ConfluencePages(server.connection, PageFilters())

Cloud pages by cursors, Server by offsets that move when something before them goes away, and whose
pages come short where something on them may not be seen.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode, b64encode
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import Any

from pydantic import SecretStr

from knowledge_pipeline.config.connections import ConfluenceConnection
from knowledge_pipeline_tests.fakes.confluence.content import Content, Space
from knowledge_pipeline_tests.fakes.confluence.rest import Query, Rest
from knowledge_pipeline_tests.fakes.kept_files import KeptFile, KeptFiles
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served


@dataclass(frozen=True, slots=True)
class Fault:
    """How one request goes wrong. Faults are used up in order, one a request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    cut_off: bool = False  # half of the body, then the connection is closed
    body: bytes | None = None  # this body, whatever was asked
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived, without the site's context in its path."""

    path: str
    query: Query
    status: int


class ConfluenceServer(Rest, Served):
    """A context manager; `edition` is "cloud" or "server"."""

    def __init__(self, edition: str = "cloud", *, utc_offset_h: int = 0) -> None:
        Rest.__init__(self, edition, utc_offset_h)
        Served.__init__(self)
        self.email = "ada@example.org" if edition == "cloud" else None
        self.token = "-".join(("wiki", "token", "canary"))
        self.requests: list[Request] = []
        self.now: datetime | None = None  # None: the present moment
        self.files = KeptFiles()
        self.faults: deque[Fault] = deque()
        self._limited: tuple[int, float] | None = None  # requests left, and how long they are none
        self._next_id = 1000
        self._lock = threading.RLock()
        self.space("OPS", "Operations")
        self.person("u-ada", "Ada Lovelace")

    def send(self, asked: Asked) -> Sent:
        if kept := self.files.send(asked, self._identity):
            return kept
        fault, content = self.answer(asked.path, asked.query, asked.authorization, asked.content)
        headers = {"Content-Type": fault.content_type, **fault.headers}
        return Sent(fault.status, content, headers, fault.wait_s, fault.cut_off)

    @property
    def url(self) -> str:
        return f"{self.address}{self.context}"

    @property
    def connection(self) -> ConfluenceConnection:
        return ConfluenceConnection(
            type="confluence", url=self.url, email=self.email, token=SecretStr(self.token)
        )

    def space(self, key: str, name: str, status: str = "current", type: str = "global") -> None:
        self.site.spaces[key] = Space(self._id(), key, name, status, type)

    def person(self, account: str, name: str, email: str | None = None) -> None:
        self.site.people[account] = name
        if email is not None:
            self.site.emails[account] = email

    def group(self, name: str, *accounts: str) -> None:
        self.site.groups[name] = list(accounts)

    def restrict(self, uri: str, *readers: str) -> None:
        """Only these may read it and what is below it; no new version. Nobody: not restricted."""
        self._of(uri).readers = list(readers)

    def admit(self, space: str, *readers: str) -> None:
        """Only these may view the space: account ids, "group:NAME", "*" for anonymous callers."""
        self.site.spaces[space].readers = list(readers)

    def forbid(self, path_end: str, status: int | None = 403) -> None:
        """Answer paths that end so with a status; None answers them again."""
        self.forbidden.pop(path_end, None)
        if status is not None:
            self.forbidden[path_end] = status

    def create(
        self,
        title: str,
        text: str = "",
        *,
        storage: str | None = None,
        space: str = "OPS",
        under: str | None = None,
        kind: str = "page",
        labels: tuple[str, ...] = (),
        author: str = "u-ada",
    ) -> str:
        """The uri of a new page; `under` is the uri of its parent."""
        parent = under.partition("/")[2] if under else None
        body = storage if storage is not None else f"<p>{escape(text)}</p>"
        return self._add(kind, space, title, body, author, parent=parent, labels=list(labels))

    def edit(self, uri: str, text: str) -> None:
        self._change(uri, body=f"<p>{escape(text)}</p>")

    def rename(self, uri: str, title: str) -> None:
        self._change(uri, title=title)

    def move(self, uri: str, under: str) -> None:
        """No new version, and no later modification, as in the real ones."""
        self._of(uri).parent = under.partition("/")[2]

    def label(self, uri: str, *labels: str) -> None:
        self._of(uri).labels = list(labels)

    def delete(self, uri: str) -> None:
        self._of(uri).status = "trashed"

    def archive(self, uri: str) -> None:
        self._of(uri).status = "archived"

    def hide(self, uri: str, status: int | None = 404) -> None:
        """Restrict it: it is listed nowhere, and answered with this status; None shows it again."""
        self._of(uri).hidden = status

    def forget(self, uri: str) -> None:
        """The search's index does not know it."""
        self._of(uri).indexed = False

    def comment(self, uri: str, text: str, *, author: str = "u-ada", about: str | None = None) -> str:
        page = self._of(uri)
        body = f"<p>{escape(text)}</p>"
        return self._add("comment", page.space, "Re: ", body, author, container=page.id, about=about)

    def attach(self, uri: str, name: str, payload: bytes = b"", **more: Any) -> str:
        """A file at a page; its uri. `more`: how its download is answered."""
        page = self._of(uri)
        file = self._add("attachment", page.space, name, "", "u-ada", container=page.id)
        self._keep(file, payload, **more)
        return file

    def _keep(self, file: str, payload: bytes, **more: Any) -> None:
        content = self._of(file)
        content.size = len(payload)
        path = f"/download/attachments/{content.container}/{content.title}"
        if self.edition == "cloud":
            path = f"/rest/api/content/{content.container}/child/attachment/att{content.id}/download"
        self.files.by_path[f"{self.context}{path}"] = KeptFile(payload, **more)

    def folder(self, title: str, space: str = "OPS", under: str | None = None) -> str:
        parent = under.partition("/")[2] if under else None
        return self._add("folder", space, title, "", "u-ada", parent=parent)

    def fail_next(self, count: int = 1, *, status: int, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.extend(Fault(status, named) for _ in range(count))

    def cut_off_next(self, count: int = 1) -> None:
        self.faults.extend(Fault(cut_off=True) for _ in range(count))

    def slow_next(self, wait_s: float) -> None:
        self.faults.append(Fault(wait_s=wait_s))

    def answer_next(self, body: bytes, content_type: str = "application/json", status: int = 200) -> None:
        self.faults.append(Fault(status, body=body, content_type=content_type))

    def limit(self, after: int, reset_s: float) -> None:
        """From the request after `after` more on, 429 for `reset_s` seconds."""
        self._limited = (after, reset_s)

    def answer(
        self, path: str, query: Query, authorization: str, content: bytes = b""
    ) -> tuple[Fault, bytes]:
        with self._lock:
            fault = self._limit() or (self.faults.popleft() if self.faults else Fault())
            if fault.status == 200 and not self._knows(authorization):
                fault = Fault(401, {"X-Seraph-LoginReason": "AUTHENTICATED_FAILED"})
            body: Any = {"statusCode": fault.status, "message": "on purpose"}
            if fault.status == 200 and fault.body is None:
                status, body, headers = self.routed(path, query, content)
                fault = Fault(status, headers, fault.wait_s, fault.cut_off)
            self.requests.append(Request(path.removeprefix(self.context), query, fault.status))
        return fault, fault.body if fault.body is not None else json.dumps(body).encode()

    def _limit(self) -> Fault | None:
        if self._limited is None:
            return None
        left, reset_s = self._limited
        if left > 0:
            self._limited = (left - 1, reset_s)
            return None
        until = datetime.fromtimestamp(time.time() + reset_s, UTC)
        self._limited = None if reset_s <= 10 else self._limited
        told = {"Retry-After": str(int(reset_s)), "X-RateLimit-Remaining": "0"}
        return Fault(429, {**told, "X-RateLimit-Reset": until.isoformat(timespec="seconds")})

    @property
    def _identity(self) -> str:
        if self.email is None:
            return f"Bearer {self.token}"
        return "Basic " + b64encode(f"{self.email}:{self.token}".encode()).decode()

    def _knows(self, authorization: str) -> bool:
        kind, _, given = authorization.partition(" ")
        if self.email is not None:
            return kind == "Basic" and b64decode(given).decode() == f"{self.email}:{self.token}"
        return kind == "Bearer" and given == self.token

    def _add(self, kind: str, space: str, title: str, body: str, author: str, **more: Any) -> str:
        with self._lock:
            number, now = self._id(), self._moment()
            self.site.content[number] = Content(number, kind, space, title, body, now, now, author, **more)
            return f"{kind}/{number}"

    def _change(self, uri: str, **changes: str) -> None:
        with self._lock:
            content = self._of(uri)
            for name, value in changes.items():
                setattr(content, name, value)
            content.version += 1
            content.updated = self._moment()

    def _of(self, uri: str) -> Content:
        return self.site.content[uri.partition("/")[2]]

    def _moment(self) -> datetime:
        return self.now or datetime.now(UTC)

    def _id(self) -> str:
        self._next_id += 1
        return str(self._next_id)
