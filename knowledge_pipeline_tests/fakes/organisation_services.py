"""The services of a fake organisation, and how a member and an item of each kind is written in its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.github.organisation import GithubOrganisation
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.slack.server import SlackServer

MemberKind = Literal["repository", "project", "space", "channel"]
ItemKind = Literal["file", "pull", "issue", "ticket", "page", "message"]

HOLDERS: Mapping[ItemKind, MemberKind] = {
    **dict.fromkeys(("file", "pull", "issue"), "repository"),
    **{"ticket": "project", "page": "space", "message": "channel"},
}
"""What kind of member an item is in."""

PEOPLE = {
    **{"ada": "Ada Lovelace", "grace": "Grace Hopper", "alan": "Alan Turing", "edsger": "Edsger Dijkstra"},
    **{"barbara": "Barbara Liskov", "tony": "Tony Hoare"},
}
"""Names by login."""

Texts = list[tuple[str, str]]  # title and text
Create = Callable[[str, Texts], list[str]]  # in a member; the uris


@dataclass(frozen=True, slots=True)
class MemberWriter:
    """How members of a kind are opened, who may read them, and how they are removed."""

    open: Callable[[int, str, bool], str]  # by number, subject, whether archived; the name as it is listed
    admit: Callable[[str, list[str]], object]  # exactly these logins
    remove: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class ItemWriter:
    """How items of a kind are created, edited to another text, and deleted; each by the member first."""

    create: Create
    edit: Callable[[str, str, str], object]
    delete: Callable[[str, str], object]


@dataclass(frozen=True, slots=True)
class FileWriter:
    """How a file is attached to a ticket, a page or a thread's root, and deleted there."""

    attach: Callable[[str, str, bytes], str]  # to an item, by name; the file's id
    detach: Callable[[str, str], object]


