"""The members that Confluence, Jira, Slack and buckets list: all of them, or an exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from knowledge_pipeline.config.organisations import (
    AzureArchivesConnection,
    AzureFoldersConnection,
    ConfluenceSpacesConnection,
    GcsArchivesConnection,
    GcsFoldersConnection,
    JiraProjectsConnection,
    OrganisationMember,
    S3ArchivesConnection,
    S3FoldersConnection,
    SlackChannelsConnection,
    build_source_id,
)
from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.buckets import list_bucket_members
from knowledge_pipeline.connectors.confluence import members as confluence
from knowledge_pipeline.connectors.jira import members as jira
from knowledge_pipeline.connectors.slack import members as slack
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.fakes.bucket import azure_server, gcs_server, s3_server
from knowledge_pipeline_tests.fakes.bucket.azure_server import AzureServer
from knowledge_pipeline_tests.fakes.bucket.gcs_server import GcsServer
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.slack.server import SlackServer


@dataclass
class Listing:
    """A service with members on several pages, and how they are listed."""

    server: Any
    connection: Any
    list_members: Callable[..., Iterator[OrganisationMember]]
    names: list[str]  # of those that are there

    def list(self, **changed: Any) -> list[OrganisationMember]:
        return list(self.list_members(self.connection.model_copy(update=changed)))


def list_spaces(server: ConfluenceServer) -> Listing:
    shared = {name: getattr(server.connection, name) for name in ("url", "email", "token")}
    connection = ConfluenceSpacesConnection(type="confluence_spaces", **shared)
    for number in range(260 if server.edition == "cloud" else 110):
        server.space(f"S{number}", f"Space {number}", "archived" if number == 7 else "current")
    server.space("~ada", "Ada", type="personal")
    names = [key for key in server.site.spaces if not key.startswith("~")]
    return Listing(server, connection, confluence.list_members, names)


def list_projects(server: JiraServer) -> Listing:
    shared = {name: getattr(server.connection(), name) for name in ("url", "email", "token")}
    server.page_size = 7
    for number in range(20):
        server.site.add_project(f"P{number}", name=f"Project {number}", archived=number == 7)
    server.site.project_facts["P7"]["projectCategory"] = {"id": "1", "name": "Payments"}
    connection = JiraProjectsConnection(type="jira_projects", **shared)
    server.site.administered.add("P3")
    return Listing(
        server, connection, jira.list_members, [key for key in server.site.projects if key != "P3"]
    )


def list_channels(server: SlackServer) -> Listing:
    connection = SlackChannelsConnection(
        type="slack_channels", url=server.url, token=SecretStr(server.token), private=True
    )
    for number in range(1005):
        server.channel(f"team-{number}", is_archived=number == 7, is_member=number != 7)
    server.channel("secret", is_private=True)
    server.channel("not-for-us", is_private=True, is_member=False)
    server.channel("not-invited", is_member=False)
    names = [room.id for room in server.rooms.values() if room.is_member or room.is_archived]
    return Listing(server, connection, slack.list_members, names)


SHOWN = {
    "S7": ("Space 7", "/S7", True, ("global",)),
    "P7": ("Project 7", "/browse/P7", True, ("Payments",)),
    "C00008": ("team-7", "https://example.slack.com/archives/C00008", True, ()),
}
"""Title, end of the address, whether archived, topics."""


@pytest.fixture(autouse=True)
def no_waits() -> Iterator[None]:
    with pausing_by(lambda _: None):
        yield


@pytest.fixture(params=["cloud spaces", "server spaces", "cloud projects", "server projects", "channels"])
def listing(request: pytest.FixtureRequest) -> Iterator[Listing]:
    edition, _, what = request.param.partition(" ")
    if what == "spaces":
        with ConfluenceServer(edition) as server:
            yield list_spaces(server)
    elif what == "projects":
        with JiraServer(cloud=edition == "cloud") as server:
            yield list_projects(server)
    else:
        with SlackServer() as server:
            yield list_channels(server)


def test_a_listing_holds_every_member_or_raises(listing: Listing) -> None:
    server = listing.server
    server.fail_next(status=429, Retry_After="0.001")
    server.cut_off_next()
    shown = {member.name: member for member in listing.list()}
    assert sorted(shown) == sorted(listing.names)
    assert [member.name for member in shown.values() if member.archived] == list(SHOWN.keys() & shown.keys())
    for name in SHOWN.keys() & shown.keys():
        title, url, archived, topics = SHOWN[name]
        member = shown[name]
        assert (member.title, member.archived, member.topics) == (title, archived, topics)
        assert member.url.startswith("http") and member.url.endswith(url)
    for status in (401, 403):
        server.fail_next(status=status)
        with pytest.raises(SourceRefused):
            listing.list()
    server.limit(after=1, reset_s=3600)  # after the first page, or before it
    with pytest.raises(SourceUnavailable, match="limits our calls until"):
        listing.list()


def test_a_service_that_shows_nothing_is_refused(listing: Listing) -> None:
    """A token that lost its rights must not look as if everything were deleted."""
    server = listing.server
    site = server if isinstance(server, SlackServer) else server.site
    held = site.rooms if isinstance(server, SlackServer) else getattr(site, "spaces", None) or site.projects
    held.clear()
    with pytest.raises(SourceRefused, match=r"no (space|project) at all|in no channel"):
        listing.list()


def test_own_spaces_of_people_are_members_where_they_are_asked_for() -> None:
    with ConfluenceServer("server") as server:
        listing = list_spaces(server)
        assert {member.name for member in listing.list(personal=True)} == {*listing.names, "~ada"}


@pytest.mark.parametrize("changes", [1, 3])
def test_projects_that_come_and_go_between_pages_hide_no_other(changes: int) -> None:
    with JiraServer() as server:
        listing, projects = list_projects(server), server.site.projects
        firsts: list[int] = []

        def meanwhile(page: int) -> None:
            """Before the second page of a reading."""
            if page == (firsts[-1] + 1 if firsts else 2) and len(firsts) < changes:
                del projects[min(projects)]
                server.site.add_project(f"Z{page}")
                firsts.append(page + 1)

        server.before_page = meanwhile
        if changes == 1:
            assert {member.name for member in listing.list()} == set(projects) - {"P3"}
        else:
            with pytest.raises(SourceUnavailable, match="projects came or went while they were listed"):
                listing.list()


def test_private_channels_are_members_where_they_are_asked_for() -> None:
    with SlackServer() as server:
        listing = list_channels(server)
        private = {room.id for room in server.rooms.values() if room.is_private}
        server.scopes.discard("groups:read")
        assert {member.name for member in listing.list(private=False)} == set(listing.names) - private
        with pytest.raises(SourceRefused, match="lacks the scope groups:read"):
            listing.list()


@pytest.mark.parametrize("service", ["s3", "gcs", "azure"])
def test_folders_below_a_prefix_are_members_by_their_prefix(
    service: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")  # a page
    with ExitStack() as stack:
        server: Any = {
            "s3": lambda: request.getfixturevalue("s3"),
            "gcs": lambda: stack.enter_context(GcsServer(tmp_path, page_size=3)),
            "azure": lambda: stack.enter_context(AzureServer(page_size=3)),
        }[service]()
        folders = ["top/deep/", "top/plain/", *(f"top/team {number}+é/" for number in range(10))]
        server.create_many(*(f"{each}{file}" for each in folders for file in ("a/b.md", "c.md")))
        archives = ["top/a.zip", "top/deep/er/b.TAR.gz", "top/plain/c.tgz", "top/d.tar"]
        server.create_many(
            *archives, "top/", "top/loose.md", "top//nameless.md", "topmost/x.zip", "elsewhere/y.md"
        )
        kind, name = {
            "s3": (S3FoldersConnection, "s3_folders"),
            "gcs": (GcsFoldersConnection, "gcs_folders"),
            "azure": (AzureFoldersConnection, "azure_folders"),
        }[service]
        connection = kind.model_validate({**dict(server.connection), "type": name, "prefix": "top"})
        fault = {"s3": s3_server, "gcs": gcs_server, "azure": azure_server}[service].Fault(503)
        server.fail_next(fault, fault)
        members = list(list_bucket_members(connection))
        assert sorted(member.name for member in members) == folders
        assert {member.title for member in members} == {each[4:-1] for each in folders}
        assert build_source_id("acme", connection, "top/plain/", "files") == "acme-plain-files"
        empty = connection.model_copy(update={"prefix": "elsewhere"})
        with pytest.raises(SourceRefused, match=r"holds no folder: correct connection\.prefix"):
            list(list_bucket_members(empty))

        kind, name = {
            "s3": (S3ArchivesConnection, "s3_archives"),
            "gcs": (GcsArchivesConnection, "gcs_archives"),
            "azure": (AzureArchivesConnection, "azure_archives"),
        }[service]
        packed: Any = kind.model_validate({**dict(connection), "type": name})
        assert sorted(member.name for member in list_bucket_members(packed)) == sorted(archives)
        place = packed.connect("top/a.zip").object
        assert (place.type, place.prefix) == (service, "top/a.zip")
        ids = [
            build_source_id("acme", packed, each, "code") for each in ("top/a.zip", "top/a.tgz", "top/a/.zip")
        ]
        assert ids[0] == "acme-a-code" and len(set(ids)) == 3
        assert packed.location != connection.location, "a listing of the folders is none of the archives"
        with pytest.raises(SourceRefused, match=r"holds no archive .*: correct connection\.prefix"):
            list(list_bucket_members(packed.model_copy(update={"prefix": "elsewhere"})))
