"""Members appear and vanish on evidence only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.stages.organisations import Discovery, discover, select_organisations
from knowledge_pipeline_tests.fakes.github.server import GithubServer


class Organisation:
    """What is declared of an organisation of a fake GitHub, and what discovering makes of it."""

    def __init__(self, folder: Path, server: GithubServer, extra: str = "") -> None:
        self.server, self.path = server, folder / "knowledge.yaml"
        connection = (
            f"{{type: github_organisation, organisation: acme, url: {server.url}, token: '${{TOKEN}}'}}"
        )
        self.path.write_text(
            f"organisations:\n- id: acme\n  connection: {connection}\n  sources: [{{type: code}}]\n{extra}"
        )

    def have(self, *names: str) -> None:
        self.server.answerer.owners.clear()
        self.server.answerer.own("acme", *names)

    def discover(self, **options: Any) -> Discovery:
        settings = load_settings(self.path)
        [organisation] = select_organisations(settings, ["acme"])
        with pausing_by(lambda wait_s: None):
            return discover(settings, organisation, **options)

    def names(self) -> str:
        """The members by the ids of their sources."""
        ids = [source.id for source in load_settings(self.path).sources]
        return " ".join(each.removeprefix("acme-").removesuffix("-code") for each in ids)


@pytest.fixture(scope="module")
def server() -> Iterator[GithubServer]:
    with GithubServer() as server:
        yield server


@pytest.fixture
def organisation(
    tmp_path: Path, server: GithubServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Organisation]:
    monkeypatch.setenv("TOKEN", server.token)
    yield Organisation(tmp_path, server)
    server.before_answer = lambda variables: None
    server.faults.clear()


def test_members_come_and_go_with_complete_listings(organisation: Organisation) -> None:
    organisation.have("a", "b", "c")
    assert organisation.discover().added == ("acme/a", "acme/b", "acme/c")
    organisation.have("b", "c", "d")
    found = organisation.discover()
    assert (found.added, found.removed, found.selected) == (("acme/d",), ("acme/a",), 3)
    assert organisation.names() == "b c d"
    with pytest.raises(NotFound, match="no organisation 'other'; declared: acme"):
        select_organisations(load_settings(organisation.path), ["other"])


def test_a_failing_listing_changes_nothing_and_is_told(organisation: Organisation) -> None:
    server = organisation.server
    server.fail_next(20, status=503)
    found = organisation.discover()
    assert "answered 503" in found.problem and (found.listed, organisation.names()) == (0, "")
    assert load_settings(organisation.path).unlisted_organisations == ("acme",)
    server.faults.clear()
    organisation.have("a", "b")
    organisation.discover()
    organisation.have("b")
    server.fail_next(20, status=503)
    assert "organisation 'acme': GitHub at 127.0.0.1" in organisation.discover().problem
    assert organisation.names() == "a b"
    server.faults.clear()
    assert organisation.discover().problem == "" and organisation.names() == "b"


def test_who_is_missing_from_one_listing_alone_stays(organisation: Organisation) -> None:
    organisation.have("a", "b", "c")
    organisation.discover()
    organisation.have("a", "b")  # as where the pages of a list shift while it is read
    owner, answers = organisation.server.answerer.owners["acme"], iter([[], ["c"]])

    def add(variables: Any) -> None:
        for name in next(answers, []):
            organisation.server.answerer.own("acme", name)

    organisation.server.before_answer = add
    found = organisation.discover()
    assert len(owner["repositories"]) == 3
    assert (found.removed, organisation.names()) == ((), "a b c")


def test_a_listing_that_lacks_most_members_needs_a_person(organisation: Organisation) -> None:
    organisation.have("a", "b", "c")
    organisation.discover()
    for rest in ((), ("a",)):  # as a revoked App, and one that is installed for other repositories
        organisation.have(*rest)
        found = organisation.discover()
        assert f"lacks {3 - len(rest)} of 3 known members" in found.problem
        assert organisation.names() == "a b c"
    assert organisation.discover(accept_removals=True).removed == ("acme/b", "acme/c")
    assert organisation.names() == "a"


def test_more_members_than_allowed_are_an_error(tmp_path: Path, organisation: Organisation) -> None:
    organisation.have("a", "b", "c")
    organisation.path.write_text(f"{organisation.path.read_text()}  max_members: 2\n")
    assert "more than 2 members: raise max_members" in organisation.discover().problem
