"""What conversations of GitHub and GitLab have in common: which are listed, and what harms no listing.

What each tells of its own, and what each refuses, is shown in the folders `github` and `gitlab`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.connectors.conversations import ConversationFilters
from knowledge_pipeline.connectors.github.documents import GithubIssues, GithubPullRequests
from knowledge_pipeline.connectors.gitlab.documents import GitlabIssues, GitlabMergeRequests
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document
from knowledge_pipeline_tests.connectors.forge_sources import Open, opened, read, uris
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer


@dataclass
class Forge:
    """A service with one repository, and how its people and its API call things."""

    server: Any
    repository: Any
    kinds: tuple[Any, Any]  # of changes, of issues
    propose: Callable[..., str]
    comment: Callable[[str, str], Any]
    change: str  # of which the first is "change/1"
    comments: str  # of a record
    name: str
    no_api: str  # what it says where there is no API
    requests_of_150: int
    requests_of_250: tuple[int, int]  # to list, to read
    outage: int
    waits: list[float] = field(default_factory=list[float])


def github(server: Any) -> Forge:
    home = server.repository
    kinds = (GithubPullRequests, GithubIssues)
    told = ("pull", "comments", "GitHub", "use https://api.github.com, or https://HOST/api/v3")
    return Forge(server, home, kinds, home.pull, home.comment, *told, 3, (4, 10), 502)


def gitlab(server: Any) -> Forge:
    home = server.project
    kinds = (GitlabMergeRequests, GitlabIssues)
    told = ("merge_request", "notes", "GitLab", "use the address that its start page has")
    return Forge(server, home, kinds, home.merge_request, home.note, *told, 4, (3, 13), 500)


@pytest.fixture(params=[(GithubServer, github), (GitlabServer, gitlab)], ids=["github", "gitlab"])
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    kind, describe = request.param
    with kind() as server:
        yield describe(server)


@pytest.fixture
def changes(forge: Forge) -> Iterator[Open]:
    yield from opened(forge.kinds[0], forge.server, forge.waits)


@pytest.fixture
def issues(forge: Forge) -> Iterator[Open]:
    yield from opened(forge.kinds[1], forge.server, forge.waits)


def test_they_are_services(forge: Forge) -> None:
    for kind in forge.kinds:
        with kind(forge.server.connection(), ConversationFilters()) as source:
            assert isinstance(source, ApiSource)
    assert forge.server.requests == []  # opening asks nobody


# what is listed


def test_merged_changes_of_half_a_year_are_listed(forge: Forge, changes: Open) -> None:
    repository = forge.repository
    repository.clock -= timedelta(days=200)
    old = forge.propose("merged long ago")
    older = forge.propose("opened long ago", merged=False)
    repository.clock += timedelta(days=200)
    forge.comment(old, "still talked about")
    repository.merge(older)
    new = forge.propose("new")
    forge.propose("not merged", merged=False)
    repository.issue("no change")
    assert uris(changes().discover()) == [older, new]


@pytest.mark.parametrize(
    ("state", "wanted"), [("open", {1, 4}), ("closed", {2, 3}), ("merged", {3}), ("all", {1, 2, 3, 4})]
)
def test_a_state_is_listed(forge: Forge, changes: Open, state: str, wanted: set[int]) -> None:
    forge.propose("open", merged=False)
    forge.repository.close(forge.propose("given up", merged=False))
    forge.propose("merged")
    forge.propose("open, too", merged=False)
    assert set(uris(changes(state=state).discover())) == {f"{forge.change}/{number}" for number in wanted}


def test_issues_of_every_state_are_listed_and_no_change(forge: Forge, issues: Open) -> None:
    repository = forge.repository
    repository.clock -= timedelta(days=400)
    repository.issue("forgotten")
    repository.clock += timedelta(days=400)
    repository.close(repository.issue("done"))
    repository.issue("to do")
    forge.propose("no issue")
    assert uris(issues().discover()) == ["issue/2", "issue/3"]
    assert uris(issues(state="open").discover()) == ["issue/3"]
    assert uris(issues(state="closed").discover()) == ["issue/2"]
    assert len(list(issues(since="2000-01-01").discover())) == 3


def test_labels_and_a_number_choose(forge: Forge, issues: Open) -> None:
    for number in range(1, 6):
        forge.repository.label(forge.repository.issue("x"), "bug" if number % 2 else "idea", "all")
    forge.comment("issue/1", "again")
    assert uris(issues(labels=("bug", "none")).discover()) == ["issue/3", "issue/5", "issue/1"]
    assert uris(issues(max_results=2).discover()) == ["issue/5", "issue/1"]
    assert uris(issues(max_results=1, labels=("idea",)).discover()) == ["issue/4"]
    assert len(list(issues(max_results=50).discover())) == 5


def test_a_number_costs_the_pages_that_it_needs(forge: Forge, changes: Open) -> None:
    for number in range(450):
        forge.propose(f"change {number}")
    found = uris(changes(max_results=150).discover())
    assert found == [f"{forge.change}/{number}" for number in range(301, 451)]
    assert len(forge.server.requests) == forge.requests_of_150


def test_a_filter_that_makes_no_sense_is_told_before_anybody_is_asked(forge: Forge) -> None:
    of_changes, of_issues = forge.kinds
    with pytest.raises(ConfigError, match="no issue has"):
        of_issues(forge.server.connection(), ConversationFilters(state="merged"))
    with pytest.raises(ConfigError, match="which is not a date"):
        of_changes(forge.server.connection(), ConversationFilters(since="lately"))
    assert forge.server.requests == []


def test_the_revision_tells_every_change(forge: Forge, issues: Open) -> None:
    uri = forge.repository.issue("x")
    remark = forge.comment(uri, "to be deleted")
    [first] = issues().discover()
    assert list(issues().discover()) == [first]
    forge.repository.records[uri][forge.comments].remove(remark)  # which leaves the time as it was
    [second] = issues().discover()
    forge.server.edit(uri, "edited")
    [third] = issues().discover()
    assert len({first.revision, second.revision, third.revision}) == 3


# how it is read


def test_calls_follow_from_pages_and_batches(forge: Forge, changes: Open) -> None:
    for number in range(250):
        forge.propose(f"change {number}")
    requests, source = forge.server.requests, changes()
    items = list(source.discover())
    listed = len(requests)
    requests.clear()
    assert len(items) == len(list(source.fetch_many(items))) == 250
    assert (listed, len(requests)) == forge.requests_of_250
    requests.clear()
    since = max(datetime.fromisoformat(item.locator.split()[0]) for item in items)
    forge.server.edit(f"{forge.change}/7", "edited")
    known = {item.uri: item.revision for item in items}
    [item] = [item for item in source.discover_updated(since) if known[item.uri] != item.revision]
    assert source.fetch(item).text.endswith("edited")
    assert len(requests) == 2


def test_an_update_is_asked_for_from_a_while_before(forge: Forge, issues: Open) -> None:
    for _ in range(30):
        forge.repository.issue("x")
    items = list(issues().discover_updated(forge.repository.clock))
    assert uris(items) == [f"issue/{number}" for number in range(20, 31)]


def test_what_moves_while_it_is_listed_is_not_lost(forge: Forge, issues: Open) -> None:
    for _ in range(350):
        forge.repository.issue("x")
    edited = iter(["issue/3", "issue/150", "issue/1", *["issue/350"] * 4])
    forge.server.before_answer = lambda _: (
        forge.server.edit(uri, "moved") if (uri := next(edited, "")) else None
    )
    items = list(issues().discover())
    assert sorted(int(item.uri[6:]) for item in items) == list(range(1, 351))
    assert {item.uri: item.locator.split()[0] for item in items} == {
        uri: record["updatedAt"] for uri, record in forge.repository.records.items()
    }


def test_what_is_deleted_while_it_is_listed_hides_nothing_else(forge: Forge, issues: Open) -> None:
    for _ in range(350):
        forge.repository.issue("x")
    deleted = ["issue/349", "issue/2", "issue/100", "issue/348"]
    gone = iter(deleted)
    forge.server.before_answer = lambda _: forge.repository.records.pop(next(gone, ""), None)
    listed = set(uris(issues().discover()))
    assert {f"issue/{number}" for number in range(1, 351)} - set(deleted) <= listed


def test_what_is_made_while_it_is_listed_is_taken(forge: Forge, issues: Open) -> None:
    for _ in range(150):
        forge.repository.issue("x")
    forge.server.before_answer = lambda _: (
        forge.repository.issue("new") if len(forge.server.requests) == 1 else None
    )
    assert len(list(issues().discover())) == 151


def test_a_repository_without_any_is_an_empty_listing(changes: Open, issues: Open) -> None:
    assert list(changes().discover()) == [] == list(issues().discover())


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut_off": True}, {"status": 502, "body": "<html>"}])
def test_a_failure_now_and_then_goes_unnoticed(forge: Forge, changes: Open, fault: dict[str, Any]) -> None:
    for _ in range(120):
        forge.propose("x")
    forge.server.fail_next(2, **fault)
    assert len(read(changes())) == 120
    assert len(forge.waits) == 2


def test_a_listing_that_fails_midway_is_no_listing(forge: Forge, changes: Open) -> None:
    for _ in range(150):
        forge.propose("x")
    forge.server.before_answer = lambda _: forge.server.fail_next(
        6, status=500
    )  # each try for the second page
    with pytest.raises(SourceUnavailable, match="answered 500 to every attempt"):
        list(changes().discover())


def test_a_listing_that_comes_back_short_is_no_listing(forge: Forge, issues: Open) -> None:
    for _ in range(50):
        forge.repository.issue("x")
    forge.server.answerer.miscounted = 20
    with pytest.raises(SourceUnavailable, match="listed 50 of 70 issues: nothing is deleted"):
        list(issues().discover())


def test_one_that_vanishes_while_its_comments_are_read_is_gone(forge: Forge, changes: Open) -> None:
    uri = forge.propose("x")
    for _ in range(150):
        forge.comment(uri, "y")
    source = changes()
    [item] = source.discover()
    forge.server.before_answer = lambda variables: (
        forge.server.delete(uri) if not {"id", "after"}.isdisjoint(variables) else None
    )
    [(_, skipped)] = source.fetch_many([item])
    assert isinstance(skipped, DocumentSkipped) and str(skipped) == "deleted while it was read"


def test_less_is_asked_for_where_the_service_takes_too_long(forge: Forge, changes: Open) -> None:
    for number in range(30):
        forge.propose(f"change {number}")
    forge.server.most_at_once = 7
    documents = read(changes())
    assert list(documents) == [f"{forge.change}/{number}" for number in range(1, 31)]
    assert all(isinstance(document, Document) for document in documents.values())
    assert forge.waits == []  # a smaller question is asked at once


def test_an_outage_is_not_taken_for_a_document_that_cannot_be_read(forge: Forge, changes: Open) -> None:
    forge.propose("x")
    source = changes()
    items = list(source.discover())
    forge.server.fail_next(50, status=forge.outage)
    with pytest.raises(SourceUnavailable, match=f"answered {forge.outage}"):
        list(source.fetch_many(items))


def test_a_document_has_the_time_that_it_was_listed_with(forge: Forge, issues: Open) -> None:
    """So that the next listing tells it again, and what was written in between."""
    uri = forge.repository.issue("x", "first")
    source = issues()
    [item] = source.discover()
    listed = forge.repository.clock
    forge.server.edit(uri, "second")
    document = source.fetch(item)
    assert document.text.endswith("second") and document.last_modified == listed


# what it says instead of an answer


def test_a_limit_that_lasts_is_told_with_its_end(forge: Forge, changes: Open) -> None:
    forge.server.limit(after=0, reset_s=1800)
    with pytest.raises(
        SourceUnavailable, match=rf"{forge.name} at 127\.0\.0\.1 limits our calls until \d{{4}}-.*UTC"
    ):
        list(changes().discover())
    assert len(forge.server.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 404, "body": {"message": "Not Found"}},
        {"status": 404, "body": "<html>Not here</html>"},
        {"status": 200, "body": "<html>Sign in</html>"},
        {"status": 200, "body": "{not json"},
        {"status": 200, "body": "[]"},
        {"status": 200, "body": "null"},
        {"status": 200, "body": ""},
        {"status": 200, "body": {"message": "hello"}},
        *(
            {"status": status, "body": "", "headers": {"Location": "https://example.org/login"}}
            for status in (301, 302, 307)
        ),
    ],
)
def test_an_address_that_is_no_api_is_told(forge: Forge, changes: Open, fault: dict[str, Any]) -> None:
    forge.propose("x")
    forge.server.fail_next(**fault)
    with pytest.raises(SourceRefused, match=f"has no API at connection.url: {forge.no_api}") as told:
        list(changes().discover())
    assert told.value.__cause__ is None
    assert len(forge.server.requests) == 1


def test_a_host_that_is_not_there_is_told(forge: Forge, changes: Open) -> None:
    source = changes(forge.server.connection(url="http://127.0.0.1:9"))
    with pytest.raises(SourceUnavailable, match=r"did not answer \(ConnectionError\): check connection.url"):
        list(source.discover())
