"""The repositories that GitHub, GitLab and a folder list: all of them, or an exception."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.organisations import (
    CheckoutsConnection,
    GithubOrganisationConnection,
    GitlabGroupConnection,
    OrganisationMember,
)
from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.registry import list_members
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer


@pytest.fixture(scope="module")
def github() -> Iterator[GithubServer]:
    with GithubServer() as server:
        server.answerer.own("acme", *(f"r{number}" for number in range(110)), topics=("pay",))
        server.answerer.own("acme", "old", isArchived=True, description="An  old\none")
        server.answerer.own("acme", "copy", isFork=True)
        server.answerer.own("acme", "empty", isEmpty=True)
        server.answerer.own("ann", "dots", kind="User", topics=("pay",))
        yield server


def members(server: GithubServer, **changed: Any) -> list[OrganisationMember]:
    told = {"type": "github_organisation", "url": server.url, "token": server.token, **changed}
    with pausing_by(lambda wait_s: None):
        return list(list_members(GithubOrganisationConnection.model_validate(told)))


def test_repositories_of_organisations_users_and_topics_are_listed(github: GithubServer) -> None:
    github.requests.clear()
    found = members(github, organisation="acme")
    assert [each.name for each in found[:110]] == [f"acme/r{number}" for number in range(110)]
    old = OrganisationMember("acme/old", "An old one", "https://github.com/acme/old", archived=True)
    assert found[110:] == [
        old,
        OrganisationMember("acme/copy", "", "https://github.com/acme/copy", fork=True),
    ]
    assert len(github.requests) == github.points == 2
    assert [each.name for each in members(github, user="ann")] == ["ann/dots"]
    assert len(members(github, topic="pay")) == 111 and found[0].topics == ("pay",)


def test_a_listing_that_is_not_whole_is_an_error(github: GithubServer) -> None:
    github.answerer.own("many", *(f"r{number}" for number in range(1001)), topics=("common",))
    with pytest.raises(SourceRefused, match=r"only 1,000 of the 1,001 repositories with the topic 'common'"):
        members(github, topic="common")
    for changed, says in (
        ({"organisation": "nobody"}, "shows no organisation 'nobody'"),
        ({"user": "acme"}, "write connection.organisation"),
        ({"organisation": "acme", "token": "other"}, "does not accept the token"),
    ):
        with pytest.raises(SourceRefused, match=says):
            members(github, **changed)
    for number in range(150):
        page = {"totalCount": 9, "pageInfo": {"hasNextPage": True, "endCursor": str(number)}, "nodes": []}
        owner = {"__typename": "Organization", "repositories": page}
        limit = {"cost": 1, "remaining": 9, "resetAt": "2026-03-01T00:00:00Z"}
        github.fail_next(body={"data": {"rateLimit": limit, "repositoryOwner": owner}})
    with pytest.raises(SourceUnavailable, match="does not end its list of repositories: nothing is deleted"):
        members(github, organisation="acme")
    github.faults.clear()
    github.fail_next(status=503)
    github.answerer.miscounted = 1
    try:
        with pytest.raises(SourceUnavailable, match="listed 113 of 114 repositories"):
            members(github, organisation="acme")
    finally:
        github.answerer.miscounted = 0


def test_projects_of_a_group_are_listed_with_those_of_its_subgroups() -> None:
    with GitlabServer() as server:
        server.groups = {
            "octo": [{"path": f"p{number}", "archived": number == 7} for number in range(110)],
            "octo/core": [{"path": "engine", "forked_from_project": {}, "topics": ["pay"]}],
            "octopus": [{"path": "other"}],
        }
        told = {"type": "gitlab_group", "group": "octo", "url": server.url, "token": server.token}

        def projects(**changed: Any) -> list[OrganisationMember]:
            return list(list_members(GitlabGroupConnection.model_validate(told | changed)))

        found = projects()
        assert len(found) == 111 and [each.name for each in found if each.archived] == ["octo/p7"]
        assert found[-1] == OrganisationMember("octo/core/engine", fork=True, topics=("pay",))
        assert len(projects(subgroups=False)) == 110
        server.page_cap = 20
        assert projects() == found
        for changed, says in (({"group": "none"}, "shows no group 'none'"), ({"token": "x"}, "read_api")):
            with pytest.raises(SourceRefused, match=says):
                projects(**changed)


def test_checkouts_are_found_by_their_git(tmp_path: Path) -> None:
    for name in ("api/.git", "team/web/.git", "team/web/nested/.git", "a/b/c/.git", "docs", ".cache/x/.git"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".git").write_text("gitdir: elsewhere")  # as of a worktree
    (tmp_path / "link").symlink_to(tmp_path / "api")

    def names(**changed: Any) -> list[str]:
        told = {"type": "checkouts", "path": tmp_path, **changed}
        return [each.name for each in list_members(CheckoutsConnection.model_validate(told))]

    assert names() == ["api", "team/web", "work"] and names(depth=1) == ["api", "work"]
    assert names(depth=3) == ["a/b/c", "api", "team/web", "work"]
    with pytest.raises(SourceRefused, match=r"cannot be read .*nothing is removed"):
        names(path=tmp_path / "missing")
