from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from knowledge_linear.source import LinearIssues, LinearSettings
from linear_server import MAX_POINTS, LinearServer

from knowledge_pipeline.extending import Document, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.testing import check_source_life


@pytest.fixture
def server() -> Iterator[LinearServer]:
    with LinearServer() as server:
        yield server


def source_of(server: LinearServer, **settings: Any) -> LinearIssues:
    return LinearIssues(LinearSettings(**{"api_key": server.api_key, "url": server.url, **settings}))


def revisions(server: LinearServer, **settings: Any) -> dict[str, str]:
    with source_of(server, **settings) as source:
        return {item.locator: item.revision for item in source.discover()}


class LinearWorld:
    """Issues of a small Linear, by title, as the check changes them."""

    def __init__(self, server: LinearServer) -> None:
        self.server = server
        self._ids: dict[str, str] = {}
        self._broken = ExitStack()

    def entry(self) -> dict[str, Any]:
        settings = {"api_key": self.server.api_key, "url": self.server.url, "teams": ["ENG"]}
        return {"type": "custom", "connection": {"type": "custom", "use": "linear", "settings": settings}}

    def write(self, name: str, text: str) -> None:
        if name in self._ids:
            self.server.edit(self._ids[name], description=text)
        else:
            self._ids[name] = self.server.create(name, text)
            self.server.comment(self._ids[name], "Noted.")

    def rename(self, old: str, new: str) -> None:
        self._ids[new] = self._ids.pop(old)
        self.server.edit(self._ids[new], title=new)

    def remove(self, name: str) -> None:
        self.server.edit(self._ids.pop(name), trashed=True)

    def break_listing(self) -> None:
        self._broken.enter_context(self.server.refusing("RATELIMITED"))

    def repair(self) -> None:
        self._broken.close()


def test_issues_live_and_vanish(server, tmp_path):
    check_source_life(LinearWorld(server), tmp_path / "store")


def test_an_issue_is_a_document_with_its_comments(server):
    parent = server.create("Sign-in", "")
    project, tags = {"id": "p", "name": "Trust"}, ("web", "auth")
    above = server.records[parent]
    issue = server.create("It fails", "**Always**.", parent=above, project=project, tags=tags)
    server.comment(issue, "I see it too.")
    with source_of(server) as source:
        documents = {item.locator: read for item, read in source.fetch_many(list(source.discover()))}
    document = documents[issue]
    assert isinstance(document, Document)
    assert document.text == (
        "# ENG-2 It fails\n\n**Always**.\n\n- Parent: ENG-1 Sign-in\n- Project: Trust\n\n"
        "## Comment by Grace, 2026-03-01\n\nI see it too."
    )
    assert (document.path, document.title, document.author) == ("ENG/ENG-2", "ENG-2 It fails", "Ada")
    assert document.last_modified == server.now, "the newest of the issue and its comments"
    assert document.metadata["labels"] == ["auth", "web"] and document.metadata["status"] == "In Progress"
    assert document.metadata["mentions"] == [{"kind": "references", "target": "ENG-1"}]
    assert max(server.costs) < MAX_POINTS / 4


def test_lists_are_read_to_their_end_and_a_comment_is_an_update(server):
    server.page_size = 3
    issues = [server.create(f"Issue {number}", "x") for number in range(8)]
    for number in range(7):
        server.comment(issues[0], f"comment{number}")
    before = revisions(server)
    assert list(before) == issues
    server.now += timedelta(days=2)
    since = server.now
    server.comment(issues[4], "late")
    with source_of(server) as source:
        (item,) = source.discover_updated(since)
        ((_, document),) = source.fetch_many([item])
    after = revisions(server)
    assert item.locator == issues[4] and item.revision == after[issues[4]] != before[issues[4]]
    assert isinstance(document, Document) and document.text.endswith("late")
    del server.records[issues[4]]
    with source_of(server) as source:
        ((_, gone),) = source.fetch_many([item])
    assert isinstance(gone, DocumentSkipped)


def test_a_team_that_is_not_shown_is_no_empty_one(server):
    server.team_keys = ["ENG", "OPS"]
    server.create("One", "x")
    kept = server.create("Two", "x", team="OPS")
    assert list(revisions(server, teams=["OPS"])) == [kept]
    with pytest.raises(SourceRefused, match="shows no team PAY: correct connection"):
        revisions(server, teams="OPS, PAY")


def test_refusals_and_limits_say_what_to_do(server):
    with pytest.raises(SourceRefused, match=r"correct connection\.settings\.api_key") as refused:
        revisions(server, api_key="lin-api-wrong")
    assert "lin-api-wrong" not in str(refused.value)
    with (
        server.refusing("RATELIMITED", X_RateLimit_Requests_Reset="1772355600000"),
        pytest.raises(SourceUnavailable, match="limits our calls until 2026-03-01 09:00 UTC"),
    ):
        revisions(server)
    with server.refusing("FORBIDDEN", 403), pytest.raises(SourceRefused, match="the permission Read"):
        revisions(server)
    server.answers = [(200, b"<html>", {})]
    with pytest.raises(SourceRefused, match=r"without data: correct connection\.settings\.url"):
        revisions(server)
    server.answers = [(429, {}, {"Retry-After": "0.01"})] * 2
    server.create("One", "x")
    assert len(revisions(server)) == 1, "a short limit is waited for"
