"""The fake Jira speaks as the client library expects, called the way its users call it."""

from __future__ import annotations

import warnings

import pytest
from jira import JIRA, JIRAError

from knowledge_pipeline_tests.fakes.jira.server import JiraServer


@pytest.fixture(params=[True, False], ids=["cloud", "server"])
def server(request):
    with JiraServer(cloud=request.param) as server:
        yield server


def client(server: JiraServer, token: str | None = None) -> JIRA:
    options = {"server": server.url, "rest_api_version": "3" if server.site.cloud else "2"}
    token = token or server.token
    who = {"basic_auth": (server.email, token)} if server.site.cloud else {"token_auth": token}
    return JIRA(options=options, max_retries=0, **who)


def test_the_library_finds_every_ticket_by_its_own_paging(server):
    server.page_size = 7
    for number in range(20):
        server.create(f"Ticket {number}", "x")
    jql = "project = PROJ ORDER BY created ASC"
    found = client(server).search_issues(jql, maxResults=False, use_post=True)
    assert [issue.key for issue in found] == [f"PROJ-{number}" for number in range(1, 21)]
    assert found[0].fields.summary == "Ticket 0" and found[0].fields.status.name == "To Do"


def test_the_library_reads_a_ticket_its_comments_and_the_site(server):
    uri = server.create("A ticket", "x")
    server.site.comment(uri, "said")
    jira = client(server)
    issue = jira.issue("PROJ-1")
    assert issue.id == "10001" and issue.fields.project.key == "PROJ"
    assert [comment.author.displayName for comment in jira.comments("10001")] == ["Grace Hopper"]
    assert jira.myself()["timeZone"] == "Europe/Berlin"
    assert {field["name"] for field in jira.fields()} >= {"Sprint", "Team"}
    assert jira.project("PROJ").key == "PROJ"


def test_refusals_are_those_that_the_library_reads(server):
    with pytest.raises(JIRAError) as raised:
        client(server).issue("PROJ-9")
    assert raised.value.status_code == 404 and "does not exist" in raised.value.text
    with pytest.raises(JIRAError) as raised:
        client(server, token="wrong").myself()
    assert raised.value.status_code == 401


def test_the_search_that_cloud_gave_up_is_gone():
    with JiraServer(cloud=True) as server, pytest.raises(JIRAError) as raised:
        jira = client(server)
        jira.deploymentType = "Server"  # as a client from before 2025 would ask
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jira.search_issues("project = PROJ")
    assert raised.value.status_code == 410


@pytest.mark.parametrize(
    ("jql", "found"),
    [
        ("project = PROJ and status = 'To Do'", [1, 2, 3]),
        ("status != 'To Do' or labels in (a, 'b')", [2]),
        ("not (labels is empty) order by key desc", [2]),
        ("labels is not EMPTY", [2]),
        ("id in (10001, 10003) order by key desc", [3, 1]),
        ("labels not in (a) and summary ~ 'Ticket'", [1, 3]),
    ],
)
def test_queries_find_what_they_say(server, jql, found):
    uris = [server.create(f"Ticket {number}", "x") for number in range(3)]
    server.site.change(uris[1], labels=["a"])
    ordered = jql if "order by" in jql else f"{jql} order by created"
    keys = [ticket["key"] for ticket in server.site.found(ordered)]
    assert keys == [f"PROJ-{number}" for number in found]
