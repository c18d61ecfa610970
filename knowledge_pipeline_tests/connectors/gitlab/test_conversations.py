"""Merge requests and issues, from a small GitLab on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from knowledge_pipeline.connectors.conversations import MAX_FILES
from knowledge_pipeline.connectors.gitlab.documents import GitlabIssues, GitlabMergeRequests
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
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


# what is listed


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


def test_a_fast_forward_merge_is_related_by_the_head_of_its_branch(
    server: GitlabServer, merges: Open
) -> None:
    project = server.project
    forwarded = project.merge_request("Forwarded", merged=False)
    still_open = project.merge_request("Open", merged=False)
    project.merge(forwarded, fast_forward=True)
    head = project.records[forwarded]["diffHeadSha"]
    assert read_one(merges(state="all"), forwarded).metadata["merge_commit"] == head
    assert "merge_commit" not in read_one(merges(state="all"), still_open).metadata


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
