"""Releases of a small GitHub and a small GitLab, each on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from knowledge_pipeline.connectors import http_retry
from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.connectors.github.documents import GithubReleases
from knowledge_pipeline.connectors.gitlab.documents import GitlabReleases
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.relations import DocumentContext, extract_metadata_mentions
from knowledge_pipeline_tests.connectors.forge_sources import Open, opened, read, read_one, uris
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer


@pytest.fixture(params=[(GithubServer, GithubReleases), (GitlabServer, GitlabReleases)], ids=["hub", "lab"])
def host(request, monkeypatch) -> Iterator[tuple[Any, Open]]:
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)
    with request.param[0](kind="release") as server:
        for open_source in opened(request.param[1], server, []):
            yield server, open_source


def records_of(server: Any) -> Any:
    return server.repository if isinstance(server, GithubServer) else server.project


def test_a_release_has_its_notes_its_assets_and_its_commit(host):
    server, open_source = host
    records, source = records_of(server), open_source()
    uri = records.release("Harbour", "- fixes #3 <!-- internal -->", tag="v1.2/rc")
    records.attach(uri, *(f"engine-{number}.zip" for number in range(101)))
    assert not isinstance(source, ApiSource)  # each refresh lists all, and sees what is gone
    found = read_one(source, uri)
    assert found.title == "Harbour (v1.2/rc)"
    assert found.text.startswith("# Harbour (v1.2/rc)\n\n- fixes #3\n\n## Assets\n\n- engine-0.zip")
    assert found.text.endswith("- engine-99.zip\n- and more")
    assert found.url and found.url.endswith(("/releases/tag/v1.2/rc", "/-/releases/v1.2%2Frc"))
    commit = found.metadata["commit"]
    [mention] = extract_metadata_mentions(
        found.metadata, DocumentContext("r", "releases", uri, "octo/engine")
    )
    assert (mention.name, found.metadata["status"]) == (f"commit:{commit[:7]}", "released")


def test_what_is_not_final_or_too_old_is_left_out(host):
    server, open_source = host
    records = records_of(server)
    for number in range(60):
        records.release(f"v{number}", tag=f"v{number}")
    records.release("soon", tag="soon", isPrerelease=True, upcomingRelease=True)
    records.release("secret", tag="draft", isDraft=True) if isinstance(server, GithubServer) else None
    listed = uris(open_source().discover())
    assert (len(listed), listed[0], listed[-1]) == (60, "release/v59", "release/v0")
    assert uris(open_source(state="all").discover()) == ["release/soon", *listed]
    assert uris(open_source(max_results=2).discover()) == ["release/v59", "release/v58"]
    since = records.records["release/v58"]["createdAt"]
    assert uris(open_source(since=since).discover()) == ["release/v59", "release/v58"]
    [item] = open_source(max_results=1).discover()
    before = len(server.requests)
    assert len(list(open_source().fetch_many([item]))) == 1
    pages = [request for request in server.requests[before:] if request.query]
    assert len(pages) == 1  # the list is read no further than to the last that is wanted


def test_every_change_makes_another_revision_and_what_is_gone_is_skipped(host):
    server, open_source = host
    records, source = records_of(server), open_source()
    uri = records.release("One", "notes")
    [first] = source.discover()
    records.attach(uri, "a.zip")
    [second] = source.discover()
    records.edit(uri, "other notes")
    [third] = source.discover()
    assert len({first.revision, second.revision, third.revision}) == 3
    records.delete(uri)
    [(_, gone)] = source.fetch_many([third])
    assert "deleted" in str(gone)
    server.fail_next(times=40, status=503)
    with pytest.raises(SourceUnavailable):
        read(source)


def test_releases_that_are_hidden_are_told(host):
    server, open_source = host
    records_of(server).release("One")
    server.answerer.disabled = {"releases"}
    server.answerer.unreadable = {"Repository.releases"}
    with pytest.raises(SourceRefused, match=r"releases of octo/core/engine|forbids the token to read this"):
        read(open_source())
