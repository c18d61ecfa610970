"""Wikis of GitHub and GitLab, read by git."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from knowledge_pipeline.config.connections import WikiConnection
from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.registry import build_web_location, open_source
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer

PAGES = {
    "Home.md": b"# Welcome\n\nSee [[Night shift]].\n",
    "guides/Night-shift.asciidoc": b"= Shift\n\nText.\n",
    "old.textile": b"h1. Old\n",
    "logo.png": b"\x00\x01",
}


@pytest.mark.parametrize(
    ("kind", "repository", "page"),
    [
        (GithubServer, "octo/engine", "wiki/Night-shift"),
        (GitlabServer, "octo/core/engine", "-/wikis/guides/Night-shift"),
    ],
)
def test_a_page_is_named_by_its_file_and_has_its_address(kind, repository, page, tmp_path):
    work = Repository(tmp_path / "work")
    served = tmp_path / f"served/{repository}.wiki.git"
    served.parent.mkdir(parents=True)
    served.symlink_to(work.root / ".git")
    with kind() as server:
        server.repositories = tmp_path / "served"
        connection = server.connection(wiki=True)
        told = {"id": "wiki", "type": "markdown", "connection": connection}
        source = SourceConfig.model_validate(told | {"access": {"visibility": "from_source", "tenant": "a"}})
        assert isinstance(source.connection, WikiConnection)
        assert source.permission_connection == connection
        assert build_web_location(source).repo == repository
        work.write(PAGES).commit()
        with open_source(source, cache=tmp_path / "cache") as pages:
            found = {item.uri: pages.fetch(item) for item in pages.discover()}
        assert set(found) == set(PAGES) - {"logo.png"}
        shift = found["guides/Night-shift.asciidoc"]
        assert (found["Home.md"].title, shift.title) == ("Home", "Night shift")
        assert shift.url == f"{server.url.removesuffix('/api/v3')}/{repository}/{page}"
        served.unlink()
        with (
            open_source(source, cache=tmp_path / "other") as pages,
            pytest.raises(SourceRefused, match="a wiki is there once its first page is written"),
        ):
            list(pages.discover())


def test_a_wiki_is_markdown_and_no_other_source_has_another_digest():
    connection = {"type": "github", "repository": "octo/engine"}
    with pytest.raises(ValidationError, match=r"connection\.wiki does not apply to type 'code'"):
        SourceConfig.model_validate({"id": "a", "type": "code", "connection": connection | {"wiki": True}})
    issues = SourceConfig.model_validate({"id": "a", "type": "github_issues", "connection": connection})
    assert compute_settings_digests(Settings(), issues)["source"] == "3cc0b768b6185d7f"
