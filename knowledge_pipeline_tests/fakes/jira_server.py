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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from knowledge_pipeline.config_connections import JiraConnection
from knowledge_pipeline_tests.fakes.jira_jql import JqlError
from knowledge_pipeline_tests.fakes.jira_site import FIELDS, JiraSite, sort_value

_CLOUD_ALL, _CLOUD_FIELDS, _SERVER_PAGE = 5000, 100, 1000
_COMMENTS_PAGE = 100


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


class JiraServer:
    """A context manager. `site` is what it holds; its methods change that between calls."""

    def __init__(self, *, cloud: bool = True, zone: str = "Europe/Berlin", context: str = "") -> None:
        self.site = JiraSite(cloud=cloud, zone=zone)
        self.email = "reader@example.com" if cloud else None
        self.token = "-".join(["canary", "token", "of", "jira"])
        self.page_size: int | None = None  # the most tickets a page has; None: as the service
        self.embedded_comments: int | None = 20 if cloud else None  # how many come with a ticket
        self.guests = False  # a wrong token is let in as a guest, as some sites do
        self.to_login = False  # every question is sent to a login page
        self.before_page: Callable[[int], None] | None = None  # is told the number of the page of a search
        self.requests: list[Request] = []
        self.context = context
        self._pages = 0
        self._faults: deque[Fault] = deque()
        self._limit: tuple[int, float, float | None] | None = None
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.context}"

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
        told = {"Retry-After": "0"} | {name.replace("_", "-"): value for name, value in headers.items()}
        self._faults.extend(Fault(status, told, body) for _ in range(count))

    def answer_next(self, content: Any) -> None:
        """The next request is answered with this, whatever it asks."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self._faults.append(Fault(body=body))

    def slow_next(self, wait_s: float) -> None:
        self._faults.append(Fault(wait_s=wait_s))

    def cut_off_next(self) -> None:
        self._faults.append(Fault(cut_off=True))

    def limit(self, *, after: int, reset_s: float) -> None:
        """After some more requests none is answered until the limit is reset."""
        self._limit = (len(self.requests) + after, reset_s, None)

    def counted(self, path: str = "") -> int:
        """How many requests there were, to paths that begin like this."""
        return sum(request.path.startswith(path) for request in self.requests)

    def __enter__(self) -> JiraServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, asked: dict[str, Any], authorization: str) -> Fault:
        """The answer to one request; a fault is one that goes wrong."""
        with self._lock:
            fault = self._faults.popleft() if self._faults else Fault()
            below = path.split("/rest/api/", 1)[-1].partition("/")[2]
            if fault.status == 200:
                fault = self._answered(method, path, below, asked, authorization, fault)
            self.requests.append(Request(method, below, asked, authorization, fault.status))
        time.sleep(fault.wait_s)
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
        status, content = self._route(method, below, asked)
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

    def _route(self, method: str, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        first, _, rest = path.partition("/")
        try:
            if path in {"search", "search/jql"}:
                return self._search(path, asked)
            if path == "issue/bulkfetch" and method == "POST" and self.site.cloud:
                return self._bulk(asked)
            if first == "issue" and rest:
                return self._issue(rest, asked)
            return self._known(path, first, rest)
        except JqlError as error:
            return 400, {"errorMessages": [str(error)], "warningMessages": []}

    def _known(self, path: str, first: str, rest: str) -> tuple[int, Any]:
        site = self.site
        if path == "myself":
            return 200, site.person("The Reader")
        if path == "field":
            return 200, FIELDS
        if path == "serverInfo":
            kind = "Cloud" if site.cloud else "Server"
            return 200, {"deploymentType": kind, "serverTime": site.stamp(site.now), "version": "10.3.0"}
        if first == "project" and rest in site.projects:
            return 200, {"key": rest, "id": "10000", "name": f"The project {rest}"}
        if first == "project":
            return 404, _told(f"No project could be found with key '{rest}'.")
        return 404, _told("null for uri")

    def _search(self, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        if (path == "search/jql") != self.site.cloud:
            gone = "The requested API has been removed. Please migrate to the /rest/api/3/search/jql API."
            return (410, _told(gone)) if self.site.cloud else (404, _told("null for uri"))
        self._pages += 1
        if self.before_page:
            self.before_page(self._pages)
        if self.site.cloud:
            return 200, self._page_by_token(asked)
        tickets = self.site.found(asked["jql"], validated=asked.get("validateQuery", True) is not False)
        start = asked.get("startAt", 0)
        most = min(asked.get("maxResults", 50), self.page_size or _SERVER_PAGE)
        page = [
            self.site.shown(each, asked.get("fields", []), self.embedded_comments)
            for each in tickets[start : start + most]
        ]
        return 200, {"startAt": start, "maxResults": most, "total": len(tickets), "issues": page}

    def _page_by_token(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A token holds what the last ticket of its page was sorted by, as Cloud's does."""
        tickets = self.site.found(asked["jql"])
        if "nextPageToken" in asked:
            created, key = json.loads(base64.b64decode(asked["nextPageToken"]))
            last = (created, (key[0], key[1]))
            descending = "created DESC" in asked["jql"]
            tickets = [
                each for each in tickets if (_place(each) < last if descending else _place(each) > last)
            ]
        few = set(asked.get("fields", [])) <= {"id", "key"}
        most = min(asked.get("maxResults", 50), self.page_size or (_CLOUD_ALL if few else _CLOUD_FIELDS))
        page = tickets[:most]
        told: dict[str, Any] = {
            "issues": [
                self.site.shown(each, asked.get("fields", []), self.embedded_comments) for each in page
            ],
            "isLast": len(tickets) <= most,
        }
        if len(tickets) > most:
            told["nextPageToken"] = base64.b64encode(json.dumps(_place(page[-1])).encode()).decode()
        return told

    def _bulk(self, asked: dict[str, Any]) -> tuple[int, Any]:
        names = asked["issueIdsOrKeys"]
        if len(names) > 100:
            return 400, _told("The number of issues requested exceeds the limit of 100.")
        wanted = {name for name in names if name in self.site.tickets and name not in self.site.hidden}
        shown = [
            self.site.shown(self.site.tickets[name], asked.get("fields", []), self.embedded_comments)
            for name in sorted(wanted, reverse=True)
        ]
        return 200, {"expand": "", "issues": shown, "issueErrors": []}

    def _issue(self, rest: str, asked: dict[str, Any]) -> tuple[int, Any]:
        name, _, part = rest.partition("/")
        try:
            ticket = self.site.of(name)
        except KeyError:
            return 404, _told("Issue does not exist or you do not have permission to see it.")
        if ticket["id"] in self.site.hidden:  # only Server tells the two apart
            said = "You do not have the permission to see the specified issue."
            return (
                (404, _told(f"Issue does not exist or {said.lower()}"))
                if self.site.cloud
                else (403, _told(said))
            )
        if part == "comment":
            if self.before_page:
                self.before_page(0)
            most = min(int(asked.get("maxResults", 50)), _COMMENTS_PAGE)
            return 200, self.site.comments(ticket, int(asked.get("startAt", 0)), most)
        return 200, self.site.shown(ticket, asked.get("fields", "").split(","), self.embedded_comments)


def _place(ticket: dict[str, Any]) -> tuple[str, Any]:
    return ticket["created"].isoformat(), sort_value(ticket, "key")


def _told(message: str) -> dict[str, Any]:
    return {"errorMessages": [message], "errors": {}}


def _errors(message: str) -> bytes:
    return json.dumps(_told(message)).encode()


def _handler(server: JiraServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client has gone
                super().handle()

        def do_GET(self) -> None:
            asked = {name: ",".join(values) for name, values in parse_qs(urlsplit(self.path).query).items()}
            self._answer("GET", asked)

        def do_POST(self) -> None:
            self._answer("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, method: str, asked: dict[str, Any]) -> None:
            path = urlsplit(self.path).path
            answer = server.answer(method, path, asked, self.headers.get("Authorization", ""))
            content = answer.body or b""
            self.send_response(answer.status)
            kind = "text/html" if content.startswith(b"<") else "application/json"
            for name, value in {"Content-Type": kind, **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(content[: len(content) // 2] if answer.cut_off else content)
            self.close_connection = answer.cut_off

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    return Handler
