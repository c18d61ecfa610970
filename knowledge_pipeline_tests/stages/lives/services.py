"""Services as origins: a fake of each on a real socket, which its own client library talks to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, get_args

from knowledge_pipeline.config.connections import BaseConnection
from knowledge_pipeline.config.sources import FILTER_TYPES, PARTS_BY_TYPE, ContentType
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.confluence.server import Fault as ConfluenceFault
from knowledge_pipeline_tests.fakes.github.server import Fault as GithubFault
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import Fault as GitlabFault
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer
from knowledge_pipeline_tests.fakes.jira.server import Fault as JiraFault
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.slack.server import Fault as SlackFault
from knowledge_pipeline_tests.fakes.slack.server import SlackServer
from knowledge_pipeline_tests.stages.lives.origin import Fault, Origin

_AT_ONCE = {"Retry-After": "0.01"}
_WHOLE = "what the service shows it shows whole"


class ServiceOrigin(Origin):
    """Documents of a service. `fault` makes one of its server's faults: status and headers."""

    kind: str  # of the source
    filters: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, server: Any, fault: Callable[..., Any]) -> None:
        self.server, self._fault = server, fault
        self.secrets = [server.token]

    @property
    @abstractmethod
    def connection(self) -> BaseConnection:
        """How the server is reached."""

    def declare(self) -> dict[str, Any]:
        files = {"attachments": True} if self.kind in FILTER_TYPES["attachments"] else {}
        return {"type": self.kind, "connection": self.connection, **files, **self.filters}

    @property
    def names(self) -> Sequence[str]:
        return [self.connection.host or "", self.server.address.removeprefix("http://")]

    def create(self, title: str, text: str) -> str:
        return self.server.create(title, text)

    def edit(self, key: str, text: str) -> None:
        self.server.edit(key, text)

    def remove(self, key: str) -> None:
        self.server.delete(key)

    @property
    def faults(self) -> Mapping[str, Fault]:
        return {
            "missing": self.go_missing,
            "denied": lambda: self.answer(401),
            "forbidden": lambda: self.answer(403),
            "unavailable": lambda: self.answer(503),
            "unreachable": self.server.refusing_connections,
            "partial": lambda: self.answer(503, after=1),
            "busy": lambda: self.answer(429, times=2),
        }

    def go_missing(self) -> AbstractContextManager[object]:
        """Nothing is at its address."""
        return self.answer(404)

    @contextmanager
    def answer(self, status: int, *, times: int = 60, after: int = 0) -> Iterator[None]:
        """Answer so many requests with a status, after some that are answered as usual."""
        headers = {} if status in (401, 403, 404) else _AT_ONCE
        usual = [self._fault(status=200) for _ in range(after)]
        self.server.faults.extend([*usual, *[self._fault(status=status, headers=headers)] * times])
        yield
        self.server.faults.clear()

    def __enter__(self) -> ServiceOrigin:
        self.server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.__exit__(*error)


class CodeHostOrigin(ServiceOrigin):
    """Issues, discussions, pull or merge requests; those with a label are read."""

    filters: ClassVar[Mapping[str, Any]] = {"labels": ["wanted"], "state": "all"}
    cannot: ClassVar[Mapping[str, str]] = {"spoil": _WHOLE}

    def __init__(self, server: Any, records: Any, fault: Callable[..., Any], kind: str) -> None:
        super().__init__(server, fault)
        self.kind, self._records = kind, records

    @property
    def connection(self) -> BaseConnection:
        return self.server.connection()

    def create(self, title: str, text: str) -> str:
        key = super().create(title, text)
        self.show(key)
        return key

    def rename(self, key: str, title: str) -> str:
        record = self._records.records[key]
        record["title"] = title
        self.show(key)  # which is an update
        return key

    def let_time_pass(self) -> None:
        self._records.clock += timedelta(days=3)

    def hide(self, key: str) -> dict[str, Any]:
        self._records.label(key, "other")
        return {}

    def show(self, key: str) -> None:
        self._records.label(key, "wanted")


class ReleaseOrigin(CodeHostOrigin):
    """Releases; those that are final are read."""

    filters: ClassVar[Mapping[str, Any]] = {}

    def rename(self, key: str, title: str) -> str:
        self._records.records[key]["name"] = title
        return key

    def hide(self, key: str) -> dict[str, Any]:
        return self._set_final(key, False)

    def show(self, key: str) -> None:
        self._set_final(key, True)

    def _set_final(self, key: str, is_final: bool) -> dict[str, Any]:
        self._records.records[key] |= {"isPrerelease": not is_final, "upcomingRelease": not is_final}
        return {}


