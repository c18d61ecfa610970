from __future__ import annotations

import re
from typing import get_args

import pytest
from pydantic import ValidationError

from knowledge_pipeline.config.connections import GitConnection
from knowledge_pipeline.config.sources import dump_filters, resolve_sanitize, resolve_trigger
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline_tests.config.sources.entries import source


def test_every_type_has_the_default_trigger_of_the_specification():
    triggers = {kind: resolve_trigger(source(kind)) for kind in get_args(SourceType)}
    assert triggers == {
        "code": "on_commit",
        "markdown": "on_commit",
        "openapi": "on_commit",
        "git_history": "weekly",
        "github_pr": "daily",
        **dict.fromkeys(("github_issues", "discussions", "releases", "snippets"), "daily"),
        "jira": "daily",
        "confluence": "daily",
        "slack": "daily",
        "files": "daily",
        "archive": "realtime",
        "table": "daily",
        "custom": "daily",
        "push": "daily",
    }


def test_a_configured_trigger_wins_over_the_default():
    assert resolve_trigger(source("files", refresh={"trigger": "hourly"})) == "hourly"


def test_permissions_of_a_history_are_read_daily():
    access = {"visibility": "from_source", "tenant": "acme"}
    connection = {"type": "github", "repository": "a/b", "token": "t"}
    assert resolve_trigger(source("git_history", access=access, connection=connection)) == "daily"


def test_a_namespace_is_a_tag_of_the_sources_chunks():
    assert source("code", namespace="shop", metadata={"tags": ["core"]}).tags == ["core", "namespace:shop"]
    assert source("code").tags == []


def test_secrets_are_redacted_and_personal_data_kept_by_default():
    sanitize = resolve_sanitize(source("code"))
    assert (sanitize.secrets, sanitize.personal_data) == ("redact", "off")


@pytest.mark.parametrize("kind", ["github_pr", "discussions", "jira", "confluence", "slack", "archive"])
def test_personal_data_is_redacted_where_people_write_to_people_unless_the_file_says_otherwise(kind):
    assert resolve_sanitize(source(kind)).personal_data == "redact"
    assert resolve_sanitize(source(kind, sanitize={"personal_data": "off"})).personal_data == "off"
    assert resolve_sanitize(source(kind, sanitize={"secrets": "drop"})).secrets == "drop"


@pytest.mark.parametrize(
    ("kind", "filters", "said"),
    [
        ("code", {"jql": "project = A"}, "jql does not apply to type 'code', only to jira"),
        ("jira", {"spaces": ["OPS"]}, "spaces does not apply to type 'jira'"),
        (
            "github_issues",
            {"parts": ["diff"]},
            "parts does not apply to type 'github_issues', only to github_pr",
        ),
        (
            "github_issues",
            {"state": "merged"},
            "state 'merged' does not apply to type 'github_issues': use open",
        ),
        ("releases", {"state": "open"}, "state 'open' does not apply to type 'releases': use all"),
        ("snippets", {"labels": ["x"]}, "labels does not apply to type 'snippets'"),
    ],
)
def test_a_filter_of_another_type_is_refused(kind, filters, said):
    with pytest.raises(ValidationError, match=said):
        source(kind, **filters)


def test_a_type_is_read_over_its_own_connections_only():
    with pytest.raises(ValidationError, match=r"type 'jira' is not read over connection\.type 'local'"):
        source("jira", connection={"type": "local", "path": "."})


@pytest.mark.parametrize(
    ("hosted", "url"),
    [
        ({"type": "github", "repository": "ann/app"}, "https://github.com/ann/app.git"),
        (
            {"type": "github", "repository": "ann/app", "url": "https://git.example.org/api/v3"},
            "https://git.example.org/ann/app.git",
        ),
        ({"type": "gitlab", "project": "team/sub/app"}, "https://gitlab.com/team/sub/app.git"),
        (
            {"type": "gitlab", "project": "team/app", "url": "https://lab.example.org/"},
            "https://lab.example.org/team/app.git",
        ),
    ],
)
def test_a_hosted_repository_is_read_by_git(hosted, url):
    read = source("code", connection={**hosted, "branch": "main", "token": "t0ken"}).connection
    assert isinstance(read, GitConnection)
    assert (read.url, read.branch, read.token.get_secret_value()) == (url, "main", "t0ken")


