"""What the command line says of permissions that a source has, and of those that cannot be read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_pipeline.store.access import read_permissions_time
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.cli.conftest import Run
from knowledge_pipeline_tests.cli.test_watch import Watching
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.github.server import GithubServer


@pytest.fixture
def wiki(
    request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ConfluenceServer]:
    edition = getattr(request, "param", "cloud")
    with ConfluenceServer(edition.partition(" ")[0]) as server:
        server.has_space_permissions = edition == "server"
        monkeypatch.setenv("TEST_WIKI_TOKEN", server.token)
        server.group("everybody", "u-ada")
        server.create("Payments", "How a payment is retried.")
        secret = server.create("Layoffs", "Whom it concerns.")
        server.restrict(secret, "u-ada")
        config = home / "knowledge.yaml"
        email = f"email: {server.email}, " if server.email else ""
        identity = f'url: "{server.url}", {email}token: "${{TEST_WIKI_TOKEN}}"'
        config.write_text(
            config.read_text().replace("sources: []", "sources:")
            + f"""\
  - id: wiki
    type: confluence
    connection: {{type: confluence, {identity}}}
    access: {{visibility: from_source, tenant: acme, principals: [auditors]}}
"""
        )
        yield server


def test_the_test_of_a_source_says_of_how_many_documents_the_readers_are_known(wiki, run: Run):
    assert "Permissions: 2 of 2 documents have known readers." in run("sources", "test", "wiki").out
    told = run("sources", "test", "wiki", "--json").json
    assert told["permissions"] == {"documents": 2, "with_readers": 2, "problems": {}}
    assert told["listed"] == 2


def test_the_test_of_a_source_names_the_rights_that_are_missing(wiki, run: Run):
    wiki.forbid("/membersByGroupId")
    told = run("sources", "test", "wiki").out
    assert "members of group everybody are not shown (403)" in told
    assert "docs/sources/confluence.md" in told
    wiki.forbid("/permissions")
    failed = run("sources", "test", "wiki", code=1)
    assert "no document has permissions that can be read: permissions of space" in failed.err
    assert failed.err.count("\n") == 1


@pytest.mark.parametrize("wiki", ["server", "server before 9.1"], indirect=True)
def test_the_test_of_a_data_center_reads_its_spaces_or_says_how_to_declare_their_readers(wiki, run: Run):
    wiki.page_cap = 1
    assert "Permissions: 2 of 2 documents have known readers." in run("sources", "test", "wiki").out
    wiki.forbid("/permissions", 500 if wiki.has_space_permissions else 404)
    wiki.forbid("/confluenceservice-v2", 403)
    failed = run("sources", "test", "wiki", code=1)
    assert "permissions of space OPS are not shown" in failed.err
    assert "say who may read with access.visibility and access.principals" in failed.err
    assert failed.err.count("\n") == 1


@pytest.mark.parametrize("wiki", ["server"], indirect=True)
def test_the_test_of_a_source_says_that_a_listing_does_not_end(wiki, run: Run):
    wiki.ends = False
    failed = run("sources", "test", "wiki", code=4)
    assert "does not end a listing: nothing is deleted: try again later" in failed.err


def test_a_refresh_reports_who_cannot_be_known(wiki, run: Run):
    refreshed = run("refresh")
    assert "accounts without an e-mail see nothing: name them in access.mapping" in refreshed.out
    wiki.forbid("/permissions")
    again = run("refresh")
    assert "documents without readable permissions are closed 2" in again.out
    assert "are not shown (403)" in again.out
    found = run("search", "payment", "--json").json["results"]
    assert found, "an operator, who can read the files of the store, sees everything"


@pytest.fixture
def code_host(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GithubServer]:
    Repository(tmp_path / "served/octo/engine.git").write({"store.py": "def put(): ...\n"}).commit()
    with GithubServer(enterprise=True) as server:
        server.repositories = tmp_path / "served"
        server.repository.collaborate("ada")
        monkeypatch.setenv("TEST_HOST_TOKEN", server.token)
        config = home / "knowledge.yaml"
        connection = (
            f'{{type: github, repository: octo/engine, url: "{server.url}", token: "${{TEST_HOST_TOKEN}}"}}'
        )
        access = '{visibility: from_source, tenant: acme, mapping: {"*": "*@example.org"}}'
        config.write_text(
            config.read_text().replace("sources: []", "sources:")
            + f"""\
  - id: engine
    type: code
    connection: {connection}
    access: {access}
"""
        )
        yield server


def test_the_test_of_a_repository_says_whether_its_readers_are_known(code_host, run: Run):
    assert "Permissions: 1 of 1 document have known readers." in run("sources", "test", "engine").out
    code_host.forbidden["/collaborators"] = 403
    failed = run("sources", "test", "engine", code=1)
    assert "no document has permissions that can be read: collaborators are not shown: give" in failed.err
    assert failed.err.count("\n") == 1


def test_a_repository_whose_host_does_not_say_who_may_read_is_refused_in_one_sentence(home: Path, run: Run):
    config = home / "knowledge.yaml"
    access = "{visibility: from_source, tenant: acme}"
    source = (
        f"{{id: engine, type: code, connection: {{type: git, url: 'https://git.test/a'}}, access: {access}}}"
    )
    config.write_text(config.read_text().replace("sources: []", f"sources:\n  - {source}\n"))
    failed = run("refresh", code=2)
    assert "'from_source' is not read for type 'code' over connection.type 'git'" in failed.err
    assert "use connection.type github or gitlab" in failed.err


@pytest.mark.slow
def test_the_watcher_reads_permissions_of_what_it_does_not_refresh(wiki, home: Path, run: Run):
    run("refresh")
    audiences = Lake(home / ".knowledge").audiences("confluence", "wiki")
    before = read_permissions_time(audiences)
    program = Watching("--permissions", "1")
    try:
        wiki.person("u-ben", "Ben", "ben@example.org")
        wiki.group("everybody", "u-ada", "u-ben")
        deadline = time.monotonic() + 120
        while "ben@example.org" not in str(audiences.read_rows(["requires"]).to_pylist()):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        after = read_permissions_time(audiences)
        assert before and after and after > before
        wiki.fail_next(1000, status=401)
        told = program.next()
        assert told["source"] == "wiki (permissions)" and "does not accept the token" in told["error"]
        assert program.is_silent(4)  # the same once
    finally:
        program.stop()
