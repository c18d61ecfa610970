"""The Jira connector against a fake Jira, Cloud and Server alike, by the real client library."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from knowledge_pipeline.errors import (
    ConfigError,
    DocumentSkipped,
    KnowledgeError,
    SourceRefused,
    SourceUnavailable,
)
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.base import Service
from knowledge_pipeline.sources.jira import JiraTickets, TicketFilters
from knowledge_pipeline_tests.fakes.jira_server import JiraServer


@pytest.fixture(params=["cloud", "server"])
def jira(request) -> Iterator[JiraServer]:
    cloud = request.param == "cloud"
    with JiraServer(cloud=cloud, context="" if cloud else "/jira") as server:
        yield server


@pytest.fixture
def cloud() -> Iterator[JiraServer]:
    with JiraServer(cloud=True) as server:
        yield server


@pytest.fixture
def data_center() -> Iterator[JiraServer]:
    with JiraServer(cloud=False) as server:
        yield server


def tickets(server: JiraServer, **filters) -> JiraTickets:
    return JiraTickets(server.connection(), TicketFilters(**filters))


def listing(server: JiraServer, **filters) -> list[Item]:
    with tickets(server, **filters) as source:
        return list(source.discover())


def uris(items) -> list[str]:
    return [item.uri for item in items]


def read(server: JiraServer, uri: str, **filters) -> Document:
    with tickets(server, **filters) as source:
        return source.fetch(Item(uri, "1", uri.removeprefix("issue/")))


def many(server: JiraServer, count: int) -> list[str]:
    return [server.create(f"Ticket {number}", f"text {number}") for number in range(count)]


def refusal(server: JiraServer, **filters) -> str:
    with pytest.raises(KnowledgeError) as raised:
        listing(server, **filters)
    assert server.token not in str(raised.value)
    return str(raised.value)


# listing


def test_every_ticket_is_listed_once_the_oldest_first(jira):
    jira.page_size = 30
    made = many(jira, 100)
    assert uris(listing(jira)) == made


def test_nothing_is_asked_before_the_listing(jira):
    with tickets(jira, projects=("PROJ",)) as source:
        assert isinstance(source, Service)
    assert jira.requests == []


def test_a_listing_reads_no_contents(jira):
    jira.create("A ticket", "its text")
    listing(jira)
    searches = [request for request in jira.requests if request.path.startswith("search")]
    assert [request.asked["fields"] for request in searches] == [["id", "key", "updated"]]


@pytest.mark.parametrize("gone", [1, 29])
def test_tickets_deleted_between_pages_hide_no_others(jira, gone):
    jira.page_size = 30
    made = many(jira, 100)
    deleted = iter(made[:gone])

    def delete(page: int) -> None:
        if page == 2:
            for uri in deleted:
                jira.delete(uri)

    jira.before_page = delete
    assert set(made[gone:]) <= set(uris(listing(jira)))


def test_tickets_edited_and_moved_between_pages_are_listed_once(jira):
    jira.page_size = 30
    made = many(jira, 70)

    def change(page: int) -> None:
        jira.edit(made[40], "new text")
        jira.site.move(made[50 + page], "OTHER")

    jira.before_page = change
    assert uris(listing(jira)) == made


def test_a_short_page_is_not_the_end(data_center):
    many(data_center, 5)
    with tickets(data_center) as source:
        list(source.discover())
        data_center.answer_next({"startAt": 0, "maxResults": 1000, "total": 5, "issues": []})
        data_center.site.now += timedelta(days=1)
        with pytest.raises(SourceUnavailable, match="broke off"):
            list(source.discover())


@pytest.mark.parametrize(
    "page",
    [
        {"issues": [], "isLast": False},
        {"isLast": True},
        {"issues": [{"id": "1", "key": "A-1", "fields": {}}], "isLast": True},
        {},
    ],
)
def test_a_page_that_says_nothing_of_where_it_goes_on_is_not_the_end(cloud, page):
    with tickets(cloud) as source:
        list(source.discover())
        cloud.answer_next(page)
        with pytest.raises(SourceUnavailable):
            list(source.discover())


def test_a_page_token_that_comes_again_is_not_followed_for_ever(cloud):
    many(cloud, 2)
    with tickets(cloud) as source:
        list(source.discover())
        for _ in range(2):
            cloud.answer_next({"issues": [], "isLast": False, "nextPageToken": "again"})
        with pytest.raises(SourceUnavailable, match="broke off"):
            list(source.discover())


def test_a_failure_in_the_middle_of_a_listing_is_an_error(jira):
    jira.page_size = 30
    many(jira, 70)
    jira.before_page = lambda page: jira.fail_next(1, status=403) if page == 1 else None
    assert "Browse Projects" in refusal(jira)


# filters


def test_all_filters_hold_together_and_values_are_quoted(jira):
    label = 'od"d, label)'
    fits = {"labels": [label], "status": "In Progress", "issuetype": "Bug"}
    wanted = jira.site.create("Wanted", **fits)
    for other in ({"labels": []}, {"status": "Done"}, {"issuetype": "Task"}):
        jira.site.create("Other", **fits | other)
    jira.site.create("Elsewhere", project="OTHER", **fits)
    filters = {"labels": (label,), "statuses": ("In Progress",), "issue_types": ("Bug", "Epic")}
    assert uris(listing(jira, projects=("PROJ",), **filters)) == [wanted]


def test_a_query_of_ones_own_stays_together_and_loses_its_order(jira):
    first, second = jira.create("First", "x"), jira.create("Second", "x")
    jira.site.create("First", project="OTHER")
    jql = 'summary ~ "first" OR summary ~ "order by second" or summary ~ second ORDER BY updated DESC'
    assert uris(listing(jira, projects=("PROJ",), jql=jql)) == [first, second]


@pytest.mark.parametrize("jql", ["a = 1) OR (b = 2", "(a = 1", 'a = "1', "a = '1"])
def test_a_query_that_would_not_stay_together_is_refused_before_anything_is_asked(jql):
    with JiraServer() as server, pytest.raises(ConfigError, match="jql"):
        tickets(server, jql=jql)


def test_a_since_that_is_no_date_is_refused_before_anything_is_asked():
    with JiraServer() as server, pytest.raises(ConfigError, match="since"):
        tickets(server, since="yesterday-ish")


def test_since_is_about_the_last_update(jira):
    old, edited = jira.create("Old", "x"), jira.create("Edited", "x")
    jira.site.tick(86_400 * 10)
    jira.edit(edited, "y")
    assert uris(listing(jira, since="2026-03-05")) == [edited]
    assert uris(listing(jira, since="2026-02-01")) == [old, edited]


def test_of_a_limited_number_the_newest_are_taken_and_updates_follow_them(jira):
    made = many(jira, 45)
    assert set(uris(listing(jira, max_results=3))) == set(made[-3:])
    jira.site.tick(86_400)
    jira.edit(made[0], "new")
    jira.edit(made[-1], "new")
    with tickets(jira, max_results=3) as source:
        assert uris(source.updated(jira.site.now)) == [made[-1]]


# what was updated


@pytest.mark.parametrize(
    "zone", ["Asia/Tokyo", "America/Los_Angeles", "Asia/Kolkata", "UTC", "Europe/Berlin"]
)
@pytest.mark.parametrize("is_cloud", [True, False])
def test_what_was_updated_is_found_in_any_time_zone_of_the_account(zone, is_cloud):
    with JiraServer(cloud=is_cloud, zone=zone) as server:
        made = many(server, 30)
        server.site.tick(86_400)
        since = server.site.now
        server.edit(made[7], "new text")
        with tickets(server) as source:
            assert uris(source.updated(since)) == [made[7]]


def test_what_was_updated_in_an_hour_that_the_clocks_show_twice_is_found(jira):
    uri = jira.create("A ticket", "x")
    jira.site.now = datetime(2026, 10, 25, 0, 40, tzinfo=UTC)  # 02:40 in Berlin, for the first time
    since = jira.site.now
    jira.edit(uri, "y")
    with tickets(jira) as source:
        assert uris(source.updated(since)) == [uri]


def test_a_zone_that_this_machine_does_not_know_only_asks_for_more():
    with JiraServer() as server:
        uri = server.create("A ticket", "x")
        person = server.site.person("The Reader") | {"timeZone": "Mars/Olympus"}
        with tickets(server) as source:
            server.answer_next(person)
            assert uris(source.updated(server.site.now)) == [uri]


def test_an_edit_a_comment_and_a_move_are_updates_and_change_the_revision(jira):
    uri = jira.create("A ticket", "x")
    seen = {listing(jira)[0].revision}
    for change in (
        lambda: jira.edit(uri, "y"),
        lambda: jira.site.comment(uri, "said"),
        lambda: jira.site.move(uri, "OTHER"),
    ):
        change()
        (item,) = listing(jira)
        assert item.uri == uri and item.revision not in seen
        seen.add(item.revision)


def test_a_revision_stays_while_nothing_changes_even_in_another_time_zone(jira):
    many(jira, 3)
    before = listing(jira)
    jira.site.zone_name = "Asia/Tokyo"
    assert listing(jira) == before


def test_other_custom_fields_make_other_revisions(jira):
    jira.create("A ticket", "x")
    assert listing(jira)[0].revision != listing(jira, custom_fields=("Team",))[0].revision


# reading


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
        parent={"id": "1", "key": "PROJ-77"},
        fixVersions=[{"name": "2.1"}],
        attachment=[{"filename": "trace.log"}, {"filename": "a.png"}],
    )
    jira.site.link(uri, other, "duplicates", "is duplicated by")
    jira.site.comment(uri, "I see it too.")
    document = read(jira, uri)
    assert document.text == (
        "PROJ-2 The login fails\n\nIt fails.\n\nAlways.\n\n"
        "Details:\n- Parent: PROJ-77\n- Links: duplicates PROJ-1\n- Fix versions: 2.1\n"
        "- Attachments: a.png, trace.log\n\n"
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
        "parent": "PROJ-77",
        "created": "2026-03-01T09:00:02+00:00",
        "attachments": ["a.png", "trace.log"],
        "mentions": [
            {"kind": "duplicates", "target": "PROJ-1"},
            {"kind": "references", "target": "PROJ-77"},
        ],
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


# refusals


def test_a_wrong_token_is_told(jira):
    jira.token = "another"
    connection = jira.connection()
    jira.token = "right"
    with JiraTickets(connection) as source, pytest.raises(SourceRefused, match=r"401.*connection\.token"):
        list(source.discover())


def test_a_wrong_token_that_is_let_in_as_a_guest_is_refused_as_well(jira):
    jira.create("Public", "x")
    connection = jira.connection()
    jira.token, jira.guests = "right", True
    with JiraTickets(connection) as source:
        for listed in (source.discover(), source.updated(jira.site.now)):
            with pytest.raises(SourceRefused, match="401"):
                list(listed)


def test_a_redirect_to_a_login_page_is_told(jira):
    jira.to_login = True
    assert "login page: correct connection.token" in refusal(jira)


def test_a_page_instead_of_json_is_told(jira):
    jira.answer_next(b"<html>Welcome</html>")
    assert "a page instead of JSON" in refusal(jira)


def test_an_empty_answer_is_no_empty_listing(jira):
    with tickets(jira) as source:
        list(source.discover())
        jira.answer_next(b"")
        with pytest.raises(SourceUnavailable, match="empty answer"):
            list(source.discover())


def test_an_address_without_a_jira_is_told(jira):
    connection = jira.connection(url=f"{jira.url}/elsewhere")
    with JiraTickets(connection) as source, pytest.raises(SourceRefused, match=r"404.*connection\.url"):
        list(source.discover())


def test_a_project_that_cannot_be_seen_is_refused_not_emptied(jira):
    jira.create("A ticket", "x")
    listing(jira, projects=("PROJ",))
    del jira.site.projects["PROJ"]
    assert "no project 'PROJ', or our account may not see it" in refusal(jira, projects=("PROJ",))


def test_a_query_that_jira_does_not_understand_is_told_in_its_words(jira):
    said = refusal(jira, jql="project = NOWHERE")
    assert "The value 'NOWHERE' does not exist for the field 'project'" in said and "correct jql" in said


def test_failures_that_pass_are_asked_again(jira):
    made = many(jira, 3)
    jira.cut_off_next()
    jira.fail_next(2, status=503)
    jira.fail_next(1, status=429)
    assert uris(listing(jira)) == made


def test_failures_that_stay_are_told_as_such(jira):
    jira.fail_next(50, status=503)
    assert "failed (503)" in refusal(jira)
    assert jira.counted() < 10


def test_a_limit_is_waited_for(jira):
    jira.page_size = 30
    made = many(jira, 70)
    jira.limit(after=2, reset_s=1)
    assert uris(listing(jira)) == made
    assert [request.status for request in jira.requests].count(429) == 1


def test_a_long_limit_is_told_with_its_end(jira):
    jira.limit(after=0, reset_s=7200)
    with pytest.raises(SourceUnavailable, match=r"limits our calls until 20\d\d-\d\d-\d\d \d\d:\d\d UTC"):
        listing(jira)


def test_without_an_identity_jira_is_asked_what_it_is(jira):
    made = many(jira, 2)
    jira.guests = True
    with JiraTickets(jira.connection(email=None, token=None)) as source:
        assert uris(source.discover()) == made
        assert uris(source.updated(jira.site.now)) == made
        assert source.fetch(Item(made[0], "1", "10001")).title == "PROJ-1 Ticket 0"


def test_a_secret_is_in_no_log_and_no_error(jira, caplog):
    caplog.set_level(logging.DEBUG)
    jira.create("A ticket", "x")
    listing(jira)
    jira.fail_next(1, status=400, body=f'{{"errorMessages": ["you sent {jira.token}"]}}'.encode())
    assert "***" in refusal(jira)
    jira.fail_next(1, status=401, body=jira.token.encode())
    refusal(jira)
    assert jira.token not in caplog.text and jira.token not in repr(tickets(jira).__dict__)
