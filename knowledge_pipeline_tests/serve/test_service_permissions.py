"""Permissions of each service, from its API to who finds what, and through every change of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors import http_retry
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.slack.server import SlackServer

CANARY = "canarydocument"
CLOSED = "documents without readable permissions are closed"


@dataclass
class Service:
    """One service with a document for Ada alone, and what its people do."""

    type: str
    connection: Any
    revoke: Callable[[], object]  # Ada may not read it any more, Ben may
    forbid: Callable[[], object]  # who may read is not shown any more
    allow: Callable[[], object]
    filters: dict[str, Any]


def open_slack(stack: ExitStack) -> Service:
    server = stack.enter_context(SlackServer())
    server.scopes.add("users:read.email")
    server.person("U0ADA", "Ada Lovelace", email="ADA@example.org")
    server.person("U0BOB", "Ben", email="ben@example.org")
    room = server.channel("board", is_private=True)
    server.join(room, "U0ADA")
    server.create(f"{CANARY} plan", "a secret of the board", room)
    return Service(
        "slack",
        server.connection,
        lambda: server.join(room, "U0BOB"),
        lambda: server.scopes.discard("users:read"),
        lambda: server.scopes.add("users:read"),
        {"channels": ("board",)},
    )


def open_github(stack: ExitStack) -> Service:
    server = stack.enter_context(GithubServer(kind="issue"))
    server.create(f"{CANARY} fails", "a secret of the repository")
    for login in ("ada", "ben"):
        server.repository.address(login, f"{login}@example.org")
    server.repository.collaborate("ada")
    return Service(
        "github_issues",
        server.connection(),
        lambda: server.repository.collaborate("ben"),
        lambda: server.forbidden.update({"/collaborators": 403}),
        server.forbidden.clear,
        {},
    )


def open_gitlab(stack: ExitStack) -> Service:
    server = stack.enter_context(GitlabServer(kind="issue"))
    server.create(f"{CANARY} fails", "a secret of the project")
    server.project.join("ada")

    def revoke() -> None:
        server.project.leave("ada")
        server.project.join("ben", 10)

    return Service(
        "github_issues",
        server.connection(),
        revoke,
        lambda: server.forbidden.update({"members/all": 403}),
        server.forbidden.clear,
        {},
    )


def open_jira(stack: ExitStack, *, cloud: bool = True) -> Service:
    server = stack.enter_context(JiraServer(cloud=cloud))
    site = server.site
    site.emails = {name: f"{name.lower()}@example.org" for name in ("Ada", "Ben")}
    site.browse("Ada", "Ben")
    site.levels = {"5": [site.holder("Ada")]}
    site.change(server.create(f"{CANARY} fails", "a secret of the managers"), security={"id": "5"})
    return Service(
        "jira",
        server.connection(),
        lambda: site.levels.update({"5": [site.holder("Ben")]}),
        lambda: site.forbidden.update({"/members": 403, "/viewissue/search": 403}),
        site.forbidden.clear,
        {"projects": ("PROJ",)},
    )


SERVICES = {
    "jira": open_jira,
    "jira_server": partial(open_jira, cloud=False),
    "slack": open_slack,
    "github": open_github,
    "gitlab": open_gitlab,
}


class Indexed:
    """A project with the service as its one source."""

    def __init__(self, root: Path, service: Service, embedding: Any) -> None:
        self.service, self.embedding = service, embedding
        access = {"visibility": "from_source", "tenant": "acme", "principals": ["auditor"]}
        access["mapping"] = {"*": "*@example.org"}
        source = {"id": "source", "type": service.type, "connection": service.connection, "access": access}
        model = {"provider": "openai", "model": "fake", "base_url": embedding.url, "api_key": embedding.key}
        self.settings = Settings.model_validate(
            {
                "store": root,
                "embedding": {**model, "dimensions": embedding.dimensions},
                "sources": [{**source, **service.filters}],
            }
        )
        self.lake = Lake(root)

    def refresh(self) -> list[Stats]:
        outcome = pipeline.refresh(self.lake, self.settings, self.settings.sources)
        assert not outcome.failures, outcome.failures
        return outcome.stats

    def seers(self) -> set[str]:
        """Who of Ada, Ben and the auditor finds the document."""
        return {name for name in ("ada@example.org", "ben@example.org", "auditor") if self.sees(name)}

    def sees(self, *principals: str) -> bool:
        with KnowledgeBase(self.settings, access=Access("acme", frozenset(principals))) as base:
            return any(CANARY in (result.citation.title or "") for result in base.search(CANARY).results)


@pytest.fixture(params=SERVICES)
def indexed(request, tmp_path, embedding_server, monkeypatch) -> Iterator[Indexed]:
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)
    monkeypatch.setattr(http_retry, "_MAX_BACKOFF_S", 0.002)
    with ExitStack() as stack:
        made = Indexed(tmp_path / "store", SERVICES[request.param](stack), embedding_server)
        made.refresh()
        yield made


def test_who_may_read_a_document_finds_it_and_nobody_else(indexed):
    assert indexed.seers() == {"ada@example.org", "auditor"}
    assert not indexed.sees(), "a caller of the tenant without a name"
    with KnowledgeBase(indexed.settings, access=Access.public()) as base:
        assert base.search(CANARY).results == ()
        assert base.status().rows == 0


@pytest.mark.sampled
def test_what_is_revoked_is_gone_with_the_next_refresh_and_nothing_is_embedded(indexed):
    before = len(indexed.embedding.requests)
    indexed.service.revoke()
    stats = {each.stage: each for each in indexed.refresh()}
    assert len(indexed.embedding.requests) == before
    assert indexed.seers() == {"ben@example.org", "auditor"}
    assert not stats["index"].has_changes, "a membership is no row of the index"


@pytest.mark.sampled
def test_permissions_that_cannot_be_read_close_the_document_and_the_report_says_so(indexed):
    indexed.service.forbid()
    notes = indexed.refresh()[0].notes
    assert indexed.seers() == {"auditor"}
    assert notes[CLOSED] == 1
    assert len(notes) > 1, "the reason is there, too"
    indexed.service.allow()
    indexed.refresh()
    assert indexed.seers() == {"ada@example.org", "auditor"}


@pytest.mark.parametrize(
    ("type_", "connection", "remedy"),
    [
        ("files", {"type": "local", "path": "."}, ""),
        ("code", {"type": "local", "path": "."}, "use connection.type github or gitlab"),
        ("code", {"type": "s3", "bucket": "code"}, "use connection.type github or gitlab"),
        (
            "markdown",
            {"type": "git", "url": "https://example.org/a.git", "token": "t"},
            "use connection.type",
        ),
        ("markdown", {"type": "git", "url": "https://github.com/octo/engine"}, "or a connection.token"),
        ("markdown", {"type": "git", "url": "https://github.com/engine", "token": "t"}, "use connection"),
        (
            "code",
            {"type": "git", "url": "https://github.com.example.org/a/b", "token": "t"},
            "use connection",
        ),
        ("slack", {"type": "slack_export", "path": "export.zip"}, ""),
    ],
)
def test_sources_whose_permissions_are_not_read_refuse_to_say_so(type_, connection, remedy):
    source = {"id": "a", "type": type_, "connection": connection}
    with pytest.raises(ValidationError, match="'from_source' is not read for type") as refused:
        SourceConfig.model_validate({**source, "access": {"visibility": "from_source", "tenant": "acme"}})
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    ("connection", "service"),
    [
        ({"type": "github", "repository": "octo/engine"}, "https://github.com/octo/engine"),
        ({"type": "git", "url": "https://github.com/octo/engine.git"}, "https://github.com/octo/engine"),
        ({"type": "git", "url": "git@github.com:octo/engine.git"}, "https://github.com/octo/engine"),
        ({"type": "git", "url": "https://gitlab.com/a/b/c/"}, "https://gitlab.com/a/b/c"),
        ({"type": "gitlab", "project": "a/b", "url": "https://g.test"}, "https://g.test/a/b"),
    ],
)
def test_a_repository_is_read_by_git_and_its_host_says_who_may(connection, service):
    source = {"id": "a", "type": "code", "connection": {**connection, "token": "secret"}}
    access = {"visibility": "from_source", "tenant": "acme"}
    read = SourceConfig.model_validate({**source, "access": access})
    assert read.connection.type == "git"
    for one in (read, read.model_copy(update={"id": "b"})):
        assert one.permission_connection is not None
        assert one.permission_connection.location == service
        assert one.permission_connection.token == read.connection.token


@pytest.mark.parametrize(
    ("access", "sentence"),
    [
        ({"visibility": "from_source"}, "needs a tenant"),
        ({"visibility": "public", "mapping": {"a": "b"}}, "belong to visibility 'from_source'"),
        ({"visibility": "from_source", "tenant": "acme", "mapping": {"a": " "}}, "neither can be"),
    ],
)
def test_access_that_makes_no_sense_is_refused(access, sentence):
    connection = {"type": "confluence", "url": "https://wiki.example.org"}
    with pytest.raises(ValidationError, match=sentence):
        SourceConfig.model_validate(
            {"id": "a", "type": "confluence", "connection": connection, "access": access}
        )
