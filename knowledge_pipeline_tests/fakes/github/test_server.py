"""The fake GitHub keeps GitHub's own rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from knowledge_pipeline_tests.fakes.github.graphql import cost
from knowledge_pipeline_tests.fakes.github.server import GithubServer

LIST = """query($first: Int, $after: String, $down: OrderDirection!) {
  repository(owner: "octo", name: "engine") {
    issues(first: $first, after: $after, orderBy: {field: UPDATED_AT, direction: $down}) {
      totalCount pageInfo { hasNextPage endCursor } nodes { number }
    }
  }
  rateLimit { cost remaining }
}"""


@pytest.fixture
def server() -> Iterator[GithubServer]:
    with GithubServer() as server:
        for number in range(5):
            server.repository.issue(f"issue {number}")
        yield server


def ask(server: GithubServer, query: str = LIST, *, token: str = "", **variables: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {token or server.token}"}
    asked = {"query": query, "variables": {"down": "DESC", **variables}}
    return requests.post(f"{server.url}/graphql", json=asked, headers=headers, timeout=60)


def test_points_and_nodes_are_counted_as_github_documents_it() -> None:
    """The examples of https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api"""
    points = """query { viewer { repositories(first: 100) { nodes { issues(first: 50) { nodes {
        labels(first: 60) { nodes { name } } } } } } } }"""
    assert cost(points, {})[0] == 51
    nodes = """query { viewer {
        repositories(first: 50) { nodes {
          pullRequests(first: 20) { nodes { comments(first: 10) { nodes { body } } } }
          issues(first: 20) { nodes { comments(first: 10) { nodes { body } } } } } }
        followers(first: 10) { nodes { login } } } }"""
    assert cost(nodes, {})[1] == 22_060


@pytest.mark.parametrize("down", ["DESC", "ASC"])
def test_pages_follow_each_other_by_cursor(server: GithubServer, down: str) -> None:
    seen: list[int] = []
    after, more = None, True
    while more:
        page = ask(server, first=2, after=after, down=down).json()["data"]["repository"]["issues"]
        assert page["totalCount"] == 5
        seen += [node["number"] for node in page["nodes"]]
        after, more = page["pageInfo"]["endCursor"], page["pageInfo"]["hasNextPage"]
    assert seen == ([5, 4, 3, 2, 1] if down == "DESC" else [1, 2, 3, 4, 5])


def test_a_cursor_is_a_place_in_the_order_and_no_offset(server: GithubServer) -> None:
    after = ask(server, first=2).json()["data"]["repository"]["issues"]["pageInfo"]["endCursor"]
    server.delete("issue/5")
    server.edit("issue/2", "moves to the front")
    page = ask(server, first=5, after=after).json()["data"]["repository"]["issues"]
    assert [node["number"] for node in page["nodes"]] == [3, 1]


@pytest.mark.parametrize(
    ("first", "kind"), [(None, "MISSING_PAGINATION_BOUNDARIES"), (101, "EXCESSIVE_PAGINATION")]
)
def test_a_page_has_bounds(server: GithubServer, first: int | None, kind: str) -> None:
    query = LIST if first else LIST.replace("first: $first, ", "").replace("$first: Int, ", "")
    answer = ask(server, query, **(dict[str, Any](first=first) if first else {}))
    assert answer.status_code == 200 and answer.json()["errors"][0]["type"] == kind


def test_nodes_that_are_gone_are_null_beside_an_error(server: GithubServer) -> None:
    ids = [server.repository.records["issue/1"]["id"], "I_gone"]
    query = "query($ids: [ID!]!) { nodes(ids: $ids) { ... on Issue { number } } }"
    answer = ask(server, query, ids=ids).json()
    assert answer["data"]["nodes"] == [{"number": 1}, None]
    [error] = answer["errors"]
    assert (error["type"], error["path"]) == ("NOT_FOUND", ["nodes", 1])


def test_a_field_that_does_not_exist_is_an_error_without_data(server: GithubServer) -> None:
    answer = ask(server, 'query { repository(owner: "octo", name: "engine") { nonsense } }').json()
    assert answer["errors"][0]["extensions"]["code"] == "undefinedField" and "data" not in answer


def test_points_are_spent_and_told(server: GithubServer) -> None:
    answer = ask(server, first=2)
    assert answer.json()["data"]["rateLimit"] == {"cost": 1, "remaining": 4999}
    assert answer.headers["X-RateLimit-Remaining"] == "4999"
    server.limit(after=0, reset_s=60)
    spent = ask(server, first=2)
    assert (spent.status_code, spent.json()["errors"][0]["type"]) == (200, "RATE_LIMITED")
    assert spent.headers["X-RateLimit-Remaining"] == "0"
    server.limit(after=0, reset_s=-1)
    assert "data" in ask(server, first=2).json()


def test_who_is_not_known_is_refused(server: GithubServer) -> None:
    answer = ask(server, first=2, token="other")
    assert (answer.status_code, answer.json()["message"]) == (401, "Bad credentials")
    installation = requests.get(f"{server.url}/repos/octo/engine/installation", timeout=60)
    assert installation.status_code == 401


def test_faults_are_used_up_in_order(server: GithubServer) -> None:
    server.fail_next(status=503)
    server.cut_off_next()
    assert ask(server, first=1).status_code == 503
    with pytest.raises(requests.RequestException):
        ask(server, first=1)
    assert ask(server, first=1).status_code == 200
