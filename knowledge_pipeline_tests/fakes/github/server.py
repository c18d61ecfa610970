"""A small GitHub on a real socket: GraphQL, and the REST by which an App gets its token.

    with GithubServer() as server:
        uri = server.repository.pull("Faster parser", "It was slow.")
        source = PullRequests(server.connection(), ConversationFilters())

What it keeps is in `records`, what it answers in `graphql`.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import jwt
from pydantic import SecretStr

from knowledge_pipeline.config.connections import GithubApp, GithubConnection
from knowledge_pipeline_tests.fakes.git_server import GitFault, answer_git_with_token
from knowledge_pipeline_tests.fakes.github.graphql import MOST_NODES, Answerer, cost
from knowledge_pipeline_tests.fakes.github.records import Record, Repository
from knowledge_pipeline_tests.fakes.kept_files import KeptFile, KeptFiles
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served

POINTS_AN_HOUR = 5000

Query = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Fault:
    """How one request goes wrong. Faults are used up in order, one a request."""

    status: int = 200
    body: Record | str | None = None  # None: what would have been answered
    headers: dict[str, str] = field(default_factory=dict[str, str])
    wait_s: float = 0.0
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and what it was answered with."""

    verb: str
    path: str
    status: int
    query: str
    variables: Record
    points: int


