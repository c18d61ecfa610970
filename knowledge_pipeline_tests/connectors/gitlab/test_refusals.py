"""What GitLab says instead of an answer: limits, refusals, other addresses; and what is never told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from knowledge_pipeline.connectors.conversations import ConversationFilters
from knowledge_pipeline.connectors.gitlab.documents import GitlabIssues, GitlabMergeRequests
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.connectors.forge_sources import Open, opened, read, read_one
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer


@pytest.fixture
def server() -> Iterator[GitlabServer]:
    with GitlabServer() as server:
        server.project.merge_request("x", "y")
        yield server


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def merges(server: GitlabServer, waits: list[float]) -> Iterator[Open]:
    yield from opened(GitlabMergeRequests, server, waits)


# limits


def test_a_limit_is_waited_for(server: GitlabServer) -> None:
    server.limit(after=1, reset_s=1)
    started = time.monotonic()
    with GitlabMergeRequests(server.connection(), ConversationFilters()) as source:
        assert len(read(source)) == 1
    assert time.monotonic() - started >= 0.9
    assert [request.status for request in server.requests].count(429) <= 2


def test_a_limit_without_end_ends_in_a_sentence(server: GitlabServer, merges: Open) -> None:
    server.fail_next(50, status=429, body="Retry later\n")
    with pytest.raises(SourceUnavailable, match="answered 429 to every attempt: try again later"):
        list(merges().discover())
    assert len(server.requests) == 6


# refusals


def refused(source: Any) -> str:
    with pytest.raises(SourceRefused) as told:
        list(source.discover())
    assert told.value.__cause__ is None
    return str(told.value)


def test_a_refusal_says_what_to_correct(server: GitlabServer, merges: Open) -> None:
    wrong = refused(merges(server.connection(token="wrong")))
    assert "does not accept the token" in wrong and "read_api" in wrong and "connection.token" in wrong
    other = refused(merges(server.connection(project="octo/other")))
    assert "shows no project octo/other: correct connection.project, or give the token's owner" in other
    assert "or set connection.token" in refused(merges(server.connection(token=None)))
    scope = {"error": "insufficient_scope", "error_description": "The request requires higher privileges."}
    server.fail_next(status=403, body=scope)
    assert "(The request requires higher privileges.): give connection.token the scope read_api" in refused(
        merges()
    )
    server.fail_next(status=403, body={"errors": [{"message": "API not accessible\n for user"}]})
    assert "(API not accessible for user)" in refused(merges())
    server.fail_next(status=422, body={"errors": [{"message": "Query too large"}]})
    assert "with 422 (Query too large)" in refused(merges())
    denied = "The resource that you are attempting to access does not exist or you don't have permission"
    server.fail_next(body={"data": {"project": None}, "errors": [{"message": denied}]})
    assert "shows no project octo/core/engine" in refused(merges())


def test_documents_that_are_not_shown_are_told(server: GitlabServer, merges: Open) -> None:
    server.answerer.disabled = {"mergeRequests"}
    assert "does not show the merge requests of octo/core/engine: give the token's owner" in refused(merges())
    server.answerer.disabled, server.answerer.guest = {"issues"}, True
    assert "does not show the merge requests of octo/core/engine: give the token's owner" in refused(merges())
    with GitlabIssues(server.connection(), ConversationFilters()) as source:
        assert "does not show the issues of octo/core/engine" in refused(source)
    server.answerer.guest = False
    assert len(read(merges())) == 1


def test_a_sign_in_page_is_no_end_of_a_listing(server: GitlabServer, merges: Open) -> None:
    for _ in range(150):
        server.project.merge_request("x")

    def sign_out(_: Any) -> None:
        server.signs_in = True

    server.before_answer = sign_out
    assert "has no API at connection.url" in refused(merges())
    assert [request.path for request in server.requests] == ["/api/graphql"] * 2  # nobody is followed


def test_an_older_server_is_told(server: GitlabServer, merges: Open) -> None:
    server.answerer.missing = {"Note.internal"}
    source = merges()
    items = list(source.discover())
    with pytest.raises(SourceRefused, match=r"Field 'internal' doesn't exist .*GitLab 17 or later is needed"):
        list(source.fetch_many(items))


def test_a_server_that_allows_little_is_told(server: GitlabServer, merges: Open) -> None:
    told = "Query has complexity of 101, which exceeds max complexity of 100"
    server.fail_next(body={"errors": [{"message": told}]})
    assert f"({told}): set connection.token" in refused(merges())


def test_an_error_without_a_known_reason_is_told(server: GitlabServer, merges: Open) -> None:
    server.fail_next(body={"errors": [{"message": "Oh"}]})
    with pytest.raises(
        SourceUnavailable, match=r"could not answer for octo/core/engine \(Oh\): try again later"
    ):
        list(merges().discover())


def test_a_page_that_leads_nowhere_is_no_end(server: GitlabServer, merges: Open) -> None:
    page = {"count": 200, "pageInfo": {"hasNextPage": True, "endCursor": None}, "nodes": []}
    server.fail_next(body={"data": {"project": {"shown": True, "listed": page}}})
    with pytest.raises(SourceUnavailable, match="repeats a page of a listing: nothing is deleted"):
        list(merges().discover())


def test_pages_without_anything_in_them_are_given_up(server: GitlabServer, merges: Open) -> None:
    for number in range(150):
        page = {"count": 200, "pageInfo": {"hasNextPage": True, "endCursor": str(number)}, "nodes": []}
        server.fail_next(body={"data": {"project": {"shown": True, "listed": page}}})
    with pytest.raises(SourceUnavailable, match="repeats a page of a listing: nothing is deleted"):
        list(merges().discover())


def test_a_public_project_is_read_without_a_token(
    server: GitlabServer, merges: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server.public = True
    assert len(read(merges(server.connection(token=None)))) == 1
    assert set(server.secrets_seen) == {""}


def test_an_instance_under_a_path_is_found() -> None:
    with GitlabServer(prefix="/gitlab") as server:
        uri = server.project.merge_request("x", "of the instance")
        for url in (server.url, f"{server.url}/"):
            with GitlabMergeRequests(server.connection(url=url), ConversationFilters()) as source:
                assert read_one(source, uri).text.endswith("of the instance")
        assert {request.path for request in server.requests} == {"/gitlab/api/graphql"}


# secrets


def test_no_secret_is_told_anywhere(
    server: GitlabServer, merges: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    # A client of Kubernetes that another test made would have silenced it.
    caplog.set_level("DEBUG", logger="urllib3.connectionpool")
    server.token = "-".join(("canary", "token"))
    said: list[str] = []
    for source in (merges(), merges(server.connection(token="canary-token-wrong"))):
        try:
            said.append(repr(read(source)))
        except SourceRefused as error:
            said.append(repr(error) + repr(error.__cause__))
        said.append(repr(source) + repr(vars(source)) + repr(vars(source._client)))
    whole = "".join(said) + caplog.text
    assert whole.count("does not accept the token") == 1 and caplog.text.count("/api/graphql") == 3
    assert "canary-token" not in whole
    assert set(server.secrets_seen) == {"Bearer canary-token", "Bearer canary-token-wrong"}
