"""What every service that documents are read from is asked, and how often, through the whole pipeline.

A fake of the service runs on a real socket, and the connector's own client library talks to it. What becomes
of documents that change, and of a service that fails, is in `lives`, for every type of source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import pytest

from knowledge_pipeline.connectors.registry import open_api_source
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages.context import RefreshOutcome
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.slack.server import SlackServer

SOON = {"Retry_After": "0.01"}


@dataclass
class Lived:
    """A service with documents, and a project that reads it."""

    project: Project
    server: Any
    fail: Callable[[int, int], None]  # so many answers with a status
    token: str

    def create(self, title: str, text: str) -> str:
        return self.server.create(title, text)

    @property
    def calls(self) -> int:
        return len(self.server.requests)

    def refresh(self, **options: Any) -> RefreshOutcome:
        outcome = self.project.refresh(**options)
        for failure in outcome.failures.values():
            raise failure
        return outcome

    def finds(self, words: str) -> bool:
        """Whether a question is answered by a passage with these words."""
        with KnowledgeBase(self.project.settings) as knowledge:
            return any(words in each.content for each in knowledge.search(words, limit=20).results)


def _github(kind: str) -> Callable[[], tuple[GithubServer, dict[str, Any], Callable[[int, int], None]]]:
    def made() -> tuple[GithubServer, dict[str, Any], Callable[[int, int], None]]:
        server = GithubServer(kind=cast("Any", "pull" if kind == "github_pr" else "issue"))
        headers = {"Retry-After": "0.01"}
        told = {"type": kind, "connection": server.connection()}
        return server, told, lambda times, status: server.fail_next(times, status=status, headers=headers)

    return made


def _jira(*, cloud: bool) -> Callable[[], tuple[JiraServer, dict[str, Any], Callable[[int, int], None]]]:
    def made() -> tuple[JiraServer, dict[str, Any], Callable[[int, int], None]]:
        server = JiraServer(cloud=cloud)
        told = {"type": "jira", "connection": server.connection()}
        return server, told, lambda times, status: server.fail_next(times, status=status)

    return made


def _confluence(
    edition: str,
) -> Callable[[], tuple[ConfluenceServer, dict[str, Any], Callable[[int, int], None]]]:
    def made() -> tuple[ConfluenceServer, dict[str, Any], Callable[[int, int], None]]:
        server = ConfluenceServer(edition)
        told = {"type": "confluence", "connection": server.connection}
        return server, told, lambda times, status: server.fail_next(times, status=status, **SOON)

    return made


def _gitlab(kind: str) -> Callable[[], tuple[GitlabServer, dict[str, Any], Callable[[int, int], None]]]:
    def made() -> tuple[GitlabServer, dict[str, Any], Callable[[int, int], None]]:
        server = GitlabServer(kind=cast("Any", "merge_request" if kind == "github_pr" else "issue"))
        headers = {"Retry-After": "0.01"}
        told = {"type": kind, "connection": server.connection()}
        return server, told, lambda times, status: server.fail_next(times, status=status, headers=headers)

    return made


def _slack() -> tuple[SlackServer, dict[str, Any], Callable[[int, int], None]]:
    server = SlackServer()
    told = {"type": "slack", "connection": server.connection}
    return server, told, lambda times, status: server.fail_next(times, status=status, **SOON)


SERVICES = {
    "github_pr": _github("github_pr"),
    "github_issues": _github("github_issues"),
    "jira cloud": _jira(cloud=True),
    "jira server": _jira(cloud=False),
    "confluence cloud": _confluence("cloud"),
    "confluence server": _confluence("server"),
    "gitlab merge requests": _gitlab("github_pr"),
    "gitlab issues": _gitlab("github_issues"),
    "slack": _slack,
}


@pytest.fixture(params=SERVICES)
def lived(request: pytest.FixtureRequest, project: Project) -> Iterator[Lived]:
    server, told, fail = SERVICES[request.param]()
    with ExitStack() as stack:
        stack.enter_context(server)
        project.sources["service"] = {"id": "service", **told}
        yield Lived(project, server, fail, server.token)


@pytest.fixture
def always_whole(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every listing is due to be a whole one."""
    with open_api_source(lived.project.settings.sources[0]) as service:
        monkeypatch.setattr(type(service), "full_listing_interval", timedelta(0))


@pytest.mark.sampled
def test_another_filter_lists_everything_anew(lived: Lived) -> None:
    for number in range(3):
        lived.create(f"Document {number}", f"Text number{number} of the archive.")
    declared = lived.project.sources["service"]
    lived.project.sources["service"] = {**declared, "since": "800 days"}
    (narrow,) = (stats for stats in lived.refresh().stats if stats.stage == "snapshot")
    assert not narrow.notes
    (again,) = (stats for stats in lived.refresh().stats if stats.stage == "snapshot")
    assert any(note.startswith("listed since") for note in again.notes)
    lived.project.sources["service"] = {**declared, "since": "900 days"}
    (wide,) = (stats for stats in lived.refresh().stats if stats.stage == "snapshot")
    assert not wide.notes
    assert wide.rows == narrow.rows >= 1


@pytest.mark.sampled
def test_a_second_refresh_asks_little_and_changes_nothing(lived: Lived) -> None:
    for number in range(30):
        lived.create(f"Document {number}", f"Text number{number} of the archive.")
    lived.refresh()
    first, before = lived.calls, tables(lived.project)
    lived.refresh()
    assert lived.calls - first <= 6
    assert tables(lived.project) == before


@pytest.mark.sampled
def test_one_edit_costs_few_calls_and_changes_one_document(lived: Lived) -> None:
    uris = [
        lived.create(f"Document {number}", f"Text number{number} of the archive.") for number in range(30)
    ]
    lived.refresh()
    first = lived.calls
    lived.server.edit(uris[7], "A new text about the harbour pilot.")
    outcome = lived.refresh()
    (snapshot,) = (stats for stats in outcome.stats if stats.stage == "snapshot")
    assert (snapshot.changed, snapshot.added, snapshot.removed) == (1, 0, 0)
    assert snapshot.seen <= 31
    assert lived.calls - first <= 12


@pytest.mark.sampled
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_told_at_once_and_loses_nothing(lived: Lived, always_whole: None, status: int) -> None:
    lived.create("Rota", "The lighthouse keeper wakes at midnight.")
    lived.refresh()
    before, calls = tables(lived.project), lived.calls
    lived.fail(40, status)
    with pytest.raises(SourceRefused) as refused:
        lived.refresh()
    assert "connection." in str(refused.value) or "permission" in str(refused.value)
    assert lived.calls - calls <= 8
    assert tables(lived.project) == before


@pytest.mark.sampled
def test_a_limit_is_waited_for(lived: Lived) -> None:
    for number in range(12):
        lived.create(f"Document {number}", f"Text number{number} of the archive.")
    lived.server.limit(after=2, reset_s=1)
    lived.refresh()
    assert lived.finds("number11")


@pytest.mark.sampled
def test_a_long_limit_is_told_with_its_end_and_the_rest_comes_later(lived: Lived) -> None:
    for number in range(12):
        lived.create(f"Document {number}", f"Text number{number} of the archive.")
    lived.server.limit(after=1, reset_s=3600)
    with pytest.raises(SourceUnavailable, match=r"until \d{4}-\d\d-\d\d \d\d:\d\d UTC"):
        lived.refresh()
    lived.server.limit(after=10_000, reset_s=1)
    lived.refresh()
    rows = lived.project.lake.snapshot(lived.project.settings.sources[0].type, "service").read_rows(["uri"])
    assert rows.num_rows == 12