class GithubServer(Served):
    """A context manager. With `enterprise`, the addresses are those of GitHub Enterprise Server."""

    def __init__(
        self,
        *,
        repository: str = "octo/engine",
        token: str = "-".join(("not", "a", "token")),
        enterprise: bool = False,
        kind: Literal["pull", "issue", "discussion", "release"] = "pull",
        app_key: str = "",
    ) -> None:
        super().__init__()
        self.repository = Repository(repository)
        self.answerer = Answerer(self.repository)
        self.token = token
        self.prefix = "/api/v3" if enterprise else ""
        self.graphql_path = "/api/graphql" if enterprise else "/graphql"
        self.kind = kind  # of what `create` makes
        self.app_key = app_key  # PEM, public; "": no App is known
        self.app_id, self.installation_id = 4711, 77
        self.installed = True
        self.repositories: Path | None = None  # a folder that git reads: "octo/engine.git" below it
        self.git_fault: GitFault | None = None  # how what git reads goes wrong
        self.page_cap = 100  # entries that a page by REST has at most
        self.forbidden: dict[str, int] = {}  # status by path below the repository: "/collaborators"
        self.token_lasts_s = 3600.0
        self.most_at_once = 100  # nodes; more of them are answered with a 502
        self.too_long: set[str] = set()  # uris that cannot be answered in time however little is asked
        self.before_answer: Callable[[Record], object] = lambda variables: None
        self.limited_status = 200  # or 403: how a spent limit is told
        self.requests: list[Request] = []
        self.unchanged = 0  # of those, that were answered with 304
        self.files = KeptFiles()
        self.faults: deque[Fault] = deque()
        self._points_left, self._reset = POINTS_AN_HOUR, time.time() + 3600
        self._tokens: list[str] = []  # of installations
        self._granted = 0
        self._lock = threading.RLock()  # a hook may tell of faults

    @property
    def url(self) -> str:
        return f"{self.address}{self.prefix}"

    @property
    def points(self) -> int:
        """What all requests so far cost."""
        return sum(request.points for request in self.requests)

    def connection(self, **changed: Any) -> GithubConnection:
        """How the connector is told of this server."""
        told: Record = {"type": "github", "repository": self.repository.full_name, "url": self.url}
        return GithubConnection.model_validate(told | {"token": SecretStr(self.token)} | changed)

    def app_connection(self, private_key: str, **changed: Any) -> GithubConnection:
        told: Record = {"id": self.app_id, "private_key": SecretStr(private_key)}
        app = GithubApp.model_validate(told | changed)
        return self.connection(token=None, app=app)

    def revoke_tokens(self) -> None:
        """End the tokens of installations before their time."""
        self._tokens.clear()

    def create(self, title: str, text: str) -> str:
        return getattr(self.repository, self.kind)(title, text)

    def edit(self, uri: str, text: str) -> None:
        self.repository.edit(uri, text)

    def delete(self, uri: str) -> None:
        self.repository.delete(uri)

    def fail_next(self, times: int = 1, **fault: Any) -> None:
        with self._lock:
            self.faults.extend([Fault(**fault)] * times)

    def cut_off_next(self, times: int = 1) -> None:
        self.fail_next(times, cut_off=True)

    def limit(self, *, after: int, reset_s: float) -> None:
        """Let so many more points be spent, until so many seconds from now."""
        with self._lock:
            self._points_left, self._reset = after, time.time() + reset_s

    def upload(self, name: str, payload: bytes, **more: Any) -> str:
        """A file, as Markdown links to it. `more`: how its download is answered."""
        path = f"/user-attachments/files/{len(self.files.by_path) + 1}/{name}"
        self.files.by_path[path] = KeptFile(payload, **more)
        return f"[{name}]({self.address}{path})"

    def send(self, asked: Asked) -> Sent:
        if kept := self.files.send(asked, ""):  # it takes no token there
            return kept
        fault = self.git_fault if ".git/" in asked.path else None
        if fault and (refused := fault.refuse(asked)):
            return refused
        if self.repositories and ".git/" in asked.path:
            return answer_git_with_token(self.repositories, asked, self.token, *self._tokens)
        fault, body = self.answer(asked.verb, asked.path, asked.authorization, asked.content, asked.query)
        if asked.verb == "GET" and fault.status == 200:
            tag = f'W/"{hashlib.sha256(body).hexdigest()}"'
            fault = replace(fault, headers={**fault.headers, "ETag": tag})
            if asked.headers.get("If-None-Match") == tag:  # which GitHub does not count
                self.unchanged += 1
                return Sent(304, b"", {"ETag": tag})
        return Sent(fault.status, body, fault.headers, fault.wait_s, fault.cut_off)

    def answer(
        self, verb: str, path: str, authorization: str, content: bytes, query: Query | None = None
    ) -> tuple[Fault, bytes]:
        with self._lock:
            fault = self.faults.popleft() if self.faults else Fault()
            asked = json.loads(content) if content else {}
            variables = asked.get("variables") or {}
            points = 0
            if fault.body is None and fault.status == 200:
                fault, points = self._answered(verb, path, authorization, asked, fault, query or {})
            self.requests.append(Request(verb, path, fault.status, asked.get("query", ""), variables, points))
        body = fault.body if fault.body is not None else {"message": "on purpose"}
        return fault, body.encode() if isinstance(body, str) else json.dumps(body).encode()

    def _answered(
        self, verb: str, path: str, authorization: str, asked: Record, fault: Fault, query: Query
    ) -> tuple[Fault, int]:
        status, body, points = 404, {"message": "Not Found"}, 0
        if verb == "POST" and path == self.graphql_path:
            status, body, points = self._graphql(authorization, asked)
        elif path.startswith(self.prefix):
            status, body = self._rest(verb, path.removeprefix(self.prefix), authorization, query)
        links = self._link_next(path, query) if isinstance(body, list) else {}
        told = {
            "X-RateLimit-Limit": str(POINTS_AN_HOUR),
            "X-RateLimit-Remaining": str(max(0, self._points_left)),
            "X-RateLimit-Reset": str(int(self._reset)),
            "X-RateLimit-Resource": "graphql",
        }
        return Fault(status, body, told | links | fault.headers, fault.wait_s, fault.cut_off), points

    def _graphql(self, authorization: str, asked: Record) -> tuple[int, Record | str, int]:
        if authorization.partition(" ")[2] not in (self.token, *self._tokens):
            return 401, {"message": "Bad credentials", "status": "401"}, 0
        query, variables = asked["query"], asked["variables"]
        points, nodes = cost(query, variables)
        if nodes > MOST_NODES:
            return 200, {"errors": [{"type": "MAX_NODE_LIMIT_EXCEEDED", "message": f"{nodes} nodes"}]}, 0
        if time.time() >= self._reset:
            self._points_left, self._reset = POINTS_AN_HOUR, time.time() + 3600
        if self._points_left < points:
            self._points_left = 0
            message = "API rate limit exceeded for user ID 1."
            if self.limited_status != 200:
                return self.limited_status, {"message": message}, 0
            return 200, {"errors": [{"type": "RATE_LIMITED", "message": message}]}, 0
        self._points_left -= points
        self.before_answer(variables)
        if self._takes_too_long(variables):
            return 502, "<html><title>Unicorn!</title></html>", points
        resets = datetime.fromtimestamp(int(self._reset), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        rate_limit = {"cost": points, "remaining": self._points_left, "resetAt": resets}
        return 200, self.answerer.answer(query, variables, rate_limit), points

    def _takes_too_long(self, variables: Record) -> bool:
        ids = variables.get("ids", ())
        slow = {self.repository.records[uri]["id"] for uri in self.too_long}
        return len(ids) > self.most_at_once or bool(slow.intersection(ids))

    def _rest(self, verb: str, path: str, authorization: str, query: Query) -> tuple[int, Any]:
        mine = f"/repos/{self.repository.full_name}"
        if path.startswith(mine) and not path.endswith("/installation"):
            return self._repository(path.removeprefix(mine), authorization, query)
        if not self._is_app(authorization):
            return 401, {"message": "A JSON web token could not be decoded", "status": "401"}
        kinds = {"Organization": "orgs", "User": "users"}
        places = {f"/{kinds[each['__typename']]}/{login}" for login, each in self.answerer.owners.items()}
        owned = {f"/repos/{each['nameWithOwner']}" for each in self.answerer.list_owned()}
        places |= {f"/repos/{self.repository.full_name}", *owned}
        if verb == "GET" and path.removesuffix("/installation") in places and self.installed:
            return 200, {"id": self.installation_id, "app_id": self.app_id}
        if verb == "POST" and path == f"/app/installations/{self.installation_id}/access_tokens":
            self._granted += 1
            self._tokens.append(f"{self.token}-{self._granted}")
            until = datetime.now(UTC) + timedelta(seconds=self.token_lasts_s)
            return 201, {"token": self._tokens[-1], "expires_at": until.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return 404, {"message": "Not Found", "status": "404"}

    def _repository(self, path: str, authorization: str, query: Query) -> tuple[int, Any]:
        if authorization.partition(" ")[2] not in (self.token, *self._tokens):
            return 401, {"message": "Bad credentials", "status": "401"}
        if self.answerer.hidden or path in self.forbidden:
            status = self.forbidden.get(path, 404)
            return status, {"message": "Must have push access to view repository collaborators."}
        private = self.repository.private
        if path == "":
            visibility = self.repository.visibility or ("private" if private else "public")
            return 200, {"private": private, "visibility": visibility}
        if (whole := self._list(path)) is None:
            return 404, {"message": "Not Found", "status": "404"}
        size, page = min(self.page_cap, int(query["per_page"][0])), int(query["page"][0])
        return 200, whole[(page - 1) * size : page * size]

    def _list(self, path: str) -> list[Record] | None:
        """The whole list at a path below the repository."""
        if path == "/collaborators":
            return self.repository.collaborators
        if path == "/teams":
            return [{"slug": each, "name": each.title()} for each in self.repository.teams]
        record = self.repository.records.get(path[1:].replace("pulls/", "pull/").removesuffix("/files"))
        return (
            record["patches"] if record and path.startswith("/pulls/") and path.endswith("/files") else None
        )

    def _link_next(self, path: str, query: Query) -> dict[str, str]:
        whole = self._list(path.removeprefix(f"{self.prefix}/repos/{self.repository.full_name}")) or []
        size, page = min(self.page_cap, int(query["per_page"][0])), int(query["page"][0])
        address = f"{self.address}{path}?per_page={size}&page={page + 1}"
        return {"Link": f'<{address}>; rel="next"'} if page * size < len(whole) else {}

    def _is_app(self, authorization: str) -> bool:
        try:
            told = jwt.decode(authorization.partition(" ")[2], self.app_key, algorithms=["RS256"])
        except (jwt.PyJWTError, ValueError):
            return False
        return told["iss"] == str(self.app_id) and told["exp"] - time.time() <= 600
