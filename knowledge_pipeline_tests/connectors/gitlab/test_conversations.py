"""Merge requests and issues, from a small GitLab on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.connectors.conversations import MAX_FILES, ConversationFilters
from knowledge_pipeline.connectors.gitlab.documents import GitlabIssues, GitlabMergeRequests
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document
from knowledge_pipeline_tests.connectors.forge_sources import (
    Open,
    changed_paths,
    opened,
    read,
    read_one,
    uris,
)
from knowledge_pipeline_tests.fakes.gitlab.graphql import COMPLEXITY, complexity
from knowledge_pipeline_tests.fakes.gitlab.records import BOB
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer


@pytest.fixture
def server() -> Iterator[GitlabServer]:
    with GitlabServer() as server:
        yield server


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def merges(server: GitlabServer, waits: list[float]) -> Iterator[Open]:
    yield from opened(GitlabMergeRequests, server, waits)


@pytest.fixture
def issues(server: GitlabServer, waits: list[float]) -> Iterator[Open]:
    yield from opened(GitlabIssues, server, waits)


def test_they_are_services(server: GitlabServer) -> None:
    for kind in (GitlabMergeRequests, GitlabIssues):
        with kind(server.connection(), ConversationFilters()) as source:
            assert isinstance(source, ApiSource)
    assert server.requests == []  # opening asks nobody


# what is listed


def test_merge_requests_of_half_a_year_are_listed(server: GitlabServer, merges: Open) -> None:
    project = server.project
    project.clock -= timedelta(days=200)
    old = project.merge_request("merged long ago")
    older = project.merge_request("opened long ago", merged=False)
    project.clock += timedelta(days=200)
    project.note(old, "still talked about")
    project.merge(older)
    new = project.merge_request("new")
    project.merge_request("not merged", merged=False)
    project.issue("no merge request")
    assert uris(merges().discover()) == [older, new]


@pytest.mark.parametrize(
    ("state", "wanted"), [("open", {1, 4}), ("closed", {2, 3}), ("merged", {3}), ("all", {1, 2, 3, 4})]
)
def test_a_state_is_listed(server: GitlabServer, merges: Open, state: str, wanted: set[int]) -> None:
    project = server.project
    project.merge_request("open", merged=False)
    project.close(project.merge_request("given up", merged=False))
    project.merge_request("merged")
    project.merge_request("open, too", merged=False)
    assert set(uris(merges(state=state).discover())) == {f"merge_request/{number}" for number in wanted}


def test_issues_of_every_state_are_listed(server: GitlabServer, issues: Open) -> None:
    project = server.project
    project.clock -= timedelta(days=400)
    project.issue("forgotten")
    project.clock += timedelta(days=400)
    project.close(project.issue("done"))
    project.issue("to do")
    project.merge_request("no issue")
    assert uris(issues().discover()) == ["issue/2", "issue/3"]
    assert uris(issues(state="open").discover()) == ["issue/3"]
    assert uris(issues(state="closed").discover()) == ["issue/2"]
    assert len(list(issues(since="2000-01-01").discover())) == 3


def test_labels_and_a_number_choose(server: GitlabServer, issues: Open) -> None:
    for number in range(1, 6):
        server.project.label(server.project.issue("x"), "bug" if number % 2 else "idea", "all")
    server.project.note("issue/1", "again")
    assert uris(issues(labels=("bug", "none")).discover()) == ["issue/3", "issue/5", "issue/1"]
    assert uris(issues(max_results=2).discover()) == ["issue/5", "issue/1"]
    assert uris(issues(max_results=1, labels=("idea",)).discover()) == ["issue/4"]
    assert len(list(issues(max_results=50).discover())) == 5


def test_a_number_costs_the_pages_that_it_needs(server: GitlabServer, merges: Open) -> None:
    for number in range(450):
        server.project.merge_request(f"change {number}")
    assert uris(merges(max_results=150).discover()) == [f"merge_request/{each}" for each in range(301, 451)]
    assert len(server.requests) == 4  # two pages from the newest on, then the same from the oldest on


def test_a_filter_that_makes_no_sense_is_told_before_anybody_is_asked(server: GitlabServer) -> None:
    with pytest.raises(ConfigError, match="no issue has"):
        GitlabIssues(server.connection(), ConversationFilters(state="merged"))
    with pytest.raises(ConfigError, match="which is not a date"):
        GitlabMergeRequests(server.connection(), ConversationFilters(since="lately"))
    assert server.requests == []


def test_the_revision_tells_every_change(server: GitlabServer, issues: Open) -> None:
    uri = server.project.issue("x")
    note = server.project.note(uri, "to be deleted")
    [first] = issues().discover()
    assert list(issues().discover()) == [first]
    server.project.records[uri]["notes"].remove(note)  # which leaves the time as it was
    [second] = issues().discover()
    server.edit(uri, "edited")
    [third] = issues().discover()
    assert len({first.revision, second.revision, third.revision}) == 3


# what a document is


def test_a_merge_request_tells_all_that_was_said(server: GitlabServer, merges: Open) -> None:
    project = server.project
    upload = f"/uploads/{'0a' * 16}/plan.png"
    uri = project.merge_request(
        "Faster parser",
        "It was **slow**.\r\n\r\n<!-- template -->"
        f"See ![the plan]({upload}). Closes #7, #9 and core/other#2.",
    )
    project.files(uri, "src/parse.py")
    project.label(uri, "performance", "core")
    first = project.note(uri, "Does it help?", author=BOB)
    remark = project.remark(uri, "src/parse.py", 3, "Why skip it?", resolved=True)
    project.note(uri, "It does.", thread=first)
    project.note(uri, "It is a header.", thread=remark, resolvable=True, resolved=True, author=None)
    project.remark(uri, "logo.png", None, "Too large.")
    project.note(uri, "added 1 commit", system=True)
    project.note(uri, "for the team alone", internal=True)
    project.approve(uri, BOB)
    document = read_one(merges(), uri)
    day = project.clock.date().isoformat()
    assert document.text == (
        "Faster parser (!1)\n\nIt was **slow**.\n\n"
        f"See ![the plan]({server.url}/octo/core/engine{upload}). Closes #7, #9 and core/other#2.\n\n"
        "Changed files:\n1 changed, +3 -1\n- src/parse.py (+3 -1)\n\n"
        f"Comment by bob, {day}:\nDoes it help?\n\n"
        f"Comment by Ada Lovelace, {day}:\nIt does.\n\n"
        f"Review comment by Ada Lovelace on src/parse.py line 3 (resolved), {day}:\nWhy skip it?\n\n"
        f"Review comment on src/parse.py line 3 (resolved), {day}:\nIt is a header.\n\n"
        f"Review comment by Ada Lovelace on logo.png, {day}:\nToo large.\n\n"
        "Review by bob:\nApproved."
    )
    assert document.title == "Faster parser (!1)" and document.author == "Ada Lovelace"
    assert document.url == "https://gitlab.test/octo/core/engine/-/merge_requests/1" and document.path == uri
    metadata = dict(document.metadata)
    starts = [segment["start_char"] for segment in metadata.pop("segments")]
    assert [document.text[start:].split(maxsplit=1)[0] for start in starts] == (
        ["Faster", "Changed", "Comment", "Comment", "Review", "Review", "Review", "Review"]
    )
    record = project.records[uri]
    assert metadata == {
        "number": 1,
        "project": "octo/core/engine",
        "state": "merged",
        "status": "merged",
        "labels": ["core", "performance"],
        "created_at": record["createdAt"],
        "merged_at": record["mergedAt"],
        "merge_commit": record["mergeCommitSha"],
        "draft": False,
        "base": "main",
        "head": "topic-1",
        "additions": 3,
        "deletions": 1,
        "changed_files": 1,
        "files": ["src/parse.py"],
        "mentions": [
            {"kind": "closes", "target": target}
            for target in ("core/other#2", "octo/core/engine#7", "octo/core/engine#9")
        ],
    }


def test_an_issue_tells_its_comments_and_what_it_duplicates(server: GitlabServer, issues: Open) -> None:
    project = server.project
    first = project.issue("Crash")
    uri = project.issue("It crashes", "Again.", author=BOB, milestone={"title": "2.0"}, type="INCIDENT")
    project.note(uri, "The same here")
    project.close(uri, duplicate_of=first)
    document = read_one(issues(), uri)
    day = project.clock.date().isoformat()
    assert document.text == f"It crashes (#2)\n\nAgain.\n\nComment by Ada Lovelace, {day}:\nThe same here"
    assert document.author == "bob" and document.last_modified == project.clock
    metadata = {name: value for name, value in document.metadata.items() if name != "segments"}
    assert metadata == {
        "number": 2,
        "project": "octo/core/engine",
        "state": "closed",
        "status": "closed",
        "labels": [],
        "milestone": "2.0",
        "issue_type": "incident",
        "created_at": project.records[uri]["createdAt"],
        "closed_at": project.records[uri]["closedAt"],
        "mentions": [{"kind": "duplicates", "target": "octo/core/engine#1"}],
    }


def test_a_merge_request_without_words_or_files_is_a_document(server: GitlabServer, merges: Open) -> None:
    uri = server.project.merge_request("Bump", diffStats=None, approvedBy=[], author=None)
    server.project.records[uri] |= {"description": None}
    document = read_one(merges(), uri)
    assert document.text == "Bump (!1)" and document.author is None
    assert document.metadata["files"] == [] == document.metadata["mentions"]


def test_long_lists_are_read_to_their_end(server: GitlabServer, merges: Open) -> None:
    project = server.project
    uri = project.merge_request("large")
    other = project.merge_request("small", "little")
    for number in range(250):
        project.note(uri, f"comment-{number}.")
    project.files(uri, *(f"file-{number}.py" for number in range(330)))
    documents = read(merges())
    large, small = documents[uri], documents[other]
    assert isinstance(large, Document) and isinstance(small, Document)
    assert [f"comment-{number}." in large.text for number in range(250)] == [True] * 250
    assert len(large.metadata["files"]) == MAX_FILES and large.metadata["changed_files"] == 330
    assert f"and {330 - MAX_FILES} more" in large.text
    assert small.text == "small (!2)\n\nlittle"
    assert len(server.requests) == 1 + 1 + 2


def test_merge_requests_are_taken_by_the_files_that_they_change(server: GitlabServer, merges: Open) -> None:
    code, docs = server.project.merge_request("code"), server.project.merge_request("docs")
    server.project.files(code, *(f"docs/{number}.md" for number in range(250)), "src/pay.py")
    server.project.files(docs, "docs/a.md")
    documents = read(merges(changed_paths=changed_paths(exclude=["docs/"])))
    assert isinstance(documents[code], Document)
    assert str(documents[docs]) == "changes no file that include and exclude take"


# what is not for everybody


def test_confidential_issues_are_not_read(server: GitlabServer, issues: Open) -> None:
    project = server.project
    public = project.issue("public")
    secret = project.issue("a hole", "how to use it", confidential=True)
    items = list(issues().discover())
    assert [(item.uri, item.skip) for item in items] == [(public, None), (secret, "confidential")]
    assert "hole" not in repr(items)
    project.make_confidential(public)  # after it was listed
    [(_, skipped)] = issues().fetch_many([items[0]])
    assert isinstance(skipped, DocumentSkipped) and str(skipped) == "confidential"


def test_an_issue_that_becomes_confidential_is_told_at_the_next_refresh(
    server: GitlabServer, issues: Open
) -> None:
    uri = server.project.issue("public, alas")
    [before] = issues().discover()
    server.project.make_confidential(uri)
    [after] = issues().discover_updated(datetime.fromisoformat(before.locator))
    assert after.skip == "confidential" and after.revision != before.revision


def test_confidential_issues_count_for_no_number(server: GitlabServer, issues: Open) -> None:
    for number in range(6):
        server.project.issue("x", confidential=number % 2 == 1)
    items = list(issues(max_results=2).discover())
    assert uris(item for item in items if not item.skip) == ["issue/3", "issue/5"]


# how it is read


def test_calls_follow_from_pages_and_batches(server: GitlabServer, merges: Open) -> None:
    for number in range(250):
        server.project.merge_request(f"change {number}")
    source = merges()
    items = list(source.discover())
    assert (len(items), len(server.requests)) == (250, 3)
    server.requests.clear()
    assert len(list(source.fetch_many(items))) == 250
    assert len(server.requests) == 13
    server.requests.clear()
    since = max(datetime.fromisoformat(item.locator) for item in items)
    server.edit("merge_request/7", "edited")
    known = {item.uri: item.revision for item in items}
    [item] = [item for item in source.discover_updated(since) if known[item.uri] != item.revision]
    assert source.fetch(item).text.endswith("edited")
    assert len(server.requests) == 2


def test_no_question_is_more_complex_than_anybody_may_ask(
    server: GitlabServer, merges: Open, issues: Open
) -> None:
    for _ in range(120):
        server.project.note(server.project.merge_request("x"), "y")
        server.project.note(server.project.issue("x"), "y")
    for _ in range(101):
        server.project.note("issue/1", "y")
    read(merges())
    read(issues())
    costs = [complexity(request.query, request.variables) for request in server.requests]
    assert max(costs) < COMPLEXITY["anonymous"] - 50 and min(costs) > 10
    assert max(len(request.query) for request in server.requests) < 2000


def test_an_update_is_asked_for_from_a_while_before(server: GitlabServer, issues: Open) -> None:
    for _ in range(30):
        server.project.issue("x")
    items = list(issues().discover_updated(server.project.clock))
    assert uris(items) == [f"issue/{number}" for number in range(20, 31)]


def test_what_is_edited_while_it_is_listed_is_not_lost(server: GitlabServer, issues: Open) -> None:
    for _ in range(350):
        server.project.issue("x")
    edited = iter(["issue/3", "issue/150", "issue/1", "issue/350"])
    server.before_answer = lambda _: server.edit(uri, "moved") if (uri := next(edited, "")) else None
    items = list(issues().discover())
    assert sorted(int(item.uri[6:]) for item in items) == list(range(1, 351))
    assert {item.uri: item.locator for item in items} == {
        uri: record["updatedAt"] for uri, record in server.project.records.items()
    }


def test_what_is_deleted_while_it_is_listed_hides_nothing_else(server: GitlabServer, issues: Open) -> None:
    for _ in range(350):
        server.project.issue("x")
    gone = iter(["issue/2", "issue/100", "issue/349"])
    server.before_answer = lambda _: server.project.records.pop(next(gone, ""), None)
    listed = set(uris(issues().discover()))
    assert {f"issue/{number}" for number in range(1, 351) if number not in (2, 100, 349)} <= listed


def test_what_is_made_while_it_is_listed_is_taken(server: GitlabServer, issues: Open) -> None:
    for _ in range(150):
        server.project.issue("x")
    server.before_answer = lambda _: server.project.issue("new") if len(server.requests) == 1 else None
    assert len(list(issues().discover())) == 151


def test_a_project_without_any_is_an_empty_listing(merges: Open, issues: Open) -> None:
    assert list(merges().discover()) == [] == list(issues().discover())


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut_off": True}, {"status": 502, "body": "<html>"}])
def test_a_failure_now_and_then_goes_unnoticed(
    server: GitlabServer, merges: Open, waits: list[float], fault: dict[str, Any]
) -> None:
    for _ in range(120):
        server.project.merge_request("x")
    server.fail_next(2, **fault)
    assert len(read(merges())) == 120
    assert len(waits) == 2


def test_a_listing_that_fails_midway_is_no_listing(server: GitlabServer, merges: Open) -> None:
    for _ in range(150):
        server.project.merge_request("x")
    server.before_answer = lambda _: server.fail_next(6, status=500)  # all tries for the second page
    with pytest.raises(SourceUnavailable, match="answered 500 to every attempt"):
        list(merges().discover())


def test_a_listing_that_comes_back_short_is_no_listing(server: GitlabServer, issues: Open) -> None:
    for _ in range(50):
        server.project.issue("x")
    server.answerer.miscounted = 20
    with pytest.raises(SourceUnavailable, match="listed 50 of 70 issues: nothing is deleted"):
        list(issues().discover())


@pytest.mark.parametrize("lost", ["project", "feature"])
def test_access_lost_midway_is_no_end_of_the_listing(server: GitlabServer, merges: Open, lost: str) -> None:
    for _ in range(150):
        server.project.merge_request("x")
    source = merges()
    items = list(source.discover())
    server.requests.clear()

    def lose(_: Any) -> None:
        if server.requests:
            server.answerer.hidden = lost == "project"
            server.answerer.disabled = {"mergeRequests"}

    server.before_answer = lose
    with pytest.raises(SourceRefused, match="nothing is deleted meanwhile"):
        list(source.discover())
    with pytest.raises(SourceRefused, match="nothing is deleted meanwhile"):
        list(source.fetch_many(items))


def test_one_that_is_gone_meanwhile_is_told(server: GitlabServer, issues: Open) -> None:
    for number in range(3):
        server.project.issue(f"issue {number}")
    source = issues()
    items = list(source.discover())
    server.delete("issue/2")
    documents = {item.uri: document for item, document in source.fetch_many(items)}
    assert isinstance(documents["issue/1"], Document) and isinstance(documents["issue/3"], Document)
    with pytest.raises(DocumentSkipped, match="deleted while it was read"):
        source.fetch(items[1])


def test_one_that_vanishes_while_its_comments_are_read_is_gone(server: GitlabServer, merges: Open) -> None:
    uri = server.project.merge_request("x")
    for _ in range(150):
        server.project.note(uri, "y")
    source = merges()
    [item] = source.discover()
    server.before_answer = lambda variables: server.delete(uri) if "after" in variables else None
    [(_, skipped)] = source.fetch_many([item])
    assert isinstance(skipped, DocumentSkipped) and str(skipped) == "deleted while it was read"


def test_less_is_asked_for_where_gitlab_takes_too_long(
    server: GitlabServer, merges: Open, waits: list[float]
) -> None:
    for number in range(30):
        server.project.merge_request(f"change {number}")
    server.most_at_once = 7
    documents = read(merges())
    assert list(documents) == [f"merge_request/{number}" for number in range(1, 31)]
    assert all(isinstance(document, Document) for document in documents.values())
    assert waits == []  # a smaller question is asked at once


def test_one_that_gitlab_fails_at_does_not_stop_the_others(
    server: GitlabServer, merges: Open, waits: list[float]
) -> None:
    for number in range(5):
        server.project.merge_request(f"change {number}")
    server.failing = {"merge_request/3"}
    documents = read(merges())
    assert str(documents.pop("merge_request/3")) == "GitLab fails to answer for it, even alone"
    assert all(isinstance(document, Document) for document in documents.values())
    assert len(waits) == 5  # it alone was tried to the end


def test_an_outage_is_not_taken_for_a_document_that_fails(server: GitlabServer, merges: Open) -> None:
    server.project.merge_request("x")
    source = merges()
    items = list(source.discover())
    server.fail_next(50, status=500)
    with pytest.raises(SourceUnavailable, match="answered 500"):
        list(source.fetch_many(items))


def test_a_document_has_the_time_that_it_was_listed_with(server: GitlabServer, issues: Open) -> None:
    """So that the next listing tells it again, and what was written in between."""
    uri = server.project.issue("x", "first")
    source = issues()
    [item] = source.discover()
    listed = server.project.clock
    server.edit(uri, "second")
    document = source.fetch(item)
    assert document.text.endswith("second") and document.last_modified == listed


@pytest.mark.slow
def test_a_thousand_merge_requests_take_the_calls_that_paging_takes(
    server: GitlabServer, merges: Open
) -> None:
    for number in range(1000):
        uri = server.project.merge_request(f"change {number}", "why it is made")
        for each in range(5):
            server.project.note(uri, f"note {each}")
    source = merges()
    items = list(source.discover())
    assert (len(items), len(server.requests)) == (1000, 10)
    assert sum("note 4" in document.text for _, document in source.fetch_many(items)) == 1000
    assert len(server.requests) == 60
