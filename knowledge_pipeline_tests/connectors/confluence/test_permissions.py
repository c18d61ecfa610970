"""Who may read a page, as both editions of a small Confluence tell it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge_pipeline.connectors import http_retry
from knowledge_pipeline.connectors.confluence.permissions import read_page_permissions
from knowledge_pipeline.connectors.permissions import Permissions
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer


@pytest.fixture(params=["cloud", "server", "server before 9.1"])
def server(request, monkeypatch) -> Iterator[ConfluenceServer]:
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)
    monkeypatch.setattr(http_retry, "_MAX_BACKOFF_S", 0.002)
    with ConfluenceServer(request.param.partition(" ")[0]) as server:
        server.has_space_permissions = request.param == "server"
        for name in ("ada", "ben", "cyd"):
            server.person(name, name.title(), f"{name}@example.org")
        server.group("everybody", "ada", "ben", "cyd")
        yield server


def read(server: ConfluenceServer, *uris: str) -> Permissions:
    return read_page_permissions(server.connection, uris)


def readers_of(permissions: Permissions, uri: str) -> set[str]:
    """The accounts of people who are in each requirement of a document's audience."""
    requires = permissions.audiences[permissions.audience_by_uri[uri]]
    return set.intersection(*({each.account for each in one if not each.is_group} for one in requires))


def test_pages_of_a_space_have_its_readers_in_one_audience(server):
    first, second = server.create("One"), server.create("Two")
    found = read(server, first, second)
    assert found.audience_by_uri[first] == found.audience_by_uri[second]
    assert readers_of(found, first) == {"ada", "ben", "cyd"}
    accounts = {member.account for one in found.audiences.popitem()[1] for member in one}
    assert "group:everybody" in accounts
    assert "administrator" not in accounts
    assert found.problems == {}


def test_a_restriction_holds_for_all_that_is_below_the_page(server):
    top = server.create("Top")
    middle = server.create("Middle", under=top)
    leaf = server.create("Leaf", under=middle)
    server.restrict(top, "ada", "ben")
    server.restrict(leaf, "ben", "cyd")
    found = read(server, top, middle, leaf)
    assert [readers_of(found, uri) for uri in (top, middle, leaf)] == [
        {"ada", "ben"},
        {"ada", "ben"},
        {"ben"},
    ]
    assert found.audience_by_uri[middle] == found.audience_by_uri[top]


def test_a_restriction_of_a_folder_or_of_a_page_that_is_not_indexed_holds_too(server):
    above = server.folder("Folder") if server.edition == "cloud" else server.create("Unread")
    page = server.create("Page", under=above)
    server.restrict(above, "cyd")
    assert readers_of(read(server, page), page) == {"cyd"}
    if server.edition == "cloud":
        board = server.create("Board", kind="whiteboard", under=above)
        server.restrict(board, "ada", "cyd")
        assert readers_of(read(server, board, page), board) == {"cyd"}


def test_a_page_that_the_search_does_not_know_yet_has_its_restriction(server):
    page = server.create("New")
    server.restrict(page, "ada")
    server.forget(page)
    assert readers_of(read(server, page), page) == {"ada"}


def test_groups_count_by_name_and_by_their_members(server):
    page = server.create("Page")
    server.group("night shift", "ben")
    server.restrict(page, "ada", "group:night shift")
    found = read(server, page)
    assert readers_of(found, page) == {"ada", "ben"}
    assert "group:night shift" in {
        member.account for member in found.audiences[found.audience_by_uri[page]][1]
    }


def test_lists_longer_than_an_answer_are_read_to_their_end(server):
    server.site.list_size = 2
    many = [f"p{number}" for number in range(7)]
    server.group("crowd", *many)
    one, other = server.create("One"), server.create("Other")
    server.restrict(one, *many)
    server.restrict(other, "group:crowd")
    server.admit("OPS", *many, "group:everybody")
    server.site.spaces["OPS"].readers = ["group:crowd", "group:everybody"]
    found = read(server, one, other)
    assert readers_of(found, one) == readers_of(found, other) == set(many)


def test_an_address_is_known_where_the_site_shows_it(server):
    page = server.create("Page")
    server.admit("OPS", "ada", "ben")
    server.site.emails.pop("ben")
    [requires] = [read(server, page).audiences[name] for name in read(server, page).audiences]
    emails = {member.account: member.email for member in requires[0]}
    shown = "ada@example.org" if server.edition == "cloud" else None
    assert emails == {"ada": shown, "ben": None}


