"""Who may read a ticket, as a small Jira, Cloud and Server, tells it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge_pipeline.connectors.jira.permissions import read_ticket_permissions
from knowledge_pipeline.connectors.jira.query import TicketCriteria
from knowledge_pipeline.connectors.permissions import Permissions
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.fakes.jira.server import JiraServer


@pytest.fixture(params=[True, False], ids=["cloud", "server"])
def server(request) -> Iterator[JiraServer]:
    with JiraServer(cloud=request.param) as server:
        server.site.emails = {name: f"{name.lower()}@example.org" for name in ("Ada", "Ben", "Cyd")}
        yield server


def read(server: JiraServer, *uris: str, **criteria) -> Permissions:
    return read_ticket_permissions(server.connection(), TicketCriteria(**criteria), uris)


def emails(permissions: Permissions, uri: str) -> set[str | None]:
    """The addresses of people who are in each requirement of a ticket's audience."""
    requires = permissions.audiences[permissions.audience_by_uri[uri]]
    return set.intersection(*({each.email for each in one if not each.is_group} for one in requires))


def accounts(permissions: Permissions, uri: str) -> set[str]:
    [readers] = permissions.audiences[permissions.audience_by_uri[uri]]
    return {member.account for member in readers}


def test_tickets_are_for_whom_their_project_lets_browse(server):
    server.site.browse("Ada", "group:devs", "role:10002")
    server.site.groups["devs"] = ["Ben"]
    server.site.roles["10002"] = ["Cyd", "group:guests"]
    one, two = server.create("One", ""), server.create("Two", "")
    found = read(server, one, two)
    assert found.audience_by_uri == {one: "project/PROJ", two: "project/PROJ"}
    assert emails(found, one) == {"ada@example.org", "ben@example.org", "cyd@example.org"}
    assert {"group:devs", "group:guests"} <= accounts(found, one)
    assert found.problems == {}


def test_projects_differ(server):
    server.site.browse("Ada")
    server.site.browse("Ben", project="OTHER")
    one, other = server.create("One", ""), server.site.create("Other", project="OTHER")
    found = read(server, one, other)
    assert (emails(found, one), emails(found, other)) == ({"ada@example.org"}, {"ben@example.org"})


def test_anyone_is_everybody_and_users_of_an_application_are_a_group(server):
    server.site.browse("anyone", "applicationRole:jira-software")
    uri = server.create("One", "")
    assert accounts(read(server, uri), uri) == {"*", "group:application:jira-software"}


def test_the_lead_of_a_project_may_read(server):
    server.site.browse("projectLead")
    uri = server.create("One", "")
    assert accounts(read(server, uri), uri) == {server.site.account("The Lead")}


def test_deactivated_accounts_are_nobody(server):
    server.site.inactive = {"Ada", "Ben"}
    server.site.groups["devs"] = ["Ben", "Cyd"]
    server.site.browse("Ada", "group:devs")
    uri = server.create("One", "")
    assert emails(read(server, uri), uri) == {"cyd@example.org"}


def test_a_security_level_narrows_who_reads(server):
    server.site.browse("Ada", "Ben")
    server.site.levels = {"5": [server.site.holder("Ben"), server.site.holder("Cyd")]}
    opened, kept = server.create("Open", ""), server.create("Kept", "")
    server.site.change(kept, security={"id": "5", "name": "Management"})
    found = read(server, opened, kept)
    assert emails(found, opened) == {"ada@example.org", "ben@example.org"}
    assert emails(found, kept) == {"ben@example.org"}
    assert found.problems == {}


def test_a_level_of_a_role_is_that_of_the_tickets_project(server):
    server.site.roles["1"] = ["Ada"]
    server.site.browse("Ada", "Ben")
    server.site.levels = {"5": [server.site.holder("role:1")]}
    kept = server.create("Kept", "")
    server.site.change(kept, security={"id": "5"})
    assert emails(read(server, kept), kept) == {"ada@example.org"}


