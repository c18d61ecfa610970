"""Who may read a project, as a small GitLab tells it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.sources import http_retry
from knowledge_pipeline.sources.gitlab.permissions import read_project_permissions
from knowledge_pipeline.sources.permissions import Permissions
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer


@pytest.fixture(params=["", "/gitlab"])
def server(request, monkeypatch) -> Iterator[GitlabServer]:
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)
    monkeypatch.setattr(http_retry, "_MAX_BACKOFF_S", 0.002)
    with GitlabServer(prefix=request.param) as server:
        yield server


def read(server: GitlabServer, *uris: str, **connection) -> Permissions:
    return read_project_permissions(server.connection(**connection), uris, sleep=lambda _: None)


def accounts(permissions: Permissions, uri: str) -> set[str]:
    [readers] = permissions.audiences[permissions.audience_by_uri[uri]]
    return {member.account for member in readers}


def test_a_role_decides_who_reads_issues_and_who_merge_requests(server):
    for name, level in (("min", 5), ("gus", 10), ("rob", 20), ("dee", 30)):
        server.project.join(name, level)
    found = read(server, "issue/1", "merge_request/2")
    assert accounts(found, "issue/1") == {"gus", "rob", "dee"}
    assert accounts(found, "merge_request/2") == {"rob", "dee"}


def test_blocked_and_awaiting_members_are_nobody(server):
    server.project.join("ada", email="ada@example.org")
    server.project.join("ben", state="blocked")
    server.project.join("cyd", membership_state="awaiting")
    found = read(server, "issue/1")
    assert accounts(found, "issue/1") == {"ada"}
    assert [member.email for member in found.audiences["issue"][0]] == ["ada@example.org"]


def test_a_public_project_is_for_everybody_but_for_what_its_members_keep(server):
    server.project.join("ada")
    server.project.facts |= {"visibility": "public", "merge_requests_access_level": "private"}
    found = read(server, "issue/1", "merge_request/2")
    assert accounts(found, "issue/1") == {"*"}
    assert accounts(found, "merge_request/2") == {"ada"}


def test_an_internal_project_is_for_its_members(server):
    server.project.join("ada")
    server.project.facts |= {"visibility": "internal"}
    assert accounts(read(server, "issue/1"), "issue/1") == {"ada"}


def test_long_lists_are_read_to_their_end(server):
    for number in range(201):
        server.project.join(f"p{number}")
    assert len(accounts(read(server, "issue/1"), "issue/1")) == 201


@pytest.mark.parametrize("status", [403, 404])
def test_members_that_are_not_shown_close_the_documents_and_say_why(server, status):
    server.forbidden["members/all"] = status
    found = read(server, "issue/1", "merge_request/2")
    assert (found.audiences, found.audience_by_uri) == ({}, {})
    assert [(count, "read_api" in problem) for problem, count in found.problems.items()] == [(2, True)]


def test_a_project_that_is_not_shown_is_an_error_not_a_permission(server):
    with pytest.raises(SourceRefused, match="shows no project"):
        read(server, "issue/1", project="octo/other")


def test_a_token_that_is_refused_is_an_error_not_a_permission(server):
    with pytest.raises(SourceRefused, match="does not accept the token"):
        read(server, "issue/1", token="another")


def test_gitlab_that_does_not_answer_is_an_error_not_a_permission(server):
    server.fail_next(30, status=503)
    with pytest.raises(SourceUnavailable):
        read(server, "issue/1")