def test_a_space_for_anonymous_callers_is_for_everybody(server):
    page = server.create("Page")
    server.admit("OPS", "*", "ada")
    [requires] = read(server, page).audiences.values()
    assert "*" in {member.account for member in requires[0]}


@pytest.mark.parametrize("status", [403, 404])
def test_permissions_that_are_not_shown_close_the_pages_and_say_why(server, status):
    page, space = server.create("Page"), server.site.spaces["OPS"]
    server.forbid(f"/{space.id}/permissions" if server.edition == "cloud" else "/OPS/permissions", status)
    server.forbid("/confluenceservice-v2", status)
    found = read(server, page)
    assert found.audience_by_uri == {}
    assert [
        reason for reason in found.problems if f"permissions of space {place(server)} are not shown" in reason
    ]


@pytest.mark.parametrize("server", ["server", "server before 9.1"], indirect=True)
def test_a_data_center_that_fails_in_place_of_refusing_closes_the_pages_at_once(server):
    page = server.create("Page")
    server.forbid("/OPS/permissions" if server.has_space_permissions else "/confluenceservice-v2", 500)
    found = read(server, page)
    assert found.audience_by_uri == {}
    [problem] = found.problems
    assert problem == (
        "permissions of space OPS are not shown (500): let the owner of connection.token administer it and, "
        "before Confluence 9.1, switch on its Remote API; or say who may read with access.visibility and "
        "access.principals"
    )
    asked = [each.path for each in server.requests if each.status == 500]
    assert len(asked) == 1, "tried once"


@pytest.mark.parametrize("server", ["server"], indirect=True)
def test_people_of_a_space_that_are_not_shown_and_anybody_else_are_left_out_with_a_note(server):
    page = server.create("Page")
    server.admit("OPS", "ada", "gone", "*")
    server.forbid("/permissions/anonymous", 500)
    found = read(server, page)
    assert readers_of(found, page) == {"ada"}
    assert found.problems == {
        "people of a space are not shown: let connection.token view profiles": 1,
        "whether anybody may view space OPS is not shown (500)": 1,
    }


def test_readers_whose_last_ones_come_again_are_read_once(server):
    server.site.list_size, server.site.repeats_last = 2, True
    server.group("crowd", *(f"p{number}" for number in range(5)))
    page = server.create("Page")
    server.admit("OPS", "ada", "group:crowd")
    server.restrict(page, "ada", "ben", "cyd", "p1", "p2", "group:crowd")
    found = read(server, page)
    assert readers_of(found, page) == {"ada", "p0", "p1", "p2", "p3", "p4"}


def place(server: ConfluenceServer) -> str:
    return server.site.spaces["OPS"].id if server.edition == "cloud" else "OPS"


@pytest.mark.parametrize("status", [403, 404])
def test_a_restriction_that_is_not_shown_closes_what_is_below_it_alone(server, status):
    above, beside = server.create("Above"), server.create("Beside")
    page = server.create("Page", under=above)
    server.forget(above)
    server.forbid(f"{above.partition('/')[2]}/restriction/byOperation/read", status)
    found = read(server, above, beside, page)
    assert set(found.audience_by_uri) == {beside}
    assert sum(found.problems.values()) == 2


def test_a_group_whose_members_are_not_shown_counts_by_its_name_alone(server):
    page = server.create("Page")
    server.forbid("/membersByGroupId" if server.edition == "cloud" else "/member")
    found = read(server, page)
    assert readers_of(found, page) == set()
    [requires] = found.audiences.values()
    assert {member.account for member in requires[0]} == {"group:everybody"}
    assert [reason for reason in found.problems if "members of group everybody" in reason]


def test_a_deleted_page_has_no_reader(server):
    page = server.create("Page")
    server.delete(page)
    assert read(server, page).audience_by_uri == {}


def test_a_site_that_does_not_answer_is_an_error_not_a_permission(server):
    page = server.create("Page")
    server.fail_next(30, status=503)
    with pytest.raises(SourceUnavailable):
        read(server, page)


def test_a_token_that_is_refused_is_an_error_not_a_permission(server):
    page = server.create("Page")
    server.token = "another"
    connection = server.connection
    server.token = "changed"
    with pytest.raises(SourceRefused):
        read_page_permissions(connection, [page])
