"""The texts of `evaluation/organisation`, put into the fakes of Jira, Confluence, Slack and GitHub.

    with OrganisationTexts() as texts:
        sources = texts.declare()
        names = texts.names  # "HTTPX-3", "wiki/ci", "chat/py36-hang", "pull/804", by source and uri

The files hold what is in a ticket, page, thread or pull request; this module knows how each service keeps it.
"""

# ruamel.yaml leaves its loader untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from ruamel.yaml import YAML

from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.github.records import person
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.slack.server import SlackServer

FOLDER = Path(__file__).resolve().parents[1] / "evaluation" / "organisation"
REPOSITORY = "encode/httpx"
COMMIT = "ae1b9f66238f75ced3ced5e4485408435de10768"
PROJECT = "HTTPX"
SPACE = "HTTP"
SINCE = "2019-01-01"  # all texts are newer

PEOPLE = {
    **{
        "mara": "Mara Lindqvist",
        "tobias": "Tobias Renner",
        "elena": "Elena Sorokina",
        "jonas": "Jonas Weber",
    },
    **{"yusuf": "Yusuf Demir", "keiko": "Keiko Tanaka", "priya": "Priya Nair", "sam": "Sam Okafor"},
}
"""Names by login."""

Text = Mapping[str, Any]

_COMMENT = re.compile(r"(?P<day>\d{4}-\d\d-\d\d) (?P<author>\w+): (?P<text>.*)", re.DOTALL)
_MESSAGE = re.compile(r"(?P<author>\w+): (?P<text>.*)", re.DOTALL)
_TURN = re.compile(
    r"(?P<kind>comment|approved|changes|on (?P<path>\S+):(?P<line>\d+)) (?P<author>\w+)(: (?P<text>.*))?",
    re.DOTALL,
)
_VERDICTS = {"approved": "APPROVED", "changes": "CHANGES_REQUESTED"}
_BETWEEN_MESSAGES = timedelta(minutes=2)


def read_texts(kind: str) -> list[Text]:
    """The tickets, pages, threads or pull_requests, in the order of their file."""
    return YAML(typ="safe", pure=True).load(FOLDER / f"{kind}.yaml")


def list_names() -> list[str]:
    """The names of all documents, by which targets refer to them."""
    return [
        *(f"{PROJECT}-{number}" for number, _ in enumerate(read_texts("tickets"), start=1)),
        *(f"wiki/{page['name']}" for page in read_texts("pages")),
        *(f"chat/{thread['name']}" for thread in read_texts("threads")),
        *(f"pull/{pull['number']}" for pull in read_texts("pull_requests")),
    ]


