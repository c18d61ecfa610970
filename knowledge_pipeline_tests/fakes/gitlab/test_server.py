"""The fake GitLab keeps GitLab's own rules."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from knowledge_pipeline_tests.fakes.gitlab.graphql import complexity
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer

LIST = """query($first: Int, $after: String, $sort: IssueSort, $since: Time) {
  project(fullPath: "octo/core/engine") {
    issues(first: $first, after: $after, sort: $sort, updatedAfter: $since) {
      count pageInfo { hasNextPage endCursor } nodes { iid }
    }
  }
}"""


@pytest.fixture
def server() -> Iterator[GitlabServer]:
    with GitlabServer(kind="issue") as server:
        for number in range(5):
            server.create(f"issue {number}", "text")
        yield server


def ask(server: GitlabServer, query: str = LIST, *, token: str = "", **variables: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {token or server.token}"}
    asked = {"query": query, "variables": variables}
    return requests.post(f"{server.url}/api/graphql", json=asked, headers=headers, timeout=60)


def paged(server: GitlabServer, **variables: Any) -> list[str]:
    seen: list[str] = []
    after, more = None, True
    while more:
        page = ask(server, after=after, **variables).json()["data"]["project"]["issues"]
        seen += [node["iid"] for node in page["nodes"]]
        after, more = page["pageInfo"]["endCursor"], page["pageInfo"]["hasNextPage"]
    return seen


@pytest.mark.parametrize(("sort", "order"), [("CREATED_ASC", "12345"), ("UPDATED_DESC", "25431")])
def test_pages_follow_each_other_by_cursor(server: GitlabServer, sort: str, order: str) -> None:
    server.edit("issue/2", "edited")
    assert paged(server, first=2, sort=sort) == list(order)
    assert paged(server) == list("54321")  # the newest first, if not told otherwise


def test_a_cursor_stays_right_while_documents_move(server: GitlabServer) -> None:
    page = ask(server, first=2, sort="UPDATED_ASC").json()["data"]["project"]["issues"]
    server.delete("issue/1")
    server.edit("issue/2", "moved to the end")
    after = page["pageInfo"]["endCursor"]
    page = ask(server, sort="UPDATED_ASC", after=after).json()["data"]["project"]["issues"]
    assert [node["iid"] for node in page["nodes"]] == ["3", "4", "5", "2"] and page["count"] == 4


def test_a_page_has_a_hundred_entries_at_most(server: GitlabServer) -> None:
    for _ in range(120):
        server.create("x", "y")
    page = ask(server, first=500).json()["data"]["project"]["issues"]
    assert len(page["nodes"]) == 100 and page["count"] == 125


def test_only_what_was_updated_since_is_listed(server: GitlabServer) -> None:
    since = server.project.records["issue/4"]["updatedAt"]
    assert paged(server, since=since) == ["5", "4"]


def test_merge_requests_are_counted_to_a_thousand(server: GitlabServer) -> None:
    for _ in range(1005):
        server.project.merge_request("x")
    counted = '{ project(fullPath: "octo/core/engine") { mergeRequests { count } } }'
    assert ask(server, counted).json()["data"]["project"]["mergeRequests"] == {"count": 1001}


def test_notes_are_chosen_by_their_kind(server: GitlabServer) -> None:
    server.project.note("issue/1", "said")
    server.project.note("issue/1", "closed", system=True)
    query = """query($filter: NotesFilterType) { project(fullPath: "octo/core/engine") {
        issues(iids: ["1"]) { nodes { userNotesCount notes(filter: $filter) { nodes { body } } } } } }"""

    def bodies(chosen: str) -> list[str]:
        [issue] = ask(server, query, filter=chosen).json()["data"]["project"]["issues"]["nodes"]
        assert issue["userNotesCount"] == 1
        return [note["body"] for note in issue["notes"]["nodes"]]

    assert bodies("ONLY_COMMENTS") == ["said"] and bodies("ALL_NOTES") == ["said", "closed"]


def test_complexity_is_counted_as_gitlab_does() -> None:
    """1 a field, 1 more for a resolver, 1 more for an order, 1 % more for each entry of a list."""
    by_iid = (
        'query($n: Int) { project(fullPath: "a/b") { issues(iids: ["1"], first: $n) { nodes { iid } } } }'
    )
    listed = 'query($n: Int) { project(fullPath: "a/b") { issues(first: $n) { nodes { iid } } } }'
    assert complexity(by_iid, {"n": 100}) == 5  # nodes, iid; issues 2; project 1
    assert complexity(listed, {"n": 100}) == 9  # issues are doubled
    assert complexity(listed, {"n": 50}) == 7


def test_a_question_that_is_too_complex_is_refused(server: GitlabServer) -> None:
    each = " ".join(f"a{number}: title" for number in range(130))
    query = f'{{ project(fullPath: "octo/core/engine") {{ issues {{ nodes {{ {each} }} }} }} }}'
    [error] = ask(server, query).json()["errors"]
    assert error["message"].startswith("Query has complexity of 267, which exceeds max complexity of 250")


def test_who_is_not_known_is_refused(server: GitlabServer) -> None:
    refused = ask(server, token="wrong")
    assert refused.status_code == 401 and refused.json() == {"errors": [{"message": "Invalid token"}]}
    other = ask(server, '{ project(fullPath: "octo/other") { id } }')
    assert other.json() == {"data": {"project": None}}


def test_a_spent_limit_is_told_in_the_headers(server: GitlabServer) -> None:
    before = time.time()
    server.limit(after=1, reset_s=30)
    limited = time.time()
    assert ask(server).status_code == 200
    refused = ask(server)
    assert (refused.status_code, refused.text) == (429, "Retry later\n")
    assert refused.headers["RateLimit-Remaining"] == "0"
    assert before + 29 <= int(refused.headers["RateLimit-Reset"]) <= limited + 31
    assert 1 <= int(refused.headers["Retry-After"]) <= 30


def test_what_the_schema_has_not_is_refused(server: GitlabServer) -> None:
    [error] = ask(server, '{ project(fullPath: "octo/core/engine") { nothing } }').json()["errors"]
    assert error["extensions"] == {"code": "undefinedField"}
