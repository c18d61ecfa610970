"""Pull requests and issues, through PyGithub, from a small GitHub on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.connectors.conversations import MAX_FILES, ConversationFilters
from knowledge_pipeline.connectors.github.documents import GithubIssues, GithubPullRequests
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
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


def test_they_are_services(server: GithubServer) -> None:
    for kind in (GithubPullRequests, GithubIssues):
        with kind(server.connection(), ConversationFilters()) as source:
            assert isinstance(source, ApiSource)
    assert server.requests == []  # opening asks nobody


# what is listed


def test_merged_pull_requests_of_half_a_year_are_listed(server: GithubServer, pulls: Open) -> None:
    repository = server.repository
    repository.clock -= timedelta(days=200)
    old = repository.pull("merged long ago")
    older = repository.pull("opened long ago", merged=False)
    repository.clock += timedelta(days=200)
    repository.comment(old, "still talked about")
    repository.merge(older)
    new = repository.pull("new")
    repository.pull("not merged", merged=False)
    assert [item.uri for item in pulls().discover()] == [older, new]


@pytest.mark.parametrize(
    ("state", "wanted"),
    [("open", {"pull/1"}), ("closed", {"pull/2", "pull/3"}), ("merged", {"pull/3"}), ("all", {1, 2, 3})],
)
def test_a_state_is_listed(server: GithubServer, pulls: Open, state: str, wanted: set[Any]) -> None:
    server.repository.pull("open", merged=False)
    server.repository.close(server.repository.pull("given up", merged=False))
    server.repository.pull("merged")
    found = {item.uri for item in pulls(state=state).discover()}
    assert found == (wanted if state != "all" else {f"pull/{number}" for number in (1, 2, 3)})


def test_issues_of_every_state_are_listed_and_no_pull_request(server: GithubServer, issues: Open) -> None:
    repository = server.repository
    repository.clock -= timedelta(days=400)
    repository.issue("forgotten")
    repository.clock += timedelta(days=400)
    repository.close(repository.issue("done"))
    repository.issue("to do")
    repository.pull("no issue")
    assert [item.uri for item in issues().discover()] == ["issue/2", "issue/3"]
    assert [item.uri for item in issues(state="open").discover()] == ["issue/3"]
    assert len(list(issues(since="2000-01-01").discover())) == 3


def test_labels_and_a_number_choose(server: GithubServer, issues: Open) -> None:
    for number in range(1, 6):
        server.repository.label(server.repository.issue("x"), "bug" if number % 2 else "idea", "all")
    server.repository.comment("issue/1", "again")
    assert {item.uri for item in issues(labels=("bug", "none")).discover()} == {
        "issue/1",
        "issue/3",
        "issue/5",
    }
    assert [item.uri for item in issues(max_results=2).discover()] == ["issue/5", "issue/1"]


def test_a_number_costs_the_pages_that_it_needs(server: GithubServer, pulls: Open) -> None:
    for number in range(450):
        server.repository.pull(f"change {number}")
    assert len(list(pulls(max_results=150).discover())) == 150
    assert len(server.requests) == 3  # two pages, and the first again


def test_a_filter_that_makes_no_sense_is_told_before_anybody_is_asked(server: GithubServer) -> None:
    with pytest.raises(ConfigError, match="no issue has"):
        GithubIssues(server.connection(), ConversationFilters(state="merged"))
    with pytest.raises(ConfigError, match="which is not a date"):
        GithubPullRequests(server.connection(), ConversationFilters(since="lately"))
    assert server.requests == []


def test_the_revision_tells_every_change(server: GithubServer, issues: Open) -> None:
    uri = server.repository.issue("x")
    remark = server.repository.comment(uri, "to be deleted")
    [first] = issues().discover()
    assert list(issues().discover()) == [first]
    server.repository.records[uri]["comments"].remove(remark)  # which leaves the time as it was
    [second] = issues().discover()
    server.edit(uri, "edited")
    [third] = issues().discover()
    assert len({first.revision, second.revision, third.revision}) == 3


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


def test_calls_follow_from_pages_and_batches(server: GithubServer, pulls: Open) -> None:
    for number in range(250):
        server.repository.pull(f"change {number}")
    source = pulls()
    items = list(source.discover())
    assert len(items) == 250 and len(server.requests) == 3 + 1  # the first page is read again at the end
    server.requests.clear()
    assert len(list(source.fetch_many(items))) == 250
    assert len(server.requests) == 10
    server.requests.clear()
    since = max(datetime.fromisoformat(item.locator.split()[0]) for item in items)
    server.edit("pull/7", "edited")
    known = {item.uri: item.revision for item in items}
    [item] = [item for item in source.discover_updated(since) if known[item.uri] != item.revision]
    assert source.fetch(item).text.endswith("edited")
    assert len(server.requests) == 2


def test_an_update_is_asked_for_from_a_while_before(server: GithubServer, issues: Open) -> None:
    for _ in range(30):
        server.repository.issue("x")
    items = list(issues().discover_updated(server.repository.clock))
    assert [item.uri for item in items] == [f"issue/{number}" for number in range(20, 31)]


def test_what_moves_while_it_is_listed_is_not_lost(server: GithubServer, issues: Open) -> None:
    for _ in range(350):
        server.repository.issue("x")
    edited = iter(["issue/3", "issue/150", "issue/1"])
    server.before_answer = lambda _: (
        server.edit(next(edited, "issue/350"), "moved") if len(server.requests) < 9 else None
    )
    items = list(issues().discover())
    assert sorted(int(item.uri[6:]) for item in items) == list(range(1, 351))


def test_what_is_deleted_while_it_is_listed_hides_nothing_else(server: GithubServer, issues: Open) -> None:
    for _ in range(350):
        server.repository.issue("x")
    gone = iter(["issue/349", "issue/348", "issue/2"])
    server.before_answer = lambda _: server.repository.records.pop(next(gone, ""), None)
    listed = {item.uri for item in issues().discover()}
    assert {f"issue/{number}" for number in range(1, 348) if number != 2} <= listed


def test_what_is_made_while_it_is_listed_is_taken(server: GithubServer, issues: Open) -> None:
    for _ in range(150):
        server.repository.issue("x")
    server.before_answer = lambda _: server.repository.issue("new") if len(server.requests) == 1 else None
    assert len(list(issues().discover())) == 151


def test_a_repository_without_any_is_an_empty_listing(pulls: Open, issues: Open) -> None:
    assert list(pulls().discover()) == [] == list(issues().discover())


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut_off": True}, {"status": 502, "body": "<html>"}])
def test_a_failure_now_and_then_goes_unnoticed(
    server: GithubServer, pulls: Open, waits: list[float], fault: dict[str, Any]
) -> None:
    for _ in range(120):
        server.repository.pull("x")
    server.fail_next(2, **fault)
    assert len(read(pulls())) == 120
    assert len(waits) == 2


def test_a_listing_that_fails_midway_is_no_listing(server: GithubServer, pulls: Open) -> None:
    for _ in range(150):
        server.repository.pull("x")
    server.before_answer = lambda _: server.fail_next(6, status=500)  # all tries for the second page
    with pytest.raises(SourceUnavailable, match="answered 500 to every attempt"):
        list(pulls().discover())


def test_a_listing_that_comes_back_short_is_no_listing(server: GithubServer, issues: Open) -> None:
    for _ in range(50):
        server.repository.issue("x")
    server.answerer.miscounted = 20
    with pytest.raises(SourceUnavailable, match="listed 50 of 70 issues: nothing is deleted"):
        list(issues().discover())


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


def test_one_that_vanishes_while_its_pages_are_read_is_gone(server: GithubServer, pulls: Open) -> None:
    uri = server.repository.pull("x")
    for _ in range(80):
        server.repository.comment(uri, "y")
    source = pulls()
    [item] = source.discover()
    server.before_answer = lambda variables: server.delete(uri) if "id" in variables else None
    [(_, skipped)] = source.fetch_many([item])
    assert isinstance(skipped, DocumentSkipped) and str(skipped) == "deleted while it was read"


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


def test_less_is_asked_for_where_github_takes_too_long(
    server: GithubServer, pulls: Open, waits: list[float]
) -> None:
    for number in range(30):
        server.repository.pull(f"change {number}")
    server.most_at_once = 7
    documents = read(pulls())
    assert [str(uri) for uri in documents] == [f"pull/{number}" for number in range(1, 31)]
    assert all(isinstance(document, Document) for document in documents.values())
    assert waits == []  # a smaller question is asked at once


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


def test_an_outage_is_not_taken_for_a_document_that_is_too_large(server: GithubServer, pulls: Open) -> None:
    server.repository.pull("x")
    source = pulls()
    items = list(source.discover())
    server.fail_next(50, status=502)
    with pytest.raises(SourceUnavailable, match="answered 502"):
        list(source.fetch_many(items))


def test_an_error_about_the_whole_answer_takes_nothing_of_it(server: GithubServer, issues: Open) -> None:
    server.repository.issue("x")
    source = issues()
    items = list(source.discover())
    nodes = {"data": {"repository": {"id": "R"}, "nodes": [None], "rateLimit": None}}
    server.fail_next(body=nodes | {"errors": [{"type": "INTERNAL", "message": "oh"}]})
    with pytest.raises(SourceUnavailable, match=r"could not answer for octo/engine \(oh\)"):
        list(source.fetch_many(items))


def test_a_document_has_the_time_that_it_was_listed_with(server: GithubServer, issues: Open) -> None:
    """So that the next listing tells it again, and what was written in between."""
    uri = server.repository.issue("x", "first")
    source = issues()
    [item] = source.discover()
    listed = server.repository.clock
    server.edit(uri, "second")
    document = source.fetch(item)
    assert document.text.endswith("second") and document.last_modified == listed


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
