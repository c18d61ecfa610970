"""What the Jira connector makes of tickets, of Cloud and Server alike."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
from knowledge_pipeline.records import Document
from knowledge_pipeline_tests.connectors.jira.tickets import listing, many, read, tickets, uris
from knowledge_pipeline_tests.fakes.jira.server import JiraServer


@pytest.fixture(params=["cloud", "server"])
def jira(request) -> Iterator[JiraServer]:
    cloud = request.param == "cloud"
    with JiraServer(cloud=cloud, context="" if cloud else "/jira") as server:
        yield server


@pytest.fixture
def cloud() -> Iterator[JiraServer]:
    with JiraServer(cloud=True) as server:
        yield server


def test_a_ticket_is_a_conversation_with_what_its_fields_say(jira):
    other = jira.create("Other", "x")
    uri = jira.create("The   login\tfails", "It fails.\n\nAlways.")
    jira.site.change(
        uri,
        labels=["web", "auth"],
        status="In Progress",
        issuetype="Bug",
        priority="High",
        resolution={"name": "Fixed"},
        assignee=jira.site.person("Alan Turing"),
        parent={"id": "1", "key": "PROJ-77", "fields": {"summary": "Sign  in"}},
        fixVersions=[{"name": "2.1"}],
        versions=[{"name": "2.0"}],
        attachment=[{"filename": "trace.log"}, {"filename": "a.png"}],
    )
    jira.site.link(uri, other, "duplicates", "is duplicated by")
    jira.site.comment(uri, "I see it too.")
    document = read(jira, uri)
    assert document.text == (
        "PROJ-2 The login fails\n\nIt fails.\n\nAlways.\n\n"
        "Details:\n- Parent: PROJ-77 Sign in\n- Links: duplicates PROJ-1\n- Fix versions: 2.1\n"
        "- Affects versions: 2.0\n- Attachments: a.png, trace.log\n\n"
        "Comment by Grace Hopper, 2026-03-01:\nI see it too."
    )
    assert (document.uri, document.path, document.title) == (uri, "PROJ/PROJ-2", "PROJ-2 The login fails")
    assert document.url == f"{jira.url}/browse/PROJ-2"
    assert document.author == "Ada Lovelace" and document.last_modified == jira.site.now
    told = {name: document.metadata[name] for name in document.metadata if name != "segments"}
    assert told == {
        "key": "PROJ-2",
        "project": "PROJ",
        "project_name": "The project PROJ",
        "issue_type": "Bug",
        "status": "In Progress",
        "priority": "High",
        "resolution": "Fixed",
        "labels": ["auth", "web"],
        "assignee": "Alan Turing",
        "reporter": "Ada Lovelace",
        "fix_versions": ["2.1"],
        "affects_versions": ["2.0"],
        "parent": "PROJ-77",
        "parent_title": "Sign in",
        "created": "2026-03-01T09:00:02+00:00",
        "attachments": ["a.png", "trace.log"],
        "mentions": [{"kind": "duplicates", "target": "PROJ-1"}, {"kind": "references", "target": "PROJ-77"}],
    }
    starts = [segment["start_char"] for segment in document.metadata["segments"]]
    assert [document.text[start:].split(" ")[0] for start in starts] == ["PROJ-2", "Details:\n-", "Comment"]
    assert document.metadata["segments"][-1]["url"].endswith("/browse/PROJ-2?focusedCommentId=50002")


def test_the_other_side_of_a_duplicate_only_refers_to_it(jira):
    original, copy = jira.create("Original", "x"), jira.create("Copy", "x")
    jira.site.link(copy, original, "duplicates", "is duplicated by")
    assert read(jira, original).metadata["mentions"] == [{"kind": "references", "target": "PROJ-2"}]


def test_tickets_are_read_a_hundred_a_call(jira):
    many(jira, 250)
    items = listing(jira)
    before = len(jira.requests)
    with tickets(jira) as source:
        found = dict(source.fetch_many(items))
    assert sorted(uris(found)) == sorted(uris(items))
    assert all(isinstance(document, Document) for document in found.values())
    assert [request.path for request in jira.requests[before:]].count("field") == 1
    assert len(jira.requests) - before == 1 + 3


def test_of_those_that_are_gone_or_hidden_each_says_so(jira):
    gone, hidden, there = many(jira, 3)
    items = listing(jira)
    jira.delete(gone)
    jira.site.hide(hidden)
    with tickets(jira) as source:
        found = {item.uri: document for item, document in source.fetch_many(items)}
    assert str(found[gone]) == "deleted while it was read"
    assert isinstance(found[hidden], DocumentSkipped)
    # Cloud answers the same for a ticket that is hidden and one that is not there
    told = "deleted while it was read" if jira.site.cloud else "our account may no longer see it"
    assert str(found[hidden]) == told
    assert isinstance(found[there], Document)


def test_a_ticket_that_the_bulk_answer_left_out_is_read_alone(cloud):
    (uri,) = many(cloud, 1)
    with tickets(cloud) as source:
        items = list(source.discover())
        source.fetch(items[0])
        cloud.answer_next({"issues": [], "issueErrors": [{"id": "10001", "errorMessage": "Too large"}]})
        ((_, document),) = source.fetch_many(items)
    assert isinstance(document, Document) and document.uri == uri


def test_all_comments_are_read_in_their_order_though_only_some_come_with_the_ticket(jira):
    uri = jira.create("Long", "x")
    for number in range(230):
        jira.site.comment(uri, f"comment{number}")
    jira.embedded_comments = 20
    said = [line for line in read(jira, uri).text.split("\n") if line.startswith("comment")]
    assert said == [f"comment{number}" for number in range(230)]


def test_a_comment_deleted_while_the_comments_are_paged_hides_no_other(jira):
    uri = jira.create("Long", "x")
    for number in range(150):
        jira.site.comment(uri, f"comment{number}")
    jira.embedded_comments = 20
    pages = []

    def delete(page: int) -> None:
        pages.append(page)
        if len(pages) == 3:  # the bulk read of Server is a page, too
            del jira.site.of(uri)["comments"][0]

    jira.before_page = delete
    said = [line for line in read(jira, uri).text.split("\n") if line.startswith("comment")]
    assert said[-149:] == [f"comment{number}" for number in range(1, 150)]


PARTS = ("description", "comments", "worklogs", "remote_links")


def test_work_logs_and_remote_links_are_read_where_the_source_asks_for_them(jira):
    uri = jira.create("A ticket", "x")
    jira.site.comment(uri, "said")
    jira.site.log_work(uri, "3h 20m", "Traced the timeout.")
    jira.site.log_work(uri, "1h", author="Alan Turing")
    jira.site.log_work(uri, "2h", "for few", visibility={"type": "role", "value": "Administrators"})
    page = "https://wiki.example.org/pages/viewpage.action?pageId=7"
    jira.site.link_remotely(uri, "Sign in [draft]", page, "implements")
    jira.site.link_remotely(uri, "Case 12", "https://help.example.org/12")
    assert "Work log" not in read(jira, uri).text and "remote_links" not in read(jira, uri).metadata
    document = read(jira, uri, parts=PARTS)
    assert document.text == (
        "PROJ-1 A ticket\n\nx\n\nDetails:\n"
        f"- Remote links: implements [Sign in [draft]]({page}); links to [Case 12](https://help.example.org/12)"
        "\n\nComment by Grace Hopper, 2026-03-01:\nsaid\n\n"
        "Work log by Grace Hopper, 2026-03-01:\nTime spent: 3h 20m\n\nTraced the timeout.\n\n"
        "Work log by Alan Turing, 2026-03-01:\nTime spent: 1h"
    )
    assert document.metadata["segments"][-1]["url"].endswith("/browse/PROJ-1?focusedWorklogId=50004")
    assert document.metadata["remote_links"][1] == {
        **{"title": "Case 12", "url": "https://help.example.org/12", "relationship": "links to"}
    }
    assert {"kind": "implements", "target": page} in document.metadata["mentions"]
    assert read(jira, uri, parts=("worklogs",)).text.startswith("PROJ-1 A ticket\n\nWork log by Grace")


def test_all_work_logs_are_read_though_only_twenty_come_with_the_ticket(jira):
    uri = jira.create("Long", "x")
    for number in range(130):
        jira.site.log_work(uri, "1m", f"log{number}")
    said = [line for line in read(jira, uri, parts=PARTS).text.split("\n") if line.startswith("log")]
    assert said == [f"log{number}" for number in range(130)]
    assert jira.counted("issue/10001/worklog") == 2


def test_other_parts_are_another_revision_and_a_work_log_is_an_update(jira):
    uri = jira.create("A ticket", "x")
    (usual,), (before,) = listing(jira), listing(jira, parts=PARTS)
    jira.site.log_work(uri, "1h")
    (after,) = listing(jira, parts=PARTS)
    assert len({usual.revision, before.revision, after.revision}) == 3
    assert usual.revision.endswith(":3")


def test_a_jira_without_links_says_what_to_do(jira):
    uri = jira.create("A ticket", "x")
    jira.site.links_are_off = True
    with pytest.raises(
        SourceRefused, match=r"remote links of PROJ-1.*turn on issue linking, or leave remote_li"
    ):
        read(jira, uri, parts=PARTS)
    assert read(jira, uri).text == "PROJ-1 A ticket\n\nx"


def test_a_comment_that_is_kept_to_a_role_is_left_out(jira):
    uri = jira.create("A ticket", "x")
    jira.site.comment(uri, "for all")
    jira.site.comment(uri, "for few", visibility={"type": "role", "value": "Administrators"})
    jira.site.comment(uri, "not for customers", jsdPublic=False)
    text = read(jira, uri).text
    assert "for all" in text and "for few" not in text
    assert "Internal note by Grace Hopper, 2026-03-01:\nnot for customers" in text


def test_custom_fields_are_named_as_people_see_them(jira):
    uri = jira.create("A ticket", "x")
    notes = "see [the page|https://a.b]" if not jira.site.cloud else {
        "type": "doc",
        "content": [{"type": "paragraph", "content": [
            {"type": "text", "text": "see "},
            {"type": "text", "text": "the page", "marks": [{"type": "link", "attrs": {"href": "https://a.b"}}]},
        ]}],
    }  # fmt: skip
    sprint = {"id": 1, "name": "Sprint 9, late", "state": "active"}
    older = "com.atlassian.greenhopper.service.sprint.Sprint@1f[id=1,state=ACTIVE,name=Sprint 9, late,goal=]"
    jira.site.change(
        uri,
        customfield_10030={"value": "Payments", "child": {"value": "Cards"}},
        customfield_10031=notes,
        customfield_10020=[sprint if jira.site.cloud else older],
        customfield_10014="PROJ-5",
    )
    document = read(jira, uri, custom_fields=("team", "Notes"))
    told = {"Team": "Payments / Cards", "Notes": "see [the page](https://a.b)"}
    assert document.metadata["custom_fields"] == told
    assert document.metadata["sprint"] == ["Sprint 9, late"] and document.metadata["parent"] == "PROJ-5"
    lines = [*(f"- {name}: {value}" for name, value in told.items()), "- Sprint: Sprint 9, late"]
    assert set(lines) <= set(document.text.split("\n"))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (1234567.0, "1234567"),
        (2500000.75, "2500000.75"),
        (123456789012.5, "123456789012.5"),
        (1e16, "10000000000000000"),
        (0.00000125, "0.00000125"),
        (-3.0, "-3"),
        (12345678901234567890, "12345678901234567890"),
        ([1.0, 2.5], "1, 2.5"),
        ({"rating": 4}, "4"),
        (
            {
                "_links": {"jiraRest": "https://a.b/rest/api/2/issue/1", "web": "https://a.b/portal/1"},
                "requestType": {"id": "11", "name": "Get IT help", "description": "Ask us", "helpText": ""},
                "currentStatus": {"status": "Waiting for support", "statusCategory": "NEW"},
            },
            "Get IT help",
        ),
        (
            {
                "id": "10",
                "name": "Time to resolution",
                "completedCycles": [
                    {
                        "breachTime": {"iso8601": "2026-03-02T14:00:00+0000", "friendly": "02/Mar/26"},
                        "breached": True,
                        "goalDuration": {"millis": 14400000, "friendly": "4h"},
                        "elapsedTime": {"millis": 17400000, "friendly": "4h 50m"},
                        "remainingTime": {"millis": -3000000, "friendly": "-50m"},
                    },
                    {
                        "breached": False,
                        "goalDuration": {"millis": 14400000, "friendly": "4h"},
                        "elapsedTime": {"millis": 5400000, "friendly": "1h 30m"},
                    },
                ],
                "ongoingCycle": {
                    "breachTime": {"iso8601": "2026-03-04T09:00:00+0000", "friendly": "04/Mar/26"},
                    "breached": False,
                    "paused": False,
                    "withinCalendarHours": True,
                    "goalDuration": {"millis": 57600000, "friendly": "16h"},
                    "elapsedTime": {"millis": 60000, "friendly": "1m"},
                    "remainingTime": {"millis": 57540000, "friendly": "15h 59m"},
                },
            },
            "4h 50m of 4h (breached); 1h 30m of 4h (met); goal 16h, due 2026-03-04T09:00:00+0000, running",
        ),
    ],
)
def test_numbers_keep_their_digits_and_service_management_s_fields_are_read(jira, value, told):
    uri = jira.create("A ticket", "x")
    jira.site.change(uri, customfield_10030=value)
    document = read(jira, uri, custom_fields=("Team",))
    assert document.metadata["custom_fields"] == {"Team": told}
    assert f"- Team: {told}" in document.text.split("\n")


def test_a_custom_field_that_is_not_there_is_told_with_the_nearest(jira):
    uri = jira.create("A ticket", "x")
    with pytest.raises(SourceRefused, match="no field named 'Teams', but 'Team': correct custom_fields"):
        read(jira, uri, custom_fields=("Teams",))


def test_a_person_is_named_never_an_account(jira):
    uri = jira.create("A ticket", "x")
    if jira.site.cloud:
        mention = {"type": "mention", "attrs": {"id": jira.site.person("Grace Hopper")["accountId"]}}
        body = {"type": "doc", "content": [{"type": "paragraph", "content": [mention]}]}
    else:
        body = "[~gracehopper]"
    jira.site.comment(uri, body)
    text = read(jira, uri).text
    assert "@Grace Hopper" in text and "712020" not in text and "gracehopper" not in text


def test_a_moved_ticket_is_the_same_under_its_new_key(jira):
    uri = jira.create("A ticket", "x")
    jira.site.move(uri, "OTHER")
    document = read(jira, uri)
    assert (document.uri, document.path, document.metadata["project"]) == (uri, "OTHER/OTHER-1", "OTHER")


@pytest.mark.slow
def test_four_thousand_tickets_take_the_calls_of_their_pages_and_a_change_four(jira):
    many(jira, 4_000)
    with tickets(jira, projects=("PROJ",)) as source:
        items = list(source.discover())
        listed = len(jira.requests)
        tracemalloc.start()
        held: list[int] = []
        for number, (_, document) in enumerate(source.fetch_many(items), start=1):
            assert isinstance(document, Document)
            if number % 1_000 == 0:
                held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert listed == (42 if jira.site.cloud else 7)
    assert len(jira.requests) - listed == 41
    # the fake's own memory of its requests grows beside ours
    assert held[-1] - held[0] < 15_000_000
    jira.site.tick(86_400)
    since, before = jira.site.now, len(jira.requests)
    jira.edit(items[777].uri, "new")
    with tickets(jira, projects=("PROJ",)) as source:
        (changed,) = source.discover_updated(since)
        ((_, document),) = source.fetch_many([changed])
    assert isinstance(document, Document) and document.text.startswith("PROJ-778 Ticket 777\n\nnew")
    assert len(jira.requests) - before == 4
