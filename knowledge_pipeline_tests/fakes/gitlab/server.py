"""A small GitLab on a real socket: its GraphQL, its refusals, its limit per minute.

    with GitlabServer() as server:
        uri = server.project.merge_request("Faster parser", "It was slow.")
        source = MergeRequests(server.connection(), ConversationFilters())

What it keeps is in `records`, what it answers in `graphql`.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from pydantic import SecretStr

from knowledge_pipeline.config.connections import GitlabConnection
from knowledge_pipeline_tests.fakes.git_server import GitFault, answer_git_with_token
from knowledge_pipeline_tests.fakes.gitlab.graphql import Answerer
from knowledge_pipeline_tests.fakes.gitlab.records import Project, Record
from knowledge_pipeline_tests.fakes.kept_files import KeptFile, KeptFiles
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served

CALLS_A_MINUTE = 2000

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


class GitlabServer(Served):
    """A context manager. `prefix` is the path that an instance may lie under: "/gitlab"."""

    def __init__(
        self,
        *,
        project: str = "octo/core/engine",
        token: str = "-".join(("not", "a", "token")),
        prefix: str = "",
        kind: Literal["merge_request", "issue", "release", "snippet"] = "merge_request",
    ) -> None:
        super().__init__()
        self.project = Project(project)
        self.answerer = Answerer(self.project)
        self.token = token
        self.prefix = prefix
        self.kind = kind  # of what `create` makes
        self.groups: dict[str, list[Record]] = {}  # projects by full path of their group
        self.public = False  # shown to everybody
        self.repositories: Path | None = None  # a folder that git reads: "octo/engine.git" below it
        self.git_fault: GitFault | None = None  # how what git reads goes wrong
        self.page_cap = 100  # entries that a page by REST has at most
        self.forbidden: dict[str, int] = {}  # status by path below the project: "members/all"
        self.signs_in = False  # every address leads to a page to sign in
        self.most_at_once = 100  # documents; more of them are not answered in time
        self.failing: set[str] = set()  # uris that GitLab fails at, with a 500
        self.before_answer: Callable[[Record], object] = lambda variables: None
        self.requests: list[Request] = []
        self.secrets_seen: list[str] = []  # Authorization headers
        self.files = KeptFiles()
        self.faults: deque[Fault] = deque()
        self._left, self._reset = CALLS_A_MINUTE, time.time() + 60
        self._lock = threading.RLock()  # a hook may tell of faults

    @property
    def url(self) -> str:
        return f"{self.address}{self.prefix}"

    def connection(self, **changed: Any) -> GitlabConnection:
        """How the connector is told of this server."""
        told: Record = {"type": "gitlab", "project": self.project.full_path, "url": self.url}
        return GitlabConnection.model_validate(told | {"token": SecretStr(self.token)} | changed)

    def create(self, title: str, text: str) -> str:
        return getattr(self.project, self.kind)(title, text)

    def edit(self, uri: str, text: str) -> None:
        self.project.edit(uri, text)

    def delete(self, uri: str) -> None:
        self.project.delete(uri)

    def fail_next(self, times: int = 1, **fault: Any) -> None:
        with self._lock:
            self.faults.extend([Fault(**fault)] * times)

    def cut_off_next(self, times: int = 1) -> None:
        self.fail_next(times, cut_off=True)

    def limit(self, *, after: int, reset_s: float) -> None:
        """Let so many more calls be made, until so many seconds from now."""
        with self._lock:
            self._left, self._reset = after, time.time() + reset_s

    def upload(self, name: str, payload: bytes, **more: Any) -> str:
        """A file of the project, as Markdown links to it. `more`: how its download is answered."""
        secret = f"{len(self.files.by_path):032x}"
        path = f"{self.prefix}/api/v4/projects/{self.project.full_path}/uploads/{secret}/{name}"
        self.files.by_path[path] = KeptFile(payload, **more)
        return f"[{name}](/uploads/{secret}/{name})"

    def send(self, asked: Asked) -> Sent:
        if kept := self.files.send(asked, f"Bearer {self.token}"):
            return kept
        fault = self.git_fault if ".git/" in asked.path else None
        if fault and (refused := fault.refuse(asked)):
            return refused
        if self.repositories and ".git/" in asked.path:
            return answer_git_with_token(self.repositories, asked, self.token)
        fault, body = self.answer(asked.verb, asked.path, asked.authorization, asked.content, asked.query)
        return Sent(fault.status, body, fault.headers, fault.wait_s, fault.cut_off)

    def answer(
        self, verb: str, path: str, authorization: str, content: bytes, query: Query | None = None
    ) -> tuple[Fault, bytes]:
        with self._lock:
            self.secrets_seen.append(authorization)
            fault = self.faults.popleft() if self.faults else Fault()
            asked = json.loads(content) if content else {}
            if fault.body is None and fault.status == 200:
                status, body, headers = self._answered(verb, path, authorization, asked, query or {})
                fault = Fault(status, body, headers | fault.headers, fault.wait_s, fault.cut_off)
            variables = asked.get("variables") or {}
            self.requests.append(Request(verb, path, fault.status, asked.get("query", ""), variables))
        body = fault.body if fault.body is not None else _errors("Internal server error")
        return fault, body.encode() if isinstance(body, str) else json.dumps(body).encode()

    def _answered(
        self, verb: str, path: str, authorization: str, asked: Record, query: Query
    ) -> tuple[int, Any, dict[str, str]]:
        if limited := self._limited():
            return 429, "Retry later\n", limited
        if self.signs_in and path != f"{self.prefix}/users/sign_in":
            return 302, "<html>redirected</html>", {"Location": f"{self.url}/users/sign_in"}
        if verb == "GET" and path.startswith(f"{self.prefix}/api/v4/projects/"):
            return self._rest(path.removeprefix(f"{self.prefix}/api/v4/projects/"), authorization, query)
        if verb == "GET" and path.startswith(f"{self.prefix}/api/v4/groups/"):
            return self._group(path.removeprefix(f"{self.prefix}/api/v4/groups/"), authorization, query)
        if verb != "POST" or path != f"{self.prefix}/api/graphql":
            return (200 if self.signs_in else 404), "<html><title>GitLab</title></html>", {}
        return (*self._graphql(authorization, asked), {})

    def _rest(self, path: str, authorization: str, query: Query) -> tuple[int, Any, dict[str, str]]:
        if authorization != f"Bearer {self.token}":
            return 401, {"message": "401 Unauthorized"}, {}
        project, _, below = path.partition("/")
        if unquote(project) != self.project.full_path:
            return 404, {"message": "404 Project Not Found"}, {}
        refused = {**dict.fromkeys(self.answerer.disabled, 403), **self.forbidden}
        if below in refused:
            return refused[below], {"message": "403 Forbidden"}, {}
        if not below:
            return 200, self.project.facts, {}
        if (whole := self._list(below)) is None:
            return 404, {"message": "404 Not Found"}, {}
        size, page = min(self.page_cap, int(query["per_page"][0])), int(query["page"][0])
        return 200, whole[(page - 1) * size : page * size], self._paging(whole, size, page)

    def _paging(self, whole: list[Any], size: int, page: int) -> dict[str, str]:
        """https://docs.gitlab.com/api/rest/#offset-based-pagination"""
        following = str(page + 1) if page * size < len(whole) else ""
        paging = {"X-Page": str(page), "X-Per-Page": str(size), "X-Next-Page": following}
        link = {"Link": f'<{self.address}/x?per_page={size}&page={following}>; rel="next"'}
        return paging | (link if following else {})

    def _group(self, path: str, authorization: str, query: Query) -> tuple[int, Any, dict[str, str]]:
        """https://docs.gitlab.com/api/groups/#list-projects"""
        if authorization != f"Bearer {self.token}":
            return 401, {"message": "401 Unauthorized"}, {}
        name, _, below = path.partition("/")
        group = unquote(name)
        if below != "projects" or not any(each == group for each in self.groups):
            return 404, {"message": "404 Group Not Found"}, {}
        inner = query["include_subgroups"] == ["true"]
        paths = [each for each in self.groups if each == group or (inner and each.startswith(f"{group}/"))]
        whole = [
            {"id": number, "path_with_namespace": f"{path}/{project['path']}", **project}
            for number, (path, project) in enumerate(
                (path, project) for path in paths for project in self.groups[path]
            )
        ]
        size, page = min(self.page_cap, int(query["per_page"][0])), int(query["page"][0])
        return 200, whole[(page - 1) * size : page * size], self._paging(whole, size, page)

    def _list(self, below: str) -> list[Record] | None:
        """The whole list at a path below the project."""
        if below == "members/all":
            return self.project.members
        if below == "releases":
            records = self.project.records.values()
            return [{"tag_name": each["tagName"]} for each in records if each["kind"] == "release"]
        record = self.project.records.get(
            below.replace("merge_requests/", "merge_request/").removesuffix("/diffs")
        )
        return record["diffs"] if record and below.endswith("/diffs") and "diffs" in record else None

    def _limited(self) -> dict[str, str]:
        """The headers of a limit that is spent. GitLab sends them with the refusal alone."""
        if time.time() >= self._reset:
            self._left, self._reset = CALLS_A_MINUTE, time.time() + 60
        self._left -= 1
        if self._left >= 0:
            return {}
        return {
            "RateLimit-Limit": str(CALLS_A_MINUTE),
            "RateLimit-Observed": str(CALLS_A_MINUTE - self._left),
            "RateLimit-Remaining": "0",
            "RateLimit-Reset": str(int(self._reset)),
            "RateLimit-ResetTime": formatdate(self._reset, usegmt=True),
            "RateLimit-Name": "throttle_authenticated_api",
            "Retry-After": str(max(1, int(self._reset - time.time()))),
        }

    def _graphql(self, authorization: str, asked: Record) -> tuple[int, Record]:
        if authorization not in ("", f"Bearer {self.token}"):
            return 401, _errors("Invalid token")
        variables = asked.get("variables") or {}
        self.before_answer(variables)
        wanted = variables.get("iids") or ()
        if len(wanted) > self.most_at_once:
            return 200, {"data": {"project": None}} | _errors("Timeout on MergeRequest.notes")
        if any(uri.partition("/")[2] in wanted for uri in self.failing):
            return 500, _errors("Internal server error")
        answer = self.answerer.answer(asked["query"], variables, known=bool(authorization))
        if not authorization and not self.public and "data" in answer:
            return 200, {"data": {"project": None}}
        return 200, answer


def _errors(message: str) -> Record:
    return {"errors": [{"message": message}]}
