"""Who may read a channel, as a small Slack tells it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.permissions import Permissions
from knowledge_pipeline.connectors.slack.permissions import read_channel_permissions
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.fakes.slack import server as slack_server
from knowledge_pipeline_tests.fakes.slack.server import SlackServer


@pytest.fixture
def server() -> Iterator[SlackServer]:
    with SlackServer() as server, pausing_by(lambda _: None):
        server.scopes.add("users:read.email")
        server.person("U0CYD", "Cyd", email="cyd@example.org")
        server.person("U0GUS", "Gus", email="gus@example.com", is_restricted=True)
        yield server


def read(server: SlackServer, *uris: str) -> Permissions:
    return read_channel_permissions(server.connection, uris)


def accounts(permissions: Permissions, channel: str) -> set[str]:
    [readers] = permissions.audiences[channel]
    return {member.account for member in readers}


def test_a_private_channel_is_for_its_members(server):
    room = server.channel("board", is_private=True)
    server.join(room, "U0ADA", "U0GUS")
    thread = server.create("Plan", "secret", room)
    found = read(server, thread, f"day/{room}/2026-03-01")
    assert found.audience_by_uri == {thread: room, f"day/{room}/2026-03-01": room}
    assert accounts(found, room) == {"U0ADA", "U0GUS"}


def test_a_public_channel_is_for_the_workspace_but_for_guests_who_are_not_in_it(server):
    other = server.channel("random")
    server.join(other, "U0GUS")
    found = read(server, server.create("Here"), server.create("There", channel=other))
    assert accounts(found, "C00000") == {"U0ADA", "U0BOB", "U0CYD"}
    assert accounts(found, other) == {"U0ADA", "U0BOB", "U0CYD", "U0GUS"}


def test_people_have_their_addresses(server):
    [readers] = read(server, server.create("Here")).audiences["C00000"]
    assert {member.account: member.email for member in readers}["U0CYD"] == "cyd@example.org"


def test_deactivated_accounts_and_bots_are_nobody(server):
    server.people["U0CYD"]["deleted"] = True
    server.people["U0BOB"]["is_bot"] = True
    room = server.channel("board", is_private=True)
    server.join(room, "U0CYD", "U0BOB", "U0ADA")
    found = read(server, server.create("Plan", channel=room), server.create("Open"))
    assert accounts(found, room) == accounts(found, "C00000") == {"U0ADA"}


def test_somebody_of_another_workspace_is_looked_up(server):
    server.person("U0EXT", "Eve", stranger=True, email="eve@example.net")
    room = server.channel("shared", is_private=True)
    server.join(room, "U0EXT", "U0ADA", "U0GONE")
    assert accounts(read(server, server.create("Plan", channel=room)), room) == {"U0EXT", "U0ADA"}


def test_long_lists_of_members_are_read_to_their_end(server):
    room = server.channel("crowd", is_private=True)
    many = [f"U{number:05d}" for number in range(2300)]
    for account in many:
        server.person(account, account)
    server.join(room, *many)
    assert accounts(read(server, server.create("Plan", channel=room)), room) == set(many)


def test_a_list_of_members_that_goes_in_circles_is_not_followed_for_ever(server, monkeypatch):
    room = server.channel("crowd", is_private=True)
    server.join(room, *(f"U{number:05d}" for number in range(3)))
    uri = server.create("Plan", channel=room)
    cursors = itertools.cycle(("one", "two"))

    def circle(ids: list[str], kind: str, parameters: dict[str, str]):
        return ids, {"response_metadata": {"next_cursor": next(cursors) if kind == "member" else ""}}

    monkeypatch.setattr(slack_server, "_page", circle)
    with pytest.raises(SourceUnavailable, match="does not end a list of members"):
        read(server, uri)


def test_a_channel_that_the_bot_has_left_is_closed_and_the_reason_said(server):
    room = server.channel("board", is_private=True)
    uri = server.create("Plan", channel=room)
    server.rooms[room].is_member = False
    here = server.create("Here")
    found = read(server, uri, here)
    assert set(found.audience_by_uri) == {here}
    assert any(room in reason and "channel_not_found" in reason for reason in found.problems)


def test_without_the_scope_nothing_is_open_and_the_scope_is_named(server):
    server.scopes -= {"users:read"}
    found = read(server, server.create("Here"))
    assert found.audience_by_uri == {}
    assert any("users:read" in reason for reason in found.problems)


def test_without_the_scope_for_addresses_people_have_none(server):
    server.scopes -= {"users:read.email"}
    [readers] = read(server, server.create("Here")).audiences["C00000"]
    assert {member.email for member in readers} == {None}


def test_a_revoked_token_is_an_error_not_a_permission(server):
    uri = server.create("Here")
    server.token_state = "token_revoked"
    with pytest.raises(SourceRefused):
        read(server, uri)


def test_a_workspace_that_does_not_answer_is_an_error_not_a_permission(server):
    uri = server.create("Here")
    server.fail_next(30, status=503)
    with pytest.raises(SourceUnavailable):
        read(server, uri)