class OrganisationTexts:
    """A context manager: the four services with all texts in them."""

    def __init__(self) -> None:
        self.jira, self.confluence = JiraServer(cloud=False), ConfluenceServer("cloud")
        self.slack, self.github = SlackServer(), GithubServer(repository=REPOSITORY)
        self.names: dict[tuple[str, str], str] = {}  # by the source's id and the uri
        self._stack = ExitStack()
        for members in (self.jira.site.projects, self.confluence.site.spaces, self.slack.rooms):
            members.clear()
        self.jira.site.add_project(PROJECT, name="HTTP client")
        self.confluence.space(SPACE, "HTTP client")
        for login, name in PEOPLE.items():
            self.confluence.person(f"u-{login}", name)
            self.slack.person(f"U0{login.upper()}", name)
        self._fill()

    def __enter__(self) -> Self:
        for server in (self.jira, self.confluence, self.slack, self.github):
            self._stack.enter_context(server)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def declare(self) -> list[dict[str, Any]]:
        """Their sources, as in a knowledge.yaml; tokens as they are."""
        connections = {
            "jira": self.jira.connection(),
            "confluence": self.confluence.connection,
            "slack": self.slack.connection,
            "github_pr": self.github.connection(),
        }
        filters = {"slack": {"since": SINCE}, "github_pr": {"since": SINCE, "state": "all"}}
        return [
            {
                "id": _SOURCES[type_],
                "type": type_,
                "connection": _describe(connection),
                **filters.get(type_, {}),
            }
            for type_, connection in connections.items()
        ]

    def _fill(self) -> None:
        for number, ticket in enumerate(read_texts("tickets"), start=1):
            self.names["tickets", self._create_ticket(ticket)] = f"{PROJECT}-{number}"
        for page in read_texts("pages"):
            self.names["wiki", self._create_page(page)] = f"wiki/{page['name']}"
        channels: dict[str, str] = {}
        for thread in read_texts("threads"):
            channel = thread["channel"]
            channels[channel] = channels.get(channel) or self.slack.channel(channel)
            self.names["chat", self._create_thread(thread, channels[channel])] = f"chat/{thread['name']}"
        for pull in read_texts("pull_requests"):
            self.names["pulls", self._create_pull(pull)] = f"pull/{pull['number']}"

    def _create_ticket(self, ticket: Text) -> str:
        site = self.jira.site
        site.now = _parse_day(ticket["created"])
        more = {"fixVersions": [{"name": ticket["fix"]}]} if "fix" in ticket else {}
        uri = site.create(
            ticket["title"],
            ticket["text"],
            project=PROJECT,
            reporter=PEOPLE[ticket["reporter"]],
            issuetype=ticket["type"],
            labels=ticket["labels"],
            priority=ticket["priority"],
            status=ticket["status"],
            **more,
        )
        for comment in ticket.get("comments", ()):
            part = _match(_COMMENT, comment)
            site.now = max(site.now, _parse_day(part["day"]))
            site.comment(uri, part["text"], author=PEOPLE[part["author"]])
        return uri

    def _create_page(self, page: Text) -> str:
        self.confluence.now = _parse_day(page["created"])
        return self.confluence.create(
            page["title"], storage=page["text"], space=SPACE, labels=tuple(page["labels"]), author="u-mara"
        )

    def _create_thread(self, thread: Text, channel: str) -> str:
        at = datetime.strptime(thread["at"], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
        root: str | None = None
        for message in thread["messages"]:
            part = _match(_MESSAGE, message)
            ts = self.slack.post(
                part["text"], channel, user=f"U0{part['author'].upper()}", at=at, thread=root
            )
            root, at = root or ts, at + _BETWEEN_MESSAGES
        return f"thread/{channel}/{root}"

    def _create_pull(self, pull: Text) -> str:
        repository, number = self.github.repository, pull["number"]
        repository.clock = _parse_day(pull["merged"]) - timedelta(days=1)
        uri = repository.pull(
            pull["title"],
            pull["text"],
            merged=False,
            author=person(pull["author"], PEOPLE[pull["author"]]),
            number=number,
            url=f"https://github.test/{REPOSITORY}/pull/{number}",
        )
        repository.label(uri, *pull["labels"])
        repository.files(uri, *pull["files"])
        for turn in pull["turns"]:
            part = _match(_TURN, turn)
            author, text = person(part["author"], PEOPLE[part["author"]]), part["text"] or ""
            if part["path"]:
                repository.thread(uri, part["path"], int(part["line"]), text, author=author)
            elif part["kind"] in _VERDICTS:
                repository.review(uri, _VERDICTS[part["kind"]], text, author=author)
            else:
                repository.comment(uri, text, author=author)
        repository.clock = _parse_day(pull["merged"])
        repository.merge(uri)
        return uri


_SOURCES = {"jira": "tickets", "confluence": "wiki", "slack": "chat", "github_pr": "pulls"}
"""Ids of sources, by type."""


def _describe(connection: Any) -> dict[str, Any]:
    """A connection as it is written in a knowledge.yaml."""
    described = connection.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    return described | {"token": connection.token.get_secret_value()}


def _parse_day(day: Any) -> datetime:
    """Its morning; YAML reads a bare day as a date."""
    return datetime.fromisoformat(f"{day}T09:00:00+00:00")


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    if match := pattern.fullmatch(text):
        return match
    raise ValueError(f"{text!r} does not read as {pattern.pattern!r}")