class SnippetOrigin(CodeHostOrigin):
    """Snippets of one file."""

    filters: ClassVar[Mapping[str, Any]] = {"max_bytes": 4000}
    cannot: ClassVar[Mapping[str, str]] = {"hide": "nothing chooses snippets"}

    def rename(self, key: str, title: str) -> str:
        self._records.records[key]["title"] = title
        return key

    def show(self, key: str) -> None:
        """They are not labelled."""

    def spoil(self, key: str) -> None:
        self.edit(key, "word " * 4000)


def open_github(kind: str) -> CodeHostOrigin:
    """Pull requests, issues or discussions of GitHub."""
    kinds: dict[str, Any] = {"github_pr": "pull", "discussions": "discussion"}
    server = GithubServer(kind=kinds.get(kind, "issue"))
    return CodeHostOrigin(server, server.repository, GithubFault, kind)


def open_github_releases() -> ReleaseOrigin:
    """Releases of GitHub."""
    server = GithubServer(kind="release")
    return ReleaseOrigin(server, server.repository, GithubFault, "releases")


def open_gitlab_releases() -> ReleaseOrigin:
    """Releases of GitLab."""
    server = GitlabServer(kind="release")
    return ReleaseOrigin(server, server.project, GitlabFault, "releases")


def open_snippets() -> SnippetOrigin:
    """Snippets of GitLab."""
    server = GitlabServer(kind="snippet")
    return SnippetOrigin(server, server.project, GitlabFault, "snippets")


def open_gitlab(kind: str) -> CodeHostOrigin:
    """Merge requests, or issues, of GitLab."""
    server = GitlabServer(kind="merge_request" if kind == "github_pr" else "issue")
    return CodeHostOrigin(server, server.project, GitlabFault, kind)


class JiraOrigin(ServiceOrigin):
    """Tickets with all their parts; those with a label are read."""

    kind = "jira"
    filters: ClassVar[Mapping[str, Any]] = {"labels": ["wanted"], "parts": list(PARTS_BY_TYPE["jira"])}
    cannot: ClassVar[Mapping[str, str]] = {"spoil": _WHOLE}

    def __init__(self, *, cloud: bool) -> None:
        super().__init__(JiraServer(cloud=cloud), JiraFault)

    @property
    def connection(self) -> BaseConnection:
        return self.server.connection()

    def create(self, title: str, text: str) -> str:
        key = self.server.site.create(title, text, labels=["wanted"])
        self.server.site.link_remotely(key, "The case", "https://help.example.org/12")
        self.server.site.log_work(key, "1h")
        return key

    def let_time_pass(self) -> None:
        self.server.site.tick(3 * 86400)

    def rename(self, key: str, title: str) -> str:
        self.server.site.change(key, summary=title)
        return key

    def hide(self, key: str) -> dict[str, Any]:
        self.server.site.change(key, labels=["other"])
        return {}

    def show(self, key: str) -> None:
        self.server.site.change(key, labels=["wanted"])


class ConfluenceOrigin(ServiceOrigin):
    """Pages; those with a label are read."""

    kind, filters = "confluence", {"labels": ["wanted"], "max_bytes": 4000}

    def __init__(self, edition: str) -> None:
        super().__init__(ConfluenceServer(edition), ConfluenceFault)
        if edition == "cloud":
            self.filters = {**self.filters, "content_types": list(get_args(ContentType))}
        self.server.now = datetime.now(UTC) - timedelta(days=9)

    @property
    def connection(self) -> BaseConnection:
        return self.server.connection

    def create(self, title: str, text: str) -> str:
        return self.server.create(title, text, labels=("wanted",))

    def let_time_pass(self) -> None:
        self.server.now += timedelta(days=3)

    def rename(self, key: str, title: str) -> str:
        self.server.rename(key, title)
        return key

    def hide(self, key: str) -> dict[str, Any]:
        self.server.label(key, "other")
        return {}

    def show(self, key: str) -> None:
        self.server.label(key, "wanted")

    def spoil(self, key: str) -> None:
        self.server.edit(key, "word " * 4000)


class SlackOrigin(ServiceOrigin):
    """Threads of a workspace, read over the API."""

    kind = "slack"
    cannot: ClassVar[Mapping[str, str]] = {
        "hide": "a thread stays in its channel",
        "spoil": _WHOLE,
    }

    def __init__(self) -> None:
        super().__init__(SlackServer(), SlackFault)

    @property
    def connection(self) -> BaseConnection:
        return self.server.connection

    def rename(self, key: str, title: str) -> str:
        _, channel, ts = key.split("/")
        text = self.server.rooms[channel].messages[ts]["text"].partition("\n")[2]
        self.server.rewrite(ts, f"{title}\n{text}", channel)
        return key
