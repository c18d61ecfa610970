"""Where a source's files are to be seen."""

import pytest

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.registry import WebLocation, build_web_location
from knowledge_pipeline_tests.connectors.repositories import over_folder, over_git


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/owner/name.git",
        "https://github.com/owner/name/",
        "https://user:word@github.com/owner/name",
        "git@github.com:owner/name.git",
        "ssh://git@github.com:22/owner/name.git",
    ],
)
def test_every_way_to_write_an_address_names_the_same_place(url):
    site = "https://github.com/owner/name"
    assert build_web_location(over_git("code", url)) == WebLocation(
        "owner/name", None, f"{site}/blob/HEAD/", f"{site}/commit/"
    )


@pytest.mark.parametrize("type_", ["github_issues", "github_pr", "releases"])
def test_conversations_are_of_their_repository_on_either_host(type_):
    for connection in ({"type": "github", "repository": "a/b"}, {"type": "gitlab", "project": "a/b"}):
        source = SourceConfig.model_validate({"id": "s", "type": type_, "connection": connection})
        assert build_web_location(source) == WebLocation("a/b")


def test_a_configured_branch_is_part_of_the_page():
    found = build_web_location(over_git("code", "https://gitlab.com/group/sub/name.git", branch="fix #1/a"))
    assert found.repo == "group/sub/name"
    assert found.branch == "fix #1/a"
    assert found.web_prefix == "https://gitlab.com/group/sub/name/-/blob/fix%20%231/a/"
    assert found.commit_prefix == "https://gitlab.com/group/sub/name/-/commit/"


def test_a_host_of_unknown_kind_has_a_name_but_no_pages():
    assert build_web_location(over_git("code", "https://git.example.org/a/b.git")) == WebLocation("a/b")


def test_what_lies_on_this_machine_is_named_after_its_folder(tmp_path):
    assert build_web_location(over_git("code", "/srv/git/name.git", branch="main")) == WebLocation(
        "name", "main"
    )
    assert build_web_location(over_git("code", "file:///srv/git/name.git")) == WebLocation("name")
    assert build_web_location(over_folder("code", tmp_path / "project")) == WebLocation("project")
