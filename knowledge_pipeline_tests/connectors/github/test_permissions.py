"""Who may read a repository, as a small GitHub tells it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.github.permissions import read_repository_permissions
from knowledge_pipeline.connectors.permissions import Permissions
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.fakes.github.server import GithubServer


@pytest.fixture(params=[False, True], ids=["github.com", "enterprise"])
def server(request) -> Iterator[GithubServer]:
    with GithubServer(enterprise=request.param) as server, pausing_by(lambda _: None):
        yield server


def read(server: GithubServer, *uris: str, **connection) -> Permissions:
    return read_repository_permissions(server.connection(**connection), uris)


def members(permissions: Permissions) -> dict[str, str | None]:
    [[readers]] = permissions.audiences.values()
    return {member.account: member.email for member in readers}


def test_a_private_repository_is_for_its_collaborators_and_teams(server):
    server.repository.collaborate("ada", "ben", teams=("core",))
    server.repository.address("ada", "ada@example.org")
    server.repository.address("ben", "")
    found = read(server, "pull/1", "issue/2")
    assert set(found.audience_by_uri) == {"pull/1", "issue/2"}
    assert members(found) == {"ada": "ada@example.org", "ben": None, "group:core": None}
    assert found.problems == {}


def test_who_may_not_pull_is_nobody(server):
    server.repository.collaborate("ada", "ben")
    server.repository.collaborators[1]["permissions"]["pull"] = False
    assert set(members(read(server, "pull/1"))) == {"ada"}


def test_a_public_repository_is_for_everybody(server):
    server.repository.private = False
    assert set(members(read(server, "pull/1"))) == {"*"}


def test_an_internal_repository_is_for_its_collaborators_and_whom_a_mapping_names(server):
    server.repository.visibility = "internal"
    server.repository.collaborate("ada")
    assert set(members(read(server, "pull/1"))) == {"ada", "group:visibility:internal"}


@pytest.mark.parametrize("page_cap", [100, 30])
def test_long_lists_are_read_to_their_end(server, page_cap):
    server.page_cap = page_cap
    many = [f"person-{number}" for number in range(230)]
    server.repository.collaborate(*many, teams=tuple(f"team-{number}" for number in range(101)))
    for login in many:
        server.repository.address(login, f"{login}@example.org")
    found = members(read(server, "pull/1"))
    assert len(found) == 331
    assert found["person-229"] == "person-229@example.org"


@pytest.mark.parametrize("status", [403, 404])
def test_collaborators_that_are_not_shown_close_the_documents_and_say_why(server, status):
    server.repository.collaborate("ada")
    server.forbidden["/collaborators"] = status
    found = read(server, "pull/1", "pull/2")
    assert (found.audiences, found.count_closed(["pull/1", "pull/2"])) == ({}, 2)
    assert [(count, "push access" in problem) for problem, count in found.problems.items()] == [(2, True)]


def test_teams_that_are_not_shown_leave_the_people(server):
    server.repository.collaborate("ada", teams=("core",))
    server.forbidden["/teams"] = 403
    found = read(server, "pull/1")
    assert set(members(found)) == {"ada"}
    assert any("teams are not shown" in problem for problem in found.problems)


def test_addresses_that_are_forbidden_leave_the_accounts(server):
    server.repository.collaborate("ada")
    server.repository.address("ada", "ada@example.org")
    server.answerer.unreadable.add("User.email")
    assert members(read(server, "pull/1")) == {"ada": None}


def test_a_repository_that_is_not_shown_is_an_error_not_a_permission(server):
    server.answerer.hidden = True
    with pytest.raises(SourceRefused, match="shows no repository"):
        read(server, "pull/1")


def test_a_token_that_is_refused_is_an_error_not_a_permission(server):
    with pytest.raises(SourceRefused, match="does not accept the token"):
        read(server, "pull/1", token="another")


def test_github_that_does_not_answer_is_an_error_not_a_permission(server):
    server.fail_next(30, status=503)
    with pytest.raises(SourceUnavailable):
        read(server, "pull/1")


def test_a_limit_is_waited_for(server):
    server.repository.collaborate("ada")
    server.fail_next(1, status=403, body={"message": "API rate limit exceeded"}, headers={"Retry-After": "1"})
    assert set(members(read(server, "pull/1"))) == {"ada"}
