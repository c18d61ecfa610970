"""Who may read a project, as a small GitLab tells it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.gitlab.permissions import ProjectPart, read_project_permissions
from knowledge_pipeline.connectors.permissions import Permissions
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer

URIS = ("src/one.py", "issue/2")


@pytest.fixture(params=["", "/gitlab"])
def server(request) -> Iterator[GitlabServer]:
    with GitlabServer(prefix=request.param) as server, pausing_by(lambda _: None):
        yield server


def read(server: GitlabServer, part: ProjectPart = "issue", **connection) -> Permissions:
    return read_project_permissions(server.connection(**connection), part, URIS)


def accounts(permissions: Permissions) -> set[str]:
    [[readers]] = permissions.audiences.values()
    return {member.account for member in readers}


def test_a_server_that_gives_fewer_members_than_asked_for_is_read_to_the_end(server):
    server.page_cap = 20
    names = {f"person-{number}" for number in range(50)}
    for name in names:
        server.project.join(name)
    assert accounts(read(server)) == names


def test_a_role_decides_who_reads_issues_and_who_merge_requests_and_code(server):
    for name, level in (("min", 5), ("gus", 10), ("pia", 15), ("rob", 20), ("dee", 30)):
        server.project.join(name, level)
    assert accounts(read(server, "issue")) == {"gus", "pia", "rob", "dee"}
    assert accounts(read(server, "merge_request")) == {"rob", "dee"}
    assert accounts(read(server, "repository")) == {"rob", "dee"}


def test_all_documents_of_a_part_have_its_audience(server):
    server.project.join("ada")
    assert read(server, "repository").audience_by_uri == dict.fromkeys(URIS, "repository")


def test_blocked_and_awaiting_members_are_nobody(server):
    server.project.join("ada", email="ada@example.org")
    server.project.join("ben", state="blocked")
    server.project.join("cyd", membership_state="awaiting")
    found = read(server)
    assert accounts(found) == {"ada"}
    assert [member.email for member in found.audiences["issue"][0]] == ["ada@example.org"]


def test_a_public_project_is_for_everybody_but_for_what_its_members_keep(server):
    server.project.join("ada")
    server.project.facts |= {"visibility": "public", "merge_requests_access_level": "private"}
    server.project.facts |= {"repository_access_level": "disabled"}
    assert accounts(read(server, "issue")) == {"*"}
    assert accounts(read(server, "merge_request")) == {"ada"}
    assert accounts(read(server, "repository")) == {"ada"}


def test_an_internal_project_is_for_its_members_and_whom_a_mapping_names(server):
    server.project.join("ada")
    server.project.facts |= {"visibility": "internal", "merge_requests_access_level": "private"}
    assert accounts(read(server, "repository")) == {"ada", "group:visibility:internal"}
    assert accounts(read(server, "merge_request")) == {"ada"}


def test_long_lists_are_read_to_their_end(server):
    for number in range(201):
        server.project.join(f"p{number}")
    assert len(accounts(read(server))) == 201


@pytest.mark.parametrize("status", [403, 404])
def test_members_that_are_not_shown_close_the_documents_and_say_why(server, status):
    server.forbidden["members/all"] = status
    found = read(server)
    assert (found.audiences, found.count_closed(URIS)) == ({}, 2)
    assert [(count, "read_api" in problem) for problem, count in found.problems.items()] == [(2, True)]


def test_a_project_that_is_not_shown_is_an_error_not_a_permission(server):
    with pytest.raises(SourceRefused, match="shows no project"):
        read(server, project="octo/other")


def test_a_token_that_is_refused_is_an_error_not_a_permission(server):
    with pytest.raises(SourceRefused, match="does not accept the token"):
        read(server, token="another")


def test_gitlab_that_does_not_answer_is_an_error_not_a_permission(server):
    server.fail_next(30, status=503)
    with pytest.raises(SourceUnavailable):
        read(server)


def test_a_limit_is_waited_for(server):
    server.project.join("ada")
    server.fail_next(1, status=429, headers={"Retry-After": "1"})
    assert accounts(read(server)) == {"ada"}