def test_a_level_of_groups_and_roles_lets_in_their_members_but_nobody_who_is_inactive(server):
    server.site.groups |= {"chiefs": ["Ada", "Cyd"], "guests": ["Ben"]}
    server.site.roles["1"] = ["group:guests"]
    server.site.inactive = {"Cyd"}
    server.site.browse("anyone")
    server.site.levels = {"5": [server.site.holder("group:chiefs"), server.site.holder("role:1")]}
    kept = server.create("Kept", "")
    server.site.change(kept, security={"id": "5"})
    assert {"ada@example.org", "ben@example.org"} == emails_of_level(read(server, kept), kept)


def emails_of_level(permissions: Permissions, uri: str) -> set[str | None]:
    """Addresses in the last requirement, which is the level's; where there is one, it is both."""
    return {each.email for each in permissions.audiences[permissions.audience_by_uri[uri]][-1] if each.email}


def test_who_is_let_in_by_one_ticket_is_not_by_another_of_the_same_level(server):
    """A level may have the reporter: on Server, where that is taken in, of each ticket its own."""
    server.site.browse("Ada", "Ben")
    server.site.levels = {"5": [server.site.holder("reporter"), server.site.holder("Cyd")]}
    tickets = [server.site.create(name, reporter=name, security={"id": "5"}) for name in ("Ada", "Ben")]
    found = read(server, *tickets)
    if server.site.cloud:
        assert [emails(found, each) for each in tickets] == [set(), set()]
    else:
        assert [emails(found, each) for each in tickets] == [{"ada@example.org"}, {"ben@example.org"}]


def test_people_who_may_view_a_ticket_are_read_to_their_end(server):
    crowd = [f"Person {number}" for number in range(1_001)]
    server.site.groups["crowd"] = crowd
    server.site.emails |= {name: f"{name[7:]}@example.org" for name in crowd}
    server.site.browse("group:crowd")
    server.site.levels = {"5": [server.site.holder("group:crowd")]}
    kept = server.create("Kept", "")
    server.site.change(kept, security={"id": "5"})
    assert len(emails(read(server, kept), kept)) == 1_001


def test_a_limit_is_waited_for(server):
    server.site.browse("Ada")
    server.site.levels = {"5": [server.site.holder("Ada")]}
    kept = server.create("Kept", "")
    server.site.change(kept, security={"id": "5"})
    server.fail_next(1, status=429)
    assert emails(read(server, kept), kept) == {"ada@example.org"}


def test_a_server_that_hides_people_closes_its_tickets_with_a_level(server):
    server.site.browse("Ada")
    server.site.levels = {"5": []}
    opened, kept = server.create("Open", ""), server.create("Kept", "")
    server.site.change(kept, security={"id": "5"})
    found = read(server, opened, kept)
    assert emails(found, opened) == {"ada@example.org"}
    if server.site.cloud:
        assert emails(found, kept) == set()
    else:
        assert found.count_closed([opened, kept]) == 1
        assert any("is not shown: give our account" in problem for problem in found.problems)


def test_members_of_a_group_are_read_to_their_end(server):
    server.site.groups["crowd"] = [f"Person {number}" for number in range(120)]
    server.site.emails |= {name: f"{name[7:]}@example.org" for name in server.site.groups["crowd"]}
    server.site.browse("group:crowd")
    uri = server.create("One", "")
    assert len(accounts(read(server, uri), uri) - {"group:crowd"}) == 120


def test_viewers_of_a_server_that_gives_fewer_than_asked_for_are_read_to_their_end(server):
    crowd = [f"Person {number}" for number in range(60)]
    server.site.groups["crowd"] = crowd
    server.site.emails |= {name: f"{name[7:]}@example.org" for name in crowd}
    server.site.browse("group:crowd")
    server.site.levels = {"5": [server.site.holder("group:crowd")]}
    uri = server.site.create("Kept", security={"id": "5"})
    server.page_size = 25
    assert emails(read(server, uri), uri) >= {f"{number}@example.org" for number in range(60)}


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize("end", ["/permissionscheme", "/role/7"])
def test_permissions_that_are_not_shown_close_the_project_and_say_why(server, end, status):
    server.site.browse("role:7")
    server.site.roles["7"] = ["Ada"]
    server.site.browse("Ben", project="OTHER")
    one, two, other = server.create("1", ""), server.create("2", ""), server.site.create("3", project="OTHER")
    server.site.forbidden[end] = status
    if end == "/permissionscheme":
        server.site.forbidden = {"project/PROJ/permissionscheme": status}
    found = read(server, one, two, other)
    assert set(found.audience_by_uri) == {other}
    assert [(count, f"({status})" in problem) for problem, count in found.problems.items()] == [(2, True)]


