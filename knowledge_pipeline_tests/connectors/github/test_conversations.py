"""Pull requests and issues, through PyGithub, from a small GitHub on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from knowledge_pipeline.connectors.conversations import MAX_FILES
from knowledge_pipeline.connectors.github.documents import GithubIssues, GithubPullRequests
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document
from knowledge_pipeline_tests.connectors.forge_sources import Open, changed_paths, opened, read, text_of
from knowledge_pipeline_tests.fakes.github.records import BOT, person
from knowledge_pipeline_tests.fakes.github.server import GithubServer


@pytest.fixture
def server() -> Iterator[GithubServer]:
    with GithubServer() as server:
        yield server


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def pulls(server: GithubServer, waits: list[float]) -> Iterator[Open]:
    yield from opened(GithubPullRequests, server, waits)


@pytest.fixture
def issues(server: GithubServer, waits: list[float]) -> Iterator[Open]:
    yield from opened(GithubIssues, server, waits)


# what is listed


# what a document is


def test_a_pull_request_tells_all_that_was_said(server: GithubServer, pulls: Open) -> None:
    repository = server.repository
    issue = repository.issue("Slow")
    uri = repository.pull(
        "Faster parser", "It was **slow**.\r\n\r\n<!-- template -->See [the plan](http://x/p)."
    )
    repository.files(uri, "src/parse.py")
    repository.closes(uri, issue)
    repository.label(uri, "performance", "core")
    repository.comment(uri, "Does it help?", author=person("bob"))
    repository.thread(uri, "src/parse.py", 3, "Why skip it?", "It is a header.")
    repository.review(uri, "CHANGES_REQUESTED", author=None)
    repository.review(uri, "APPROVED", "Good work", author=BOT)
    document = read(pulls())[uri]
    assert isinstance(document, Document)
    day = repository.clock.date().isoformat()
    assert document.text == (
        "Faster parser (#2)\n\nIt was **slow**.\n\nSee [the plan](http://x/p).\n\n"
        "Changed files:\n1 changed, +3 -1\n- src/parse.py (+3 -1)\n\n"
        f"Comment by bob, {day}:\nDoes it help?\n\n"
        f"Review comment by Ada Lovelace on src/parse.py line 3, {day}:\n"
        "```diff\n@@ -1,4 +1,6 @@ def parse(text):\n     lines = text.split()\n-    return lines\n"
        "+    return lines[1:]\n```\n\nWhy skip it?\n\n"
        f"Review comment by Ada Lovelace on src/parse.py line 3, {day}:\nIt is a header.\n\n"
        f"Review, {day}:\nChanges requested.\n\n"
        f"Review by dependabot, {day}:\nApproved.\n\nGood work"
    )
    assert document.title == "Faster parser (#2)" and document.author == "Ada Lovelace"
    assert document.url == "https://github.test/octo/engine/pull/2" and document.path == uri
    metadata = dict(document.metadata)
    starts = [segment["start_char"] for segment in metadata.pop("segments")]
    assert [document.text[start:].split(maxsplit=1)[0] for start in starts] == (
        ["Faster", "Changed", "Comment", "Review", "Review", "Review,", "Review"]
    )
    merged = repository.records[uri]
    assert metadata == {
        "number": 2,
        "project": "octo/engine",
        "state": "merged",
        "status": "merged",
        "labels": ["core", "performance"],
        "created_at": merged["createdAt"],
        "closed_at": merged["mergedAt"],
        "merged_at": merged["mergedAt"],
        "merge_commit": merged["mergeCommit"]["oid"],
        "draft": False,
        "base": "main",
        "head": "topic-2",
        "additions": 3,
        "deletions": 1,
        "changed_files": 1,
        "files": ["src/parse.py"],
        "mentions": [{"kind": "closes", "target": "octo/engine#1"}],
    }


def test_an_issue_tells_its_comments_and_what_it_duplicates(server: GithubServer, issues: Open) -> None:
    repository = server.repository
    first = repository.issue("Crash")
    uri = repository.issue(
        "It crashes", "Again.", author=None, milestone={"__typename": "Milestone", "title": "2.0"}
    )
    repository.comment(uri, "The same here", author=person("eve", "Eve"))
    repository.duplicates(uri, first)
    repository.close(uri, "NOT_PLANNED")
    document = read(issues())[uri]
    assert isinstance(document, Document)
    day = repository.clock.date().isoformat()
    assert document.text == f"It crashes (#2)\n\nAgain.\n\nComment by Eve, {day}:\nThe same here"
    assert document.author is None
    metadata = document.metadata
    assert (metadata["state"], metadata["state_reason"], metadata["milestone"]) == (
        "closed",
        "not_planned",
        "2.0",
    )
    assert metadata["mentions"] == [{"kind": "duplicates", "target": "octo/engine#1"}]


def test_what_is_hidden_or_not_yet_said_is_left_out(server: GithubServer, pulls: Open) -> None:
    uri = server.repository.pull("x", "body")
    server.repository.comment(uri, "buy this", hidden=True)
    server.repository.review(uri, "COMMENTED", "and that", hidden=True)
    server.repository.review(uri, "PENDING", "a draft")
    server.repository.review(uri, "COMMENTED")  # holds remarks alone
    thread = server.repository.thread(uri, "a.py", None, "hidden words", "a pending word", "kept")
    thread["comments"][0]["isMinimized"] = True
    thread["comments"][1]["state"] = "PENDING"
    text = text_of(pulls(), uri)
    assert "kept" in text and "on a.py," in text and "@@" in text
    assert not any(
        words in text for words in ("buy this", "and that", "draft", "hidden", "pending", "Review,")
    )


def test_a_list_that_comes_back_to_the_same_page_is_not_followed_for_ever(
    server: GithubServer, pulls: Open
) -> None:
    uri = server.repository.pull("large")
    for number in range(170):
        server.repository.comment(uri, f"comment-{number}.")
    cursors: list[str] = []

    def stay(variables: dict[str, Any]) -> None:
        if "id" in variables:
            cursors.append(variables["after"])
            variables["after"] = cursors[0]

    server.before_answer = stay
    with pytest.raises(SourceUnavailable, match="does not end the comments of one of its documents"):
        read(pulls())


def test_long_lists_are_read_to_their_end(server: GithubServer, pulls: Open) -> None:
    repository = server.repository
    uri = repository.pull("large")
    other = repository.pull("small", "little")
    for number in range(170):
        repository.comment(uri, f"comment-{number}.")
    for number in range(60):
        repository.review(uri, "COMMENTED", f"review-{number}.")
    for number in range(23):
        repository.thread(
            uri, "a.py", 1, *(f"remark-{number}-{each}." for each in range(25 if number == 22 else 1))
        )
    repository.files(uri, *(f"file-{number}.py" for number in range(330)))
    documents = read(pulls())
    large, small = documents[uri], documents[other]
    assert isinstance(large, Document) and isinstance(small, Document)
    wanted = [f"comment-{number}." for number in range(170)] + [f"review-{number}." for number in range(60)]
    wanted += [f"remark-{number}-0." for number in range(23)] + [f"remark-22-{each}." for each in range(25)]
    assert all(words in large.text for words in wanted)
    assert len(large.metadata["files"]) == MAX_FILES and large.metadata["changed_files"] == 330
    assert f"and {330 - MAX_FILES} more" in large.text
    assert small.text.startswith("small (#2)\n\nlittle")


def test_pull_requests_are_taken_by_the_files_that_they_change(server: GithubServer, pulls: Open) -> None:
    repository = server.repository
    large, docs = repository.pull("large"), repository.pull("docs")
    repository.files(large, *(f"file-{number}.py" for number in range(330)), "src/pay.py")
    repository.files(docs, "docs/a.md")
    source = pulls(changed_paths=changed_paths(include=["src/"]))
    documents = read(source)
    assert isinstance(documents[large], Document), "its last file is wanted, which is not among the first"
    assert str(documents[docs]) == "changes no file that include and exclude take"
    revisions = {item.uri: item.revision for item in source.discover()}
    other = pulls(changed_paths=changed_paths(include=["src/"], exclude=["*.md"]))
    assert all(item.revision != revisions[item.uri] for item in other.discover()), "other patterns read again"


def test_a_thread_is_shown_with_the_end_of_its_hunk(server: GithubServer, pulls: Open) -> None:
    uri = server.repository.pull("x")
    thread = server.repository.thread(uri, "a.md", 90, "look here")
    lines = [f"+line {number}" for number in range(90)]
    thread["comments"][0]["diffHunk"] = "\n".join(["@@ -0,0 +1,90 @@", *lines, "+```"])
    text = text_of(pulls(), uri)
    assert "````````diff\n@@ -0,0 +1,90 @@\n+line 79\n" in text and "+line 78\n" not in text


# how it is read


def test_access_lost_midway_is_no_end_of_the_listing(server: GithubServer, pulls: Open) -> None:
    for _ in range(150):
        server.repository.pull("x")
    source = pulls()
    items = list(source.discover())
    server.requests.clear()

    def lose(_: Any) -> None:
        server.answerer.hidden = len(server.requests) >= 1

    server.before_answer = lose
    with pytest.raises(
        SourceRefused, match=r"shows no repository octo/engine: correct connection\.repository"
    ):
        list(source.discover())
    with pytest.raises(SourceRefused, match="nothing is deleted meanwhile"):
        list(source.fetch_many(items))


def test_issues_that_were_switched_off_are_not_gone(server: GithubServer, issues: Open) -> None:
    server.repository.issue("x")
    server.repository.has_issues = False
    with pytest.raises(SourceRefused, match="issues switched off"):
        list(issues().discover())


def test_one_that_is_gone_is_told_apart_from_one_that_is_forbidden(
    server: GithubServer, issues: Open
) -> None:
    for number in range(4):
        server.repository.issue(f"issue {number}")
    source = issues()
    items = list(source.discover())
    server.delete("issue/2")
    server.answerer.forbidden = {"issue/3"}
    server.repository.records["issue/4"]["number"] = 17  # as another repository counts
    documents = {item.uri: document for item, document in source.fetch_many(items)}
    assert isinstance(documents["issue/1"], Document)
    assert str(documents["issue/2"]) == str(documents["issue/4"]) == "deleted while it was read"
    assert "the token may not read it any more" in str(documents["issue/3"])
    with pytest.raises(DocumentSkipped, match="deleted while it was read"):
        source.fetch(items[1])


def test_when_all_are_forbidden_it_is_the_token(server: GithubServer, issues: Open) -> None:
    for _ in range(3):
        server.repository.issue("x")
    source = issues()
    items = list(source.discover())
    server.answerer.forbidden = {item.uri for item in items}
    with pytest.raises(SourceRefused, match=r"Resource not accessible.*docs/sources/github\.md"):
        list(source.fetch_many(items))


def test_closing_references_that_may_not_be_read_are_done_without(server: GithubServer, pulls: Open) -> None:
    uri = server.repository.pull("x", "kept")
    server.repository.closes(uri, server.repository.issue("y"))
    server.answerer.unreadable = {"PullRequest.closingIssuesReferences", "PullRequest.mergeCommit"}
    document = read(pulls())[uri]
    assert isinstance(document, Document) and document.metadata["mentions"] == []
    assert "merge_commit" not in document.metadata
    other = server.repository.pull("z")
    server.answerer.unreadable = {"PullRequest.reviews"}  # without them it would not be whole
    server.answerer.readable = {other}
    documents = read(pulls())
    assert "may not read it any more" in str(documents[uri]) and isinstance(documents[other], Document)


def test_less_is_asked_for_where_the_answer_says_so(server: GithubServer, pulls: Open) -> None:
    for number in range(3):
        server.repository.pull(f"change {number}")
    source = pulls()
    items = list(source.discover())
    for told in (
        {"message": "Something went wrong while executing your query."},
        {"type": "RESOURCE_LIMITS_EXCEEDED"},
    ):
        server.fail_next(body={"data": None, "errors": [told]})
        assert all(isinstance(document, Document) for _, document in source.fetch_many(items))


def test_one_that_github_cannot_answer_does_not_stop_the_others(server: GithubServer, pulls: Open) -> None:
    for number in range(5):
        server.repository.pull(f"change {number}")
    server.too_long = {"pull/3"}
    documents = read(pulls())
    assert str(documents.pop("pull/3")) == "too large for GitHub to answer in its time"
    assert all(isinstance(document, Document) for document in documents.values())


def test_an_error_about_the_whole_answer_takes_nothing_of_it(server: GithubServer, issues: Open) -> None:
    server.repository.issue("x")
    source = issues()
    items = list(source.discover())
    nodes = {"data": {"repository": {"id": "R"}, "nodes": [None], "rateLimit": None}}
    server.fail_next(body=nodes | {"errors": [{"type": "INTERNAL", "message": "oh"}]})
    with pytest.raises(SourceUnavailable, match=r"could not answer for octo/engine \(oh\)"):
        list(source.fetch_many(items))


@pytest.mark.slow
def test_two_thousand_pull_requests_take_the_calls_that_paging_takes(
    server: GithubServer, pulls: Open
) -> None:
    for number in range(2000):
        uri = server.repository.pull(f"change {number}", "why it is made")
        for each in range(3):
            server.repository.review(uri, "APPROVED", f"review {each}")
        server.repository.comment(uri, "one")
        server.repository.comment(uri, "two")
        server.repository.thread(uri, "a.py", 3, "three", "four")
    source = pulls()
    items = list(source.discover())
    assert (len(items), len(server.requests)) == (2000, 21)
    assert sum("four" in document.text for _, document in source.fetch_many(items)) == 2000
    assert len(server.requests) == 101 and server.points < 800