def test_an_app_reads_over_git():
    app = {"id": 1, "private_key": "key"}
    found = source("code", connection={"type": "github", "repository": "ann/app", "app": app})
    assert isinstance(found.connection, GitConnection) and found.connection.app
    assert found.connection.to_github() == found.permission_connection
    for url in ("https://github.com/ann", "git@github.com:ann/app.git"):
        with pytest.raises(ValidationError, match="an app reads only from GitHub"):
            GitConnection.model_validate({"type": "git", "url": url, "app": app})


def test_a_known_key_without_a_value_means_its_default():
    assert source("code", exclude=None, chunking=None, depth=None) == source("code")


def test_an_unknown_key_without_a_value_is_refused():
    with pytest.raises(ValidationError, match="exlude"):
        source("code", exlude=None)


@pytest.mark.parametrize("name", ["min_tokens", "overlap_tokens"])
def test_limits_must_be_smaller_than_the_largest_chunk(name):
    with pytest.raises(ValidationError, match=rf"{name} \(64\) must be smaller than max_tokens \(64\)"):
        source("code", chunking={"max_tokens": 64, name: 64})


@pytest.mark.parametrize(
    "access",
    [{"visibility": "tenant"}, {"visibility": "private", "tenant": "t"}],
    ids=["tenant", "principals"],
)
def test_restricted_sources_must_name_their_audience(access):
    with pytest.raises(ValidationError, match="needs"):
        source("code", access=access)


@pytest.mark.parametrize(
    ("kind", "rest", "said"),
    [
        ("code", {"connection": {"type": "local", "path": "."}}, "only to git, github and gitlab"),
        ("git_history", {"connection": {"type": "git", "url": "x"}}, "branches does not apply to type"),
        (
            "markdown",
            {"connection": {"type": "github", "repository": "ann/app", "wiki": True}},
            "branches does not apply to a wiki",
        ),
    ],
)
def test_further_branches_are_read_where_there_are_files_of_branches(kind, rest, said):
    with pytest.raises(ValidationError, match=said):
        source(kind, branches=["release/*"], **rest)
    hosted = source("code", branches=["release/*"], connection={"type": "gitlab", "project": "team/app"})
    assert hosted.branches == ("release/*",)
    assert "branches" not in dump_filters(source("code", connection={"type": "git", "url": "x"}))


GIT, HUB, LAB = (
    {"type": "git", "url": "x"},
    {"type": "github", "repository": "ann/app"},
    {"type": "gitlab", "project": "team/app"},
)


@pytest.mark.parametrize(
    ("connection", "pattern", "remedy"),
    [
        (GIT, "refs/pull/*", "'pull/*' or 'merge-requests/*' for the heads of pull requests"),
        (GIT, "refs/heads/next", "'pull/*'"),
        (GIT, "pull/12/head", "'pull/*'"),
        (GIT, "pull/*/merge", "'pull/*'"),
        (GIT, "pulls/12", "'pull/*'"),
        (GIT, "merge_requests/*", "'merge-requests/*'"),
        (LAB, "merge-request/12", "and 'merge-requests/*' for"),
        (LAB, "pull/12", "and 'merge-requests/*' for"),
        (HUB, "merge-requests/12", "and 'pull/*' for"),
    ],
)
def test_what_names_no_branch_is_refused(connection, pattern, remedy):
    with pytest.raises(
        ValidationError, match=f"branches has '{re.escape(pattern)}', which names no branch"
    ) as raised:
        source("code", branches=["next", pattern], connection=connection)
    assert remedy in str(raised.value)
    source("code", branches=["pulls", "pulls/next", "pull-request/12"], connection=connection)