def test_levels_that_are_not_shown_close_their_tickets_alone(server):
    server.site.browse("Ada")
    server.site.levels = {"5": [server.site.holder("Ada")]}
    opened, kept = server.create("Open", ""), server.create("Kept", "")
    server.site.change(kept, security={"id": "5"})
    server.site.forbidden |= {"/members": 403, "/viewissue/search": 403}
    found = read(server, opened, kept)
    assert set(found.audience_by_uri) == {opened}
    assert sum(found.problems.values()) == 1


def test_viewers_that_are_refused_are_asked_for_once(server):
    server.site.levels = {"5": []}
    server.site.browse("Ada")
    kept = [server.site.create(f"Kept {number}", security={"id": "5"}) for number in range(3)]
    server.site.forbidden |= {"/members": 403, "/viewissue/search": 403}
    assert read(server, *kept).count_closed(kept) == 3
    asked = [each.path for each in server.requests if each.status == 403]
    assert len(asked) == 1


def test_a_ticket_that_is_deleted_meanwhile_closes_itself_alone(server, monkeypatch):
    server.site.levels = {"5": [server.site.holder("Ada")]}
    server.site.browse("Ada")
    one, other = (server.site.create(f"Kept {number}", security={"id": "5"}) for number in range(2))
    route = server.route

    def forget(method, path, asked):
        is_gone = asked.get("issueKey") == "PROJ-1"
        return (404, {"errorMessages": ["gone"]}) if is_gone else route(method, path, asked)

    monkeypatch.setattr(server, "route", forget)
    found = read(server, one, other)
    assert emails(found, other) == {"ada@example.org"}
    assert found.count_closed([one]) == (0 if server.site.cloud else 1)


def test_tickets_that_do_not_tell_their_level_are_closed_where_the_project_has_levels(server, monkeypatch):
    server.site.browse("Ada")
    uri = server.create("One", "")
    assert uri in read(server, uri).audience_by_uri, "a project without a scheme has no levels"
    server.site.levels = {"5": []}
    shown = server.site.shown

    def without_security(ticket, fields, comments):
        return shown(ticket, [name for name in fields if name != "security"], comments)

    monkeypatch.setattr(server.site, "shown", without_security)
    found = read(server, uri)
    assert found.audience_by_uri == {}
    assert any("security levels" in problem for problem in found.problems)


def test_a_group_whose_members_are_not_shown_counts_by_its_name_alone(server):
    server.site.browse("group:devs")
    server.site.groups["devs"] = ["Ben"]
    server.site.forbidden["group/member"] = 403
    uri = server.create("One", "")
    found = read(server, uri)
    assert accounts(found, uri) == {"group:devs"}
    assert any("members of group devs" in problem for problem in found.problems)


def test_permissions_by_ticket_are_not_taken_in_and_that_is_said(server):
    server.site.browse("reporter", "Ada")
    uri = server.create("One", "")
    found = read(server, uri)
    assert emails(found, uri) == {"ada@example.org"}
    assert any("by reporter" in problem for problem in found.problems)


def test_a_ticket_that_left_the_filters_has_no_readers(server):
    server.site.browse("Ada")
    uri = server.create("One", "")
    assert read(server, uri, statuses=("Done",)).audience_by_uri == {}


def test_a_token_that_is_refused_is_an_error_not_a_permission(server):
    uri = server.create("One", "")
    with pytest.raises(SourceRefused):
        read_ticket_permissions(server.connection(token="another"), TicketCriteria(), [uri])


def test_jira_that_does_not_answer_is_an_error_not_a_permission(server):
    uri = server.create("One", "")
    server.fail_next(30, status=503)
    with pytest.raises(SourceUnavailable):
        read(server, uri)