class OrganisationServices:
    """A context manager: GitHub, Jira, Confluence and Slack, which know the same people and nothing else."""

    now: datetime

    def __init__(self, folder: Path, *, cloud: bool) -> None:
        self.github = GithubOrganisation(folder)
        self.jira = JiraServer(cloud=cloud)
        self.confluence = ConfluenceServer("cloud" if cloud else "server")
        self.slack = SlackServer()
        self.member_writers = self._build_member_writers()
        self.item_writers = self._build_item_writers()
        self.file_writers: Mapping[ItemKind, FileWriter] = {
            "ticket": FileWriter(self.jira.attach, self.jira.detach),
            "page": FileWriter(self.confluence.attach, lambda _, file: self.confluence.delete(file)),
            "message": FileWriter(self.slack.attach, self.slack.detach),
        }
        self._stack = ExitStack()
        for held in (self.jira.site.projects, self.confluence.site.spaces, self.slack.rooms):
            held.clear()
        for login, name in PEOPLE.items():
            email = f"{login}@acme.example"
            self.jira.site.emails[name] = email
            self.confluence.person(f"u-{login}", name, email)
            self.slack.person(f"U0{login.upper()}", name, email=email)
            self.github.show_email(login, email)
        self.slack.scopes.add("users:read.email")

    def __enter__(self) -> Self:
        for server in (self.github, self.jira, self.confluence, self.slack):
            self._stack.enter_context(server)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def declare(self, **shared: Any) -> list[dict[str, Any]]:
        """Its entries under `organisations`; `shared`: of every source, as `access`."""
        github = {"organisation": self.github.login, "url": self.github.url, "token": self.github.token}
        declared: Iterable[tuple[str, str, dict[str, Any], list[dict[str, Any]]]] = (
            ("code", "github_organisation", github, [{"type": "code"}, *_OF_CONVERSATIONS]),
            ("tickets", "jira_projects", _reach(self.jira.connection()), [{"type": "jira"}]),
            ("wiki", "confluence_spaces", _reach(self.confluence.connection), [{"type": "confluence"}]),
            (
                "chat",
                "slack_channels",
                _reach(self.slack.connection) | {"private": True},
                [{"type": "slack"}],
            ),
        )
        return [
            {
                "id": id_,
                "connection": {"type": kind, **connection},
                "sources": [source | shared for source in sources],
            }
            for id_, kind, connection, sources in declared
        ]

    def set_time(self, now: datetime) -> None:
        """What every service takes for now."""
        self.now = self.jira.site.now = self.confluence.now = self.slack.now = now

    def _build_member_writers(self) -> dict[MemberKind, MemberWriter]:
        github, jira, confluence, slack = self.github, self.jira.site, self.confluence, self.slack

        def open_repository(number: int, subject: str, archived: bool) -> str:
            name = f"{subject.lower()}-{number}"
            repository = github.host(name, {"README.md": f"# {name}\n"}, isArchived=archived)
            repository.clock = self.now
            return repository.full_name

        def open_project(number: int, subject: str, archived: bool) -> str:
            jira.add_project(key := _key(number, subject), name=f"{subject} {number}", archived=archived)
            return key

        def open_space(number: int, subject: str, archived: bool) -> str:
            status = "archived" if archived else "current"
            confluence.space(key := _key(number, subject), f"{subject} {number}", status)
            return key

        def open_channel(number: int, subject: str, archived: bool) -> str:
            """Every third one is private."""
            name = f"{subject.lower()}-{number}"
            return slack.channel(name, is_archived=archived, is_private=number % 3 == 0)

        return {
            "repository": MemberWriter(
                open_repository, lambda m, logins: github.of(m).collaborate(*logins), github.remove
            ),
            "project": MemberWriter(
                open_project,
                lambda m, logins: jira.browse(*(PEOPLE[each] for each in logins), project=m),
                jira.projects.pop,
            ),
            "space": MemberWriter(
                open_space,
                lambda m, logins: confluence.admit(m, *(f"u-{each}" for each in logins)),
                confluence.site.spaces.pop,
            ),
            "channel": MemberWriter(
                open_channel,
                lambda m, logins: slack.join(m, *(f"U0{each.upper()}" for each in logins)),
                slack.rooms.pop,
            ),
        }

    def _build_item_writers(self) -> dict[ItemKind, ItemWriter]:
        jira, confluence, slack, repository = self.jira.site, self.confluence, self.slack, self._repository

        def each(create: Callable[[str, str, str], str]) -> Create:
            return lambda member, texts: [create(member, title, text) for title, text in texts]

        return {
            "file": ItemWriter(
                self._create_files,
                lambda m, uri, text: self._commit(m, {uri: _to_code(text)}),
                lambda m, uri: self._commit(m, {uri: None}),
            ),
            "pull": ItemWriter(
                each(lambda m, *said: repository(m).pull(*said)),
                lambda m, uri, text: repository(m).edit(uri, text),
                lambda m, uri: repository(m).delete(uri),
            ),
            "issue": ItemWriter(
                each(lambda m, *said: repository(m).issue(*said)),
                lambda m, uri, text: repository(m).edit(uri, text),
                lambda m, uri: repository(m).delete(uri),
            ),
            "ticket": ItemWriter(
                each(lambda m, *said: jira.create(*said, project=m)),
                lambda _, uri, text: jira.edit(uri, text),
                lambda _, uri: jira.delete(uri),
            ),
            "page": ItemWriter(
                each(lambda m, *said: confluence.create(*said, space=m)),
                lambda _, uri, text: confluence.edit(uri, text),
                lambda _, uri: confluence.delete(uri),
            ),
            "message": ItemWriter(
                each(lambda m, *said: slack.create(*said, channel=m)),
                lambda _, uri, text: slack.edit(uri, text),
                lambda _, uri: slack.delete(uri),
            ),
        }

    def _repository(self, member: str) -> Any:
        """The records of a repository, whose clock goes with the others."""
        repository = self.github.of(member)
        repository.clock = max(repository.clock, self.now)
        return repository

    def _create_files(self, member: str, texts: Texts) -> list[str]:
        files = {f"src/{title.lower().replace(' ', '_')}.py": _to_code(text) for title, text in texts}
        self._commit(member, files)
        return list(files)

    def _commit(self, member: str, files: Mapping[str, str | None]) -> None:
        self.github.commit(member, files, f"Change {', '.join(files)}"[:80], int(self.now.timestamp()))


_OF_CONVERSATIONS: list[dict[str, Any]] = [
    {"type": kind, "state": "all"} for kind in ("github_pr", "github_issues")
]


def _key(number: int, subject: str) -> str:
    return f"{subject[:3].upper()}{number}"


def _to_code(text: str) -> str:
    return f'"""{text}"""\n\n\ndef answer() -> str:\n    """{text}"""\n    return "{text}"\n'


def _reach(connection: Any) -> dict[str, Any]:
    """What a connection has in common with that of all members."""
    known = {name: getattr(connection, name, None) for name in ("url", "email")}
    given = {name: value for name, value in known.items() if value is not None}
    return given | {"token": connection.token.get_secret_value()}
